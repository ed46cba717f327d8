"""The programs of the GPU rows in one archive, for a machine with a GPU and PyTorch that has nothing else of ours, as a rented container."""
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

from benches import gpu, machine, page

TESTS = "gpu_device_test"
PROGRAMS = ("bench_gpu", "bench_training")
PLUGIN = "libatoll_gpu.so"
MODULES = ("figures", "gpu", "kit_run", "machine", "training", "training_peer")
# What every machine has in a version that fits it, and what PyTorch brings.
OF_THE_SYSTEM = r"ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|resolv)\.so"
OF_PYTORCH = r"lib(torch|c10|cu|nv|nccl|gomp|shm|caffe)"
PARTS = {"limits": "card", "passes": "card", "training": "training"}  # of a benchmark's kept figures, which of a card's answer is its "gpu"


def libraries(program):
    """Those of the system that the program needs, beside those that are everywhere and PyTorch's."""
    told = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    missing = re.findall(r"^\s*(\S+) => not found", told, re.MULTILINE)
    if missing := [name for name in missing if not re.match(OF_PYTORCH, name)]:
        sys.exit(f"bench: {program} needs {', '.join(missing)}, which is not found here")
    found = re.findall(r"^\s*(\S+) => (/\S+)", told, re.MULTILINE)
    return {name: pathlib.Path(path) for name, path in found if not re.match(OF_THE_SYSTEM, name) and not re.match(OF_PYTORCH, name)}


def pack(archive):
    """Builds the programs and writes them, with all they need beside PyTorch, into `archive`."""
    release = gpu.programs(*PROGRAMS)
    tests = machine.built("dev", TESTS)
    programs = {**{name: release / name for name in (*PROGRAMS, PLUGIN)}, TESTS: tests / TESTS}
    needed = {name: path for program in programs.values() for name, path in libraries(program).items()}
    told = machine.stamped({"programs": [*PROGRAMS, TESTS], "torch": torch_version()}, 0)
    with tempfile.TemporaryDirectory() as folder:
        answer = pathlib.Path(folder) / "kit.json"
        answer.write_text(json.dumps(told) + "\n")
        with tarfile.open(archive, "w:gz", dereference=True) as kit:
            kit.add(answer, "kit/kit.json")
            for name, path in programs.items():
                kit.add(path, f"kit/programs/{name}")
            for name, path in sorted(needed.items()):
                kit.add(path, f"kit/lib/{name}")
            for module in MODULES:
                kit.add(machine.ROOT / f"scripts/benches/{module}.py", f"kit/scripts/benches/{module}.py")
            kit.add(machine.ROOT / "scripts/benches/kit_run.py", "kit/run")
    print(f"bench: {archive} is written, {pathlib.Path(archive).stat().st_size / 1e6:.0f} MB; on the machine with the card, where Python has PyTorch {told['torch']}:\n"
          f"    tar xzf {pathlib.Path(archive).name} && python3 kit/run figures.json\nand here: scripts/bench --take figures.json")


def torch_version():
    """Of the LibTorch that the programs are linked with."""
    wanted = (machine.ROOT / "scripts/requirements-libtorch-cuda.txt").read_text()
    return re.search(r"^torch==(\S+)", wanted, re.MULTILINE).group(1)


def take(answer):
    """Keeps what kit/run wrote as the GPU's figures of the benchmarks; ends with a sentence where it is none of it."""
    try:
        told = json.loads(pathlib.Path(answer).read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"bench: {answer} cannot be read as what kit/run writes: {error}")
    if not isinstance(told, dict) or not any(part in told for part in PARTS.values()):
        sys.exit(f"bench: {answer} holds no figures of a card: it is the file that kit/run has written")
    for name, part in PARTS.items():
        kept = page.DATA / f"performance-{name}.json"
        if part not in told:
            print(f"bench: {answer} has nothing for {name}, which stays as it was")
        elif not kept.exists():
            sys.exit(f"bench: there are no figures of {name} yet that a GPU's could stand beside: scripts/bench {name} first")
        else:
            kept.write_text(json.dumps(json.loads(kept.read_text()) | {"gpu": told[part]}) + "\n")
            print(f"bench: {name} has the figures of {told[part]['groups'][0]['name']}")
