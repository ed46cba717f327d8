# SPDX-License-Identifier: Apache-2.0
"""Standard streams that are closed, full or have a stalled reader, for every program. No file of ours takes their
descriptors. Only the command line waits for them, and a signal ends it. Lost results are reported as failure."""
import contextlib
import fcntl
import os
import pathlib
import select
import signal
import subprocess

from atoll_harness import check, equal, main, number, program, wait_for
from launch import through

ENDLESS = 1_000_000
PIPE_BYTES = 8192


class StuckPipe:
    """A small named pipe with a reader that stalls until the test lets it read."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path, self.end = path, os.open(path, os.O_RDWR)
        fcntl.fcntl(self.end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def is_full(self):
        return not select.select([], [self.end], [], 0)[1]

    def fill(self):
        os.set_blocking(self.end, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self.end, b"x" * 255 + b"\n")
        os.set_blocking(self.end, True)

    def read_to(self, text):
        """Everything up to and including `text`."""
        said = b""
        while text.encode() not in said:
            said += os.read(self.end, 65536)
        return said.decode()

    def close(self):
        os.close(self.end)


def into(stream, path):
    """A command prefix: the shell's redirection of one of the program's streams."""
    return ["/bin/sh", "-c", f'exec "$@" {stream}>>{path}', "sh"]


def rounds_go_on(scene, worker):
    rounds = number(scene.job("job"), "round")
    scene.wait_round("job", rounds + 5, alive=[worker])


def closed(scene):
    """All three are closed for both daemons: their files have the right contents, a backup of the running job works,
    and the worker is known."""
    everything = through(closed=(0, 1, 2))
    coordinator = scene.coordinator(*scene.data, through=everything)
    worker = scene.worker("a", coordinator, *scene.data, through=everything)
    scene.submit("job", scene.manifest, steps=ENDLESS)
    scene.wait_round("job", 3, alive=[coordinator, worker])
    for process in (coordinator, worker):
        equal({os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in (0, 1, 2)}, {"/dev/null"}, f"the standard streams of {process.name}")
        equal(process.log(), "", f"what {process.name} says")
    equal(scene.path("state/LOCK").read_text(), str(coordinator.pid), "state/LOCK")
    equal(scene.path("cache-a/running").read_text(), "a\n", "cache/running")
    scene.run("atoll-coordinator", "backup", "--state", scene.path("state"), "--to", scene.path("backup"))
    said = scene.run("atoll-worker", "pause", "--cache-dir", scene.path("cache-a")).out
    check(said.startswith("worker 'a' finishes its step"), f"pause says {said!r}")
    scene.run("atoll-worker", "resume", "--cache-dir", scene.path("cache-a"))
    rounds_go_on(scene, worker)
    equal(worker.terminate(), 0, "the end of the worker")
    equal(coordinator.terminate(), 0, "the end of the coordinator")


def stuck(scene):
    """The reader of both daemons' standard error stalls: rounds continue, health is good, a worker joins, both stop
    in order. Then the reader reads."""
    pipe, workers_pipe = StuckPipe(scene.path("pipe")), StuckPipe(scene.path("workers-pipe"))
    coordinator = scene.coordinator(*scene.data, "--log-level", "debug", through=into(2, pipe.path))
    worker = scene.worker("a", coordinator, *scene.data, "--log-level", "debug", through=into(2, workers_pipe.path))
    wait_for("a full pipe of the coordinator", pipe.is_full, 60, [coordinator, worker])
    workers_pipe.fill()
    rounds_go_on(scene, worker)
    equal(coordinator.page("/healthz"), "ok\n", "/healthz")
    second = scene.worker("b", coordinator, *scene.data, through=into(2, workers_pipe.path))
    scene.wait_job("job", lambda job: number(job, "workers_training") == 2, "a second worker", alive=[worker, second])
    equal(second.terminate(), 0, "the end of a worker without a reader")
    said = pipe.read_to("worker left")  # written in order once the reader reads
    check(all(line[:2] == "20" or not line for line in said.splitlines()[:-1]), f"torn lines: {said!r}")
    pipe.fill()
    equal(worker.terminate(), 0, "the end of the other")
    equal(coordinator.terminate(), 0, "the end of a coordinator without a reader")
    for one in (pipe, workers_pipe):
        one.close()


def full(scene):
    """Standard error on a full disk: the programs run and stop as usual."""
    coordinator = scene.coordinator(*scene.data, through=into(2, "/dev/full"))
    worker = scene.worker("a", coordinator, *scene.data, through=into(2, "/dev/full"))
    rounds_go_on(scene, worker)
    equal(worker.terminate(), 0, "the end of a worker with a full disk")
    equal(coordinator.terminate(), 0, "the end of a coordinator with a full disk")


def lost_results(scene):
    """Commands whose results have no reader."""
    for name, arguments, refused in (("atoll", ("job", "schema"), 3), ("atoll", ("--help",), 3), ("atoll-coordinator", ("--help",), 74),
                                     ("atoll-coordinator", ("verify", "--state", scene.path("state")), 74), ("atoll-worker", ("--help",), 3)):
        said = [program(name), *map(str, arguments)]
        for what, prefix in (("full", into(1, "/dev/full")), ("closed", through(closed=(1,)))):
            ran = subprocess.run([*prefix, *said], env=scene.environment(), capture_output=True, text=True, timeout=60)
            equal(ran.returncode, refused, f"the end of {said} with standard output {what}")
            check("could not be written to standard output" in ran.stderr, f"{said} with standard output {what} says {ran.stderr!r}")
        reader, writer = os.pipe()
        os.close(reader)
        ran = subprocess.run([*through(), *said], env=scene.environment(), stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
        os.close(writer)
        equal((ran.returncode, ran.stderr), (-signal.SIGPIPE, ""), f"the end of {said} whose reader has gone")
        # A written result is a success, even if the messages have no reader.
        for prefix in (through(closed=(0, 2)), into(2, "/dev/full")):
            ran = subprocess.run([*prefix, *said], env=scene.environment(), stdout=subprocess.PIPE, timeout=60)
            equal(ran.returncode, 0, f"the end of {said} without standard error")


def interrupted(scene):
    """The command line waits for its reader, and a signal ends it: in a command without a call, in a call, and when
    standard error is the stuck stream."""
    scene.coordinator(*scene.data, state="calm")
    scene.submit("waits", scene.manifest)
    for stream, arguments in ((1, ("job", "schema")), (1, ("-o", "json", "job", "get", "waits")), (2, ("job", "get", "nobody"))):
        for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            pipe = StuckPipe(scene.path(f"pipe-{stream}-{arguments[1]}-{stop.name}"))
            pipe.fill()
            process = scene.start("stuck", [*into(stream, pipe.path), program("atoll"), "--endpoint", scene.endpoint, *arguments])
            wait_for(f"atoll {arguments} to wait for its reader", lambda: writes_to(process.pid, stream), 30, [process])
            process.send(stop)
            equal(process.end(30), 130, f"the end of atoll {arguments} by {stop.name}")
            pipe.close()


WRITE = {"x86_64": 1, "aarch64": 64}[os.uname().machine]


def writes_to(pid, stream):
    """True if a thread is blocked in write(2) to that descriptor."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        words = (task / "syscall").read_text().split()
        if len(words) > 2 and words[0] == str(WRITE) and int(words[1], 16) == stream:
            return True
    return False


def test(scene):
    scene.manifest, scene.data = scene.corpus(), ("--data-root", scene.path("data"))
    closed(scene)
    stuck(scene)
    full(scene)
    lost_results(scene)
    if os.geteuid() == 0:  # no other user may read /proc of the command line
        interrupted(scene)


main(test)
