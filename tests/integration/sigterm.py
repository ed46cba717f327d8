# SPDX-License-Identifier: Apache-2.0
"""SIGTERM. A worker leaves in order and the job continues. A coordinator stops in order, also right after its start,
with a snapshot of everything committed, and workers wait for the next one. A worker that cannot send its last
messages reports it; a worker that does not end in time is killed, as clouds do (F27). An orderly end leaves no
temporary file and no socket (I30)."""
import contextlib
import pathlib
import signal
import sqlite3
import time

from atoll_harness import check, equal, main, number, wait_for

ENDLESS = 1_000_000
STARTS_CUT_SHORT = 5
DRAIN_SECONDS, STEP_SECONDS, MEMBERSHIP_SECONDS = 1, 60, 5  # of a worker that does not end in time: it is in the middle of a step


def left_behind(scene, name):
    """Temporary files and sockets below its cache and in the system's directory for temporary files."""
    cached = list(scene.path(f"cache-{name}").rglob("*"))
    check(any(file.is_file() for file in cached), f"{name} has kept nothing: this shows nothing")
    return [str(p) for p in cached if p.suffix in (".tmp", ".part") or not (p.is_file() or p.is_dir())] + list(map(str, scene.path("tmp").rglob("*")))


def newest_versions(scene, job):
    """By fragment: the newest committed version, and that of the newest snapshot."""
    with contextlib.closing(sqlite3.connect(scene.path("state") / "ledger.sqlite")) as ledger:
        committed = dict(ledger.execute("SELECT fragment, MAX(version) FROM rounds WHERE job = ? GROUP BY fragment", (job,)))
    written = {}
    for file in scene.path("state").glob(f"jobs/{job}/snapshots/e*/f*/v*.snap"):
        fragment, version = int(file.parent.name[1:]), int(file.stem[1:])
        written[fragment] = max(version, written.get(fragment, 0))
    return committed, written


def killed_behind_its_limit(scene, manifest):
    """A worker exceeds its drain limit after SIGTERM and is killed. It is lost as after any kill -9, the other worker
    trains its leased samples, and it returns."""
    data = ("--data-root", scene.path("data"))
    coordinator = scene.coordinator(*data, "--membership-timeout", f"{MEMBERSHIP_SECONDS}s", "--heartbeat-interval", "1s", name="preempting", state="preempting")
    stays = scene.worker("stays", coordinator, *data)
    limit = ("--drain-timeout", f"{DRAIN_SECONDS}s")
    slow = scene.worker("preempted", coordinator, *data, *limit, "--synthetic-step-seconds", str(STEP_SECONDS))
    scene.submit("preempted", manifest, steps=ENDLESS)
    told = lambda kind: any(e["kind"] == kind and "preempted" in e["text"] for e in scene.logged_events("preempted", "preempting"))
    wait_for("a round that waits for its first step", lambda: told("round overdue"), alive=[stays, slow])
    slow.send(signal.SIGTERM)
    limit_passed = time.monotonic() + 2 * DRAIN_SECONDS
    wait_for("its limit", lambda: time.monotonic() > limit_passed)
    check(slow.popen.poll() is None, "it ended in the middle of a step: this shows nothing")
    slow.kill()
    check("worker left" not in slow.log(), "it has left before it was killed: this shows nothing")
    wait_for("the loss of the worker", lambda: told("worker lost"), alive=[stays])
    rounds = number(scene.job("preempted"), "round")
    scene.wait_round("preempted", rounds + 3, alive=[stays])
    again = scene.worker("preempted", coordinator, *data, *limit)
    scene.wait_job("preempted", lambda job: number(job, "workers_training") == 2, "two training workers", alive=[stays, again])
    ledger = scene.end_after("preempted")["ledger"]
    equal((number(ledger, "leased"), number(ledger, "abandoned")), (0, 0), "samples leased and abandoned at the end")
    for worker in (stays, again):
        equal(worker.terminate(), 0, f"the exit status of {worker.name}")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    equal(scene.verify("preempting")["damage"], [], "what verify finds")


