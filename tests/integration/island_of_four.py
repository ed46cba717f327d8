# SPDX-License-Identifier: Apache-2.0
"""Four processes as one worker: a repeated job gives the same bits, close to the result of one process; a rank dies."""
import json
import os
import signal
import struct

from atoll_harness import check, equal, main, number
from island import BROKEN, STEPS, all_end, follower_of, runs, trains

RANKS = 4
STEPS_TAKEN = 40
# Plain gradient descent keeps the size of a gradient's error; AdamW would divide by the gradient's own size.
JOB = {"batch": {"sequences_per_step": 2 * RANKS}, "inner_optimizer": {"kind": "sgd", "learning_rate": 0.1, "schedule": {"kind": "constant"}},
       "workers": {"min": 1, "max": 1, "planned": 1}}
# Relative to the distance that training moved the parameters. A gradient's error is up to 2e-5 of it, and errors
# accumulate over the steps.
BOUND = 2e-5


def exported(scene, job):
    """Every parameter of the job's last checkpoint, in the order of the file."""
    (checkpoint,) = scene.atoll("-o", "json", "checkpoint", "list", job).json()["checkpoints"]
    directory = scene.path(f"export-{job}")
    scene.atoll("checkpoint", "export", "--format", "hf", checkpoint["name"], directory)
    data = (directory / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    kinds = {tensor["dtype"] for name, tensor in json.loads(data[8:8 + size]).items() if name != "__metadata__"}
    equal(kinds, {"F32"}, "the types of exported tensors")
    return struct.unpack(f"<{(len(data) - 8 - size) // 4}f", data[8 + size:])


def length(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5


def play(scene, coordinator, manifest, job, ranks, steps=STEPS_TAKEN):
    """The hash of a job's fragment after its last round, trained by a worker of `ranks` processes; the processes have
    ended."""
    scene.submit(job, manifest, steps=steps, **JOB)
    more = ["--island-size", str(ranks)] if ranks > 1 else []
    worker = scene.worker("w", coordinator, "--data-root", scene.path("data"), *more)
    ended = scene.wait_end(job)
    followers = [follower_of(worker, rank) for rank in range(1, ranks)]
    equal(len(set(followers)), ranks - 1, "the number of followers")
    equal(worker.terminate(), 0, "the exit status of a worker that leaves")
    check(not any(runs(pid) for pid in followers), "a rank is there after its island left")
    return ended["fragments"][0]["content_hash"]


def equals_itself_and_one_process(scene, coordinator, manifest):
    first, second = (play(scene, coordinator, manifest, job, RANKS) for job in ("once", "again"))
    equal(second, first, "the hash of the parameters when four processes train a second time")
    play(scene, coordinator, manifest, "alone", 1)
    play(scene, coordinator, manifest, "first", 1, steps=1)
    first, once, alone = (exported(scene, job) for job in ("first", "once", "alone"))
    moved, apart = length(alone, first), length(once, alone)
    print(f"{STEPS_TAKEN} steps move the parameters by {moved:.3g}; four processes and one differ by {apart:.3g}")
    check(moved > 0.1, "training moved nothing")
    check(0 <= apart <= BOUND * moved, f"four processes end {apart} away from one, which moved by {moved}")


def a_rank_dies(scene, coordinator, manifest):
    """Its island leaves in order, with the cause, and returns when it is restarted."""
    def island():
        return scene.worker("w", coordinator, "--data-root", scene.path("data"), "--island-size", str(RANKS))

    w = island()
    scene.submit("job", manifest, "--set", "sync.max_unsynced_periods=4", steps=STEPS, **JOB)
    trains(scene, "w", 1, [w])
    first = scene.listed_worker("w")
    followers = [follower_of(w, rank) for rank in range(1, RANKS)]
    os.kill(followers[1], signal.SIGKILL)
    equal(w.end(), BROKEN, "the exit status of an island that lost a rank")
    check("rank 2 of the island" in w.log() and "was killed by signal 9" in w.log(), f"the cause is not told: {w.log()[-2000:]}")
    all_end(followers)
    equal(scene.listed_worker("w")["state"], "left", "the state of w")
    w = island()
    trains(scene, "w again", 1, [w])
    check(number(scene.listed_worker("w"), "incarnation") > number(first, "incarnation"), "w came back with its old incarnation")
    rounds = number(scene.job("job"), "round")
    scene.wait_round("job", rounds + 2, alive=[w])
    equal(w.terminate(), 0, "the exit status of an island that leaves")
    scene.atoll("job", "cancel", "job")


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"), "--membership-timeout", "5s", "--heartbeat-interval", "300ms")
    equals_itself_and_one_process(scene, coordinator, manifest)
    a_rank_dies(scene, coordinator, manifest)


if __name__ == "__main__":
    main(test)
