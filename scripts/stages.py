#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The stages of scripts/test: runs them in order, stops at the first failure, adds up tests and times."""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

from provenance import provenance

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMES = ROOT / "build" / "stages.json"  # of a whole tier 1, for scripts/house
REPORT, REPORT_DATA = ROOT / "docs" / "results" / "long.md", ROOT / "docs" / "results" / "data" / "long.json"


class StageFailed(Exception):
    pass


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: list = dataclasses.field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def line(self):
        return f"{self.passed} passed, {self.failed} failed, {len(self.skipped)} skipped"


def jobs():
    """Number of parallel jobs: one per core, fewer if 2 GB each would not fit."""
    available = re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return max(1, min(os.cpu_count(), int(available.group(1)) // (2 << 20)))


def run(*command, env=None, quiet=False):
    print("+", " ".join(str(c) for c in command), flush=True)
    result = subprocess.run([str(c) for c in command], cwd=ROOT, env={**os.environ, **(env or {})}, text=True,
                            stdout=subprocess.PIPE if quiet else None, stderr=subprocess.STDOUT if quiet else None)
    if result.returncode != 0:
        if quiet:
            print(result.stdout[-6000:])
        raise StageFailed(f"{command[0]} ended with status {result.returncode}")
    return result


def git(*arguments):
    """Output of git, or nothing. A clone owned by another user is fine for reading."""
    return subprocess.run(["git", "-c", "safe.directory=*", *arguments], cwd=ROOT, capture_output=True, text=True).stdout


def git_files(*patterns):
    """Tracked files and those that would be, sorted."""
    listed = git("ls-files", "-co", "--exclude-standard", "--", *patterns).split("\n")
    return sorted(f for f in set(listed) if f and (ROOT / f).is_file())


# --- building and ctest -----------------------------------------------------------------------------------------------


def build(preset):
    run("cmake", "--preset", preset, quiet=True)
    # The build starts every test program once at its end, to list its cases.
    prefix = without_address_randomisation() if preset == "tsan" else []
    run(*prefix, "cmake", "--build", "--preset", preset, "-j", jobs())
    return Counts()


def without_address_randomisation():
    """The thread sanitizer cannot start if the kernel randomises more address bits than it expects."""
    probe = subprocess.run(["setarch", "-R", "true"], capture_output=True)
    return ["setarch", "-R"] if probe.returncode == 0 else []


def read_junit(path):
    counts = Counts()
    failed = []
    for case in ET.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        if status == "run":
            counts.passed += 1
        elif status == "fail":
            counts.failed += 1
            failed.append(case.get("name"))
        else:  # notrun (skipped) or disabled
            counts.skipped.append(case.get("name"))
    return counts, failed


def run_without_passed(command):
    """Runs ctest and prints its output without the two lines of each passed test."""
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for line in process.stdout:
        if not re.match(r"\s*Start\s+\d+: |\s*\d+/\d+ Test +#\d+: .*\bPassed\b", line):
            print(line, end="", flush=True)
    return process.wait()


def ctest(preset, prefix=(), at_once=None):
    """Runs the tests of a preset, `at_once` (number of cores) at a time."""
    report = ROOT / "build" / preset / "junit.xml"
    if preset == "long":
        report = ROOT / "build" / "dev" / "junit-long.xml"
    report.unlink(missing_ok=True)
    command = [*prefix, "ctest", "--preset", preset, "-j", str(at_once or jobs()), "--output-junit", str(report)]
    print("+", " ".join(command), flush=True)
    status = run_without_passed(command)
    if not report.exists():
        if preset == "long" and status == 0:
            return Counts()
        raise StageFailed(f"ctest ended with status {status} and wrote no report")
    counts, failed = read_junit(report)
    if status != 0:
        again = f"ctest --preset {preset} -R '^{re.escape(failed[0])}$'" if failed else " ".join(command)
        raise StageFailed(f"{len(failed)} failed: {', '.join(failed[:20])}; one of them alone: {again}", counts)
    return counts


# --- checks of the text -----------------------------------------------------------------------------------------------


def check_format():
    files = git_files("*.h", "*.cc", "*.cu", "*.cuh")
    if files:
        run("clang-format-14", "--dry-run", "-Werror", "--style=file", *files, quiet=True)
    return Counts(passed=1)


def check_scripts():
    shell = [f for f in git_files("scripts", ".ci", "cmake", "tests", "deploy") if is_shell(ROOT / f)]
    run("shellcheck", "--severity=warning", *shell)
    for f in git_files("*.py"):
        compile((ROOT / f).read_text(), f, "exec")
    # Any script started in that folder would import it instead of Python's own module.
    if hiding := [f for f in git_files("scripts/*.py") if pathlib.Path(f).stem in sys.stdlib_module_names]:
        raise StageFailed(f"named as a module of Python: {', '.join(hiding)}; give it another name")
    return Counts(passed=3)


def is_shell(path):
    with open(path, "rb") as f:
        first = f.readline(80)
    return re.match(rb"#!.*\b(ba)?sh\b", first) is not None


def check_promtool():
    rules = git_files("deploy/prometheus/*.rules.yml", "deploy/prometheus/rules/*.yml", "deploy/prometheus/rules/*.yaml")
    tests = git_files("deploy/prometheus/*_test.yml", "deploy/prometheus/tests/*.yml", "deploy/prometheus/tests/*.yaml")
    configs = git_files("deploy/prometheus/prometheus.yml", "deploy/prometheus/prometheus.yaml")
    for kind, files in (("check rules", rules), ("test rules", tests), ("check config", configs)):
        if files:
            run("promtool", *kind.split(), *files)
    return Counts(passed=len(rules) + len(tests) + len(configs))


# --- clang reads every unit --------------------------------------------------------------------------------------------


def compile_commands(preset):
    """{file relative to the root: arguments that matter to clang (-I, -isystem, -D, -std)}"""
    path = ROOT / "build" / preset / "compile_commands.json"
    run("cmake", "--preset", preset, quiet=True)
    run("cmake", "--build", "--preset", preset, "-j", jobs(), "--target", "atoll_generated", quiet=True)
    result = {}
    for entry in json.loads(path.read_text()):
        source = pathlib.Path(entry["file"])
        if not source.is_relative_to(ROOT) or source.is_relative_to(ROOT / "build") or source.suffix != ".cc":
            continue
        words = shlex.split(entry["command"])
        kept = []
        for i, word in enumerate(words):
            if word == "-isystem":
                kept += [word, words[i + 1]]
            elif word.startswith(("-I", "-D", "-std=")):
                kept.append(word)
        result[str(source.relative_to(ROOT))] = [k for k in kept if "FORTIFY" not in k]
    return result


def in_parallel(commands):
    """Runs commands in parallel, one per core; returns [(command, output)] of those that failed."""
    import concurrent.futures

    def one(command):
        done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return command, done.returncode, done.stdout

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [(c, out) for c, status, out in pool.map(one, commands) if status != 0]


def report_failures(failures, what):
    for command, output in failures:
        print("+", " ".join(command))
        print("\n".join(line[:400] for line in output.split("\n") if not re.match(r"\d+ warnings? ", line))[:4000])
    if failures:
        files = [next((a for a in c if a.endswith((".cc", ".h"))), c[-1]) for c, _ in failures[:20]]
        raise StageFailed(f"{what} refused {len(failures)} files: {', '.join(files)}")


def clang_tidy():
    units = {f: a for f, a in compile_commands("dev").items() if not f.startswith("tests/")}
    commands = [["clang-tidy-14", "--quiet", "--warnings-as-errors=*", "--extra-arg=-w", f, "--", *a]
                for f, a in sorted(units.items())]
    report_failures(in_parallel(commands), "clang-tidy")
    return Counts(passed=len(commands))


def build_release():
    """Checks the hardened build by the headers of its programs."""
    build("release")
    programs = sorted(p for p in (ROOT / "build/release/bin").glob("atoll*") if p.is_file() and os.access(p, os.X_OK))
    if not programs:
        raise StageFailed("build/release/bin holds no program")
    run("/usr/bin/python3", "tests/tidy/check_elf.py", "--commands", "build/release/compile_commands.json", *programs)
    return Counts(passed=len(programs))


# --- the lists --------------------------------------------------------------------------------------------------------

TIER1 = [
    ("format", check_format),
    ("scripts", check_scripts),
    ("promtool", check_promtool),
    ("build-release", build_release),
    ("test-release", lambda: ctest("release", at_once=2 * jobs())),  # these tests wait for processes most of the time
    ("build-asan", lambda: build("asan")),
    ("test-asan", lambda: ctest("asan")),
    ("build-tsan", lambda: build("tsan")),
    ("test-tsan", lambda: ctest("tsan", without_address_randomisation())),
]
LONG = [
    ("build-dev", lambda: build("dev")),
    ("test-dev", lambda: ctest("dev")),
    ("test-long", lambda: ctest("long")),
    ("clang-tidy-all", clang_tidy),
]


def seconds(s):
    return f"{int(s) // 60}:{int(s) % 60:02d}"


def table(rows):
    width = max(len(r[0]) for r in rows)
    lines = [f"{'stage'.ljust(width)}  min:s  result"]
    lines += [f"{name.ljust(width)}  {seconds(took):>5}  {result}" for name, took, result, _ in rows]
    total = sum(r[1] for r in rows)
    return "\n".join(lines + [f"{'total'.ljust(width)}  {seconds(total):>5}"])


def write_report(rows):
    """Each stage with its last run: a whole one, or one of that stage alone."""
    run_now = provenance()
    known = json.loads(REPORT_DATA.read_text()) if REPORT_DATA.exists() else {}
    known |= {name: run_now | {"seconds": round(took), "result": result, "skipped": sorted(set(skipped))} for name, took, result, skipped in rows}
    REPORT_DATA.write_text(json.dumps(known, indent=1) + "\n")
    stages = [(name, known[name]) for name in ("setup", *(name for name, _ in LONG)) if name in known]
    lines = "".join(f"| {name} | {seconds(s['seconds'])} | {s['result']} | {s['date']} | {s['commit']} | {s['machine']} |\n" for name, s in stages)
    skipped = "".join(f"- {name}\n" for _, s in stages for name in s["skipped"]) or "none\n"
    REPORT.write_text(
        "# The long tests\n\n"
        "Written by `scripts/test --long`, or `scripts/test --long --stage NAME` for one of them: of each stage its last run.\n\n"
        f"| stage | min:s | result | date | commit | machine |\n|---|---|---|---|---|---|\n{lines}\n## Skipped\n\n{skipped}")
    print(f"test: report written to {REPORT.relative_to(ROOT)}")


def main():
    parser = argparse.ArgumentParser(prog="scripts/test")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--stage", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--setup-started", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    stages = LONG if options.long else TIER1
    if options.list:
        print("\n".join(name for name, _ in stages))
        return 0
    if options.stage:
        stages = [s for s in (dict(LONG) if options.long else dict(TIER1) | dict(LONG)).items() if s[0] == options.stage]
        if not stages:
            parser.error(f"no stage '{options.stage}'; scripts/test --list names them")
    if options.check:
        return 0
    return run_stages(stages, options)


def run_stages(stages, options):
    rows, counts, failure = [], Counts(), None
    if options.setup_started:
        rows.append(("setup", time.time() - options.setup_started, "ok", []))
    for name, stage in stages:
        print(f"\n=== {name}", flush=True)
        start = time.monotonic()
        try:
            part = stage()
            counts.add(part)
            result = part.line() if part.passed or part.skipped else "ok"
        except StageFailed as error:
            part = error.args[1] if len(error.args) > 1 else Counts(failed=1)
            counts.add(part)
            failure, result = (name, error.args[0]), "FAILED"
        rows.append((name, time.monotonic() - start, result, part.skipped))
        if failure:
            break
    return finish(rows, counts, failure, options)


def finish(rows, counts, failure, options):
    print(f"\n{table(rows)}")
    if counts.skipped:
        print("skipped:\n" + "\n".join(f"  {name}" for name in sorted(set(counts.skipped))))
    if options.long:
        write_report(rows)
    elif not options.stage and not failure:
        TIMES.write_text(json.dumps({name: round(took, 1) for name, took, _, _ in rows}, indent=1) + "\n")
    if failure:
        print(f"test: stage '{failure[0]}' failed: {failure[1]}\ntest: to see it again: scripts/test --stage {failure[0]}")
    print(counts.line(), flush=True)
    return 1 if failure or counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
