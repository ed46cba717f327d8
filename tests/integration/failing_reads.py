# SPDX-License-Identifier: Apache-2.0
"""F18: reads of a real coordinator's disk fail with EIO (failing_reads.cc). If a contribution cannot be read back,
its job pauses with the reason and another job continues. If data for a joining worker cannot be read, the worker
retries until it can, and other workers are not affected. Each read of a start fails in turn: the start ends with a
message that names the file, or succeeds and reports what it could not read. It changes nothing, and the next start
finds everything."""
from atoll_harness import check, equal, main, number, wait_for
from preload import SharedPage, refuse_without

LIBRARY = "libfailing_reads.so"
ENDLESS = 1_000_000
TEXT_BYTES = 224
MANY = 1 << 62
STARTS = 60  # at most, spread over all reads of a start
REASON = "Input/output error"


class Disk(SharedPage):
    """The disk of a process that is started with `environment`."""

    def __init__(self, scene):
        super().__init__(scene.path("failing-reads"), LIBRARY, "FAILING_READS_FILE", bytes(32 + TEXT_BYTES))

    def fail(self, text, after=0, times=MANY):
        """For files with `text` in their path: `after` reads succeed, then `times` fail."""
        self._write(0, 0, 0, 0, text)
        self._write(after, times, 0, 0, text)

    def mend(self):
        self._write(0, 0, 0, 0, "")

    def _write(self, *numbers_and_text):
        *numbers, text = numbers_and_text
        self.write(f"<QQQQ{TEXT_BYTES}s", *numbers, text.encode())

    def passed(self):
        return self.read("<Q", 16)[0]

    def failed(self):
        return self.read("<Q", 24)[0]


def submit(scene, name, most):
    scene.submit(name, scene.path("data") / "text" / "manifest.json", steps=100_000, inner_steps=20, workers={"min": 1, "max": most, "planned": 1},
                 checkpoint={"every_rounds": 10, "keep_contributions": True})


def pause_for_what_is_not_read(scene, disk, coordinator, workers):
    """The job with the unreadable contribution waits for an operator; with the disk intact again it continues."""
    disk.fail("/jobs/hurt/rounds/")
    job = scene.wait_job("hurt", lambda job: job["state"] == "JOB_STATE_PAUSED", "the pause", alive=[coordinator, *workers])
    check(REASON in job["reason"] and "/jobs/hurt/rounds/" in job["reason"], f"the reason is {job['reason']!r}")
    print("paused:", job["reason"])
    other = number(scene.job("other"), "round")
    scene.wait_round("other", other + 3, alive=[coordinator, *workers])
    disk.mend()
    scene.atoll("job", "resume", "hurt")
    scene.wait_round("hurt", number(job, "round") + 3, alive=[coordinator, *workers])


def join_over_a_disk_that_fails(scene, disk, coordinator, workers):
    disk.fail("/jobs/hurt/snapshots/")
    joiner = scene.worker("joiner", coordinator, "--data-root", scene.path("data"))
    wait_for("downloads of the joiner to fail", lambda: disk.failed() >= 3, 60, [coordinator, *workers, joiner])
    check(number(scene.job("hurt"), "round") > 0, "it is gone")
    disk.mend()
    scene.wait_job("hurt", lambda job: number(job, "workers_participating") == 2, "the joiner in a round", alive=[coordinator, *workers, joiner])
    return joiner


def told(scene):
    return {name: (job["state"], job["round"], job["ledger"], [(f["version"], f["content_hash"]) for f in job["fragments"]])
            for name in ("hurt", "other") for job in [scene.job(name)]}


def start_with(scene, disk, coordinator, after):
    """A start in which the read after the first `after` fails. Returns whether the start reached that read before it
    was ready."""
    disk.fail(f"{scene.path('state').resolve()}/", after=after, times=1)
    started = scene.launch_coordinator("--data-root", scene.path("data"), ports=coordinator.ports, **disk.environment)
    wait_for("a start or its end", lambda: started.ports_file.exists() or started.popen.poll() is not None, 60)
    reached = disk.failed() == 1
    if started.popen.poll() is None:
        said = started.log() + " ".join(scene.job(name).get("reason", "") for name in ("hurt", "other"))
        equal(started.terminate(), 0, "the end of a coordinator that started")
    else:
        said = started.log().splitlines()[-1]
        equal(started.popen.returncode, 1, f"the exit status after {said!r}")
        check("the disk reports errors" in said, f"without read {after} of the start it says {said!r}")
    check(not reached or (REASON in said and "/state/" in said), f"without read {after} of the start it says {said!r}")
    check("from a copy" not in said and "from a backup" not in said, f"a read that failed is told as damage: {said!r}")
    return reached


def starts_with_a_failed_read(scene, disk, coordinator):
    """On a state without running jobs."""
    for name in ("hurt", "other"):
        scene.atoll("job", "pause", name)
        scene.wait_job(name, lambda job: job["state"] == "JOB_STATE_PAUSED", "the pause", alive=[coordinator])
    before = told(scene)
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    disk.fail(f"{scene.path('state').resolve()}/", after=MANY)
    whole = scene.coordinator("--data-root", scene.path("data"), ports=coordinator.ports, **disk.environment)
    reads = disk.passed()
    equal(whole.terminate(), 0, "a start with all reads")
    tried = range(0, reads, max(1, reads // STARTS))
    reached = sum(start_with(scene, disk, coordinator, n) for n in tried)
    check(reached >= 0.9 * len(tried), f"{reached} of {len(tried)} starts came to the read that was to fail")
    disk.mend()
    scene.coordinator("--data-root", scene.path("data"), ports=coordinator.ports, **disk.environment)
    equal(told(scene), before, "the jobs after starts with reads that failed")
    print(f"{reached} of the {reads} reads of a start failed, one at a time: said each time, nothing changed")


def test(scene):
    refuse_without(LIBRARY)
    scene.corpus()
    disk = Disk(scene)
    coordinator = scene.coordinator("--data-root", scene.path("data"), **disk.environment)
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data")) for name in ("a", "b")]
    submit(scene, "other", 1)  # first: each job gets one worker, however early both workers join
    submit(scene, "hurt", 2)
    for name in ("hurt", "other"):
        scene.wait_round(name, 3, alive=[coordinator, *workers])
    pause_for_what_is_not_read(scene, disk, coordinator, workers)
    for worker in [*workers, join_over_a_disk_that_fails(scene, disk, coordinator, workers)]:
        equal(worker.terminate(), 0, f"the end of {worker.name}")
    starts_with_a_failed_read(scene, disk, coordinator)


main(test)
