# SPDX-License-Identifier: Apache-2.0
"""A worker is stopped for ten minutes, like a closed laptop: it is lost and the run continues without it. When it
continues the same process becomes a member again under a new incarnation, with the state that the coordinator has
committed meanwhile. ATOLL_PAUSE_SECONDS replaces the ten minutes for development."""
import os
import signal
import threading

from atoll_harness import check, check_balance, equal, main, number

PAUSE_SECONDS = float(os.environ.get("ATOLL_PAUSE_SECONDS", 600))
STEP_SECONDS = 0.2  # a round in two seconds
NAMES = ("a", "b", "c")


def version(scene):
    (fragment,) = scene.job("job")["fragments"]
    return number(fragment, "version")


def pause(scene, worker, others):
    """Stops the worker. Returns the number of versions that the others committed meanwhile."""
    begin = version(scene)
    worker.send(signal.SIGSTOP)
    threading.Event().wait(PAUSE_SECONDS)  # the duration is the subject of the test
    check_balance(scene.job("job"))
    equal(scene.listed_worker(worker.name)["state"], "lost", "the state of a worker that stands still")
    equal(number(scene.job("job"), "workers_alive"), len(others), "the workers that are heard")
    passed = version(scene) - begin
    worker.send(signal.SIGCONT)
    return passed


def audit(scene, coordinator, job):
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    equal(scene.verify()["damage"], [], "what verify found")
    equal(scene.replay()["counts"]["rounds equal"], number(job, "rounds_committed"), "the rounds that replay found equal")


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data"), "--synthetic-step-seconds", STEP_SECONDS) for name in NAMES]
    scene.submit("job", manifest, steps=20_000, workers={"min": 2, "max": 3, "planned": 3}, checkpoint={"keep_contributions": True})
    processes = [coordinator, *workers]
    scene.wait_job("job", lambda job: number(job, "workers_participating") == 3 and number(job, "round") >= 2, "three workers in a round", alive=processes)
    before = scene.listed_worker("c")
    passed = pause(scene, workers[2], workers[:2])
    # Two seconds each; one round waited for the lost worker, at most twenty seconds.
    check(passed >= (PAUSE_SECONDS - 30) / 2 / 4, f"{passed} rounds were committed in {PAUSE_SECONDS} s without c")
    scene.wait_job("job", lambda job: number(job, "workers_participating") == 3, "c in a round again", alive=processes)
    back = scene.listed_worker("c")
    check(number(back, "incarnation") > number(before, "incarnation"), f"c is back with incarnation {back['incarnation']}")
    here = version(scene)
    scene.wait_job("job", lambda job: number(job["fragments"][0], "version") >= here + 3, "three more rounds", alive=processes)
    newest = [e["fields"]["members"] for e in scene.logged_events("job") if e["kind"] == "round committed"][-1]
    equal(newest, "a, b and c", "who is in the newest round")
    print(f"{passed} rounds without c, which was back at version {here}")
    scene.atoll("job", "cancel", "job", "--drain")
    job = scene.wait_job("job", lambda job: job["state"] == "JOB_STATE_CANCELLED", "the end")
    check_balance(job)
    equal(number(job["ledger"], "leased"), 0, "leased samples of an ended job")
    audit(scene, coordinator, job)


main(test)
