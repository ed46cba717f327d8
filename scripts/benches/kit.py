# SPDX-License-Identifier: Apache-2.0
"""The programs of the GPU rows in one archive, for a machine with a GPU and PyTorch and nothing else of Atoll, such as
a rented container."""
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile

from benches import gpu, machine, page, training

TESTS = "gpu_device_test"
PROGRAMS = ("bench_gpu", "bench_training")
PLUGIN = "libatoll_gpu.so"
MODULES = ("conditions", "figures", "gpu", "machine", "page", "training", "training_peer")
# Libraries of the operating system, and those that PyTorch brings.
OF_THE_SYSTEM = r"ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|util|anl|gcc_s|stdc\+\+|resolv)\.so"
OF_PYTORCH = r"lib(torch|c10|cuda|cudart|cudnn|cublas|cufft|cufile|cupti|curand|cusolver|cusparse|nvrtc|nvJitLink|nvshmem|nccl|gomp|shm|caffe2)"
PARTS = {"limits": "card", "passes": "card", "training": "training"}  # benchmark -> key of its kept GPU figures in a card's answer
LINES = {"limits": gpu.limit_lines, "passes": gpu.pass_lines, "training": training.gpu_lines}


def libraries(program):
    """System libraries that the program needs, except those that are everywhere and PyTorch's."""
    told = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    missing = re.findall(r"^\s*(\S+) => not found", told, re.MULTILINE)
    if missing := [name for name in missing if not re.match(OF_PYTORCH, name)]:
        sys.exit(f"bench: {program} needs {', '.join(missing)}, which is not found here")
    found = re.findall(r"^\s*(\S+) => (/\S+)", told, re.MULTILINE)
    return {name: pathlib.Path(path) for name, path in found if not re.match(OF_THE_SYSTEM, name) and not re.match(OF_PYTORCH, name)}


def pack(archive):
    """Builds the programs and writes them into `archive`, with everything they need except PyTorch."""
    release = gpu.programs(*PROGRAMS)
    programs = {**{name: release / name for name in (*PROGRAMS, PLUGIN)}, TESTS: machine.built("dev", TESTS) / TESTS}
    needed = {name: path for program in programs.values() for name, path in libraries(program).items()}
    told = machine.stamped(linked_with(release / PROGRAMS[1]) | {"glibc": newest_glibc(programs.values())}, 0)
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
    print(f"bench: {archive} is written, {pathlib.Path(archive).stat().st_size / 1e6:.0f} MB; on the machine with the card, by a Python with PyTorch "
          f"{told['torch']} for CUDA {told['cuda']}:\n    tar xzf {pathlib.Path(archive).name} && python3 kit/run figures.json\nand here: scripts/bench --take figures.json")


def linked_with(program):
    """{"torch": version, "cuda": CUDA version} of the LibTorch that the program is linked with."""
    told = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    library = re.search(r"libtorch_cpu\.so => (/\S+)", told).group(1)
    version = (pathlib.Path(library).parent.parent / "version.py").read_text()
    return {what: re.search(rf"^{name}\b[^=]*= '([^'+]+)", version, re.MULTILINE).group(1) for what, name in (("torch", "__version__"), ("cuda", "cuda"))}


def newest_glibc(programs):
    """The oldest version of the C library that has every symbol the programs need."""
    told = "".join(subprocess.run(["objdump", "-T", program], check=True, stdout=subprocess.PIPE, text=True).stdout for program in programs)
    return max(re.findall(r"\bGLIBC_(\d+\.\d+)", told), key=numbers)


def numbers(version):
    return [int(part) for part in version.split(".")]


def take(answer):
    """Stores the output of kit/run as the GPU's figures of the benchmarks; exits with an error message, storing
    nothing, for any other content."""
    try:
        told = json.loads(pathlib.Path(answer).read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"bench: {answer} cannot be read as what kit/run writes: {error}")
    if not isinstance(told, dict) or not any(part in told for part in PARTS.values()):
        sys.exit(f"bench: {answer} holds no figures of a card: it is the file that kit/run has written")
    if status := told.get("tests", {}).get("status"):
        sys.exit(f"bench: the tests of {answer} ended with status {status} on that card: figures of programs that do something else are not kept")
    kept = {}
    for name, part in PARTS.items():
        path = page.DATA / f"performance-{name}.json"
        if part not in told:
            print(f"bench: {answer} has nothing for {name}, which stays as it was")
        elif not path.exists():
            sys.exit(f"bench: there are no figures of {name} yet that a GPU's could stand beside: scripts/bench {name} first")
        else:
            kept[path] = json.loads(path.read_text()) | {"gpu": told[part]}
            try:
                LINES[name](kept[path])
            except (KeyError, TypeError, ValueError, IndexError, StopIteration, statistics.StatisticsError) as error:
                sys.exit(f"bench: {answer} has no whole figures for {name}: {error!r}")
    for path, value in kept.items():
        page.replace(path, json.dumps(value) + "\n")
    print(f"bench: {', '.join(path.stem for path in kept)}: the GPU's figures are kept")
