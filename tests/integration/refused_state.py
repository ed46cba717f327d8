# SPDX-License-Identifier: Apache-2.0
"""State directories that a coordinator refuses to open: files without their ledger, and a file system without hard
links. The start gives the reason and changes nothing."""
import os

from atoll_harness import check, equal, main
from launch import through

LINKS = {"x86_64": (86, 265), "aarch64": (37,)}  # link, linkat


def refuse(scene, sentence, **how):
    coordinator = scene.launch_coordinator(name="refused", **how)
    equal(coordinator.end(30), 1, "the end of a coordinator that does not open its state")
    check(sentence in coordinator.log(), f"it says {coordinator.log()!r}")
    return coordinator


def files(scene):
    root = scene.path("state")
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name not in ("LOCK", "ledger.sqlite")}


def test(scene):
    data = ("--data-root", scene.path("data"))
    manifest = scene.corpus()
    coordinator = scene.coordinator(*data)
    worker = scene.worker("a", coordinator, *data)
    scene.submit("job", manifest)
    scene.wait_end("job")
    for process in (worker, coordinator):
        equal(process.terminate(), 0, f"the end of {process.name}")

    ledger, before = scene.path("state/ledger.sqlite"), files(scene)
    check(any(name.startswith("jobs/job/") for name in before), "the job has left no files: this shows nothing")
    ledger.rename(scene.path("kept"))
    refuse(scene, "ledger.sqlite is missing, but jobs/, blobs/, events/ exist")
    check(not ledger.exists(), "a new ledger was made")
    ledger.touch()
    refuse(scene, "ledger.sqlite has no content, but jobs/")
    equal(files(scene), before, "the files of a state without its ledger")
    scene.path("kept").rename(ledger)
    coordinator = scene.coordinator(*data)
    equal(scene.job("job")["state"], "JOB_STATE_SUCCEEDED", "the job with its ledger")
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    equal(scene.verify()["damage"], [], "what verify finds")

    calls = LINKS[os.uname().machine]
    for state in ("state", "new-state"):
        refuse(scene, "does not support hard links", state=state, through=through(refused_calls=calls))
    check("LOCK.link.tmp" not in os.listdir(scene.path("state")), "the look has left something")


main(test)
