# SPDX-License-Identifier: Apache-2.0
"""The console commands. Each replaces this process by the program of the package. The worker's program runs on LibTorch,
which is part of PyTorch: it is found in the installed `torch` without importing that."""
import importlib.util
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
WRONG_TORCH = 3  # the worker's exit status for a precondition that does not hold


def execute(name, environment):
    program = HERE / "bin" / name
    try:
        os.execve(program, [name, *sys.argv[1:]], environment)
    except OSError as error:
        sys.exit(f"{name}: {program} cannot be started: {error.strerror}; install again: pip install --force-reinstall atoll-train")


def refuse(sentence):
    print(f"atoll-worker: {sentence}", file=sys.stderr)
    sys.exit(WRONG_TORCH)


def torch_folder(linked_with):
    """The folder of the installed torch. `linked_with`: its version that the worker was linked with, such as 2.11.0.
    Ends with a sentence if it is none that the worker can run on."""
    found = importlib.util.find_spec("torch")
    minor = ".".join(linked_with.split(".")[:2])
    advice = f'install it: {pathlib.Path(sys.executable).name} -m pip install "torch=={minor}.*"'
    if found is None or not found.submodule_search_locations:
        refuse(f"PyTorch is not installed in {sys.prefix}; {advice}")
    folder = pathlib.Path(found.submodule_search_locations[0])
    try:
        version = re.search(r"^__version__[^=]*= ['\"]([^'\"]+)", (folder / "version.py").read_text(), re.MULTILINE).group(1)
    except (OSError, AttributeError):
        refuse(f"{folder} is no whole PyTorch: its version.py cannot be read; {advice}")
    if not version.startswith(minor + "."):
        refuse(f"needs PyTorch {minor}, with whose libraries it was linked, but {folder} has {version}; {advice}")
    if not re.fullmatch(r"[0-9.]+(\+cu\d+)?", version):
        print(f"atoll-worker: PyTorch {version} is a build that PyPI does not have: untested", file=sys.stderr)
    return folder


def with_libraries_of(torch, environment):
    """`environment` with the folders of torch's libraries, and of the NVIDIA libraries beside it, in front."""
    folders = [torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]
    path = [*map(str, folders), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
    return environment | {"LD_LIBRARY_PATH": ":".join(path)}


def atoll():
    execute("atoll", dict(os.environ))


def coordinator():
    execute("atoll-coordinator", dict(os.environ))


def worker():
    torch = torch_folder((HERE / "torch-version.txt").read_text().strip())
    execute("atoll-worker", with_libraries_of(torch, dict(os.environ)))
