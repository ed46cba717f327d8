# SPDX-License-Identifier: Apache-2.0
"""A coordinator with mutual TLS is backed up and its machine is lost. Another coordinator, restored from the backup
and a copy of the authority, has another name, address and ports. Workers started with the new name continue with
their earlier identities, without a token. A token that was used up or revoked before the backup stays so. Revocations
after the backup are lost, which restore reports.

The names are in the test's own hosts file (own_hosts.py: needs root)."""
import shutil

from atoll_harness import check, equal, main, number, wait_for
from own_hosts import has_address, refuse_without_namespaces, seeing

OLD, NEW = ("old.atoll.test", "127.0.0.1"), ("new.atoll.test", "127.0.0.2")
ENDLESS = 10_000  # more than are taken here, and few enough that all contributions can be kept
FORBIDDEN = 4


def start(scene, place, trust, **where):
    has_address(scene, *place)
    coordinator = scene.coordinator("--trust", scene.path(trust), "--enroll-port", 0, "--listen", place[1], "--data-root", scene.path("data"), **where)
    scene.endpoint = f"{place[1]}:{coordinator.ports['control']}"
    return coordinator


def worker(scene, name, coordinator, host, *options):
    return scene.worker(name, coordinator, "--coordinator-enroll", f"{host}:{coordinator.ports['enroll']}", "--data-root", scene.path("data"), *options,
                        host=host, through=seeing(scene.path("hosts")))


def token(scene, name, *options):
    file = scene.path(f"{name}.token")
    file.write_text(scene.atoll("token", "create", "--name", name, *options).out)
    return file


def enrol_person(scene, coordinator, name):
    scene.atoll("enroll", "--at", f"{OLD[1]}:{coordinator.ports['enroll']}", "--join-token", token(scene, name, "--role", "operator"), "--name", name,
                "--out", scene.path(f"{name}.pem"))


def lock_out(scene, name):
    [used] = [t["id"] for t in scene.atoll("-o", "json", "token", "list").json()["tokens"] if t.get("name") == name and t["role"] == "operator"]
    scene.atoll("token", "revoke", used)
    is_locked_out(scene, name)


def is_locked_out(scene, name):
    admin, scene.identity = scene.identity, scene.path(f"{name}.pem")
    check("was revoked" in scene.atoll("job", "list", code=FORBIDDEN).err, f"{name} is not told that the token was revoked")
    scene.identity = admin


def is_let_in(scene, name):
    admin, scene.identity = scene.identity, scene.path(f"{name}.pem")
    scene.atoll("job", "list")
    scene.identity = admin


def both_train(scene, processes, least=0):
    return scene.wait_job("job", lambda job: number(job, "workers_participating") == 2 and number(job, "round") >= least, "both in a round", alive=processes)


def lose_machine(scene, coordinator, workers):
    """Backs up the coordinator, then removes it and its name; its authority is stored elsewhere. The workers lose it.
    Returns the rounds of the backup."""
    held = number(scene.job("job"), "round")
    scene.run("atoll-coordinator", "backup", "--state", scene.path("state"), "--to", scene.path("backup"))
    lock_out(scene, "carol")
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    check((scene.path("state") / "coordinator.pem").exists() and not list(scene.path("backup").rglob("*.pem")), "a key is in the backup")
    shutil.rmtree(scene.path("state"))
    scene.path("trust").rename(scene.path("trust-elsewhere"))
    scene.identity = scene.path("trust-elsewhere") / "admin.pem"
    has_address(scene, OLD[0], None)
    for one in workers:
        wait_for(f"{one.name} to miss it", lambda one=one: "coordinator away" in one.log(), 60, workers)
        equal(one.terminate(), 0, f"the end of {one.name}")
    return held


def test(scene):
    refuse_without_namespaces(scene)
    manifest = scene.corpus()
    scene.identity = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    old = start(scene, OLD, "trust")
    for name in ("bob", "carol"):
        enrol_person(scene, old, name)
    lock_out(scene, "bob")
    is_let_in(scene, "carol")
    tokens = {name: token(scene, name) for name in ("a", "b")}  # of one use each
    workers = [worker(scene, name, old, OLD[0], "--join-token", tokens[name]) for name in tokens]
    enrol_again = ["enroll", "--join-token", tokens["a"], "--name", "a", "--out", scene.path("again.pem"), "--at"]
    scene.submit("job", manifest, steps=ENDLESS, workers={"min": 2}, checkpoint={"every_rounds": 10, "keep_contributions": True})
    both_train(scene, [old, *workers], least=8)
    identities = {name: scene.path(f"cache-{name}/identity.pem").read_bytes() for name in tokens}
    held = lose_machine(scene, old, workers)

    said = scene.run("atoll-coordinator", "restore", "--from", scene.path("backup"), "--state", scene.path("restored")).out.splitlines()
    check(len(said) == 2 and "events/audit" in said[1] and "revoke and evict again" in said[1], f"restore said {said}")
    new = start(scene, NEW, "trust-elsewhere", state="restored", name="restored")
    check("own certificate issued" in new.log(), "it has a certificate of before")
    is_locked_out(scene, "bob")
    is_let_in(scene, "carol")
    lock_out(scene, "carol")
    workers = [worker(scene, name, new, NEW[0]) for name in tokens]
    both_train(scene, [new, *workers], least=held + 1)
    refused = scene.atoll(*enrol_again, f"{NEW[1]}:{new.ports['enroll']}", code=None)
    check(refused.code != 0 and "which is spent" in refused.err, f"a token that was used up at the old place: {refused.err}")
    job = scene.end_after("job")
    for one in workers:
        equal(scene.path(f"cache-{one.name}/identity.pem").read_bytes(), identities[one.name], f"the identity of {one.name}")
        equal(one.terminate(), 0, f"the end of {one.name}")
    equal(new.terminate(), 0, "the end of the restored coordinator")
    equal(scene.verify("restored")["damage"], [], "what verify finds")
    equal(scene.replay("restored")["counts"]["rounds equal"], number(job, "rounds_committed"), "the rounds that replay found equal")


main(test)
