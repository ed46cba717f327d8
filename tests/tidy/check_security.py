#!/usr/bin/python3
"""Every row of docs/results/security.md names tests that exist, and its number stands with a test: `grep -rw S21 tests/` finds them."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = "docs/results/security.md"
ROW = re.compile(r"^\| (S\d+(?:, S\d+)*) \|")
# `Suite.Name`, `Suite.*`, `integration.name`, `a_test`; what else stands in backquotes is no test.
GTEST = re.compile(r"`([A-Z]\w*)\.(\w+|\*)`")
INTEGRATION = re.compile(r"`integration\.(\w+)`")
PROGRAM = re.compile(r"`(\w+_test)`")
NUMBERS = 32


def texts(root):
    """The sources of tests, this folder excepted."""
    found = {}
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix in (".cc", ".h", ".py", ".txt", ".cmake") and "tidy" not in path.parts and "corpora" not in path.parts:
            found[path] = path.read_text(errors="replace")
    return found


def named_tests(row):
    return GTEST.findall(row), INTEGRATION.findall(row), PROGRAM.findall(row)


def missing(row, sources, lists):
    """Names of tests in a row that are nowhere."""
    suites, scripts, programs = named_tests(row)
    for suite, name in suites:
        wanted = r"\w+" if name == "*" else re.escape(name)
        if not re.search(rf"\bTEST(?:_[FP])?\(\s*{suite},\s*{wanted}\s*\)", sources):
            yield f"{suite}.{name}"
    for script in scripts:
        if not re.search(rf"\b{script}\b", lists):
            yield f"integration.{script}"
    for program in programs:
        if not re.search(rf"\b{program}\b", lists):
            yield program


def check(root=ROOT):
    root = pathlib.Path(root)
    every = texts(root)
    sources = "\n".join(text for path, text in every.items() if path.suffix in (".cc", ".h"))
    lists = "\n".join(text for path, text in every.items() if path.suffix in (".txt", ".cmake"))
    anywhere = "\n".join(every.values())
    problems, seen = [], set()
    for line in (root / PAGE).read_text().splitlines():
        row = ROW.match(line)
        if not row:
            continue
        numbers = row.group(1).split(", ")
        seen.update(numbers)
        if not any(named_tests(line)):
            problems.append(f"{PAGE}: [security] {row.group(1)} names no test")
        for name in missing(line, sources, lists):
            problems.append(f"{PAGE}: [security] {row.group(1)} names {name}, which is no test; name the one that shows it")
        for number in numbers:
            if not re.search(rf"\b{number}\b", anywhere):
                problems.append(f"{PAGE}: [security] {number} stands with no test; write it into the comment of one that shows it")
    for number in range(1, NUMBERS + 1):
        if f"S{number}" not in seen:
            problems.append(f"{PAGE}: [security] there is no row S{number}")
    return problems


if __name__ == "__main__":
    found = check()
    print("\n".join(found))
    sys.exit(1 if found else 0)
