# SPDX-License-Identifier: Apache-2.0
"""Two hundred workers join at once while two others train, and vanish at once: no training worker is lost or loses a
lease, and rounds continue."""
from atoll_harness import check, check_balance, equal, main, number, program, wait_for

CROWD = 200
SECONDS = 2  # during which the crowd sends heartbeats after joining


def names(scene, *options):
    workers = scene.atoll("-o", "json", "worker", "list", *options).json().get("workers", [])
    return {w["name"].removeprefix("workers/"): w for w in workers}


def test(scene):
    storm = program("bench_scale")
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"), "--heartbeat-interval", "300ms", "--membership-timeout", "10s")
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data")) for name in ("a", "b")]
    scene.submit("job", manifest, steps=100_000, workers={"min": 2, "max": 2, "planned": 2})
    scene.wait_round("job", 2, alive=workers)
    before, memory = names(scene), coordinator.resident_mb()
    equal(set(before), {"a", "b"}, "who is there at first")

    crowd = scene.start("crowd", [storm, "idle", coordinator.ports["control"], coordinator.pid, CROWD, 1, SECONDS])

    def all_there():
        check_balance(scene.job("job"))
        seen = names(scene)
        return seen if len(seen) == CROWD + 2 else None
    there = wait_for("the crowd", all_there, 60, [coordinator, *workers])
    equal([n for n, w in there.items() if w.get("job") and n not in before], [], "who of the crowd was given a job that is full")
    round_then = number(scene.job("job"), "round")
    scene.wait_round("job", round_then + 2, alive=[coordinator, *workers])
    equal(crowd.end(), 0, f"the end of the crowd, which said {crowd.log()}")
    print(f"{CROWD} joins: {crowd.log().strip()}; the coordinator has grown by {coordinator.resident_mb() - memory:.1f} MB")

    # All of them vanish without a message.
    scene.wait_round("job", number(scene.job("job"), "round") + 2, alive=[coordinator, *workers])
    wait_for("the loss of the crowd", lambda: set(names(scene)) == {"a", "b"}, 60, [coordinator, *workers])
    scene.wait_round("job", number(scene.job("job"), "round") + 2, alive=[coordinator, *workers])
    after = names(scene)
    for name in before:
        equal(after[name]["incarnation"], before[name]["incarnation"], f"the incarnation of {name}")
    kinds = {event["kind"] for event in scene.logged_events("job")}
    equal(kinds & {"worker lost", "leases returned", "worker left"}, set(), "what befell the workers that train")
    for worker in workers:
        equal(worker.terminate(), 0, f"the end of {worker.name}")
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    equal(scene.verify()["damage"], [], "what verify finds")


main(test)
