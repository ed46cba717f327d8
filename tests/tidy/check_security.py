#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every row of docs/results/security.md names existing tests, and each of these tests carries the row's number: `grep
-rw S21 tests/` finds them. Every invariant of tests/invariants.toml names existing tests, stories, laws and sources,
and names within these sources."""

import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = "docs/results/security.md"
INVARIANTS = "tests/invariants.toml"
ROW = re.compile(r"^\| (S\d+(?:, S\d+)*) \|")
# `Suite.Name`, `Suite.*`, `integration.name`, `a_test`; other text in backquotes is not a test.
GTEST = re.compile(r"`([A-Z]\w*)\.(\w+|\*)`")
INTEGRATION = re.compile(r"`integration\.(\w+)`")
PROGRAM = re.compile(r"`(\w+_test)`")
NUMBERS = 35
LAST_INVARIANT = 30
TEST = re.compile(r"^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)


def texts(root):
    """The sources of tests, without this folder."""
    found = {}
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix in (".cc", ".h", ".py", ".txt", ".cmake") and "tidy" not in path.parts and "corpora" not in path.parts:
            found[path] = path.read_text(errors="replace")
    return found


def named_tests(row):
    return GTEST.findall(row), INTEGRATION.findall(row), PROGRAM.findall(row)


def gtests(every):
    """For each test the comment above it and its body; for each suite its files."""
    tests, suites = {}, {}
    for path, text in every.items():
        if path.suffix not in (".cc", ".h"):
            continue
        for found in TEST.finditer(text):
            above = text[: found.start()].splitlines()
            start = len(above)
            while start > 0 and above[start - 1].startswith("//"):
                start -= 1
            body = text[found.start() : text.find("\n}", found.start()) + 1] or text[found.start() :].splitlines()[0]
            tests.setdefault((found[1], found[2]), []).append("\n".join(above[start:]) + "\n" + body)
            suites.setdefault(found[1], {})[path] = text
    return {**tests, **{(suite, "*"): list(files.values()) for suite, files in suites.items()}}


def folder_of(program, every):
    """The sources and stories in the folder of the list that names a program; empty if there is no such program."""
    for path, text in every.items():
        if path.name == "CMakeLists.txt" and re.search(rf"\b{program}\b", text):
            return [other for at, other in every.items() if path.parent in at.parents]
    return []


def texts_of_tests(row, every, at):
    """(name, text) of each test that a row names; the text is empty for a missing test."""
    suites, scripts, programs = named_tests(row)
    lists = "\n".join(text for path, text in every.items() if path.suffix == ".txt" or path.suffix == ".cmake")
    for suite, name in suites:
        yield f"{suite}.{name}", at.get((suite, name), [])
    for script in scripts:
        files = [text for path, text in every.items() if path.name == f"{script}.py"]
        yield f"integration.{script}", files if re.search(rf"\b{script}\b", lists) else []
    for program in programs:
        yield program, folder_of(program, every)


def is_test(root, name, every, at, lists):
    """`name` is a test, a story, a law, or a test that runs a script of scripts/."""
    kind, _, rest = name.partition("/" if "/" in name else " ")
    if kind == "stories":
        return (root / f"tests/scenario/stories/{rest}.txt").exists()
    if kind == "law":
        return any(f'"{rest}: ' in text for path, text in every.items() if "sim" in path.parts)
    return any(found for _, found in texts_of_tests(f"`{name}`", every, at)) or f"({name} " in lists


def invariant_problems(root, every, at):
    known = tomllib.loads((root / INVARIANTS).read_text())
    lists = "\n".join(text for path, text in every.items() if path.suffix == ".cmake")
    for number in (f"I{n}" for n in range(1, LAST_INVARIANT + 1)):
        invariant = known.get(number, {})
        if not invariant.get("tests"):
            yield f"{INVARIANTS}: {number} names no test"
        for name in invariant.get("tests", []):
            if not is_test(root, name, every, at, lists):
                yield f"{INVARIANTS}: {number} names {name}, which is no test; name the one that shows it"
        for path, *names in map(str.split, invariant.get("code", [])):
            source = root / path
            if not source.exists():
                yield f"{INVARIANTS}: {number} names {path}, which does not exist"
                continue
            for name in names:
                if not re.search(rf"\b{name}\b", source.read_text()):
                    yield f"{INVARIANTS}: {number} names {name} in {path}, which has no such name"


def check(root=ROOT):
    root = pathlib.Path(root)
    every = texts(root)
    at = gtests(every)
    problems, seen = list(invariant_problems(root, every, at)), set()
    for line in (root / PAGE).read_text().splitlines():
        row = ROW.match(line)
        if not row:
            continue
        numbers = row.group(1).split(", ")
        seen.update(numbers)
        if not any(named_tests(line)):
            problems.append(f"{PAGE}: [security] {row.group(1)} names no test")
        for name, found in texts_of_tests(line, every, at):
            if not found:
                problems.append(f"{PAGE}: [security] {row.group(1)} names {name}, which is no test; name the one that shows it")
                continue
            for number in numbers:
                if not any(re.search(rf"\b{number}\b", text) for text in found):
                    problems.append(f"{PAGE}: [security] {number} does not stand at {name}; write it into its comment, or name the test that shows it")
    for number in range(1, NUMBERS + 1):
        if f"S{number}" not in seen:
            problems.append(f"{PAGE}: [security] there is no row S{number}")
    return problems


if __name__ == "__main__":
    found = check()
    print("\n".join(found))
    sys.exit(1 if found else 0)
