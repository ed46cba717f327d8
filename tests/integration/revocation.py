# SPDX-License-Identifier: Apache-2.0
"""Identities are revoked by name with the real programs: a worker's and the first admin's, which were issued without
a join token. Existing connections end, no new ones are accepted, also after a restart. Others continue, and the name
returns with a certificate that was issued later.

S7.
"""
import json

from atoll_harness import check, equal, main, number, program, wait_for

REFUSED, FORBIDDEN = 3, 4


def issue(scene, role, name, file):
    return scene.atoll("ca", "issue", scene.path("trust"), "--role", role, "--name", name, "--out", scene.path(f"{file}.pem")).out.strip()


def enrol(scene, coordinator, token, name, file, **how):
    return scene.atoll("enroll", "--at", f"127.0.0.1:{coordinator.ports['enroll']}", "--join-token", token, "--name", name,
                       "--out", scene.path(f"{file}.pem"), **how)


def check_refused(scene, identity):
    scene.identity, mine = identity, scene.identity
    said = scene.atoll("job", "list", code=FORBIDDEN).err
    check("was revoked at" in said, f"what is said to {identity}: {said}")
    scene.identity = mine


def a_worker(scene, first, second, coordinator):
    """The worker of `ca issue` is cut off in mid-run; the other worker continues alone."""
    scene.atoll("ca", "revoke", "a")
    wait_for("the worker to be told that it was revoked", lambda: "was revoked at" in first.log())
    first.kill()
    wait_for("an event that the worker left", lambda: any("worker a leaves: its certificate was revoked" in event["text"]
                                                          for event in scene.logged_events("job")))
    rounds = number(scene.job("job"), "round")
    scene.wait_round("job", rounds + 3, alive=[coordinator, second])


def the_first_admin(scene, stolen):
    """Each stream of the stolen identity ends and tells why; that identity cannot revoke."""
    said = scene.atoll("ca", "revoke", "second", code=REFUSED).err
    check("calls under the name to be revoked" in said, said)
    followers = [scene.start(command[0], [program("atoll"), "job", *command, "job"], ATOLL_ENDPOINT=scene.endpoint, ATOLL_IDENTITY=stolen)
                 for command in (["watch"], ["logs", "--follow"])]
    for follower in followers:
        wait_for(f"the stolen identity to {follower.name}", lambda follower=follower: "round committed" in follower.log(), alive=[follower])
    scene.atoll("ca", "revoke", "admin")
    for follower in followers:
        equal(follower.end(), FORBIDDEN, f"the end of {follower.name}")
        check("was revoked at" in follower.log(), follower.log())
    check_refused(scene, stolen)


def check_listed_and_told(scene):
    listed = scene.atoll("-o", "json", "ca", "revocations").json()["revocations"]
    equal([(r["name"], r["revoked_by"]) for r in listed], [("a", "admin/second"), ("admin", "admin/second"), ("bob", "admin/second")], "what is listed")
    (file,) = scene.path("state/events/audit").iterdir()
    told = [json.loads(line) for line in file.read_bytes().splitlines()]
    for name in ("a", "admin", "bob"):
        check(any(line["call"].endswith("/RevokeIdentity") and line.get("about") == name and line["result"] == "done" and line["who"] == "admin/second"
                  for line in told), f"the audit log does not tell who revoked {name}")
    check(any(line["who"] == "admin/admin" and line["result"] == "refused" for line in told), "the audit log tells no refused call")


def test(scene):
    manifest = scene.corpus()
    stolen = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--enroll-port", 0, "--data-root", scene.path("data"))
    scene.identity = issue(scene, "admin", "second", "second")
    data = ["--data-root", scene.path("data")]
    first = scene.worker("a", coordinator, "--identity", issue(scene, "worker", "a", "a"), *data)
    second = scene.worker("b", coordinator, "--identity", issue(scene, "worker", "b", "b"), *data)
    scene.submit("job", manifest, steps=1_000_000, inner_optimizer={"learning_rate": 1e-4, "schedule": {"kind": "constant"}})
    scene.wait_round("job", 2, alive=[coordinator, first, second])
    a_worker(scene, first, second, coordinator)
    the_first_admin(scene, stolen)

    # A person with a token that has a use left.
    token = scene.path("token")
    token.write_text(scene.atoll("token", "create", "--role", "operator", "--name", "bob", "--uses", 2).out)
    enrol(scene, coordinator, token, "bob", "bob")
    scene.atoll("ca", "revoke", "bob")
    check("was created before" in enrol(scene, coordinator, token, "bob", "bob-again", code=FORBIDDEN).err, "the token of before brings a revoked name back")
    check_listed_and_told(scene)

    coordinator.kill()
    coordinator = scene.coordinator("--trust", scene.path("trust"), *data, ports=coordinator.ports)
    for identity in (stolen, scene.path("bob.pem")):
        check_refused(scene, identity)
    thief = scene.worker("a", coordinator, "--identity", scene.path("a.pem"), *data)
    wait_for("the worker to be told after the restart", lambda: "was revoked at" in thief.log())
    thief.kill()

    # The names are not lost.
    token.write_text(scene.atoll("token", "create", "--role", "operator", "--name", "bob").out)
    enrol(scene, coordinator, token, "bob", "bob-back")
    again = scene.worker("a", coordinator, "--identity", issue(scene, "worker", "a", "a-back"), *data)
    wait_for("the worker with its new identity", lambda: scene.listed_worker("a")["state"] == "training", alive=[again])
    for identity in (scene.path("bob-back.pem"), issue(scene, "admin", "admin", "admin-back")):
        scene.identity = identity
        scene.atoll("job", "list")
    for process in (again, second, coordinator):
        equal(process.terminate(), 0, f"the end of {process.name}")
    equal(scene.verify()["damage"], [], "what verify finds wrong")


main(test)
