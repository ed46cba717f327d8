"""Peers that are no clients of ours, on the open ports of the real program: old TLS, weak ciphers, no certificate, a compressed bomb,
a giant message, more connections than anybody needs, rapid resets. The coordinator answers afterwards, and its memory stays."""
import os
import re
import resource
import socket
import ssl
import warnings

from atoll_harness import check, equal, main, tcp_table, wait_for
from http2_by_hand import GENTLE_SECONDS, PREFACE, SETTINGS, bomb, broken_text, frame, giant_message, greet, rapid_resets

LISTEN = "0A"
GROWTH_LIMIT_MB = 64
DESCRIPTORS = 256  # that a crowded coordinator may have
CROWD = 1000


# ---- TLS

def handshake(scene, port, identity=None, **limits):
    """The TLS version and cipher that both agree on; an ssl.SSLError when they do not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that is the point
        for name, value in limits.items():
            if name == "ciphers":
                context.set_ciphers(value)
            else:
                setattr(context, name, value)
    if identity:
        context.load_cert_chain(identity)
    with socket.create_connection(("127.0.0.1", port), timeout=GENTLE_SECONDS) as plain, context.wrap_socket(plain) as secure:
        secure.sendall(PREFACE + frame(SETTINGS))
        check(secure.recv(9), "the server hung up after the handshake")
        return secure.version(), secure.cipher()[0]


def refused(what, call):
    try:
        agreed = call()
    except OSError:  # an ssl.SSLError is one; so is a reset
        return
    except Exception as why:
        check("hung up" in str(why), f"{what}: {why}")
        return
    check(False, f"{what} was let in with {agreed}")


def check_tls(scene, coordinator):
    v = ssl.TLSVersion
    identity = scene.identity
    for name in ("control", "bulk", "enroll"):
        port = coordinator.ports[name]
        version, _ = handshake(scene, port, identity)
        equal(version, "TLSv1.3", f"what the {name} port speaks")
        refused(f"S1: TLS 1.1 on the {name} port",
                lambda p=port: handshake(scene, p, identity, minimum_version=v.TLSv1, maximum_version=v.TLSv1_1, ciphers="ALL:@SECLEVEL=0"))
        refused(f"S2: a cipher without authentication of data on the {name} port",
                lambda p=port: handshake(scene, p, identity, maximum_version=v.TLSv1_2,
                                         ciphers="ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES128-SHA:@SECLEVEL=0"))
        if name != "enroll":
            refused(f"S3: nobody's certificate on the {name} port", lambda p=port: handshake(scene, p))


def check_with_trust(scene):
    scene.identity = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--enroll-port", 0, "--listen", "0.0.0.0", state="trusted")
    scene.endpoint = f"127.0.0.1:{coordinator.ports['control']}"
    check_tls(scene, coordinator)
    where = [address for address, port, _, state, _ in tcp_table(coordinator.pid) if state == LISTEN and port == coordinator.ports["admin"]]
    equal(where, ["0100007F"], "S24: where the metrics port listens")
    for page in ("/metrics", "/healthz", "/readyz"):
        check("BEGIN" not in coordinator.page(page), f"S24: {page} shows a key or a certificate")
    scene.atoll("job", "list")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    scene.identity = None


def check_floods(scene):
    coordinator = scene.coordinator()
    scene.atoll("job", "list")
    before = coordinator.resident_mb()
    ports = (coordinator.ports["control"], coordinator.ports["bulk"])
    for port in ports:
        giant_message(port)
        bomb(port)
        held = [greet(port) for _ in range(200)]  # S29
        scene.atoll("job", "list")
        for connection in held:
            connection.close()
    grown = wait_for("memory given back", lambda: coordinator.resident_mb() - before < GROWTH_LIMIT_MB and [coordinator.resident_mb() - before])
    print(f"S27, S29, S31: {before:.1f} MB before, {grown[0]:+.1f} MB after")
    for port in ports:
        rapid_resets(port)
        broken_text(port)
    scene.atoll("job", "list")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    check("libprotobuf" not in coordinator.log(), "a peer's broken message writes into the log")


def check_crowd(scene):
    """S29: more connections than the coordinator may open descriptors. gRPC's own listener never accepts again after that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    try:
        coordinator = scene.coordinator(name="crowded", state="crowded")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * CROWD)), hard))
    scene.atoll("job", "list")
    before = coordinator.resident_mb()
    for port in (coordinator.ports["control"], coordinator.ports["bulk"]):
        crowd = [socket.create_connection(("127.0.0.1", port), timeout=GENTLE_SECONDS) for _ in range(CROWD)]
        scene.atoll("job", "list")
        held = len(os.listdir(f"/proc/{coordinator.pid}/fd"))
        check(held < DESCRIPTORS, f"{held} descriptors are open in the coordinator")
        for connection in crowd:
            connection.close()
        scene.atoll("job", "list")
    wait_for("a line about the crowd", lambda: "connections turned away" in coordinator.log())
    print(f"S29: {CROWD} connections at each of two ports, {DESCRIPTORS} descriptors: {coordinator.peak_mb() - before:+.1f} MB at most")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


def check_resets(scene):
    """S28: tens of thousands of calls, opened and taken back."""
    coordinator = scene.coordinator(name="reset", state="reset")
    scene.atoll("job", "list")
    before = coordinator.resident_mb()
    for _ in range(10):
        for port in (coordinator.ports["control"], coordinator.ports["bulk"]):
            rapid_resets(port, 20_000)
    scene.atoll("job", "list")
    peak = coordinator.peak_mb() - before
    wait_for("a line about the calls", lambda: re.search(r"calls_too_fast\W{1,3}[1-9]", coordinator.log()))
    grown = wait_for("memory given back", lambda: coordinator.resident_mb() - before < GROWTH_LIMIT_MB and [coordinator.resident_mb() - before])
    print(f"S28: {peak:+.1f} MB at most, {grown[0]:+.1f} MB once it is over")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


def check_plaintext_stays_at_home(scene):
    """S26."""
    coordinator = scene.launch_coordinator("--listen", "0.0.0.0", name="open", state="open")
    check(coordinator.end() != 0, "a coordinator without --trust listens everywhere")
    check("--trust" in coordinator.log() and "0.0.0.0" in coordinator.log(), f"it said {coordinator.log()!r}")


def test(scene):
    check_with_trust(scene)
    check_plaintext_stays_at_home(scene)
    check_floods(scene)
    check_crowd(scene)
    check_resets(scene)


main(test)
