# SPDX-License-Identifier: Apache-2.0
"""verify and replay of the state of a coordinator that was killed in mid-run: everything is valid and equal. Damage
is reported with file and offset, and after its repair the same directory continues."""
import json

from atoll_harness import check, equal, main, number

STEPS = 600
CODECS = {"upload_codec": "mxfp4", "download_codec": "e3m0", "upload_error_memory": "feedback", "download_error_memory": "loco",
          "loco": {"beta": 0.8, "reset_syncs": 5}, "fragments": "strided", "layers_per_fragment": 1, "overlap_steps": 2, "mix": 0.5,
          "weights": "tokens_squared_over_steps"}


def flipped(file, at):
    """Flips one bit; returns the old byte."""
    whole = file.read_bytes()
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
    return whole


def find_damage(scene, file, at):
    whole = flipped(file, at)
    print(f"damaged: {file}")
    report = scene.verify(code=65)
    told = [finding for finding in report["damage"] if finding["file"] == str(file)]
    check(told and told[0]["offset"] is not None and "backup" in told[0]["way_out"], f"{file.name} at {at}: {report['damage']}")
    text = scene.run("atoll-coordinator", "verify", "--state", scene.path("state"), code=65).out
    check(str(file) in text and "findings:" in text, f"verify printed {text!r}")
    file.write_bytes(whole)


def newest_checkpoint(scene):
    """The newest checkpoint in the ledger. A checkpoint that was being written or dropped at the kill belongs to no
    record."""
    steps = [int(event["fields"]["step"]) for event in scene.logged_events("job") if event["kind"] == "checkpoint"]
    return scene.path(f"state/jobs/job/checkpoints/{steps[-1]:010d}")


def find_every_kind(scene):
    state = scene.path("state")
    segment = sorted(state.glob("jobs/job/rounds/*/*/v*.seg"))[0]
    find_damage(scene, segment, segment.stat().st_size // 2)
    find_damage(scene, sorted(state.glob("jobs/job/snapshots/*/*/v*.snap"))[0], 5000)
    find_damage(scene, newest_checkpoint(scene) / "manifest", 10)
    find_damage(scene, next(state.glob("blobs/*/*")), 3)
    moved = segment.rename(state / "moved.seg")
    check("is not there" in json.dumps(scene.verify(code=65)), "a missing segment was not told")
    replayed = scene.replay(code=65)  # replay continues with the other rounds
    check("cannot be recomputed" in json.dumps(replayed["damage"]), "replay did not miss a segment")
    check(replayed["counts"]["rounds equal"] > 0 and replayed["counts"]["rounds that differ"] == 0, replayed["counts"])
    moved.rename(segment)


def held(scene):
    """All committed rounds of the job are stored and equal."""
    verified, replayed = scene.verify(), scene.replay()
    counts = replayed["counts"]
    equal(counts["rounds equal"], verified["counts"]["rounds in the ledger"], "the rounds that replay found equal")
    equal(counts["rounds held"], counts["rounds equal"], "the rounds that are held")
    return counts["rounds equal"]


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data")) for name in ("a", "b")]
    scene.submit("job", manifest, steps=STEPS, model={"layers": 2}, sync=CODECS, workers={"min": 2},
                 checkpoint={"every_rounds": 5, "keep_last": 2, "keep_contributions": True})
    scene.wait_round("job", 12, alive=workers)
    coordinator.kill()
    print(f"killed; {held(scene)} rounds are held and equal")
    find_every_kind(scene)
    coordinator = scene.coordinator("--data-root", scene.path("data"), ports=coordinator.ports)
    job = scene.wait_end("job")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    equal(held(scene), number(job, "rounds_committed"), "the rounds at the end")


main(test)
