# SPDX-License-Identifier: Apache-2.0
"""Join tokens with the real programs: a worker and a person enrol, a used token is refused, a revoked token locks
out, and a worker returns by itself after its machine was off: its certificate had expired within the thirty days of
grace.

S5, S7, S9, S10, S11, S24.
"""
import hashlib
import re
import socket
import ssl

from atoll_harness import LISTEN, check, equal, main, number, tcp_table, wait_for
from moved_clock import DAY, MovedClock, refuse_without_moved_clock

REFUSED, FORBIDDEN = 3, 4
LOOPBACK = "0100007F"


def token(scene, *options):
    file = scene.path(f"token-{len(list(scene.directory.glob('token-*')))}")
    file.write_text(scene.atoll("token", "create", *options).out)
    return file


def used_token(scene, role):
    """The id of the one used token of that role."""
    tokens = scene.atoll("-o", "json", "token", "list").json()["tokens"]
    [used] = [t["id"] for t in tokens if t["role"] == role and number(t, "used") > 0]
    return used


def fingerprints(identity):
    """Fingerprints of its certificate, as programs print them."""
    der = ssl.PEM_cert_to_DER_cert(re.search(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", identity.read_text(), re.DOTALL).group(0))
    return [digest(der).hexdigest() for digest in (hashlib.sha1, hashlib.sha256)]


def check_pages(scene, coordinator, worker, tokens, identities):
    """S24: the pages of both programs are available on loopback only and reveal no identity: no certificate, no
    token, no caller, no host. The label `worker` of the coordinator's metrics names workers, as docs/metrics.md
    states, and nothing else does."""
    ids = [t["id"] for t in scene.atoll("-o", "json", "token", "list").json()["tokens"]]
    hidden = ["BEGIN", "bob", "admin/", "operator/", "worker/", socket.gethostname(), *ids, *(token.read_text().strip() for token in tokens),
              *(found for identity in identities for found in fingerprints(identity))]
    check(len(ids) == len(tokens) and all(hidden), f"there is something to hide: {hidden}")
    for process, port in ((coordinator, coordinator.ports["admin"]), (worker, worker.admin_port())):
        where = [address for address, at, _, state, _ in tcp_table(process.pid) if state == LISTEN and at == port]
        equal(where, [LOOPBACK], f"where the metrics port of {process.name} listens")
        for page in ("/", "/metrics", "/healthz", "/readyz"):
            if page == "/" and process is worker:
                continue  # this program has no such page
            shown = process.page(page)
            for text in hidden:
                check(text.lower() not in shown.lower(), f"{page} of {process.name} shows {text!r}")
            named = [line for line in shown.splitlines() if '"a"' in line]
            check(all('worker="a"' in line for line in named), f"{page} of {process.name} names the worker: {named}")
    check('worker="a"' in coordinator.page("/metrics"), "no series of the worker: what is hidden was never there")


def a_machine_was_off(scene, manifest):
    """Three days ago the worker enrolled for a day. Its machine is off until today; then it is off for fifty days."""
    refuse_without_moved_clock()
    clock = MovedClock(scene, "was-off")
    clock.move(-3 * DAY)
    scene.identity = scene.atoll("ca", "init", scene.path("was-off-trust"), **clock.environment).out.strip()
    coordinator = scene.coordinator("--trust", scene.path("was-off-trust"), "--enroll-port", 0, "--data-root", scene.path("data"), name="was-off",
                                    state="was-off-state", **clock.environment)
    enrol = ["--coordinator-enroll", f"127.0.0.1:{coordinator.ports['enroll']}"]
    worker = scene.worker("off", coordinator, *enrol, "--join-token", token(scene), **clock.environment)
    scene.submit("long", manifest, steps=100_000)
    scene.wait_round("long", 2, alive=[coordinator, worker])
    equal(worker.terminate(), 0, "the end of the worker whose machine goes off")
    identity = scene.path("cache-off/identity.pem")
    ended = scene.atoll("ca", "show", identity, code=REFUSED).err
    check("the certificate of worker 'off' expired at" in ended, f"what is said of its certificate today: {ended}")
    clock.move(0)
    rounds = number(scene.job("long"), "round")
    worker = scene.worker("off", coordinator, *enrol, **clock.environment)
    scene.wait_round("long", rounds + 2, alive=[coordinator, worker])
    check("certificate renewed" in worker.log(), f"it came back without a new certificate: {worker.log()}")
    scene.atoll("ca", "show", identity)
    equal(worker.terminate(), 0, "the end of the worker that came back")
    clock.move(50 * DAY)
    coordinator.kill()  # a running coordinator serves its new certificate only some seconds after the clock jump
    scene.coordinator("--trust", scene.path("was-off-trust"), "--data-root", scene.path("data"), name="was-off", state="was-off-state",
                      ports=coordinator.ports, **clock.environment)
    worker = scene.worker("off", coordinator, *enrol, **clock.environment)
    check(worker.end() != 0, "a worker that was away for longer than the grace came back")
    check("too long ago to be renewed: enrol with a new join token" in worker.log(), f"it does not say what to do: {worker.log()}")


def test(scene):
    manifest = scene.corpus()
    scene.identity = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--enroll-port", 0, "--data-root", scene.path("data"))
    at = f"127.0.0.1:{coordinator.ports['enroll']}"
    options = ["--coordinator-enroll", at, "--join-token"]

    once = token(scene)
    worker = scene.worker("a", coordinator, *options, once)
    scene.submit("job", manifest, steps=40)
    scene.wait_end("job")
    identity = scene.path("cache-a/identity.pem")
    equal(identity.stat().st_mode & 0o777, 0o600, "the mode of the worker's identity")
    check("role         worker\nname         a\n" in scene.atoll("ca", "show", identity).out, "not the worker's identity")
    second = scene.worker("b", coordinator, *options, once)
    check(second.end() != 0, "a second worker came in by a used token")
    check("which is spent" in second.log(), second.log())

    # Many clients share one address: attempts of one client keep no other client out.
    for _ in range(12):
        scene.atoll("enroll", "--at", at, "--join-token", once, "--name", "x", "--out", scene.path("x.pem"), code=FORBIDDEN)

    # A person, who is locked out again.
    operator = token(scene, "--role", "operator", "--name", "bob")
    enrol = ["enroll", "--at", at, "--join-token", operator, "--out", scene.path("bob.pem"), "--name"]
    check("'bob' only" in scene.atoll(*enrol, "eve", code=FORBIDDEN).err, "a token for bob is good for eve")
    at_control = [f"127.0.0.1:{coordinator.ports['control']}" if x == at else x for x in enrol]
    check("may be the control or bulk port" in scene.atoll(*at_control, "bob", code=None).err, "enrolling at the control port")
    scene.atoll(*enrol, "bob")
    admin, scene.identity = scene.identity, scene.path("bob.pem")
    scene.atoll("job", "list")
    scene.atoll("token", "list", code=FORBIDDEN)
    scene.identity = admin
    check_pages(scene, coordinator, worker, [once, operator], [scene.path("trust/admin.pem"), identity, scene.path("bob.pem"), scene.path("state/coordinator.pem")])
    scene.atoll("token", "revoke", used_token(scene, "operator"))
    scene.identity = scene.path("bob.pem")
    check("was revoked" in scene.atoll("job", "list", code=FORBIDDEN).err, "bob is not told that his token was revoked")
    scene.identity = admin

    # A coordinator of another authority is not the token's coordinator.
    scene.atoll("ca", "init", scene.path("other"))
    other = scene.launch_coordinator("--trust", scene.path("other"), "--enroll-port", 0, name="other", state="other-state").wait_ready()
    said = scene.atoll("enroll", "--at", f"127.0.0.1:{other.ports['enroll']}", "--join-token", token(scene), "--name", "x",
                       "--out", scene.path("x.pem"), code=FORBIDDEN).err
    check("the join token is for another coordinator" in said, said)

    # Tokens, their uses and revocations survive a kill; so does the worker's connection.
    coordinator.kill()
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--data-root", scene.path("data"), ports=coordinator.ports)
    scene.identity = scene.path("bob.pem")
    scene.atoll("job", "list", code=FORBIDDEN)
    scene.identity = admin
    scene.submit("again", manifest, steps=40)
    scene.wait_end("again")

    # The worker's own token: its streams are closed, and it reports why it does not return.
    scene.atoll("token", "revoke", used_token(scene, "worker"))
    wait_for("the worker to be told that its token was revoked", lambda: "was revoked" in worker.log())
    wait_for("the worker to have left", lambda: scene.listed_worker("a")["state"] == "left")
    equal(worker.terminate(), 0, "the end of the worker")
    for log in [*scene.directory.glob("*.log"), scene.path("state/ledger.sqlite"), scene.path("state/ledger.sqlite-wal")]:
        text = log.read_bytes() if log.exists() else b""
        check(b"PRIVATE KEY" not in text and once.read_bytes().strip() not in text, f"{log.name} holds a secret")
    a_machine_was_off(scene, manifest)


main(test)
