#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""oracle_stubs.py SITE_PACKAGES

Lets PyPI's torch be imported on a machine without CUDA libraries. Its Python extension is linked against about 2 GB of
NVIDIA libraries which a CPU computation never calls, and there is no CPU wheel on PyPI. This script reads which symbols
torch wants from the missing ones and links placeholders of a few KB with the same names and symbol versions; calling one
prints its name and aborts. Needs readelf and gcc. For test oracles only: nothing of Atoll is linked with these.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

# Libraries with plain (unversioned) symbols, recognised by prefix.
PLAIN = {
    "nccl": "libnccl.so.2",
    "pnccl": "libnccl.so.2",
    "curand": "libcurand.so.10",
    "cusparseLt": "libcusparseLt.so.0",
    "cuFile": "libcufile.so.0",
    "nvshmem": "libnvshmem_host.so.3",
}
# Libraries that the wheels nvidia-cuda-runtime and nvidia-cuda-cupti really provide.
PROVIDED = re.compile(r"^lib(cudart|cupti)\.so")
NVIDIA = re.compile(r"^lib(cu|nv|nccl)")

BODY = """
#include <stdio.h>
#include <stdlib.h>
static void missing(const char* name) {
  fprintf(stderr, "%s was called, but this environment holds placeholders for CUDA libraries\\n", name);
  abort();
}
"""


def readelf(flag, library):
    return subprocess.run(["readelf", "-W", flag, str(library)], check=True, capture_output=True, text=True).stdout


def wanted_by(library):
    """Yields (soname, version or None, symbol) for every NVIDIA symbol that `library` leaves undefined."""
    file_of_version = {}
    current = None
    for line in readelf("-V", library).splitlines():
        if m := re.search(r"Version: \d+\s+File: (\S+)", line):
            current = m.group(1)
        elif (m := re.search(r"Name: (\S+)\s+Flags: \S+\s+Version: \d+", line)) and current:
            file_of_version[m.group(1)] = current
    for line in readelf("--dyn-syms", library).splitlines():
        columns = line.split()
        if len(columns) < 8 or columns[6] != "UND":
            continue
        name, _, version = columns[7].partition("@")
        if version:
            soname = file_of_version.get(version.lstrip("@"), "")
            if NVIDIA.match(soname) and not PROVIDED.match(soname):
                yield soname, version.lstrip("@"), name
            continue
        for prefix, soname in PLAIN.items():
            if name.startswith(prefix):
                yield soname, None, name


def needed_by(library):
    for line in readelf("-d", library).splitlines():
        if m := re.search(r"\(NEEDED\).*\[(\S+)\]", line):
            if NVIDIA.match(m.group(1)) and not PROVIDED.match(m.group(1)):
                yield m.group(1)


def link(soname, symbols, out):
    """symbols: version (or None) -> set of names."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "stub.c")
        script = pathlib.Path(folder, "versions")
        names = sorted({n for group in symbols.values() for n in group})
        source.write_text(BODY + "".join(f'void {n}(void) {{ missing("{n}"); }}\n' for n in names))
        command = ["gcc", "-shared", "-fPIC", "-O1", "-w", f"-Wl,-soname,{soname}", "-o", str(out / soname), str(source)]
        versioned = {v: g for v, g in symbols.items() if v}
        if versioned:
            script.write_text("".join(
                f"{v} {{ global: {'; '.join(sorted(g))}; }};\n" for v, g in sorted(versioned.items())))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    site = pathlib.Path(sys.argv[1])
    out = site / "nvidia" / "cu13" / "lib"
    if not (site / "torch" / "lib").is_dir():
        sys.exit(f"oracle_stubs.py: {site}/torch/lib does not exist; install the torch wheel there first")
    out.mkdir(parents=True, exist_ok=True)
    stubs = collections.defaultdict(lambda: collections.defaultdict(set))
    libraries = [p for p in sorted((site / "torch" / "lib").glob("*.so")) if "linalg" not in p.name]
    for library in libraries:
        for soname in needed_by(library):
            stubs[soname]
        for soname, version, name in wanted_by(library):
            stubs[soname][version].add(name)
    for soname, symbols in sorted(stubs.items()):
        link(soname, symbols, out)
    print(f"linked {len(stubs)} placeholder libraries in {out}")


if __name__ == "__main__":
    main()
