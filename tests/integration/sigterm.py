"""SIGTERM: a worker leaves in order and the job goes on; a coordinator stops in order, also right after its start, and workers wait for the next one. A
worker whose last messages do not leave says so."""
import signal

from atoll_harness import check, equal, main, number, wait_for

STEPS = 1500
STARTS_CUT_SHORT = 5


def test(scene):
    manifest = scene.corpus()
    data = ("--data-root", scene.path("data"))
    coordinator = scene.coordinator(*data)
    stays, leaves = (scene.worker(name, coordinator, *data) for name in ("stays", "leaves"))
    scene.submit("job", manifest, steps=STEPS)
    scene.wait_job("job", lambda job: number(job, "workers_training") == 2 and number(job, "round") >= 2, "two training workers")
    equal(leaves.terminate(), 0, "the exit status of a worker after SIGTERM")
    check("worker left" in leaves.log(), "the worker does not say that it left")
    scene.wait_job("job", lambda job: number(job, "workers_alive") == 1, "one worker", alive=[stays])
    kinds = [event["kind"] for event in scene.logged_events("job")]
    check("worker left" in kinds and "worker lost" not in kinds, f"the events are {kinds}")

    again = scene.worker("leaves", coordinator, *data)
    wait_for("the moments that it left with", lambda: "optimizer taken up" in again.log())
    equal(again.terminate(), 0, "the exit status of the worker that came back")
    scene.wait_job("job", lambda job: number(job, "workers_alive") == 1, "one worker again", alive=[stays])
    rounds = number(scene.job("job"), "round")
    scene.wait_round("job", rounds + 3, alive=[stays])

    ports = coordinator.ports
    equal(coordinator.terminate(), 0, "the exit status of the coordinator after SIGTERM")
    for _ in range(STARTS_CUT_SHORT):  # while it recomputes the rounds since the snapshot
        equal(scene.coordinator(*data, ports=ports, name="cut-short").terminate(), 0, "the exit status of a coordinator that has just started")
    before = coordinator.log().count("stopped")
    check(before >= 1, "the coordinator does not say that it stopped")
    check(stays.popen.poll() is None, "the worker ended with its coordinator")
    coordinator = scene.coordinator(*data, ports=ports)
    job = scene.wait_end("job")
    equal(number(job, "step"), STEPS, "the job clock at the end")
    check(stays.popen.poll() is None, "the worker ended")
    equal(stays.terminate(), 0, "the exit status of the idle worker")
    check("left without a goodbye" not in stays.log(), "the idle worker says that its last messages did not leave")

    unheard = scene.worker("unheard", coordinator, *data)
    workers = lambda: scene.atoll("-o", "json", "worker", "list").json().get("workers", [])
    wait_for("the last worker", lambda: any(w["name"].endswith("unheard") for w in workers()), alive=[unheard])
    coordinator.send(signal.SIGSTOP)
    try:
        equal(unheard.terminate(), 0, "the exit status of a worker that nobody hears")
    finally:
        coordinator.send(signal.SIGCONT)
    goodbye = [line for line in unheard.log().splitlines() if "left without a goodbye" in line]
    equal(len(goodbye), 1, "how often a worker that nobody hears says so")
    check("waited 3 s for the control stream" in goodbye[0] and "not reached" not in goodbye[0], f"it says: {goodbye[0]}")


main(test)
