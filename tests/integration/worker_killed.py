# SPDX-License-Identifier: Apache-2.0
"""kill -9 of a worker: its samples are leased again, the ledger balances at every poll, the run ends. The worker can
return, with its last stored moments of the inner optimizer."""
from atoll_harness import check, equal, main, number, wait_for

ENDLESS = 1_000_000


def test(scene):
    manifest = scene.corpus()
    # Notes of the fleet and of a job are searched by kind: their text is for people.
    coordinator = scene.coordinator("--data-root", scene.path("data"), "--membership-timeout", "2s", "--heartbeat-interval", "300ms")
    first = scene.worker("a", coordinator, "--data-root", scene.path("data"))
    keeping = ("--data-root", scene.path("data"), "--optimizer-snapshot", "1s")
    second = scene.worker("b", coordinator, *keeping)
    # Enough periods ahead that b holds leased samples whenever it is killed.
    scene.submit("job", manifest, "--set", "sync.max_unsynced_periods=4", steps=ENDLESS)
    scene.wait_job("job", lambda job: number(job, "workers_training") == 2 and number(job, "round") >= 3, "two training workers")
    kept = scene.path("cache-b/optimizer/b/job.safetensors")
    wait_for("moments that b keeps", kept.exists, alive=[first, second])
    second.kill()
    scene.wait_job("job", lambda job: number(job, "workers_alive") == 1, "the loss of b", alive=[first])
    rounds = number(scene.job("job"), "round")
    scene.wait_round("job", rounds + 3, alive=[first])
    lost = scene.listed_worker("b")
    equal(lost["state"], "lost", "the state of b")
    # The same name: another process, another incarnation.
    again = scene.worker("b", coordinator, *keeping)
    scene.wait_job("job", lambda job: number(job, "workers_participating") == 2, "b in a round again", alive=[first, again])
    taken = [line for line in again.log().splitlines() if "optimizer state restored" in line]
    check(len(taken) == 1 and "optimizer state reset" not in again.log(), f"b came back without its moments: {taken}")
    back = next(w for w in scene.atoll("-o", "json", "worker", "list").json()["workers"] if w["name"] == "workers/b")
    check(number(back, "incarnation") > number(lost, "incarnation"), f"b came back with incarnation {back['incarnation']}")
    job = scene.end_after("job")
    equal(number(job["ledger"], "leased"), 0, "leased samples of an ended job")
    equal(number(job["ledger"], "abandoned"), 0, "abandoned samples")
    check("leases returned" in scene.path("state/events/job.jsonl").read_text(), "no lease of b was returned")


main(test)