def test(scene):
    manifest = scene.corpus()
    data = ("--data-root", scene.path("data"))
    coordinator = scene.coordinator(*data)
    stays = scene.worker("stays", coordinator, *data)
    scene.path("tmp").mkdir()
    streams = {"TMPDIR": str(scene.path("tmp"))}  # its corpus, from the coordinator
    leaves = scene.worker("leaves", coordinator, **streams)
    scene.submit("job", manifest, steps=ENDLESS)
    scene.wait_job("job", lambda job: number(job, "workers_training") == 2 and number(job, "round") >= 2, "two training workers")
    equal(leaves.terminate(), 0, "the exit status of a worker after SIGTERM")
    check("worker left" in leaves.log(), "the worker does not say that it left")
    equal(left_behind(scene, "leaves"), [], "what the worker has left behind")
    scene.wait_job("job", lambda job: number(job, "workers_alive") == 1, "one worker", alive=[stays])
    kinds = [event["kind"] for event in scene.logged_events("job")]
    check("worker left" in kinds and "worker lost" not in kinds, f"the events are {kinds}")

    again = scene.worker("leaves", coordinator, **streams)
    wait_for("the moments that it left with", lambda: "optimizer state restored" in again.log())
    equal(again.terminate(), 0, "the exit status of the worker that came back")
    equal(left_behind(scene, "leaves"), [], "what it has left behind the second time")
    scene.wait_job("job", lambda job: number(job, "workers_alive") == 1, "one worker again", alive=[stays])
    rounds = number(scene.job("job"), "round")
    scene.wait_round("job", rounds + 3, alive=[stays])

    ports = coordinator.ports
    equal(coordinator.terminate(), 0, "the exit status of the coordinator after SIGTERM")
    check("stopped" in coordinator.log(), "the coordinator does not say that it stopped")
    committed, written = newest_versions(scene, "job")
    equal(written, committed, "the newest snapshots of a coordinator that has stopped, by fragment")
    coordinator = scene.coordinator(*data, ports=ports)
    scene.wait_round("job", rounds + 6, alive=[stays])
    coordinator.kill()
    for _ in range(STARTS_CUT_SHORT):  # while it recomputes the rounds since the snapshot
        equal(scene.coordinator(*data, ports=ports, name="cut-short").terminate(), 0, "the exit status of a coordinator that has just started")
    check(stays.popen.poll() is None, "the worker ended with its coordinator")
    coordinator = scene.coordinator(*data, ports=ports)
    scene.end_after("job")
    check(stays.popen.poll() is None, "the worker ended")
    equal(stays.terminate(), 0, "the exit status of the idle worker")
    check("last messages not sent" not in stays.log(), "the idle worker says that its last messages did not leave")

    unheard = scene.worker("unheard", coordinator, *data)
    workers = lambda: scene.atoll("-o", "json", "worker", "list").json().get("workers", [])
    wait_for("the last worker", lambda: any(w["name"].endswith("unheard") for w in workers()), alive=[unheard])
    coordinator.send(signal.SIGSTOP)
    states = lambda: {(task / "stat").read_text().rsplit(")", 1)[1].split()[0] for task in pathlib.Path(f"/proc/{coordinator.pid}/task").iterdir()}
    wait_for("every thread of the coordinator to stand still", lambda: states() == {"T"})
    try:
        equal(unheard.terminate(), 0, "the exit status of a worker that nobody hears")
    finally:
        coordinator.send(signal.SIGCONT)
    goodbye = [line for line in unheard.log().splitlines() if "last messages not sent" in line]
    equal(len(goodbye), 1, "how often a worker that nobody hears says so")
    check("waited 3 s for the control stream" in goodbye[0] and "unreachable" not in goodbye[0], f"it says: {goodbye[0]}")
    killed_behind_its_limit(scene, manifest)


main(test)
