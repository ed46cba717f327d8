"""The coordinator's disk fills up in mid-run: it says so, and once there is room again the run ends as planned."""
import os
import subprocess

from atoll_harness import Skip, check, equal, main, number, wait_for

STEPS = 1500
DISK = "size=16m"


def mount_small_disk(directory):
    directory.mkdir()
    if os.geteuid() != 0:
        raise Skip("mounting a small disk needs root")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", DISK, "tmpfs", directory], capture_output=True, text=True)
    if mounted.returncode != 0:
        raise Skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")


def fill(file):
    """Takes all the room that is left."""
    with open(file, "wb", buffering=0) as out:
        for piece in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    out.write(bytes(piece))
            except OSError:
                continue


def run_into_full_disk(scene, coordinator, worker, filler):
    """Fills the disk. The coordinator either stops with the documented status, or holds uploads back and says why."""
    fill(filler)

    def noticed():
        fill(filler)  # what it freed meanwhile
        if coordinator.popen.poll() is not None:
            return "stopped"
        answer = scene.atoll("-o", "json", "job", "get", "job", code=None)  # it may stop under the question
        return "held back" if answer.code == 0 and "disk" in answer.json().get("reason", "") else None
    outcome = wait_for("a word about the full disk", noticed, 60, [worker])
    if outcome == "stopped":
        equal(coordinator.end(), 74, "the exit status on a full disk")
        sentence = coordinator.log().strip().splitlines()[-1]
        check(("full" in sentence or "space" in sentence) and "start again" in sentence, f"it said {sentence!r}")
    return outcome


def test(scene):
    manifest = scene.corpus()
    disk = scene.path("disk")
    mount_small_disk(disk)
    try:
        data = ("--data-root", scene.path("data"))
        coordinator = scene.coordinator(*data, state="disk/state")
        worker = scene.worker("a", coordinator, *data)
        scene.submit("job", manifest, steps=STEPS)
        before = scene.wait_round("job", 5, alive=[worker])
        filler = disk / "filler"
        outcome = run_into_full_disk(scene, coordinator, worker, filler)
        print(f"on the full disk the coordinator {'stopped with status 74' if outcome == 'stopped' else 'held uploads back'}")
        filler.unlink()
        if outcome == "stopped":
            coordinator = scene.coordinator(*data, state="disk/state", ports=coordinator.ports)
        after = scene.job("job")
        check(number(after, "round") >= number(before, "round"), f"round {before['round']} was committed, {after.get('round', 0)} is left")
        job = scene.wait_end("job")
        equal(number(job, "step"), STEPS, "the job clock at the end")
    finally:
        for process in scene.processes:
            process.kill()
        subprocess.run(["umount", disk], capture_output=True)


main(test)
