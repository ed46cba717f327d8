# SPDX-License-Identifier: Apache-2.0
"""One join string takes a machine into a run: it enrols over mutual TLS, names itself and trains. A later start with the
string finds the identity, a replaced machine of a fleet enrols again, and wrong strings are refused.

S9, S10, S11, S22.
"""
import base64
import hashlib
import pathlib
import socket

from atoll_harness import check, equal, main, number, program, wait_for

USAGE, PRECONDITION = 2, 3


def join_string(scene, coordinator, *options):
    at = {kind: f"127.0.0.1:{coordinator.ports[kind]}" for kind in ("control", "bulk", "enroll")}
    return scene.atoll("token", "create", "--address", at["control"], "--bulk-address", at["bulk"], "--enroll-address", at["enroll"], *options).out.strip()


def join(scene, name, string, *options):
    return scene.start(name, [program("atoll-worker"), "join", string, "--threads", "1", "--device", "cpu", "--no-admin", *options])


def refused(scene, string, code, *words, options=()):
    """A worker that cannot join ends by itself and does not repeat the string."""
    worker = join(scene, f"refused-{len(scene.processes)}", string, "--cache-dir", scene.path(f"refused-{len(scene.processes)}"), *options)
    equal(worker.end(), code, f"the end of a worker with a wrong string: {worker.log()}")
    for word in words:
        check(word in worker.log(), f"no word of '{word}': {worker.log()}")
    check(string[60:] not in worker.log(), f"the string is repeated: {worker.log()}")


def workers(scene):
    return {w["name"].removeprefix("workers/"): w["state"] for w in scene.atoll("-o", "json", "worker", "list", "--all").json().get("workers", [])}


def used(scene, string):
    token = base64.urlsafe_b64decode(string.removeprefix("atoll1-") + "===")[32:40].hex()
    return next(number(t, "used") for t in scene.atoll("-o", "json", "token", "list").json()["tokens"] if t["id"] == token)


def wrong_strings(scene, coordinator):
    good = join_string(scene, coordinator)
    refused(scene, good[:70] + ("A" if good[70] != "A" else "B") + good[71:], USAGE, "mistyped or incomplete")
    refused(scene, good[:-9], USAGE, "mistyped or incomplete")
    refused(scene, good[1:], USAGE, "neither a join string")
    body = base64.urlsafe_b64decode(good.removeprefix("atoll1-") + "===")[:-4]

    def altered(at, replacement):
        changed = body[:at] + replacement + body[at + len(replacement):]
        return "atoll1-" + base64.urlsafe_b64encode(changed + hashlib.sha256(changed).digest()[:4]).decode().rstrip("=")
    refused(scene, altered(40, bytes(16)), USAGE, "is not known to this coordinator")
    before = coordinator.log().count("call=Enroll")
    refused(scene, altered(0, bytes(32)), USAGE, "the join token is for another coordinator")
    equal(coordinator.log().count("call=Enroll"), before, "requests of a worker that saw another authority")
    refused(scene, join_string(scene, coordinator, "--role", "operator"), USAGE, "is for a operator, not for a worker")
    revoked = join_string(scene, coordinator)
    scene.atoll("token", "revoke", base64.urlsafe_b64decode(revoked.removeprefix("atoll1-") + "===")[32:40].hex())
    refused(scene, revoked, USAGE, "was revoked")
    short = join_string(scene, coordinator, "--lifetime", "1s")
    wait_for("the end of a token", lambda: "ended" in scene.atoll("token", "list").out)
    refused(scene, short, USAGE, "expired at")
    equal(used(scene, good), 0, "the uses of a token whose string was damaged")


def test(scene):
    manifest = scene.corpus()
    scene.identity = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--enroll-port", 0, "--data-root", scene.path("data"))
    host = "".join(c if c.isalnum() else "-" for c in socket.gethostname().split(".")[0].lower())
    string = join_string(scene, coordinator, "--uses", "2", "--name-prefix", "spot-")

    # The first start, and a second worker with the same identity.
    worker = join(scene, "first", string)
    scene.submit("one", manifest, steps=40)
    scene.wait_end("one")
    (name,) = workers(scene)
    check(name.startswith(f"spot-{host}-"[:54]) and len(name) <= 63, f"its name is {name}, the host's {host}")
    shown = pathlib.Path(f"/proc/{worker.pid}/cmdline").read_bytes()
    check(string.encode() not in shown and b"atoll1-xxx" in shown, f"the process list shows {shown}")
    twin = join(scene, "twin", string)
    equal(twin.end(), PRECONDITION, "the end of a second worker with the same identity")
    check("give each worker of this machine its own --cache-dir" in twin.log(), twin.log())

    # Its owner takes the machine back for a while: the program restarts itself.
    (cache,) = scene.path(".cache/atoll").iterdir()
    scene.run("atoll-worker", "pause", "--cache-dir", cache)
    wait_for("the pause", lambda: 'until="it is resumed"' in worker.log(), alive=[worker])
    check(string.encode() not in pathlib.Path(f"/proc/{worker.pid}/cmdline").read_bytes(), "the restarted program shows the string")
    scene.run("atoll-worker", "resume", "--cache-dir", cache)
    scene.submit("two", manifest, steps=40)
    scene.wait_end("two")
    equal(worker.terminate(), 0, "the end of the worker")

    # A restart with the string, now in a file; the token has one use left for a replaced machine, here an island of two.
    file = scene.path("join-string")
    file.touch(0o600)
    file.write_text(string + "\n")
    again = join(scene, "again", file)
    scene.submit("three", manifest, steps=40)
    scene.wait_end("three")
    equal(list(workers(scene)), [name], "the workers after a restart")
    equal(used(scene, string), 1, "the uses of the token after three starts")
    equal(again.terminate(), 0, "the end of the restarted worker")
    refused(scene, string, USAGE, "is for names that begin with 'spot-' only, and not for 'cpu-1'", options=["--name", "cpu-1"])
    check("  spot-*                1 of 2 " in scene.atoll("token", "list").out, scene.atoll("token", "list").out)
    replaced = join(scene, "replaced", string, "--cache-dir", scene.path("fresh"), "--island-size", "2")
    scene.submit("four", manifest, steps=40)
    scene.wait_end("four")
    equal(len(workers(scene)), 2, "the number of workers after a replacement")
    coordinator.kill()
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--data-root", scene.path("data"), ports=coordinator.ports)
    equal(used(scene, string), 2, "the uses of the token after a replacement")
    equal(replaced.terminate(), 0, "the end of the replaced machine's worker")
    refused(scene, string, USAGE, "was valid for 2 uses, which are spent")
    wrong_strings(scene, coordinator)
    for log in scene.directory.glob("*.log"):
        check(string not in log.read_text(errors="replace"), f"{log.name} holds the join string")


main(test)
