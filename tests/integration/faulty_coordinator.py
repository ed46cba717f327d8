# SPDX-License-Identifier: Apache-2.0
"""F26: a bit of the coordinator's own parameters flips silently, set from outside through /proc/PID/mem. All workers
compute other bits than the published ones: the job stops with that error, and continues from an earlier checkpoint
with correct parameters."""
from atoll_harness import check, main, wait_for
from silent_bit import EXPONENT_BIT, TOLD, Memory, begin, by_changes, in_rounds, published, told_of


def stands_out(order):
    first, *others = order
    return first >= 10 and all(first >= 1.4 * other for other in others)


def test(scene):
    coordinator, workers = begin(scene)
    alive = [coordinator, *workers]
    memory = Memory(coordinator.pid)
    places = wait_for("its copies of the parameters", lambda: list(memory.find(told_of(published(scene)))), 60, alive)
    place, *_ = by_changes(memory, places, 1, stands_out, alive)  # changes with each round; other copies are of snapshots
    before = scene.atoll("-o", "json", "checkpoint", "list", "job").json()["checkpoints"][-1]

    print("in the public copy: %r became %r" % memory.flip(place, EXPONENT_BIT))
    job = scene.wait_job("job", lambda job: job["state"] == "JOB_STATE_PAUSED", "the stop", alive=alive)
    print("told:", job["reason"])
    check("most of its workers come to other bits" in job["reason"] and "atoll job rollback job --to CHECKPOINT" in job["reason"],
          f"the reason is {job['reason']!r}")

    scene.atoll("job", "rollback", "job", "--to", before["name"])
    scene.atoll("job", "resume", "job")
    in_rounds(scene, 3, alive)
    scene.atoll("job", "cancel", "job")


main(test)
