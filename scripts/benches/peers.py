# SPDX-License-Identifier: Apache-2.0
"""One synchronisation of other systems on this machine, next to a whole round of Atoll in the same run."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

from benches import figures, fleet, machine

WHAT = "one synchronisation with Gloo, torchft, hivemind, Flower and NVFlare from PyPI, four processes, beside a whole round of ours"
ROUNDS = 3
COUNTED = 3  # synchronisations of one start of a peer
PEERS = ("gloo", "torchft", "hivemind", "flower", "nvflare")
TOLD = {"gloo": "Gloo all-reduce (torch.distributed)", "torchft": "torchft: quorum, all-reduce over Gloo, commit", "hivemind": "hivemind: butterfly averaging",
        "flower": "Flower: SuperLink, 4 SuperNodes, FedAvg", "nvflare": "NVFlare: simulator, 4 clients, FedAvg"}
OURS = {"fp32": "Atoll, fp32, committed to disk", "mxfp4": "Atoll, mxfp4, committed to disk"}
GOALS = {"flower": 10, "nvflare": 10, "hivemind": 10}  # its seconds relative to Atoll's fp32 round, at least
REQUIREMENTS = machine.ROOT / "scripts/requirements-peers.txt"
SOURCES_ONLY = "prefetch-generator,varint,pyhocon,python-baseconv"  # packages without wheels
SECONDS = 900  # limit of one start of a peer


def environment():
    """The Python of the peers, installed if missing: pinned, checked by hash, in a separate folder. If a package cannot
    be installed, the others are: the peers that miss it appear in the table with their last output, and the next run
    tries again."""
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "atoll/peers-1"
    python, wanted = folder / "bin/python", REQUIREMENTS.read_text()
    tried, lacking = folder / ".tried", folder / ".lacking"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--no-compile", "--require-hashes"]
    packages = [line for line in wanted.splitlines() if line and not line.startswith("#")]
    installed = tried.is_file() and tried.read_text() == wanted
    if not installed:
        print(f"bench: installing the peers from PyPI into {folder} (1.7 GB)", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        machine.needed(["/usr/bin/python3", "-m", "venv", str(folder)])
        machine.needed(pip + ["-r", listed(folder, [line for line in packages if line.startswith("setuptools==")])])
    pip += ["--no-build-isolation", "--only-binary=:all:", f"--no-binary={SOURCES_ONLY}", "-r"]
    missing = lacking.read_text().splitlines() if installed else packages
    if missing:
        at_once = machine.run(pip + [listed(folder, missing)])[0]
        still = [] if at_once else [package for package in missing if not had(pip, folder, package)]
        (machine.run if still else machine.needed)(["/usr/bin/python3", str(machine.ROOT / "scripts/oracle_stubs.py"), str(folder / "lib/python3.11/site-packages")])
        lacking.write_text("".join(package + "\n" for package in still))
        tried.write_text(wanted)
    return python


def had(pip, folder, package):
    """Installs one package, or warns that it cannot be installed."""
    done, words = machine.run(pip + [listed(folder, [package])])
    if not done:
        print(f"bench: warning: {package.split()[0]} could not be installed: {(words.strip().splitlines() or [''])[-1][:300]}", file=sys.stderr)
    return done


def listed(folder, packages):
    """A requirements file."""
    file = folder / "some.txt"
    file.write_text("\n".join(packages) + "\n")
    return str(file)


def measure(rounds):
    fleet.programs()
    described, python = machine.described(), environment()
    machine.adopt_orphans()
    return {"machine": described, "groups": [group_of(python, model, rounds) for model in fleet.MODELS]}


def group_of(python, model, rounds):
    samples, failed = {}, {}
    with machine.ForeignLoad() as load:
        for _ in range(rounds):
            for codec, name in OURS.items():
                told = fleet.rounds(model, codec)
                keep(samples, name, 2 * fleet.WORKERS * told.leg_bytes, told.seconds, told.cpu)
            for kind in PEERS:
                if kind not in failed:
                    take_peer(python, kind, model, samples, failed)
                    machine.end_orphans()  # some leave processes behind
    return {"name": model, "threads": "processes", "foreign_cores": load.cores, "samples": list(samples.values()), "failed": failed}


def keep(samples, name, size, seconds, cpu):
    """Seconds of each synchronisation of one start: the page shows their median, and compares their mean."""
    sample = samples.setdefault(name, {"name": name, "bytes": size, "seconds": [], "means": [], "cpu_seconds": []})
    sample["seconds"].append(statistics.median(seconds))
    sample["means"].append(statistics.mean(seconds))
    sample["cpu_seconds"].append(cpu)


def take_peer(python, kind, model, samples, failed):
    """Counts the bytes that a server would move, whatever the peer moves, so that GB/s are comparable."""
    command = [str(python), str(machine.ROOT / "scripts/benches/peer_round.py"), kind, str(fleet.parameters(model)), str(fleet.WORKERS), str(COUNTED)]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ATOLL_")} | {"OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, env=kept, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        failed[kind] = f"did not end within {SECONDS} s"
        return
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if line.strip()]
        failed[kind] = words[-1].strip()[:300] if words else f"ended with {done.returncode}"
        return
    told = json.loads(done.stdout.splitlines()[-1])
    keep(samples, TOLD[kind], 8 * fleet.WORKERS * fleet.parameters(model), told["seconds"], statistics.median(told["cpu_seconds"]))


def over(sample, base):
    return statistics.median(a / b for a, b in zip(sample["means"], base["means"]))


def table(answer):
    lines = ["| parameters | what | s, median | s, mean | CPU s | ÷ our fp32 round | goal | |", "|---|---|---|---|---|---|---|---|"]
    for group in answer["groups"]:
        samples = {sample["name"]: sample for sample in group["samples"]}
        ours, small = samples[OURS["fp32"]], samples[OURS["mxfp4"]]
        for name, sample in samples.items():
            kind = next((k for k, told in TOLD.items() if told == name), None)
            goal = verdict = ""
            ratio = over(sample, ours)
            if kind in GOALS:
                goal, verdict = f"at least {GOALS[kind]}", figures.by_clock(answer, ratio >= GOALS[kind])
            if name == OURS["mxfp4"] and TOLD["gloo"] in samples:
                faster = over(samples[TOLD["gloo"]], small)
                goal, verdict = f"faster than Gloo ({faster:.2f} ×)", figures.by_clock(answer, faster > 1)
            lines.append(f"| {group['name']} | {name} | {statistics.median(sample['seconds']):.3f} | {statistics.median(sample['means']):.3f} | {statistics.median(sample['cpu_seconds']):.2f} | "
                         f"{ratio:.2f} | {goal} | {verdict} |")
        for kind, why in group["failed"].items():
            lines.append(f"| {group['name']} | {TOLD[kind]} | not measured: {why.replace('|', '/')} | | | | | |")
    return lines
