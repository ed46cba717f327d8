# SPDX-License-Identifier: Apache-2.0
"""Several jobs on one fleet of real workers: how workers are assigned by priority, minimum and maximum, how a job
without enough workers reports it, and how workers move when a job ends. A worker is cordoned, evicted and readmitted
meanwhile. Each job uses another merge rule, one has a balanced pace, and recomputed rounds of all jobs give the same
bits."""
from atoll_harness import check, equal, main, number, wait_for

LONG, INNER_STEPS = 60_000, 50  # more than this test waits for, and few enough rounds that all contributions can be kept
NAMES = ("a", "b", "c")


def where(scene):
    """The assigned job of every worker."""
    workers = scene.atoll("-o", "json", "worker", "list").json()["workers"]
    return {w["name"].removeprefix("workers/"): w.get("job", "").removeprefix("jobs/") for w in workers}


def jobs_of(scene):
    return sorted(where(scene).values())


def cancelled(job):
    return job["state"] == "JOB_STATE_CANCELLED"


def trains(count):
    return lambda job: number(job, "workers_training") == count


def by_priority(scene, manifest, workers):
    """The lower job keeps its minimum, the higher one gets at most its maximum, and a third job reports the workers
    that it lacks."""
    scene.submit("low", manifest, steps=LONG, inner_steps=INNER_STEPS, workers={"min": 1, "max": 3}, sync={"merge": "median", "pace": "balanced"},
                 checkpoint={"keep_contributions": True})
    scene.wait_job("low", trains(3), "three workers", alive=workers)
    scene.submit("high", manifest, steps=LONG, inner_steps=INNER_STEPS, priority=10, workers={"min": 2, "max": 2}, sync={"merge": "trimmed_mean"},
                 checkpoint={"keep_contributions": True})
    scene.wait_job("high", trains(2), "two workers of the lower job", alive=workers)
    scene.wait_job("low", trains(1), "the one that is left", alive=workers)
    equal(jobs_of(scene), ["high", "high", "low"], "the jobs of the workers")
    scene.submit("third", manifest, steps=LONG, inner_steps=INNER_STEPS, priority=-5, workers={"min": 2, "max": 3}, sync={"merge": "centered_clip"},
                 checkpoint={"keep_contributions": True})
    lacks = scene.wait_job("third", lambda job: "of 2 workers needed" in job.get("reason", ""), "a line of what it lacks", alive=workers)
    check("at work for high, low; start 2 more workers" in lacks["reason"], f"the third job says {lacks['reason']!r}")
    for job in ("low", "high"):
        scene.wait_round(job, number(scene.job(job), "round") + 3, alive=workers)
    equal(jobs_of(scene), ["high", "high", "low"], "the jobs of the workers some rounds later")


def cordoned(scene, workers):
    """A cordoned worker keeps its job, and is skipped when workers become free; after its readmission it gets the
    next job."""
    held = next(name for name, job in where(scene).items() if job == "high")
    scene.atoll("worker", "cordon", held)
    scene.atoll("job", "update", "high", "--set", "workers.max=3")
    scene.wait_job("high", trains(2), "still two, since the lower job keeps its minimum", alive=workers)
    equal(where(scene)[held], "high", "the job of a cordoned worker")
    scene.atoll("job", "pause", "high")
    scene.wait_job("low", trains(2), "the one that is not cordoned", alive=workers)
    equal(where(scene)[held], "", "the job of a cordoned worker whose job is paused")
    check(f"{held}: cordoned, so it gets no other job" in scene.atoll("worker", "list").out, "nobody is told that it is cordoned")
    scene.atoll("worker", "readmit", held)
    scene.wait_job("low", trains(3), "all three", alive=workers)
    scene.atoll("job", "resume", "high")
    scene.wait_job("high", trains(2), "its workers again", alive=workers)


def evicted(scene, workers):
    """Its unfinished work is leased again, and the job continues without it; after its readmission it has another
    incarnation."""
    gone = next(name for name, job in where(scene).items() if job == "high")
    incarnation = number(scene.listed_worker(gone), "incarnation")
    scene.atoll("worker", "evict", gone)
    wait_for("the eviction", lambda: scene.listed_worker(gone)["state"] == "quarantined", alive=workers)
    wait_for("its own word", lambda: f"worker {gone} is quarantined, since an operator evicted it" in workers[NAMES.index(gone)].log(), alive=workers)
    refused = scene.atoll("worker", "evict", gone, code=3)
    check("readmit" in refused.err, f"a second eviction was refused with {refused.err!r}")
    scene.atoll("worker", "readmit", gone)
    scene.wait_job("high", trains(2), "two workers again", alive=workers)
    wait_for("the worker that is back", lambda: where(scene).get(gone), alive=workers)
    check(number(scene.listed_worker(gone), "incarnation") > incarnation, "the incarnation of before came back")


def ends(scene, workers):
    """A free worker goes first to the job below its minimum, then to the job of higher priority."""
    scene.atoll("job", "cancel", "--drain", "high")
    scene.wait_job("high", cancelled, "the end", alive=workers)
    scene.wait_job("third", trains(2), "the two that are free", alive=workers)
    equal(jobs_of(scene), ["low", "third", "third"], "the jobs of the workers")
    scene.wait_round("third", 3, alive=workers)
    scene.atoll("job", "cancel", "--drain", "third")
    scene.wait_job("third", cancelled, "the end", alive=workers)
    scene.wait_job("low", trains(3), "all workers", alive=workers)
    scene.atoll("job", "cancel", "--drain", "low")
    scene.wait_job("low", cancelled, "the end", alive=workers)


def test(scene):
    manifest = scene.corpus()
    data = ("--data-root", scene.path("data"))
    coordinator = scene.coordinator(*data)
    workers = [scene.worker(name, coordinator, *data) for name in NAMES]
    by_priority(scene, manifest, workers)
    cordoned(scene, workers)
    evicted(scene, workers)
    ends(scene, workers)
    for worker in workers:
        equal(worker.terminate(), 0, f"the exit status of {worker.name}")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    equal(scene.verify()["damage"], [], "what verify finds")
    counts = scene.replay()["counts"]
    equal(counts["rounds equal"], counts["rounds in the ledger"], "rounds that replay gave again")
    print(f"{counts['rounds equal']} rounds of three jobs, all the same to the bit")


main(test)
