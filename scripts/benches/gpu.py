# SPDX-License-Identifier: Apache-2.0
"""The GPU rows of limits, passes and training: measured if the machine has a GPU, "not yet measured" until then.

The figures of a card are kept in an answer as answer["gpu"], with a separate stamp: a later run on a machine without a card keeps them.
"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading

from benches import figures, machine

NONE = ["", "On a GPU: not yet measured."]
ELEMENTS = 64 << 20  # of an array: far beyond a card's cache, and matrices of 8,192
LAUNCHES = 20  # of a kernel in one run of bench_gpu
GOAL = 0.75  # of the card's copy bandwidth


def here():
    """True when the driver lists a card."""
    if shutil.which("nvidia-smi") is None:
        return False
    listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return listed.returncode == 0 and "GPU 0" in listed.stdout


def programs(*targets):
    """The folder of the programs that use the card and of the plugin: built here, or from the kit (kit_run.py)."""
    if "ATOLL_GPU_KIT" in os.environ:
        return pathlib.Path(os.environ["ATOLL_GPU_KIT"]) / "bin"
    return machine.built("bench-training", *targets, "atoll_gpu")


def card(rounds):
    """Output of bench_gpu: its groups are the card's limits and the kernels."""
    program = programs("bench_gpu") / "bench_gpu"
    done = subprocess.run([program, str(rounds), str(ELEMENTS)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"bench: bench_gpu ended with status {done.returncode}; its words are above")
    return json.loads(done.stdout)


def matrix_rate(answer):
    """Floating-point operations a second of matrix products in bf16, the median."""
    limits = answer["groups"][0]
    product = next(s for s in limits["samples"] if s["name"].startswith("product"))
    return statistics.median(product["bytes"] / s for s in product["seconds"])


def measured(rounds, measure=card):
    """{"gpu": ...} for an answer; nothing without a card."""
    return {"gpu": machine.stamped(measure(rounds), rounds)} if here() else {}


def provenance(answer):
    changed = f"{answer['rounds']} rounds, commit {answer['commit']}, {answer['date']}"
    return f"On a GPU, {answer['groups'][0]['name']}, {changed}; {answer['machine']['cpu']}, {answer['machine']['cores']} cores."


def limit_lines(answer):
    if "gpu" not in answer:
        return NONE
    lines = ["", provenance(answer["gpu"]), "", "| what | median | middle half |", "|---|---|---|"]
    for sample in answer["gpu"]["groups"][0]["samples"]:
        product = sample["name"].startswith("product")
        rates = [r / (1e3 if product else 1) for r in figures.rates(sample)]
        lines.append(f"| {sample['name']} | {statistics.median(rates):,.1f} {'TFLOP/s' if product else 'GB/s'} | {figures.spread(rates, 1)} |")
    return lines


def pass_lines(answer):
    if "gpu" not in answer:
        return NONE
    lines = ["", provenance(answer["gpu"]), "", "| kernel | µs | GB/s | share of the card's copy | goal | |", "|---|---|---|---|---|---|"]
    yard, *kernels = answer["gpu"]["groups"][1]["samples"]
    for sample in kernels:
        share = statistics.median(figures.shares(sample, yard, "seconds"))
        launch = statistics.median(sample["seconds"]) / LAUNCHES * 1e6
        lines.append(f"| {sample['name']} | {launch:,.0f} | {statistics.median(figures.rates(sample)):,.0f} | {share:.0%} | {GOAL:.0%} | {figures.verdict(share >= GOAL)} |")
    return lines


class Busy:
    """with Busy() as busy: ...; busy.share is the share of time in which a kernel ran, from repeated queries of the
    driver about the last tenths of a second. Excludes the first and the last second; None when nothing remains."""

    PAUSE_MS = 100

    def __enter__(self):
        asked = ["nvidia-smi", "--id=0", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", f"--loop-ms={self.PAUSE_MS}"]
        self.process = subprocess.Popen(asked, stdout=subprocess.PIPE, text=True)
        self.told = []
        self.reader = threading.Thread(target=lambda: self.told.extend(self.process.stdout))
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.reader.join()
        self.process.wait()
        edge = 1000 // self.PAUSE_MS
        numbers = [int(line) for line in self.told[edge:-edge] if line.strip().isdigit()]
        self.share = statistics.mean(numbers) / 100 if numbers else None
