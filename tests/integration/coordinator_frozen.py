# SPDX-License-Identifier: Apache-2.0
"""A coordinator is stopped for longer than the membership timeout, like a suspended machine or a migrating virtual
machine. When it continues no worker is lost for its silence, the stall is reported, and the run continues."""
import signal
import threading

from atoll_harness import check, equal, main, number

MEMBERSHIP_SECONDS = 6
STALL_SECONDS = 10


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"), "--heartbeat-interval", "1s", "--membership-timeout",
                                    f"{MEMBERSHIP_SECONDS}s")
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data")) for name in ("w1", "w2")]
    scene.submit("job", manifest, steps=100_000, workers={"min": 2})
    scene.wait_round("job", 3, alive=[coordinator, *workers])
    coordinator.send(signal.SIGSTOP)
    threading.Event().wait(STALL_SECONDS)  # the duration is the subject of the test
    coordinator.send(signal.SIGCONT)
    before = number(scene.job("job"), "round")
    scene.wait_round("job", before + 3, alive=[coordinator, *workers])
    events = scene.logged_events("job")
    equal([event["text"] for event in events if event["kind"] == "worker lost"], [], "workers that were lost")
    stalls = [event["text"] for event in events if event["kind"] == "coordinator stalled"]
    equal(len(stalls), 1, f"stalls that were told: {stalls}; their number")
    check("its process was stopped or its machine asleep" in stalls[0], stalls[0])
    check("coordinator was suspended" in coordinator.log(), "the coordinator's log does not tell that it did not run")
    print(stalls[0])
    # A worker that is really silent is still lost.
    workers[1].send(signal.SIGSTOP)
    scene.wait_job("job", lambda job: number(job, "workers_alive") == 1, "the loss of a stopped worker", alive=[coordinator])
    workers[1].send(signal.SIGCONT)
    scene.wait_job("job", lambda job: number(job, "workers_alive") == 2, "its return", alive=[coordinator, *workers])
    scene.atoll("job", "cancel", "job")


main(test)
