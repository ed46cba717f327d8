# SPDX-License-Identifier: Apache-2.0
"""F26: a bit that flips unseen in the coordinator's own parameters, set from outside through /proc/PID/mem. All workers come to other bits than it has
published: the job stops with that sentence, and goes on from a checkpoint of before with parameters as they were."""
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
    place, *_ = by_changes(memory, places, 1, stands_out, alive)  # with each round; others are of snapshots
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
