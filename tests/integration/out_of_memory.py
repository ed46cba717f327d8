# SPDX-License-Identifier: Apache-2.0
"""A worker that has trained returns to a machine with too little memory for the run, which it notices in the middle
of an allocation: the run continues without it, the cause is reported, and with more memory it takes part again. If
even the program does not fit, it exits with an error message."""
import resource

from atoll_harness import check, equal, main, number, wait_for

MODEL = {"hidden_size": 768, "intermediate_size": 1024, "layers": 8}  # 30 million parameters: arenas of 120 MB
ENOUGH_TO_START, TOO_LITTLE_TO_START = 500 << 20, 200 << 20


def limited(scene, coordinator, data_bytes, *options):
    """Worker b with a limit on its heap and private memory."""
    kept = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, kept[1]))
    try:
        return scene.worker("b", coordinator, "--data-root", scene.path("data"), *options)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, kept)


def told(scene):
    return next(w for w in scene.atoll("-o", "json", "worker", "list").json()["workers"] if w["name"] == "workers/b")


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"), "--membership-timeout", "5s", "--heartbeat-interval", "300ms")
    first = scene.worker("a", coordinator, "--data-root", scene.path("data"))
    second = scene.worker("b", coordinator, "--data-root", scene.path("data"))
    scene.submit("job", manifest, steps=100_000, inner_steps=1, model=MODEL)
    scene.wait_job("job", lambda job: number(job, "workers_participating") == 2, "both in a round", alive=[first, second])
    second.kill()

    second = limited(scene, coordinator, ENOUGH_TO_START)
    wait_for("b to run out of memory", lambda: "out of memory" in second.log(), 60, [first, second])
    cause = wait_for("the cause", lambda: (w := told(scene)).get("waiting_for", "") and "out of memory" in w["waiting_for"] and w["waiting_for"], 60,
                     [first, second])
    check("which it gave up" in cause and "use a smaller" in cause, f"what is said of b: {cause}")
    rounds = number(scene.job("job"), "round")
    job = scene.wait_round("job", rounds + 2, alive=[first, second])
    equal(number(job, "workers_training"), 1, "workers that train")
    equal(second.terminate(), 0, "the end of a worker without memory")

    # Not even its connections fit: the library that makes them aborts, or continues without memory and faults; the
    # worker prints advice.
    third = limited(scene, coordinator, TOO_LITTLE_TO_START)
    equal(third.end(), 71, "the end of a worker that has no memory at all")
    check("atoll-worker: the system refused this process memory" in third.log() and "ulimit" in third.log(), third.log())
    scene.wait_round("job", number(scene.job("job"), "round") + 1, alive=[first])

    again = scene.worker("b", coordinator, "--data-root", scene.path("data"))
    scene.wait_job("job", lambda job: number(job, "workers_participating") == 2, "b in a round again", alive=[first, again])
    scene.atoll("job", "cancel", "job")
    for worker in (first, again):
        equal(worker.terminate(), 0, f"the end of {worker.name}")
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    equal(scene.verify()["damage"], [], "what verify finds")


main(test)
