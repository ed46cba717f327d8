# SPDX-License-Identifier: Apache-2.0
"""F23: memory limits enforced by the kernel (a memory control group of version 1 or 2).
- A worker with a group too small for its job refuses the job with the figures, and trains nothing.
- A worker whose group is filled in mid-run by another process is killed, like by kill -9; the run continues, and
  outside the group the worker returns.
- A coordinator with a group of its published size (docs/capacity.md, "Memory") is never killed while workers come, go
  and join, and endless messages are sent to its ports; it refuses a job that exceeds its group.

Needs a memory controller in which this user may create groups."""
import os
import pathlib
import re
import signal
import sys

from atoll_harness import ALLOWANCE, COORDINATOR_BASE_MB, Skip, check, equal, main, number, wait_for
from http2_by_hand import giant_message

MODEL = {"hidden_size": 512, "intermediate_size": 1024, "layers": 6, "heads": 8}  # 11 million parameters: about 40 MB an arena
TOO_SMALL = 0.5  # of a worker's memory
MIB = 1 << 20
# Takes memory until the kernel kills a process of the group.
BALLAST = """
import pathlib, re, sys
kills, held = pathlib.Path(sys.argv[1]), []
while not int(re.search(r"oom_kill (\\d+)", kills.read_text()).group(1)):
    held.append(bytes(range(256)) * (1 << 15))
"""


class MemoryGroup:
    """A group below the group of this test. Skips the test if none can be created."""

    def __init__(self, name):
        self.directory = self.place() / f"atoll-{os.getpid()}-{name}"
        try:
            self.directory.mkdir()
        except OSError as why:
            raise Skip(f"no memory control group can be made here: {why}") from None

    def place(self):
        """The place where groups with the memory controller may be created, in either version."""
        mine = {line.split(":")[1]: line.split(":")[2] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()}
        for _, where, kind, options, *_ in map(str.split, pathlib.Path("/proc/mounts").read_text().splitlines()):
            if kind == "cgroup" and "memory" in options.split(",") and "memory" in mine:
                self.limit_file, self.swap_file, self.kills_file = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"
                return pathlib.Path(where + mine["memory"])
            controllers = pathlib.Path(where, "cgroup.subtree_control")
            if kind == "cgroup2" and controllers.exists() and "memory" in controllers.read_text().split():
                self.limit_file, self.swap_file, self.kills_file = "memory.max", "memory.swap.max", "memory.events"
                return pathlib.Path(where)  # except for the root, a group with processes has no groups with controllers below it
        raise Skip("no memory controller is mounted for control groups here")

    def limit(self, size_bytes):
        (self.directory / self.limit_file).write_text(str(size_bytes))
        swap = self.directory / self.swap_file
        if swap.exists():  # version 1 counts both together
            swap.write_text("0" if self.swap_file == "memory.swap.max" else str(size_bytes))

    def anonymous_bytes(self):
        """Private memory of its processes: file pages may be charged to the process that touched them first."""
        text = (self.directory / "memory.stat").read_text()
        return int(re.search(r"^(?:total_rss|anon) (\d+)$", text, re.MULTILINE).group(1))

    def through(self, first_to_die=False):
        """Starts a command inside the group."""
        score = "echo 1000 > /proc/self/oom_score_adj && " if first_to_die else ""
        return ["/bin/sh", "-c", f'{score}echo $$ > "{self.directory}/cgroup.procs" && exec "$@"', "sh"]

    def kills(self):
        return int(re.search(r"oom_kill (\d+)", (self.directory / self.kills_file).read_text()).group(1))

    def run_full(self, scene):
        """Fills the rest of the group from within, until the kernel kills one of its processes."""
        filled = scene.start("ballast", [*self.through(), sys.executable, "-c", BALLAST, self.directory / self.kills_file])
        check(filled.end() in (0, -signal.SIGKILL), "what fills the group did not end by itself, nor by the kernel")

    def remove(self):
        wait_for("the end of the group's processes", lambda: not (self.directory / "cgroup.procs").read_text().strip(), 30)
        self.directory.rmdir()


