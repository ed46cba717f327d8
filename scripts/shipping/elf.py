# SPDX-License-Identifier: Apache-2.0
"""What an ELF file needs: libraries, and versions of the system's own."""
import pathlib
import re
import subprocess
import sys

# Never bundled: a second copy of one of these in a process would be another library.
OF_THE_SYSTEM = r"ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|util|anl|resolv|gcc_s|stdc\+\+|gomp)\.so"
OF_TORCH = r"lib(torch|c10|cudart|cupti|nccl)"
FLOOR = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30)}  # Ubuntu 22.04: manylinux_2_35


def output(*command):
    """What a command prints. Raises CalledProcessError, with its messages, when it fails."""
    ran = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        raise subprocess.CalledProcessError(ran.returncode, command, ran.stdout, ran.stderr)
    return ran.stdout


def libraries(program):
    """{file name: path} of all shared libraries that are loaded with `program`, the system's own left out."""
    listed = output("ldd", program)
    if missing := re.findall(r"^\s*(\S+) => not found", listed, re.MULTILINE):
        sys.exit(f"package: error: {program} needs {', '.join(missing)}, which this machine does not have; build again: scripts/build")
    found = re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE)
    return {name: pathlib.Path(path).resolve() for name, path in found if not re.match(OF_THE_SYSTEM, name)}


def system_libraries(program):
    """{file name: path} of the system's own libraries that `program` loads, with the loader."""
    found = re.findall(r"^\s*(?:\S+ => )?(/\S+)", output("ldd", program), re.MULTILINE)
    return {pathlib.Path(path).name: pathlib.Path(path).resolve() for path in found if re.match(OF_THE_SYSTEM, pathlib.Path(path).name)}


def versions(path):
    """{"GLIBC": newest version whose symbols `path` uses, ...}; a family that it does not use is absent."""
    newest = {}
    for line in output("objdump", "-T", path).splitlines():
        if "*UND*" not in line:
            continue
        for family, version in re.findall(r"\b(GLIBC|GLIBCXX)_([0-9.]+)", line):
            newest[family] = max(newest.get(family, ()), tuple(map(int, version.split("."))))
    return newest


def above_the_floor(path):
    """The versions that `path` uses and the oldest supported system does not have, as text; "" if none."""
    return ", ".join(f"{family}_{'.'.join(map(str, version))}" for family, version in sorted(versions(path).items()) if version > FLOOR[family])


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"
