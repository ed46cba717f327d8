"""SIGTERM: a worker leaves in order and the job goes on; a coordinator stops in order and workers wait for the next one."""
from atoll_harness import check, equal, main, number, wait_for

STEPS = 1500


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
    before = coordinator.log().count("stopped")
    check(before >= 1, "the coordinator does not say that it stopped")
    check(stays.popen.poll() is None, "the worker ended with its coordinator")
    coordinator = scene.coordinator(*data, ports=ports)
    job = scene.wait_end("job")
    equal(number(job, "step"), STEPS, "the job clock at the end")
    check(stays.popen.poll() is None, "the worker ended")
    equal(stays.terminate(), 0, "the exit status of the idle worker")


main(test)
