#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the archive of scripts/bench --pack on a machine with a GPU: the tests that need one, then the benchmarks' GPU rows.

    python3 kit/run FIGURES.json [--rounds N] [--only tests|card|124m|1b]...

Run it with the Python that has PyTorch, because the programs use PyTorch's libraries. FIGURES.json is written after each part, so
that an interrupted run keeps its results. Parts not selected by --only keep their earlier results. `scripts/bench --take
FIGURES.json` imports the file. Exit status 77 without a GPU, 1 when a test failed.
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "scripts"))
from benches import figures, gpu, machine, page, training  # noqa: E402

PARTS = ("tests", "card", *training.MODELS)
ROUNDS = 7
TESTS_SECONDS = 600


def check_machine():
    """Exits with an error message when the programs cannot run here."""
    kit = json.loads((HERE / "kit.json").read_text())
    try:
        import torch
    except ImportError:
        sys.exit(f"kit: {sys.executable} has no PyTorch: run this with a Python that has version {kit['torch']} for CUDA {kit['cuda']}")
    if (torch.__version__.split("+")[0], torch.version.cuda) != (kit["torch"], kit["cuda"]):
        sys.exit(f"kit: the programs are linked with PyTorch {kit['torch']} for CUDA {kit['cuda']}, and {sys.executable} has {torch.__version__} for {torch.version.cuda}")
    here = os.confstr("CS_GNU_LIBC_VERSION").split()[-1]
    if [int(part) for part in here.split(".")] < [int(part) for part in kit["glibc"].split(".")]:
        sys.exit(f"kit: the programs need glibc {kit['glibc']}, and this system has {here}: take one as new as Debian 12 or Ubuntu 22.04")
    return pathlib.Path(torch.__file__).parent


def wrap(torch):
    """bin/NAME runs programs/NAME with its libraries, PyTorch's and those from NVIDIA that PyTorch brings, without
    affecting Python."""
    folders = [HERE / "lib", torch / "lib", *sorted((torch.parent / "nvidia").glob("*/lib"))]
    (HERE / "bin").mkdir(exist_ok=True)
    for program in (HERE / "programs").iterdir():
        if program.suffix == ".so":
            continue
        wrapper = HERE / "bin" / program.name
        path = shlex.quote(":".join(map(str, folders)))
        wrapper.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={path}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}} exec {shlex.quote(str(program))} "$@"\n')
        wrapper.chmod(0o755)


def opened():
    """Exits with the reason when the programs do not see the card that the driver lists: tests would be skipped, which
    is not a pass."""
    done = subprocess.run([HERE / "bin/bench_gpu", "1", "4096"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"kit: nvidia-smi lists a GPU that the programs cannot use: {done.stderr.strip() or f'status {done.returncode}'}")


def tests():
    """Output and exit status of the tests."""
    done = subprocess.run([HERE / "bin/gpu_device_test"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TESTS_SECONDS)
    print(done.stdout, flush=True)
    return {"status": done.returncode, "said": done.stdout.splitlines()[-40:]}


def main():
    parser = argparse.ArgumentParser(prog="kit/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", action="append", choices=PARTS)
    asked = parser.parse_args()
    if asked.rounds < 1:
        parser.error("--rounds must be at least 1")
    os.environ |= {"ATOLL_GPU_KIT": str(HERE), "ATOLL_BENCH_PYTHON": sys.executable}
    if not gpu.here():
        print("kit: nvidia-smi lists no GPU", file=sys.stderr)
        sys.exit(77)
    told = json.loads(asked.figures.read_text()) if asked.figures.exists() else {}

    def keep(part, answer):
        told[part] = figures.rounded(machine.stamped(answer, asked.rounds))
        page.replace(asked.figures, json.dumps(told) + "\n")

    wrap(check_machine())
    opened()
    wanted = asked.only or PARTS
    if "tests" in wanted:
        keep("tests", tests())
    card = gpu.card(asked.rounds) if set(wanted) - {"tests"} else None  # for the models too: MFU refers to the rate of products in the same run
    if "card" in wanted:
        keep("card", card)
    if models := [m for m in training.MODELS if m in wanted]:
        before = [group for group in told.get("training", {}).get("models", []) if group["name"] not in models]
        for model in models:
            def so_far(group):
                groups = sorted([*before, group], key=lambda g: training.MODELS.index(g["name"]))
                keep("training", card | {"models": groups})
            before.append(training.gpu_group(str(gpu.programs() / "bench_training"), model, asked.rounds, so_far))
    print(f"kit: {asked.figures} is written")
    sys.exit(1 if told.get("tests", {}).get("status") else 0)


if __name__ == "__main__":
    main()
