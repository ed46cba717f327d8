# SPDX-License-Identifier: Apache-2.0
"""Programs of two builds in one run, each as the coordinator in turn: workers of both train one job and compute the
published bits, and the audits of the coordinator's build find nothing (F30). The other build is an earlier version:
ATOLL_OTHER_BIN names the folder of its programs; without it the test is skipped."""
import contextlib
import os
import pathlib

import atoll_harness
from atoll_harness import Skip, check, equal, main, number

OWN = atoll_harness.BIN
STEPS, INNER_STEPS, ROUNDS_WITH_BOTH = 300, 10, 20


@contextlib.contextmanager
def programs_of(folder):
    atoll_harness.BIN = folder
    try:
        yield
    finally:
        atoll_harness.BIN = OWN


def programs(folder):
    return [(folder / name).read_bytes() for name in ("atoll-coordinator", "atoll-worker")]


def play(scene, name, coordinators, builds):
    with programs_of(coordinators):
        coordinator = scene.coordinator("--data-root", scene.path("data"), name=f"coordinator-{name}", state=f"state-{name}")
    workers = []
    for worker, folder in builds.items():
        with programs_of(folder):
            workers.append(scene.worker(f"{worker}-{name}", coordinator, "--data-root", scene.path("data")))
    scene.submit(name, scene.path("data") / "text/manifest.json", steps=STEPS, inner_steps=INNER_STEPS, workers={"min": 2, "max": 2, "planned": 2},
                 sync={"upload_codec": "mxfp4", "download_codec": "bf16"}, checkpoint={"keep_contributions": True})
    scene.wait_end(name)
    events = scene.logged_events(name, state=f"state-{name}")
    both = [event for event in events if event["kind"] == "round committed" and all(f"{worker}-{name}" in event["text"] for worker in builds)]
    check(len(both) >= ROUNDS_WITH_BOTH, f"only {len(both)} rounds have a contribution of either build")
    equal([event["text"] for event in events if event["kind"] in ("deviant", "contribution refused", "upload refused", "worker failed")], [], "what befell the workers")
    committed = number(scene.job(name), "rounds_committed")
    for worker in workers:
        equal(worker.terminate(), 0, f"the exit status of {worker.name}")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    with programs_of(coordinators):
        equal(scene.verify(f"state-{name}")["damage"], [], "what verify finds wrong")
        equal(scene.replay(f"state-{name}")["counts"]["rounds equal"], committed, "the rounds that replay found equal")
    return len(both)


def test(scene):
    if not os.environ.get("ATOLL_OTHER_BIN"):
        raise Skip("ATOLL_OTHER_BIN names no folder with the programs of another build")
    other = pathlib.Path(os.environ["ATOLL_OTHER_BIN"]).resolve()
    check(all(own != others for own, others in zip(programs(OWN), programs(other))), f"{other} holds the same programs")
    scene.corpus()
    builds = {"own": OWN, "other": other}
    rounds = [play(scene, name, folder, builds) for name, folder in builds.items()]
    print(f"rounds with a contribution of either build: {rounds[0]} under the coordinator of this build, {rounds[1]} of the other")


main(test)
