#!/usr/bin/env python3
"""Runs what scripts/bench --pack has packed, on a machine with a GPU: the tests that need one, then the benchmarks' GPU rows.

    python3 kit/run FIGURES.json [--rounds N] [--only tests|card|124m|1b]...

The Python that runs it is the one with PyTorch, whose libraries the programs use. FIGURES.json is written after each part, so that one
that is stopped leaves what it had; `scripts/bench --take FIGURES.json` keeps it. Ends with status 77 where there is no GPU, with 1 where
a test failed.
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ("tests", "card", "124m", "1b")
ROUNDS = 7


def torch_libraries():
    """The folders of PyTorch's own libraries and of those that it brings from NVIDIA."""
    try:
        import torch
    except ImportError:
        sys.exit(f"kit: {sys.executable} has no PyTorch: run this with a Python that has, in the version that {HERE}/kit.json names")
    wanted = json.loads((HERE / "kit.json").read_text())["torch"]
    if torch.__version__.split("+")[0] != wanted.split("+")[0]:
        sys.exit(f"kit: the programs are linked with PyTorch {wanted}, and {sys.executable} has {torch.__version__}")
    own = pathlib.Path(torch.__file__).parent / "lib"
    return [own, *sorted((own.parent.parent / "nvidia").glob("*/lib"))]


def wrap():
    """bin/NAME runs programs/NAME with the libraries: its own stay out of the way of Python's."""
    folders = ":".join(map(str, [HERE / "lib", *torch_libraries()]))
    (HERE / "bin").mkdir(exist_ok=True)
    for program in (HERE / "programs").iterdir():
        if program.suffix == ".so":
            continue
        wrapper = HERE / "bin" / program.name
        wrapper.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={shlex.quote(folders)} exec {shlex.quote(str(program))} "$@"\n')
        wrapper.chmod(0o755)


def tests():
    """What the tests say, and their status."""
    done = subprocess.run([HERE / "bin/gpu_device_test"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
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
    sys.path.insert(0, str(HERE / "scripts"))
    wrap()
    from benches import figures, gpu, machine, training
    if not gpu.here():
        print("kit: nvidia-smi lists no GPU", file=sys.stderr)
        sys.exit(77)
    told = {}

    def keep(part, answer):
        told[part] = answer
        asked.figures.write_text(json.dumps(told) + "\n")

    wanted = asked.only or PARTS
    if "tests" in wanted:
        keep("tests", tests())
    if "card" in wanted:
        keep("card", figures.rounded(machine.stamped({"machine": machine.described()} | gpu.card(asked.rounds), asked.rounds)))
    if models := [m for m in training.MODELS if m in wanted]:
        # The rate of products that MFU is told by is that of the same run.
        of_card = gpu.card(asked.rounds)
        groups = []
        for model in models:
            groups.append(training.gpu_group(str(gpu.programs() / "bench_training"), model, asked.rounds))
            keep("training", figures.rounded(machine.stamped({"machine": machine.described()} | of_card | {"models": groups}, asked.rounds)))
    print(f"kit: {asked.figures} is written")
    sys.exit(1 if told.get("tests", {}).get("status") else 0)


if __name__ == "__main__":
    main()
