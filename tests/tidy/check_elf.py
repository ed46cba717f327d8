#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_elf.py [--commands COMPILE_COMMANDS.JSON] PROGRAM ...: refuses programs that are not hardened. Needs readelf.

Options without a trace in a program are read from the compile commands: fortified calls are often proven safe and
vanish.
"""

import json
import re
import subprocess
import sys

FLAGS = ("-D_FORTIFY_SOURCE=2", "-D_GLIBCXX_ASSERTIONS", "-fstack-protector-strong", "-fstack-clash-protection", "-fcf-protection")


def readelf(program):
    return subprocess.run(["readelf", "-W", "-h", "-l", "-d", "--dyn-syms", program], check=True, capture_output=True,
                          text=True).stdout


def problems_of(program):
    text = readelf(program)
    if not re.search(r"Type:\s+DYN", text) or "INTERP" not in text:
        yield f"{program} is not a position-independent executable; link with -pie"
    if "GNU_RELRO" not in text:
        yield f"{program} has no read-only relocations; link with -Wl,-z,relro"
    if not re.search(r"\(FLAGS(_1)?\).*\b(BIND_NOW|NOW)\b", text):
        yield f"{program} binds lazily, so its table of functions stays writable; link with -Wl,-z,now"
    stack = re.search(r"GNU_STACK(?:\s+0x[0-9a-f]+){5}\s+(R?W?E?)", text)
    if not stack or "E" in stack.group(1):
        yield f"{program} has an executable stack; link with -Wl,-z,noexecstack"
    if re.search(r"^\s+LOAD(?:\s+0x[0-9a-f]+){5}\s+RWE", text, re.MULTILINE):
        yield f"{program} has a segment that is writable and executable"
    if "__stack_chk_fail" not in text:
        yield f"{program} has no stack protector; compile with -fstack-protector-strong"
    if re.search(r"\(RPATH\)", text):
        yield f"{program} has an RPATH, which beats LD_LIBRARY_PATH; use RUNPATH"
    if match := re.search(r"\((?:RUNPATH|RPATH)\).*\[(?:[^\]]*:)?(?:|[^/$:\]][^:\]]*)(?::[^\]]*)?\]", text):
        yield f"{program} looks for libraries in a relative folder: {match.group(0).strip()}"


def problems_of_commands(path):
    with open(path) as f:
        units = [u for u in json.load(f) if u["file"].endswith(".cc")]
    if not units:
        yield f"{path} names no unit"
    for unit in units:
        lacking = [flag for flag in FLAGS if flag not in unit["command"].split()]
        if lacking:
            yield f"{unit['file']} is compiled without {' '.join(lacking)}"


def main():
    programs, problems = sys.argv[1:], []
    if programs[:1] == ["--commands"]:
        problems += problems_of_commands(programs[1])
        programs = programs[2:]
    if not programs:
        sys.exit(__doc__)
    problems += [p for program in programs for p in problems_of(program)]
    print("\n".join(problems) if problems else f"hardened: {', '.join(programs)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
