#!/usr/bin/python3
"""check_elf.py PROGRAM ...: refuses programs that are not hardened. Needs readelf."""

import re
import subprocess
import sys


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
    if not re.search(r"\b__\w+_chk\b", text.replace("__stack_chk_fail", "")):
        yield f"{program} calls no checked function of the C library; compile with -D_FORTIFY_SOURCE=2"
    if re.search(r"\(RPATH\)", text):
        yield f"{program} has an RPATH, which beats LD_LIBRARY_PATH; use RUNPATH"
    if match := re.search(r"\((?:RUNPATH|RPATH)\).*\[(?:[^\]]*:)?(?:|[^/$:\]][^:\]]*)(?::[^\]]*)?\]", text):
        yield f"{program} looks for libraries in a relative folder: {match.group(0).strip()}"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    problems = [p for program in sys.argv[1:] for p in problems_of(program)]
    print("\n".join(problems) if problems else f"hardened: {', '.join(sys.argv[1:])}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
