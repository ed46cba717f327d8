# SPDX-License-Identifier: Apache-2.0
"""A real coordinator on a slow disk: each flush takes up to 0.3 s longer, each write up to 2 ms (slow_disk.cc). Two
workers continue: acknowledgements and commits are late, no worker is lost. The coordinator is killed meanwhile; after
its restart everything reported exists, and all rounds can be recomputed to the bit. A hanging flush is reported while
it hangs and when it ends, and heartbeats of both workers are received meanwhile."""
import time

from atoll_harness import check, equal, main, number, wait_for
from preload import SharedPage, refuse_without

LIBRARY = "libslow_disk.so"
SEED = 1
FLUSH_SECONDS, WRITE_SECONDS = 0.3, 0.002  # at most; half of it on average
HUNG_SECONDS = 25  # at most, of a hanging flush
MEMBERSHIP_SECONDS, HEARTBEAT_SECONDS = 10, 0.5
LATEST_SECONDS = MEMBERSHIP_SECONDS / 4  # between heartbeats; later ones are reported
ROUNDS = 4
WORKERS = ("a", "b")


class SlowDisk(SharedPage):
    """The disk, below `directory`, of processes started with `environment`. Has its normal speed until it is slowed."""

    def __init__(self, scene, directory):
        directory.mkdir(parents=True)
        super().__init__(scene.path("slow-disk"), LIBRARY, "SLOW_DISK_FILE", bytes(32))
        self.environment |= {"SLOW_DISK_BELOW": str(directory.resolve()), "SLOW_DISK_SEED": str(SEED)}

    def slow(self, flush_seconds, write_seconds):
        self.write("<QQ", int(flush_seconds * 1e9), int(write_seconds * 1e9))

    def delayed(self):
        """The number of delayed calls, and their total delay in seconds."""
        _, _, calls, ns = self.read("<QQQQ")
        return calls, ns / 1e9


def values(coordinator, name):
    """The samples of a metric, by the text between its name and the value."""
    lines = [line[len(name):].rsplit(" ", 1) for line in coordinator.page("/metrics").splitlines() if line.startswith(name)]
    return {labels: float(value) for labels, value in lines}


def commit_seconds(coordinator):
    """The total duration and the number of all commits so far."""
    return [sum(values(coordinator, f"atoll_ledger_commit_duration_seconds_{part}").values()) for part in ("sum", "count")]


def heartbeats(coordinator, late=False):
    """The number of gaps between heartbeats; `late`: only gaps above LATEST_SECONDS."""
    buckets = values(coordinator, "atoll_heartbeat_gap_seconds_bucket").items()
    count = lambda bound: sum(n for labels, n in buckets if f'le="{bound}"' in labels)
    return count("+Inf") - (count(f"{LATEST_SECONDS:g}") if late else 0)


def seconds_under_way(coordinator):
    """The age of the oldest running flush; 0 if there is none."""
    return sum(values(coordinator, "atoll_flush_under_way_seconds").values())


class BesideAFlush:
    """True once two heartbeats of every worker were counted while one and the same flush was running. One of the two
    may have been in flight before."""

    def __init__(self, coordinator):
        self.coordinator, self.looks = coordinator, []

    def __call__(self):
        at, counts = time.monotonic(), values(self.coordinator, "atoll_heartbeat_gap_seconds_count")
        seconds = seconds_under_way(self.coordinator)
        began = time.monotonic() - seconds  # or earlier
        self.looks.append((at, counts))
        first = next((then for looked, then in self.looks if looked >= began), counts)
        return seconds > 0 and len(first) == len(counts) == len(WORKERS) and all(counts[worker] >= then + 2 for worker, then in first.items())


def told(job):
    """Version and hash of each fragment."""
    return [(number(fragment, "version"), fragment["content_hash"]) for fragment in job["fragments"]]


