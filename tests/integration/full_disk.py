# SPDX-License-Identifier: Apache-2.0
"""The coordinator's disk fills up in mid-run: the coordinator holds uploads back in time and reports it, or stops;
nothing committed is lost. While uploads are held back downloads continue (I20): a checkpoint is exported, and a
joining worker fetches the parameters and its corpus."""
import os
import subprocess

from atoll_harness import Skip, check, equal, main, number, wait_for

ENDLESS = 1_000_000
DISK_BYTES = 128 << 20
ALMOST_FULL_BYTES = DISK_BYTES // 100 * 8  # left free; the limit is 10 %, and the ledger's log grows to some MiB


def mount_small_disk(directory):
    directory.mkdir()
    if os.geteuid() != 0:
        raise Skip("mounting a small disk needs root")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", directory], capture_output=True, text=True)
    if mounted.returncode != 0:
        raise Skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")


def fill(file):
    """Takes all remaining space."""
    with open(file, "ab", buffering=0) as out:
        for piece in (1 << 16, 1 << 10, 1):
            try:
                while out.write(bytes(piece)) == piece:
                    pass
            except OSError:
                continue


def held_back(scene):
    answer = scene.atoll("-o", "json", "job", "get", "job", code=None)  # the coordinator may stop during the call
    return answer.code == 0 and "disk is almost full" in answer.json().get("reason", "")


def checkpoint_names(scene):
    return [c["name"] for c in scene.atoll("-o", "json", "checkpoint", "list", "job").json().get("checkpoints", [])]


def make_room(scene):
    """Follows the runbook of a full disk: drops older checkpoints, one by name and the others by a smaller keep_last.
    The newest stays."""
    names = checkpoint_names(scene)
    equal(len(names), 3, "checkpoints before")
    scene.atoll("checkpoint", "delete", names[0])
    equal(checkpoint_names(scene), names[1:], "checkpoints after one was deleted")
    refused = scene.atoll("checkpoint", "delete", names[-1], code=3)
    check("is the newest of job job, which stays" in refused.err, f"to delete the newest one was answered by {refused.err!r}")
    scene.atoll("job", "update", "job", "--set", "checkpoint.keep_last=1")
    equal(checkpoint_names(scene), names[-1:], "checkpoints after keep_last=1")
    on_disk = scene.path("disk/state/jobs/job/checkpoints")
    wait_for("the end of their files", lambda: len(list(on_disk.iterdir())) == 1, 30)


def almost_full(scene, coordinator, worker, filler, manifest):
    """Below 10 % of free space: no new uploads, no new jobs, and the reason is shown. With space again it continues
    by itself."""
    space = os.statvfs(filler.parent)
    filler.write_bytes(bytes(space.f_bavail * space.f_frsize - ALMOST_FULL_BYTES))
    wait_for("the word about an almost full disk", lambda: held_back(scene), 60, [coordinator, worker])
    refused = scene.atoll("job", "submit", scene.job_file("second", manifest), code=3)
    check("of the coordinator's disk" in refused.err and "are not reserved" in refused.err, f"submit said {refused.err!r}")
    equal(scene.atoll("job", "get", "second", code=3).out, "", "a job that was refused")
    scene.atoll("checkpoint", "export", "job", scene.path("export-of-an-almost-full-disk"))
    joiner = scene.worker("joiner", coordinator, "--drain-timeout", "2s")  # its contributions are held back
    wait_for("a worker that joins", lambda: "INFO training " in joiner.log(), 60, [coordinator, worker, joiner])
    check("INFO corpus name=text from=coordinator" in joiner.log(), "it did not fetch its corpus from the coordinator")
    check(held_back(scene), "the disk is not almost full any more: downloads from an almost full one are not shown")
    equal(joiner.terminate(), 0, "the end of the worker that has joined")
    make_room(scene)
    filler.unlink()
    wait_for("the end of that word", lambda: not held_back(scene), 60, [coordinator, worker])
    scene.wait_round("job", number(scene.job("job"), "round") + 2, alive=[worker])


def full(scene, coordinator, worker, filler):
    """No byte is left. The coordinator stops with the documented status rather than acknowledge data that it cannot
    store. If the disk was full before a commit began it may hold uploads back instead."""
    def noticed():
        fill(filler)  # the space that the coordinator freed meanwhile
        if coordinator.popen.poll() is not None:
            return "stopped"
        return "held uploads back" if held_back(scene) else None
    outcome = wait_for("a word about the full disk", noticed, 60, [worker])
    if outcome == "stopped":
        equal(coordinator.end(), 74, "the exit status on a full disk")
        sentence = coordinator.log().strip().splitlines()[-1]
        check(("full" in sentence or "space" in sentence) and "start the coordinator again" in sentence, f"it said {sentence!r}")
    print(f"on a full disk the coordinator {outcome}")
    return outcome


def test(scene):
    manifest = scene.corpus()
    disk = scene.path("disk")
    mount_small_disk(disk)
    try:
        data = ("--data-root", scene.path("data"))
        coordinator = scene.coordinator(*data, state="disk/state")
        worker = scene.worker("a", coordinator, *data)
        scene.submit("job", manifest, steps=ENDLESS, checkpoint={"every_rounds": 2, "keep_last": 3})
        scene.wait_round("job", 7, alive=[worker])
        almost_full(scene, coordinator, worker, disk / "filler", manifest)
        before = scene.job("job")
        outcome = full(scene, coordinator, worker, disk / "filler")
        (disk / "filler").unlink()
        if outcome == "stopped":
            coordinator = scene.coordinator(*data, state="disk/state", ports=coordinator.ports)
        after = scene.job("job")
        check(number(after, "round") >= number(before, "round"), f"round {before['round']} was committed, {after.get('round', 0)} is left")
        scene.wait_round("job", number(after, "round") + 3, alive=[worker])
        scene.atoll("job", "cancel", "job", "--drain")
        job = scene.wait_job("job", lambda job: "end_time" in job, "the end in order", alive=[worker])
        equal(job["state"], "JOB_STATE_CANCELLED", "the state after a cancellation in order")
        scene.atoll("checkpoint", "export", "job", scene.path("export"))
    finally:
        for process in scene.processes:
            process.kill()
        subprocess.run(["umount", disk], capture_output=True)


main(test)
