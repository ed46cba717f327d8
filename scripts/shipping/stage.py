# SPDX-License-Identifier: Apache-2.0
"""Folders of files as they are shipped: programs and their libraries, stripped, with relative library paths."""
import pathlib
import re
import shutil
import sys

from shipping import elf

shipped = {}  # (source, library path): the first copy of it, which further packages of the same run take


def ship(source, target, library_path, symbols=None):
    """Copies an ELF file without its symbols and sets where it looks for libraries; None: as it was. `symbols`: a folder
    for the symbols, where debuggers look for them by the name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if (source, library_path) in shipped:
        shutil.copy(shipped[source, library_path], target)
        return
    shipped[source, library_path] = target
    shutil.copyfile(source, target)
    target.chmod(0o755)
    if symbols:
        symbols.mkdir(parents=True, exist_ok=True)
        elf.output("objcopy", "--only-keep-debug", "--compress-debug-sections=zlib", source, symbols / f"{target.name}.debug")
    elf.output("strip", "--strip-unneeded", "--remove-section=.comment", target)
    if library_path is not None:
        elf.output("patchelf", "--set-rpath", library_path, target)


def programs(build, names, root, symbols=None):
    """Ships programs into root/bin and the libraries that they need into root/lib, except LibTorch's. Returns {file name:
    path} of the libraries, LibTorch's included."""
    needed = {}
    for name in names:
        if not (build / "bin" / name).exists():
            sys.exit(f"package: error: {build / 'bin' / name} is missing; build first: scripts/build")
        ship(build / "bin" / name, root / "bin" / name, "$ORIGIN/../lib", symbols)
        needed |= elf.libraries(build / "bin" / name)
    for name, path in sorted(needed.items()):
        if not re.match(elf.OF_TORCH, name):
            ship(path, root / "lib" / name, "$ORIGIN")
    return needed


def torch_libraries(needed, root):
    """Ships the libraries of LibTorch that the programs need into root/lib, where they find each other, with the OpenMP
    library that it brings: a bare system has none."""
    for name, path in sorted(needed.items()):
        if re.match(elf.OF_TORCH, name):
            ship(path, root / "lib" / name, "$ORIGIN")
    openmp = needed["libtorch_cpu.so"].parent / "libgomp.so.1"
    ship(openmp, root / "lib" / openmp.name, "$ORIGIN")


def check_floor(root):
    """Ends with an error message if a file needs a newer system than the oldest supported one."""
    for path in sorted(pathlib.Path(root).rglob("*")):
        if path.is_file() and elf.is_elf(path) and (above := elf.above_the_floor(path)):
            sys.exit(f"package: error: {path.relative_to(root)} needs {above}; the oldest supported system has GLIBC_2.35 and GLIBCXX_3.4.30")
