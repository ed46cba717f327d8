# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the coordinator in mid-run, twice: nothing committed is lost, and workers reconnect by themselves."""
import os
import shutil
import signal
import sqlite3

from atoll_harness import check, equal, main, number

ENDLESS = 10_000  # more than are taken here, and few enough that all contributions can be kept
PATIENCE = ["--membership-timeout", "5m"]  # no worker is lost while it is stopped


def committed_in_ledger(scene, copy):
    """The records of fragment 0 in the ledger on disk after the kill: ({version: record}, boot number). Read from a
    copy."""
    directory = scene.path(copy)
    directory.mkdir()
    for file in scene.path("state").glob("ledger.sqlite*"):
        shutil.copy(file, directory)
    with sqlite3.connect(directory / "ledger.sqlite") as ledger:
        rows = ledger.execute("SELECT version, record FROM rounds WHERE job = 'job' AND fragment = 0")
        return dict(rows), ledger.execute("SELECT boot FROM meta").fetchone()[0]


def fragment(scene):
    (only,) = scene.job("job")["fragments"]
    return number(only, "version"), only["content_hash"]


def boot_number(coordinator):
    line = next(line for line in coordinator.page("/metrics").splitlines() if line.startswith("atoll_boot_number"))
    return int(float(line.split()[-1]))


def kill_and_restart(scene, coordinator, workers, seen, copy):
    """Starts a new coordinator and checks that it has the state of the killed one. Returns it."""
    ports = coordinator.ports
    coordinator.kill()
    for worker in workers:
        worker.send(signal.SIGSTOP)  # so that the versions can be compared before the run continues
    records, boot = committed_in_ledger(scene, copy)
    version = max(records)
    print(f"killed at version {version}, start {boot}")
    coordinator = scene.coordinator("--data-root", scene.path("data"), *PATIENCE, ports=ports)
    job = scene.wait_job("job", lambda job: "fragments" in job, "the recovered versions", alive=[coordinator])
    states = [w["state"] for w in scene.atoll("-o", "json", "worker", "list").json()["workers"]]
    equal((states, number(job, "workers_alive")), (["silent"] * len(workers), 0), "what is said of workers that nobody has heard")
    after, content_hash = fragment(scene)
    # The workers are stopped: one more version can come only from contributions that were acknowledged before the
    # kill.
    check(after in (version, version + 1), f"the version after the restart is {after}, and {version} was committed")
    for worker in scene.atoll("-o", "json", "worker", "list").json()["workers"]:
        check(number(worker, "uploaded_bytes") > 0 and number(worker, "downloaded_bytes") > 0,
              f"what a worker has moved begins anew with the coordinator: {worker}")
    equal(boot_number(coordinator), boot + 1, "the boot number")
    check(after >= max(seen), f"version {max(seen)} was seen, only {after} is left")
    if after in seen:
        equal(content_hash, seen[after], f"the hash of version {after}")
    for worker in workers:
        worker.send(signal.SIGCONT)
    return coordinator, records


def check_history(scene, seen, committed):
    """No version that was shown or committed before a kill has changed since."""
    at_end, _ = committed_in_ledger(scene, "ledger-end")
    for version, content_hash in seen.items():
        if version > 0:
            # A digest is stored as two little-endian halves, see Digest in worker.proto.
            high, low = bytes.fromhex(content_hash)[:8], bytes.fromhex(content_hash)[8:]
            check(high[::-1] in at_end[version] and low[::-1] in at_end[version],
                  f"version {version} was shown with hash {content_hash}, which the ledger does not hold")
    for version, record in committed.items():
        check(at_end.get(version) == record, f"the ledger has another record of version {version} than before the kill")


def watch_rounds(scene, rounds, seen):
    """Follows the run for a while and records the displayed versions and hashes."""
    def noted(job):
        (only,) = job["fragments"]
        seen[number(only, "version")] = only.get("content_hash", "")
        return number(job, "round") >= rounds
    scene.wait_job("job", noted, f"round {rounds}")


def check_second_opener(scene):
    second = scene.launch_coordinator(name="second")
    equal(second.end(), 1, "the exit status of a second coordinator on the same state directory")
    check("is in use by process" in second.log() and "--state-dir" in second.log(), f"it said {second.log()!r}")


def audit(scene, coordinator, job):
    """After two kills the state is valid, and recomputed rounds give the same bits."""
    refused = scene.run("atoll-coordinator", "verify", "--state", scene.path("state"), code=1)
    check(f"is in use by process {coordinator.pid}" in refused.err, f"verify of a running coordinator said {refused.err!r}")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    equal(scene.verify()["damage"], [], "what verify found")
    counts = scene.replay()["counts"]
    equal(counts["rounds equal"], number(job, "rounds_committed"), "the rounds that replay found equal")


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"), *PATIENCE)
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data")) for name in ("a", "b")]
    scene.submit("job", manifest, steps=ENDLESS, workers={"min": 2}, checkpoint={"every_rounds": 20, "keep_contributions": True})
    seen = {}
    watch_rounds(scene, 3, seen)
    check_second_opener(scene)
    coordinator, committed = kill_and_restart(scene, coordinator, workers, seen, "ledger-1")
    watch_rounds(scene, max(seen) + 3, seen)
    coordinator, later = kill_and_restart(scene, coordinator, workers, seen, "ledger-2")
    job = scene.end_after("job")
    equal(number(job["ledger"], "abandoned"), 0, "abandoned samples")
    for worker in workers:
        check(worker.popen.poll() is None, f"worker {worker.name} has ended")
    check_history(scene, seen, later | committed)
    events = scene.path("state/events/job.jsonl").read_text()
    equal(os.linesep in events and "worker failed" not in events, True, "that no worker failed")
    audit(scene, coordinator, job)


main(test)
