# SPDX-License-Identifier: Apache-2.0
"""The measured machine, its load by other processes, and the measured programs."""
import ctypes
import datetime
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

from benches import figures

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASURED = ("common", "coordinator", "worker", "cli", "tests/bench")  # sources that a figure may depend on


def run(command):
    """Whether a command succeeded, and its output."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0, done.stdout


def needed(command):
    """Runs a command; exits with its output when it fails."""
    done, words = run(command)
    if not done:
        sys.exit(f"{words}\nbench: '{' '.join(command)}' failed")


def built(preset, *targets):
    """The folder of the programs, freshly built with a preset; exits with the compiler's output when that fails."""
    folder = ROOT / "build" / preset
    for command in (["cmake", "--preset", preset], ["ninja", "-C", str(folder), *targets]):
        needed(command)
    return folder / "bin"


def program(name, *words):
    """Output of a program of tests/bench: {"machine": ..., "groups": [...]}."""
    path = built("bench", name) / name
    return json.loads(subprocess.run([str(path), *map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout)


def described():
    """The facts about the machine that programs of tests/bench print, too."""
    models = [line.split(": ", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    cache = os.sysconf("SC_LEVEL3_CACHE_SIZE") if "SC_LEVEL3_CACHE_SIZE" in os.sysconf_names else 0
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "").split()
    return {"cpu": models[0] if models else "unknown", "cores": os.cpu_count(), "last_level_cache_bytes": cache,
            "instruction_set": "AVX3" if "avx512f" in flags else "AVX2" if "avx2" in flags else "baseline",
            "load_average": os.getloadavg()[0]}


class ForeignLoad:
    """with ForeignLoad() as load: ...; load.cores is the number of cores that other processes kept busy meanwhile. This
    process and its children do not count. Children must have ended by then: a child's processor time counts once it has
    been waited for."""

    def __enter__(self):
        self.begin, self.busy, self.own = time.monotonic(), busy_seconds(), own_seconds()
        return self

    def __exit__(self, *_):
        wall = time.monotonic() - self.begin
        self.cores = max(0.0, (busy_seconds() - self.busy - (own_seconds() - self.own)) / wall)


def adopt_orphans():
    """From here on, orphaned descendants become children of this process instead of init."""
    set_child_subreaper = 36  # <linux/prctl.h>
    if ctypes.CDLL(None, use_errno=True).prctl(set_child_subreaper, 1, 0, 0, 0) != 0:
        print(f"bench: warning: processes that others leave behind count as foreign load: {os.strerror(ctypes.get_errno())}", file=sys.stderr)


def end_orphans():
    """Ends every remaining child and waits for it, so that its time counts as ours."""
    me = pathlib.Path("/proc/self/task")
    while left := " ".join(task.joinpath("children").read_text() for task in me.iterdir()).split():
        for child in map(int, left):
            try:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            except (ProcessLookupError, ChildProcessError):
                pass  # waited for by another thread


def busy_seconds():
    """Over all processes: user, nice, system, irq, softirq, steal."""
    ticks = [int(word) for word in open("/proc/stat").readline().split()[1:9]]
    return sum(t for i, t in enumerate(ticks) if i not in (3, 4)) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def stamped(answer, rounds):
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    if kit := os.environ.get("ATOLL_GPU_KIT"):  # the packed programs, not a checkout (kit_run.py)
        commit = json.loads((pathlib.Path(kit) / "kit.json").read_text())["commit"]
        return answer | {"rounds": rounds, "commit": commit, "date": datetime.date.today().isoformat()}
    changed = " and changes" if git("status", "--porcelain", *MEASURED) else ""
    return answer | {"rounds": rounds, "commit": git("rev-parse", "--short", "HEAD") + changed, "date": datetime.date.today().isoformat()}


def provenance(name, answer):
    machine, cores = answer["machine"], figures.foreign(answer)
    told = f"other processes kept up to {cores:.2f} cores busy meanwhile"
    noise = f"Quiet: {told}." if figures.quiet(answer) else f"**Not a quiet machine: {told}; do not trust the figures by the clock.**"
    times = f"{answer['rounds']} rounds" if answer["rounds"] != 1 else "one round"
    cache = machine["last_level_cache_bytes"] >> 20
    told_cache = f", {cache} MiB of last-level cache told by the processor" if cache else ""
    return (f"`scripts/bench {name}`, {times}, commit {answer['commit']}, {answer['date']}; {machine['cpu']}, {machine['cores']} cores"
            f"{told_cache}, {machine['instruction_set']}. {noise}")
