#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every attack of tests/attacks.toml and every fault of tests/faults.toml names existing tests, and each test of an S row carries
the row's number: `grep -rw S21 tests/` finds them. Every invariant of tests/invariants.toml names existing tests, stories, laws
and sources, and names within these sources."""

import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ATTACKS = "tests/attacks.toml"
FAULTS = "tests/faults.toml"
INVARIANTS = "tests/invariants.toml"
# `Suite.Name`, `Suite.*`, `integration.name`, `a_test`; other text in backquotes is not a test.
GTEST = re.compile(r"`([A-Z]\w*)\.(\w+|\*)`")
INTEGRATION = re.compile(r"`integration\.(\w+)`")
PROGRAM = re.compile(r"`(\w+_test)`")
ROWS = ((ATTACKS, "S", 40), (FAULTS, "F", 37))  # file, letter and number of its last row
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
    """`name` is a test, a story, a law, a script of scripts/, or a test that runs one."""
    kind, _, rest = name.partition("/" if "/" in name else " ")
    if kind == "stories":
        return (root / f"tests/scenario/stories/{rest}.txt").exists()
    if kind == "scripts":
        return (root / name).exists()
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


def row_problems(root, every, at):
    lists = "\n".join(text for path, text in every.items() if path.suffix == ".cmake")
    for file, letter, last in ROWS:
        rows = tomllib.loads((root / file).read_text())
        for number in sorted({f"{letter}{n}" for n in range(1, last + 1)} - {one for key in rows for one in key.split(", ")}):
            yield f"{file}: there is no row {number}"
        for key, row in rows.items():
            if not row["tests"]:
                yield f"{file}: {key} names no test"
            for suite, test in GTEST.findall(" ".join(row.get("notes", []))):
                if (suite, test) not in at:
                    yield f"{file}: a note of {key} names {suite}.{test}, which is no test"
            for name in (one.removesuffix(" (long)") for one in row["tests"]):
                if not is_test(root, name, every, at, lists):
                    yield f"{file}: {key} names {name}, which is no test; name the one that shows it"
                elif key.startswith("S"):
                    yield from unmarked(file, key, name, every, at)


def unmarked(file, key, name, every, at):
    """The numbers of a row that do not stand at one of its tests."""
    found = [text for path, text in every.items() if path.stem == name.removeprefix("stories/") and name.startswith("stories/")]
    found = found or [text for _, texts_of_one in texts_of_tests(f"`{name}`", every, at) for text in texts_of_one]
    for number in key.split(", "):
        if not any(re.search(rf"\b{number}\b", text) for text in found):
            yield f"{file}: {number} does not stand at {name}; write it into its comment, or name the test that shows it"


def check(root=ROOT):
    root = pathlib.Path(root)
    every = texts(root)
    at = gtests(every)
    return [*invariant_problems(root, every, at), *row_problems(root, every, at)]


if __name__ == "__main__":
    found = check()
    print("\n".join(found))
    sys.exit(1 if found else 0)