def a_small_group_kills(scene, coordinator, manifest):
    data = ("--data-root", scene.path("data"))
    group = MemoryGroup("worker")
    try:
        first = scene.worker("a", coordinator, *data)
        second = scene.worker("b", coordinator, *data, through=group.through(first_to_die=True))
        scene.submit("job", manifest, steps=1_000_000, inner_steps=1, model=MODEL)
        scene.wait_job("job", lambda job: number(job, "workers_participating") == 2, "both in a round", alive=[coordinator, first, second])
        enough_mb = group.anonymous_bytes() / MIB
        equal(group.kills(), 0, "kills in a group without a limit")
        group.limit(int(enough_mb * 2 * MIB))
        group.run_full(scene)
        equal(second.end(), -signal.SIGKILL, "the end of a worker in a group that has run full")
        kills = group.kills()
        check(kills >= 1, "it was killed by somebody else than the group")
        rounds = number(scene.job("job"), "round")
        scene.wait_round("job", rounds + 3, alive=[coordinator, first])

        group.limit(int(enough_mb * TOO_SMALL * MIB))
        refusing = scene.worker("b", coordinator, *data, through=group.through())
        wait_for("the refusal of the job by a worker in a group that is too small", lambda: "does not fit" in refusing.log(), alive=[coordinator, first, refusing])
        scene.wait_round("job", number(scene.job("job"), "round") + 2, alive=[coordinator, first, refusing])
        equal(group.kills(), kills, "processes that the kernel has killed, once the worker looks at its group")
        equal(refusing.terminate(), 0, "the end of a worker that has no room for its job")

        again = scene.worker("b", coordinator, *data)
        scene.wait_job("job", lambda job: number(job, "workers_participating") == 2, "b in a round again", alive=[coordinator, first, again])
        print(f"a worker of {enough_mb:.0f} MB was killed in a group that ran full, refused the job in a group of {enough_mb * TOO_SMALL:.0f} MB, and came back "
              "outside; the run went on")
        scene.atoll("job", "cancel", "job")
        for worker in (first, again):
            equal(worker.terminate(), 0, f"the end of {worker.name}")
    finally:
        for process in scene.processes:
            if process is not coordinator:
                process.kill()
        group.remove()


def bound_of_all(jobs_mb):
    """The bound of a coordinator in a group of this size and ALLOWANCE: the transport of each of the two ports may
    hold an eighth of the group, 64 to 256 MiB."""
    bound_mb = COORDINATOR_BASE_MB + jobs_mb
    for _ in range(50):
        bound_mb = COORDINATOR_BASE_MB + jobs_mb + 2 * min(256, max(64, bound_mb * ALLOWANCE / 8))
    return bound_mb


def a_published_size_is_enough(scene, manifest):
    """The coordinator in a group of its bound plus 15 %: all its memory counts, including file pages that cannot be
    reclaimed."""
    data = ("--data-root", scene.path("data"))
    group = MemoryGroup("coordinator")
    try:
        def start(name):
            return scene.coordinator(*data, "--membership-timeout", "5s", "--heartbeat-interval", "300ms", name=name, state="bounded", through=group.through())
        asked = start("asked")
        scene.submit("bounded", manifest, steps=1_000_000, inner_steps=1, model=MODEL, workers={"min": 1, "max": 4, "planned": 4})
        bound_mb = bound_of_all(number(scene.job("bounded"), "coordinator_memory_bytes") / MIB)
        equal(asked.terminate(), 0, "the end of the coordinator that was asked")
        group.limit(int(bound_mb * ALLOWANCE * MIB))
        coordinator = start("bounded")
        refused = scene.atoll("job", "submit", scene.job_file("larger", manifest, steps=10, inner_steps=1, model=MODEL, workers={"min": 1, "max": 64}), code=3)
        check("memory" in refused.err, f"the refusal of a job that the group has no room for says: {refused.err}")
        workers = [scene.worker(name, coordinator, *data) for name in ("a", "b")]
        scene.wait_job("bounded", lambda job: number(job, "workers_participating") == 2, "two in a round", seconds=180, alive=[coordinator, *workers])
        workers.append(scene.worker("c", coordinator, *data))
        scene.wait_job("bounded", lambda job: number(job, "workers_participating") == 3, "a joiner in a round", seconds=180, alive=[coordinator, *workers])
        workers[0].kill()
        sent = {port: giant_message(coordinator.ports[port], int(2 * bound_mb)) for port in ("control", "bulk")}
        for port, taken in sent.items():
            check(taken < bound_mb, f"{taken} MiB of a message without an end were taken at the {port} port, more than the whole bound")
        rounds = number(scene.job("bounded"), "round")
        scene.wait_round("bounded", rounds + 5, seconds=180, alive=[coordinator, *workers[1:]])
        equal(group.kills(), 0, "kills in the coordinator's group")
        print(f"a coordinator in a group of {bound_mb * ALLOWANCE:.0f} MB (bound {bound_mb:.0f} MB): {coordinator.peak_mb():.0f} MB resident at most, never killed, "
              f"with {sent} MiB of messages without an end")
        scene.atoll("job", "cancel", "bounded")
        for worker in workers[1:]:
            equal(worker.terminate(), 0, f"the end of {worker.name}")
        equal(coordinator.terminate(), 0, "the end of the coordinator")
        equal(scene.verify("bounded")["damage"], [], "what verify finds")
    finally:
        for process in scene.processes:
            process.kill()
        group.remove()


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"), "--membership-timeout", "5s", "--heartbeat-interval", "300ms")
    a_small_group_kills(scene, coordinator, manifest)
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    equal(scene.verify()["damage"], [], "what verify finds")
    a_published_size_is_enough(scene, manifest)


main(test)
