# SPDX-License-Identifier: Apache-2.0
"""A whole state directory of the previous revision (states/revision-N.tar.xz), left by a coordinator that was killed
in the middle of a job, with the current program: it continues, the job ends as planned, `verify` finds nothing and
`replay` gives the bits of every round again, including those of the older program.

Each new revision adds a state of the previous revision: with ATOLL_MAKE_STATE=FILE the programs of ATOLL_BIN create
it, instead of the test."""
import os
import pathlib
import tarfile

from atoll_harness import check, check_balance, equal, main, number

STATES = pathlib.Path(__file__).resolve().parent / "states"
STEPS, INNER_STEPS, ROUNDS_BEFORE = 200, 10, 5


def make(scene, archive):
    manifest = scene.corpus(text_bytes=60_000)
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    worker = scene.worker("w1", coordinator, "--data-root", scene.path("data"))
    scene.submit("job", manifest, steps=STEPS, inner_steps=INNER_STEPS, model={"hidden_size": 16, "intermediate_size": 32, "layers": 2},
                 sync={"upload_codec": "bf16", "download_codec": "bf16", "fragments": "strided", "layers_per_fragment": 1},
                 checkpoint={"every_rounds": 4, "keep_last": 1, "keep_contributions": True})
    scene.wait_round("job", ROUNDS_BEFORE, alive=[coordinator, worker])
    coordinator.kill()
    worker.kill()
    with tarfile.open(archive, "w:xz") as packed:
        for name in ("state", "data"):
            packed.add(scene.path(name), name)


def test(scene):
    if archive := os.environ.get("ATOLL_MAKE_STATE"):
        return make(scene, archive)
    [packed] = STATES.glob("revision-*.tar.xz")
    with tarfile.open(packed) as archive:
        archive.extractall(scene.directory)
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    job = scene.job("job")
    before = number(job, "rounds_committed")
    check(before >= ROUNDS_BEFORE, f"the job has {before} rounds, and had {ROUNDS_BEFORE} and more when its coordinator was killed")
    worker = scene.worker("w1", coordinator, "--data-root", scene.path("data"))
    scene.wait_end("job")
    job = scene.job("job")
    check_balance(job)
    check(number(job, "rounds_committed") > before, "no round was committed by the program of today")
    equal(worker.terminate(), 0, "the exit status of the worker")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    equal(scene.verify()["damage"], [], "what verify finds wrong")
    equal(scene.replay()["counts"]["rounds equal"], number(job, "rounds_committed"), "the rounds that replay found equal")
    print(f"{before} rounds of {packed.name} and {number(job, 'rounds_committed') - before} of today, all the same to the bit")


main(test)
