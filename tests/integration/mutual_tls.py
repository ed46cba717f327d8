# SPDX-License-Identifier: Apache-2.0
"""A run with mutual TLS: an authority, an admin, a worker; and clients that are refused.

S4, S13, S16, S18, S32.
"""
import hashlib
import json

from atoll_harness import check, equal, main, wait_for

REFUSED, UNREACHABLE = 4, 5


def issue(scene, role, name):
    return scene.atoll("ca", "issue", scene.path("trust"), "--role", role, "--name", name, "--out", scene.path(f"{name}.pem")).out.strip()


def check_audit_log(scene):
    """The audit log is kept, each line holds the SHA-256 of the previous line, and verify notices a changed line."""
    (file,) = scene.path("state/events/audit").iterdir()
    lines = file.read_bytes().splitlines()
    before = ["0" * 64] + [hashlib.sha256(line).hexdigest() for line in lines]
    entries = [json.loads(line) for line in lines]
    equal([entry["previous"] for entry in entries], before[:-1], "the chain of the audit log")
    told = [(entry["who"], entry["call"].split("/")[-1], entry["result"]) for entry in entries]
    for wanted in (("viewer/eve", "DrainWorker", "refused"), ("admin/admin", "SubmitJob", "allowed"), ("admin/admin", "SubmitJob", "done"),
                   ("worker/a", "Control", "allowed")):
        check(wanted in told, f"the audit log does not tell {wanted}: {told}")
    equal(scene.verify()["counts"]["audit lines"], len(lines), "the lines that verify counts")
    file.write_bytes(b"\n".join(lines).replace(b"allowed", b"refused", 1) + b"\n")
    (found,) = scene.verify(code=65)["damage"]
    check("does not follow the one before it" in found["problem"], f"verify found {found}")
    file.write_bytes(b"\n".join(lines) + b"\n")


def test(scene):
    manifest = scene.corpus()
    admin = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    for name in ("trust/ca-key.pem", "trust/admin.pem"):
        equal(scene.path(name).stat().st_mode & 0o777, 0o600, f"the mode of {name}")
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--enroll-port", 0, "--data-root", scene.path("data"))
    equal(scene.path("state/coordinator.pem").stat().st_mode & 0o777, 0o600, "the mode of the coordinator's own key")

    scene.identity = admin
    worker = scene.worker("a", coordinator, "--identity", issue(scene, "worker", "a"))
    scene.submit("job", manifest, steps=40)
    scene.wait_end("job")
    scene.atoll("checkpoint", "export", "--format", "hf", "job", scene.path("exported"))

    scene.identity = issue(scene, "viewer", "eve")
    equal(scene.atoll("-o", "name", "job", "list").out, "jobs/job\n", "what a viewer sees")
    said = scene.atoll("worker", "drain", "a", code=REFUSED).err
    check("viewer 'eve' may not call /atoll.v1.AdminService/DrainWorker" in said, said)
    check("the call needs the role operator or admin" in said, said)
    check("who=viewer/eve call=/atoll.v1.AdminService/DrainWorker result=refused" in coordinator.log(), "no audit line of the refusal")
    check("who=admin/admin call=/atoll.v1.JobService/SubmitJob result=allowed" in coordinator.log(), "no audit line of the submit")
    check("who=admin/admin call=/atoll.v1.JobService/SubmitJob about=jobs/job result=done token=none" in coordinator.log(), "not told what came of it")

    scene.identity = None  # plaintext
    scene.atoll("job", "list", code=UNREACHABLE)
    scene.atoll("ca", "init", scene.path("other"))
    scene.identity = scene.path("other/admin.pem")  # another authority
    scene.atoll("job", "list", code=UNREACHABLE)

    scene.identity = admin
    thief = scene.worker("b", coordinator, "--identity", scene.path("a.pem"))
    check(thief.end() != 0, "a worker with another's identity ended well")
    check("belongs to worker 'a'" in thief.log(), thief.log())
    equal(worker.terminate(), 0, "the end of the worker")
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    check_audit_log(scene)

    # Enrolled workers would refuse a coordinator of another authority, so it does not start with one by mistake.
    own = scene.path("state/coordinator.pem")
    before = own.read_bytes()
    stranger = scene.launch_coordinator("--trust", scene.path("other"))
    check(stranger.end() != 0, "a coordinator with another authority started")
    check("has another authority than" in stranger.log() and f"remove {own}" in stranger.log(), stranger.log())
    check(own.read_bytes() == before, "its certificate was replaced")
    for log in scene.directory.glob("*.log"):
        check("PRIVATE KEY" not in log.read_text(errors="replace"), f"{log.name} holds a key")


main(test)
