# SPDX-License-Identifier: Apache-2.0
"""Every program under system limits (ulimit -n, -u, -v, -f), from far too little to enough: it works, or exits with
an error message and a documented code. None is killed by a signal, none hangs."""
import os
import subprocess

from atoll_harness import check, equal, main, program, wait_for
from launch import through

ALONE = 54321  # a user without other processes
SECONDS = 30  # before it counts as hung
NO_RESOURCES = 71
NOT_LOADED = 127  # by the system's loader, before the program starts
LEAST_OPEN_FILES = 64
COORDINATOR_OPEN_FILES = 256  # at least one job's
MIB = 1 << 20
# The exit codes of docs/formats/exit-codes.md for a failed start. 5: the command line's endpoint does not answer.
REFUSED = {"atoll-coordinator": {1, NO_RESOURCES}, "atoll-worker": {2, 3, NO_RESOURCES}, "atoll": {3, NO_RESOURCES}}


def works(name, process):
    """True if a running program has begun its work."""
    return {"atoll-coordinator": "coordinator ready", "atoll-worker": "coordinator away"}[name] in process.log()


def command(scene, name, home):
    if name == "atoll":
        return [program(name), "--endpoint", "127.0.0.1:1", "--timeout", "20s", "job", "list"]
    if name == "atoll-coordinator":
        return [program(name), "--insecure", "--state-dir", home / "state", "--control-port", "0", "--bulk-port", "0", "--admin-port", "0", "--threads", "1"]
    return [program(name), "--name", "a", "--coordinator", "127.0.0.1:1", "--coordinator-bulk", "127.0.0.1:1", "--cache-dir", home / "cache", "--threads", "1",
            "--device", "cpu", "--no-admin"]


def play(scene, name, what, may_not_load=False, **how):
    """Its exit code; None if it works."""
    home = scene.path(f"{name}-{what}")
    home.mkdir(mode=0o777)
    os.chmod(home, 0o777)
    process = scene.start(f"{name}-{what}-run", [*through(**how), *command(scene, name, home)])
    if name != "atoll":
        wait_for(f"{name} with {what} to work or to end", lambda: process.popen.poll() is not None or works(name, process), SECONDS)
    code = process.popen.poll() if name != "atoll" else process.end(SECONDS)
    if name != "atoll" and code is None:
        code = process.terminate(SECONDS)
        check(code in {0, NO_RESOURCES}, f"{name} with {what} was ready and stopped with {code}: {process.log()}")
        return None if code == 0 else code
    if name == "atoll" and code == 5:
        return None
    said = process.log()
    if may_not_load and code == NOT_LOADED:
        check("error while loading shared libraries" in said, f"{name} with {what} says {said!r}")
        return code
    check(code in REFUSED[name], f"{name} with {what} ended with {code}: {said}")
    check(f"{name}: " in said, f"{name} with {what} ended with {code} and says {said!r}")
    return code


def open_files(scene, name):
    least = LEAST_OPEN_FILES
    for limit in (6, 12, 24, least - 1):
        equal(play(scene, name, f"{limit}-files", limits={"RLIMIT_NOFILE": limit}), NO_RESOURCES, f"the end of {name} with {limit} files")
    if name == "atoll-coordinator":
        equal(play(scene, name, "no-files-for-a-job", limits={"RLIMIT_NOFILE": least}), 1, f"the end of {name} without files for a job")
        least = COORDINATOR_OPEN_FILES
    equal(play(scene, name, f"{least}-files", limits={"RLIMIT_NOFILE": least}), None, f"the end of {name} with the least number of files")


def processes(scene, name):
    """Limits 1, 2, ... up to the first that suffices, so that every thread is refused once."""
    for limit in range(1, 200):
        code = play(scene, name, f"{limit}-processes", limits={"RLIMIT_NPROC": limit}, user=ALONE)
        if code is None:
            check(limit > 1, f"{name} works without a thread: this shows nothing")
            return
        equal(code, NO_RESOURCES, f"the end of {name} with {limit} processes")
    check(False, f"{name} has not begun to work with {limit} processes")


def memory(scene, name, first, last, step):
    codes = [play(scene, name, f"{size}-mib", may_not_load=True, limits={"RLIMIT_AS": size * MIB}) for size in range(first, last + 1, step)]
    check(NO_RESOURCES in codes or name == "atoll", f"{name} was refused memory by none of the limits: {codes}")
    equal(codes[-1], None, f"the end of {name} with {last} MiB")


def file_size(scene):
    """A limit on file sizes: for the coordinator's state at its start, and for the results of a command."""
    for limit in (0, 1000, 10_000):
        home = scene.path(f"{limit}-bytes")
        home.mkdir()
        ran = subprocess.run([*through(limits={"RLIMIT_FSIZE": limit}), *command(scene, "atoll-coordinator", home)], env=scene.environment(),
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
        equal(ran.returncode, 1, f"the end of a coordinator whose files may have {limit} bytes ({ran.stderr})")
        check("ulimit -f" in ran.stderr, f"it says {ran.stderr!r}")
    check(len(scene.atoll("job", "schema").out) > 4096, "the schema is short: this shows nothing")
    into_file = ["/bin/sh", "-c", 'exec "$@" >schema.json', "sh"]
    ran = subprocess.run([*through(limits={"RLIMIT_FSIZE": 4096}), *into_file, program("atoll"), "job", "schema"], cwd=scene.directory,
                         env=scene.environment(), stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    equal(ran.returncode, 3, "the end of a command whose results are a file that may not grow")
    check("could not be written to standard output" in ran.stderr, f"it says {ran.stderr!r}")


def test(scene):
    os.chmod(scene.directory, 0o755)
    for name in REFUSED:
        open_files(scene, name)
    if os.geteuid() == 0:  # no other user can switch to a user without processes
        for name in REFUSED:
            processes(scene, name)
    memory(scene, "atoll", 24, 96, 8)
    memory(scene, "atoll-coordinator", 40, 1000, 80)
    memory(scene, "atoll-worker", 300, 1500, 100)
    file_size(scene)


main(test)
