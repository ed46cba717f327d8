# SPDX-License-Identifier: Apache-2.0
"""The owner of a machine takes it back from its worker in mid-run, and returns it later."""
import pathlib

from atoll_harness import check, equal, main, wait_for


def owner(scene, command, *options, name="a", code=0):
    return scene.run("atoll-worker", command, "--name", name, "--cache-dir", scene.path(f"cache-{name}"), *options, code=code)


def activity(scene, name):
    """The state of a present worker, None if it is not present."""
    workers = scene.atoll("-o", "json", "worker", "list").json().get("workers", [])
    return next((w["state"] for w in workers if w["name"] == f"workers/{name}"), None)


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    workers = [scene.worker(name, coordinator) for name in ("a", "b")]
    scene.submit("job", manifest, steps=100_000)
    scene.wait_round("job", 2, alive=workers)

    # In mid-run: it leaves in order, the run continues, its process stays and waits.
    said = owner(scene, "pause").out
    check(f"end the pause with: atoll-worker resume --cache-dir {scene.path('cache-a')}" in said, said)
    check("finishes its step, sends its contributions, leaves and stays away until it is resumed" in said, said)
    wait_for("worker a to wait", lambda: "paused by its owner" in workers[0].log().split("worker left")[-1], alive=workers)
    wait_for("worker a to be gone", lambda: activity(scene, "a") is None, alive=workers)
    scene.wait_round("job", 4, alive=workers)
    said = owner(scene, "resume").out
    equal(said, "worker 'a' joins again\n", "what resume says")
    wait_for("worker a to train again", lambda: activity(scene, "a") == "training", alive=workers)
    equal(workers[0].log().count("worker started"), 2, "starts of worker a")
    marks = [fd for fd in pathlib.Path(f"/proc/{workers[0].pid}/fd").iterdir() if str(fd.resolve()).endswith("cache-a/running")]
    equal(len(marks), 1, "descriptors on the mark of a program that has started itself anew")

    # A pause outlives the process, expires by itself, and a signal ends the process during it.
    owner(scene, "pause")
    wait_for("worker a to be gone", lambda: activity(scene, "a") is None, alive=workers)
    equal(workers[0].terminate(), 0, "the end of a paused worker")
    again = scene.worker("a", coordinator)
    wait_for("the new worker to wait", lambda: "paused by its owner" in again.log(), alive=[again])
    check("worker started" not in again.log(), "a paused worker has started")
    said = owner(scene, "pause", "--for", "1s").out
    check(said.startswith("worker 'a' stays away until 2"), said)
    wait_for("worker a to train again", lambda: activity(scene, "a") == "training", alive=[again])

    # Wrong usage, and no worker.
    pause = scene.path("cache-a/paused").read_text()  # of the pause that is over
    for command in ("pause", "resume"):
        said = scene.run("atoll-worker", command, "--name", "b", "--cache-dir", scene.path("cache-a"), code=None)
        check(said.code != 0 and "it is the cache of worker 'a', which is running; nothing was changed" in said.err, f"{command}: {said.err}")
    equal(scene.path("cache-a/paused").read_text(), pause, "the pause after commands by another worker's name")
    said = scene.run("atoll-worker", "resume", "--cache-dir", scene.path("cache-a")).out
    check("worker 'a' was not paused" in said, f"resume by the cache alone: {said}")
    for command in ("pause", "resume"):
        said = owner(scene, command, name="c", code=None)
        check(said.code != 0 and "the directory does not exist, so no worker has used it" in said.err, f"{command}: {said.err}")
    check(not scene.path("cache-c").exists(), "a pause of nobody has made a cache")
    scene.path("cache-c").mkdir()
    said = owner(scene, "pause", name="c").out
    check(f"is not running; once it is started with --cache-dir {scene.path('cache-c')}, it waits" in said, said)
    equal(owner(scene, "resume", name="c").out, "worker 'c' is no longer paused; it is not running\n", "resume of nobody")
    check("worker 'c' was not paused by --cache-dir" in owner(scene, "resume", name="c").out, "resume of what is not paused")
    check("--for" in owner(scene, "pause", "--for", "5", code=2).err, "a time without a unit")
    owner(scene, "pause", "--name", "A B", code=2)
    scene.atoll("job", "cancel", "job")


main(test)