def test(scene):
    refuse_without(LIBRARY)
    manifest = scene.corpus()
    disk = SlowDisk(scene, scene.path("state"))
    options = ("--data-root", scene.path("data"), "--membership-timeout", f"{MEMBERSHIP_SECONDS}s", "--heartbeat-interval", f"{HEARTBEAT_SECONDS * 1000:.0f}ms")
    coordinator = scene.coordinator(*options, **disk.environment)
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data")) for name in WORKERS]
    scene.submit("job", manifest, steps=10_000, workers={"min": 2, "max": 2, "planned": 2}, checkpoint={"keep_contributions": True})
    begun = number(scene.wait_round("job", ROUNDS, alive=[coordinator, *workers]), "round")
    equal(disk.delayed(), (0, 0), "what was delayed of a fast disk")
    fast_seconds, fast_commits = commit_seconds(coordinator)

    disk.slow(FLUSH_SECONDS, WRITE_SECONDS)
    slowed = number(scene.wait_round("job", begun + ROUNDS, alive=[coordinator, *workers]), "round")
    wait_for("heartbeats over the slow disk's time", lambda: heartbeats(coordinator) >= 20, alive=[coordinator, *workers])
    slow_seconds, slow_commits = (now - before for now, before in zip(commit_seconds(coordinator), (fast_seconds, fast_commits)))
    mean_fast, mean_slow = fast_seconds / fast_commits, slow_seconds / slow_commits
    print(f"{heartbeats(coordinator):.0f} heartbeats, {heartbeats(coordinator, late=True):.0f} of them more than {LATEST_SECONDS} s after the one before")
    check(mean_slow >= FLUSH_SECONDS / 4, f"a commit took {mean_slow:.3f} s on the slow disk: nothing is shown")

    before = told(scene.job("job"))
    coordinator.kill()
    coordinator = scene.coordinator(*options, ports=coordinator.ports, **disk.environment)
    after = told(scene.job("job"))
    for (version, digest), (version_now, digest_now) in zip(before, after, strict=True):
        check(version_now > version or (version_now, digest_now) == (version, digest), f"{before} was told, {after} is there after the kill")
    scene.wait_round("job", slowed + ROUNDS, alive=[coordinator, *workers])
    disk.slow(HUNG_SECONDS, 0)
    wait_for("the word of a flush that hangs", lambda: "flush takes long" in coordinator.log(), 120, [coordinator, *workers])
    # That flush may have ended by now; the next one hangs too.
    wait_for("a flush that is under way, by the metric", lambda: seconds_under_way(coordinator) > 0, 60, [coordinator, *workers])
    wait_for("heartbeats beside a flush that hangs", BesideAFlush(coordinator), 120, [coordinator, *workers])
    equal(coordinator.page("/healthz"), "ok\n", "/healthz while a flush hangs")
    disk.slow(0, 0)
    wait_for("the word that it ended", lambda: "flush ended" in coordinator.log(), HUNG_SECONDS + 30, [coordinator, *workers])
    # Other flushes that had begun by then hang as long; an answer that must be durable waits for them.
    wait_for("no flush to be under way", lambda: seconds_under_way(coordinator) == 0, HUNG_SECONDS + 30, [coordinator, *workers])
    scene.atoll("job", "cancel", "job", "--drain")
    job = scene.wait_job("job", lambda job: "end_time" in job, "the end in order", alive=[coordinator])
    equal(job["state"], "JOB_STATE_CANCELLED", "how the job ended")
    equal({e["kind"] for e in scene.logged_events("job")} & {"worker lost", "left out", "worker left"}, set(), "what befell the workers")
    calls, seconds = disk.delayed()
    for worker in workers:
        equal(worker.terminate(), 0, f"the end of {worker.name}")
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    equal(scene.verify()["damage"], [], "what verify finds")
    equal(scene.replay()["counts"]["rounds equal"], number(job, "rounds_committed"), "the rounds that replay gives again")
    print(f"{calls} calls delayed by {seconds:.1f} s in all; a commit took {mean_fast * 1000:.0f} ms, and {mean_slow * 1000:.0f} ms on the slow disk; "
          f"{number(job, 'rounds_committed')} rounds, all equal")


main(test)
