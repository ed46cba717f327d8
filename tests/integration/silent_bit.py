# SPDX-License-Identifier: Apache-2.0
"""F26: bits flip silently in a real worker's memory, set from outside through /proc/PID/mem. In its outer copy: the
next update's content hash reveals it, and the worker fetches the whole fragment. In its trained parameters, one of
which becomes as large as floats get: either its loss shows it and the worker ends with the cause, or its contribution
is refused although there are only three workers, and it stays excluded until it is readmitted. The others continue
with correct parameters, and so does this worker afterwards."""
import math
import os
import pathlib
import re
import struct

from atoll_harness import Skip, check, equal, main, number, wait_for

TOLD = 64  # parameters
STEP = 4  # allocators align floats to 16 bytes
UP_PROJ = range(15424, 17472 - TOLD, STEP)  # of small_job, in the order in which the model uses them
HEADER = 4096  # of a snapshot
EXPONENT_BIT = 30  # of a float below 2: it becomes as large as floats get
SMALL_BIT = 3
NON_FINITE = 7  # the exit status
SANE = 1e6


class Memory:
    """The memory of a process that this test may read."""

    def __init__(self, pid):
        self.pid = pid
        try:
            self.file = open(f"/proc/{pid}/mem", "r+b", buffering=0)
        except PermissionError:
            raise Skip("this system lets nobody look into the memory of another process") from None

    def writable(self):
        for line in pathlib.Path(f"/proc/{self.pid}/maps").read_text().splitlines():
            begin, end, rights = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
            if rights.startswith("rw"):
                yield int(begin, 16), int(end, 16)

    def find(self, wanted):
        """Addresses of floats close to `wanted`; the first float is far from 0."""
        for begin, end in self.writable():
            try:
                floats = memoryview(os.pread(self.file.fileno(), end - begin, begin)).cast("f")
            except OSError:  # not backed by memory
                continue
            first = floats[::STEP].tolist()
            for at in (i * STEP for i, value in enumerate(first) if abs(value - wanted[0]) < 0.2 * abs(wanted[0])):
                if alike(floats[at:at + len(wanted)].tolist(), wanted):
                    yield begin + 4 * at

    def read(self, address, size):
        return os.pread(self.file.fileno(), size, address)

    def flip(self, address, bit):
        """Flips a bit of the float at the address. Returns the old and the new value."""
        bits, = struct.unpack("<I", self.read(address, 4))
        os.pwrite(self.file.fileno(), struct.pack("<I", bits ^ 1 << bit), address)
        return tuple(struct.unpack("<f", struct.pack("<I", b))[0] for b in (bits, bits ^ 1 << bit))

    def enlarge(self, address):
        """Makes the float large, unless it is large already."""
        was, = struct.unpack("<f", self.read(address, 4))
        if abs(was) < 2:
            print("in what it trains: %r became %r" % self.flip(address, EXPONENT_BIT))


def alike(have, wanted):
    norms = sum(x * x for x in have) * sum(x * x for x in wanted)
    return len(have) == len(wanted) and 0 < norms < math.inf and sum(x * y for x, y in zip(have, wanted)) > 0.95 * norms ** 0.5


def published(scene):
    """The parameters of the newest snapshot."""
    snapshot = max(scene.path("state").glob("jobs/job/snapshots/*/*/v*.snap"))
    whole = snapshot.read_bytes()[HEADER:]
    return memoryview(whole)[:len(whole) // 3 // 4 * 4].cast("f").tolist()


def told_of(parameters):
    at = max(UP_PROJ, key=lambda i: abs(parameters[i]))
    return parameters[at:at + TOLD]


def two_or_more(places):
    found = list(places)
    return found if len(found) >= 2 else None


def by_changes(memory, places, reads, enough, alive):
    """The copies, most frequently changing first. `reads`: reads of each copy between two calls of `enough`, which
    gets the numbers of changes, largest first. Memory that is reused for other data held no copy."""
    changes, before = {place: 0 for place in places}, {}
    floats = lambda held: memoryview(held).cast("f").tolist()  # noqa: E731
    def look():
        for _ in range(reads):
            for place in list(changes):
                now = memory.read(place, 4 * TOLD)
                last = before.setdefault(place, now)
                before[place] = now
                if last == now:
                    continue
                if alike(floats(now), floats(last)):
                    changes[place] += 1
                else:
                    del changes[place]
        return enough(sorted(changes.values(), reverse=True))
    wait_for("the changes that tell copies apart", look, 60, alive)
    print("changes:", {hex(place): n for place, n in changes.items()})
    return sorted(changes, key=lambda place: -changes[place])


def in_rounds(scene, workers, alive):
    """More rounds, with this number of workers."""
    rounds = number(scene.job("job"), "round")
    scene.wait_job("job", lambda job: number(job, "round") >= rounds + 10 and number(job, "workers_participating") == workers,
                   f"ten rounds more with {workers} workers", alive=alive)
    largest = max(abs(value) for value in published(scene))
    check(largest < SANE, f"a parameter of {largest} is published")


def begin(scene):
    """A coordinator and three workers in one round. Parameters change so slowly that copies of them can be
    recognised."""
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data")) for name in ("hurt", "a", "b")]
    scene.submit("job", manifest, steps=1_000_000, inner_steps=100, workers={"min": 2, "max": 3, "planned": 3}, sync={"fragments": "whole"},
                 inner_optimizer={"learning_rate": 1e-6, "schedule": {"kind": "constant"}}, checkpoint={"every_rounds": 5, "keep_contributions": True})
    scene.wait_job("job", lambda job: number(job, "workers_participating") == 3 and number(job, "round") >= 6, "all in a round",
                   alive=[coordinator, *workers])
    return coordinator, workers


def test(scene):
    coordinator, workers = begin(scene)
    alive = [coordinator, *workers]
    hurt = workers[0]
    memory = Memory(hurt.pid)
    places = wait_for("its copies of the parameters", lambda: two_or_more(memory.find(told_of(published(scene)))), 60, alive)
    # The trained copy changes with each step, the outer copy with each round.
    trained, outer, *_ = by_changes(memory, places, 5000, lambda order: len(order) > 1 and order[0] >= 3 * order[1] >= 9, alive)

    print("in the outer copy: %r became %r" % memory.flip(outer, SMALL_BIT))
    wait_for("the deviation", lambda: "replica deviates" in hurt.log(), 30, alive)
    in_rounds(scene, 3, alive)

    def stopped():
        if hurt.popen.poll() is not None:
            equal(hurt.popen.returncode, NON_FINITE, "the exit status")
            return hurt.log().splitlines()[-1]
        if (seen := scene.listed_worker("hurt"))["state"] == "quarantined":
            return seen["waiting_for"]
        memory.enlarge(trained)  # again, if an update has just overwritten it
        return None

    why = wait_for("its end or quarantine", stopped, 60, [coordinator, *workers[1:]])
    print("told:", why)
    in_rounds(scene, 2, [coordinator, *workers[1:]])
    if hurt.popen.poll() is None:
        check("times the median of the fragment; look at its machine, then 'atoll worker readmit hurt'" in why, f"it waits for {why!r}")
        scene.atoll("worker", "readmit", "hurt")
    else:
        check("finite" in why, f"it ended with {why!r}")
        scene.worker("hurt", coordinator, "--data-root", scene.path("data"))
    in_rounds(scene, 3, [coordinator, *workers[1:]])
    scene.atoll("job", "cancel", "job")
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    scene.verify()
    scene.replay()


if __name__ == "__main__":  # faulty_coordinator.py uses the functions above
    main(test)
