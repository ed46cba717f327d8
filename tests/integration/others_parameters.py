# SPDX-License-Identifier: Apache-2.0
"""Workers with a certificate ask the bulk port for another worker's job: one has a refused revision, the other has no
job. They receive no byte of parameters, updates or data. The job's own worker receives them, also right after a
restart of the coordinator, and so does an export.

S15, S17.
"""
import hashlib
import json

from atoll_harness import check, equal, main, wait_for
from grpc_by_hand import INVALID_ARGUMENT, NOT_FOUND, OK, PERMISSION_DENIED, UNAVAILABLE, Connection, Fixed64, fields, message, one
from hostile_member import CONTROL, DOWNLOAD, context_of

PROTOCOL = 1
WELCOME, REFUSED = 1, 13  # of CoordinatorMessage, proto/atoll/v1/worker.proto


def issue(scene, name):
    return scene.atoll("ca", "issue", scene.path("trust"), "--role", "worker", "--name", name, "--out", scene.path(f"{name}.pem")).out.strip()


def hello(worker, protocol):
    return message((1, [(1, worker), (2, "0.0.0"), (3, protocol), (4, 1), (5, Fixed64(12345)), (8, "cpu")]))


def download(port, identity, worker, wanted):
    """The status, the message of its end, and the number of messages before that."""
    with Connection(port, context_of(identity)) as connection:
        call = connection.call(DOWNLOAD)
        call.send(message(wanted, (7, worker)), end=True)
        messages = 0
        while call.answer() is not None:
            messages += 1
        return call.end(), call.said, messages


def all_of(job, manifest):
    """One download of each kind: parameters, an update, a block, a checkpoint."""
    sha256 = hashlib.sha256(manifest.read_bytes()).hexdigest()
    shard = json.loads(manifest.read_text())["files"][0]["name"]
    return {"the newest parameters": (2, [(1, job), (2, [(1, 0)]), (3, 1)]), "an update": (1, [(1, job), (2, [(1, 0), (2, 1)])]),
            "a block": (3, [(1, job), (2, sha256), (3, shard), (4, 0)]), "a checkpoint": (5, [(1, f"jobs/{job}/checkpoints/10"), (2, 0)])}


def check_nothing_for(who, port, identity, wanted):
    for job in ("kept", "none"):
        for what, key in wanted(job).items():
            status, said, messages = download(port, identity, who, key)
            equal((status, messages), (UNAVAILABLE, 0), f"status and messages of {what} of job {job} to {who}, who was told {said!r}")
            check(f"worker {who} is not assigned to job {job}" in said, f"{who} was told {said!r}")


def check_strangers(coordinator, identities, wanted):
    """A worker of another revision is refused by its Hello; an acceptable worker finds the job full."""
    bulk = coordinator.ports["bulk"]
    for protocol, answered in ((999, REFUSED), (PROTOCOL, WELCOME)):
        with Connection(coordinator.ports["control"], context_of(identities["eve"])) as connection:
            stream = connection.call(CONTROL)
            stream.send(hello("eve", protocol))
            check(answered in fields(stream.answer()), f"a worker of protocol {protocol} was answered otherwise")
            check_nothing_for("eve", bulk, identities["eve"], wanted)
    status, said, messages = download(bulk, identities["eve"], "a", wanted("kept")["the newest parameters"])
    equal((status, messages), (PERMISSION_DENIED, 0), f"what eve gets in the name of another, who was told {said!r}")


def check_member(coordinator, identity, wanted):
    """Proves that the keys are right: the job's own worker gets the data."""
    for what, key in wanted("kept").items():
        status, said, messages = download(coordinator.ports["bulk"], identity, "a", key)
        check((status == OK and messages > 1) or (what in ("an update", "a checkpoint") and status in (NOT_FOUND, INVALID_ARGUMENT)),
              f"{what} to the job's own worker ended with {status}: {said!r}")


def test(scene):
    manifest = scene.corpus()
    wanted = lambda job: all_of(job, manifest)
    scene.identity = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    identities = {name: issue(scene, name) for name in ("a", "eve")}
    options = ("--trust", scene.path("trust"), "--enroll-port", 0, "--data-root", scene.path("data"))
    coordinator = scene.coordinator(*options)
    worker = scene.worker("a", coordinator, "--identity", identities["a"])
    scene.submit("kept", manifest, steps=1_000_000, workers={"min": 1, "max": 1, "planned": 1}, checkpoint={"every_rounds": 1})
    scene.wait_round("kept", 2, alive=[worker])

    check_member(coordinator, identities["a"], wanted)
    check_strangers(coordinator, identities, wanted)
    worker.kill()
    coordinator.kill()
    ports = {kind: coordinator.ports[kind] for kind in ("control", "bulk", "admin")}
    coordinator = scene.coordinator(*options, ports=ports, name="again")
    parameters = wanted("kept")["the newest parameters"]
    wait_for("parameters for a member that has not come back", lambda: download(ports["bulk"], identities["a"], "a", parameters)[0] == OK)
    check_strangers(coordinator, identities, wanted)
    scene.atoll("checkpoint", "export", "--format", "hf", "kept", scene.path("exported"))
    scene.atoll("job", "cancel", "kept")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


main(test)
