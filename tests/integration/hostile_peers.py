# SPDX-License-Identifier: Apache-2.0
"""Foreign peers on the open ports of the real program: old TLS, weak ciphers, no certificate, a compressed bomb, a
giant message, too many connections, rapid resets. Afterwards the coordinator still answers, and its memory stayed
within its published bound.

S1 to S3, S24, S26 to S31."""
import os
import re
import resource
import selectors
import socket
import ssl
import threading
import time
import warnings

from atoll_harness import LISTEN, check, check_peak, equal, main, tcp_table, wait_for
from grpc_by_hand import CANCELLED, DEADLINE_EXCEEDED, Connection, message
from http2_by_hand import GENTLE_SECONDS, PREFACE, SETTINGS, bomb, broken_text, frame, giant_message, greet, rapid_resets

GROWTH_LIMIT_MB = 64
DESCRIPTORS = 256  # available to a crowded coordinator
CROWD = 1000
MIB = 1 << 20
# The maximum for the connections of a port (docs/capacity.md, "Memory"), and of one message.
TRANSPORT_MB = max(256, min(1024, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 128 // MIB))
GIANT_MB = 4 * TRANSPORT_MB
STALL_SECONDS = 30  # without progress: cut
CONTROL, UPLOAD, DOWNLOAD, SERVER_INFO = (f"/atoll.v1.{name}" for name in (
    "WorkerService/Control", "TransferService/Upload", "TransferService/Download", "AdminService/GetServerInfo"))


# ---- TLS

def handshake(scene, port, identity=None, **limits):
    """The negotiated TLS version and cipher; an ssl.SSLError if there is none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the deprecated versions are intended
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
    except OSError:  # includes ssl.SSLError and resets
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
        bomb(port)
        check_peak(coordinator, "S27, a bomb")
        held = [greet(port) for _ in range(200)]
        scene.atoll("job", "list")
        for connection in held:
            connection.close()
        check_peak(coordinator, "S29, connections held open")
    grown = wait_for("memory given back", lambda: coordinator.resident_mb() - before < GROWTH_LIMIT_MB and [coordinator.resident_mb() - before])
    print(f"S27, S29: {before:.1f} MB before, {grown[0]:+.1f} MB after")
    for port in ports:
        rapid_resets(port)
        broken_text(port)
    scene.atoll("job", "list")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    check("libprotobuf" not in coordinator.log(), "a peer's broken message writes into the log")


def check_giants(scene):
    """S31: an endless message takes at most the port's transport memory."""
    for port in ("control", "bulk"):
        name = f"giant-{port}"
        coordinator = scene.coordinator(name=name, state=name)
        scene.atoll("job", "list")
        before = coordinator.resident_mb()
        sent = giant_message(coordinator.ports[port], GIANT_MB)
        scene.atoll("job", "list")
        check(sent < GIANT_MB, f"S31: all of {GIANT_MB} MiB of one message were taken at the {port} port")
        check_peak(coordinator, f"S31, {sent} MiB of a message at the {port} port", TRANSPORT_MB)
        grown = wait_for("memory given back", lambda: coordinator.resident_mb() - before < GROWTH_LIMIT_MB and [coordinator.resident_mb() - before])
        print(f"S31: {grown[0]:+.1f} MB once it is over")
        equal(coordinator.terminate(), 0, "the exit status of the coordinator")


def check_crowd(scene):
    """S29: more connections than the coordinator may open descriptors. After that gRPC's own listener would never
    accept again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * CROWD)), hard))
    limited = ("sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh")  # the hard limit too
    coordinator = scene.coordinator(name="crowded", state="crowded", through=limited)
    scene.atoll("job", "list")
    for port in (coordinator.ports["control"], coordinator.ports["bulk"]):
        crowd = [socket.create_connection(("127.0.0.1", port), timeout=GENTLE_SECONDS) for _ in range(CROWD)]
        scene.atoll("job", "list")
        held = len(os.listdir(f"/proc/{coordinator.pid}/fd"))
        check(held < DESCRIPTORS, f"{held} descriptors are open in the coordinator")
        for connection in crowd:
            connection.close()
        scene.atoll("job", "list")
    wait_for("a line about the crowd", lambda: "connections refused" in coordinator.log())
    check_peak(coordinator, f"S29, {CROWD} connections at each of two ports, {DESCRIPTORS} descriptors")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


def check_resets(scene):
    """S28: tens of thousands of calls, opened and cancelled."""
    coordinator = scene.coordinator(name="reset", state="reset")
    scene.atoll("job", "list")
    before = coordinator.resident_mb()
    for _ in range(10):
        for port in (coordinator.ports["control"], coordinator.ports["bulk"]):
            rapid_resets(port, 20_000)
    scene.atoll("job", "list")
    check_peak(coordinator, "S28, calls taken back", TRANSPORT_MB)
    wait_for("a line about the calls", lambda: re.search(r"calls_too_fast\W{1,3}[1-9]", coordinator.log()))
    grown = wait_for("memory given back", lambda: coordinator.resident_mb() - before < GROWTH_LIMIT_MB and [coordinator.resident_mb() - before])
    print(f"S28: {grown[0]:+.1f} MB once it is over")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


class Stalled(threading.Thread):
    """S30: peers that stop in the middle: uploads of 64 MiB that stop within their first frame, downloads without
    window updates, silent control streams, calls without window updates for the answer. They answer pings, so that
    their connections live, and stall during the rest of this test."""

    def __init__(self, scene):
        super().__init__(daemon=True)
        self.scene, self.coordinator = scene, scene.coordinator(name="stalled", state="stalled")
        scene.atoll("job", "list")
        self.before = self.coordinator.resident_mb()
        self.connections, self.calls, self.cut = [], {"upload": [], "download": [], "control stream": [], "call": []}, ""
        for _ in range(8):
            bulk, control = self.connect("bulk"), self.connect("control")
            for _ in range(8):
                self.calls["control stream"].append(control.call(CONTROL))
                upload = bulk.call(UPLOAD)
                upload.send(message((1, message((3, [(1, 64 * MIB)])))))
                check(upload.answer() is not None, "an upload of a probe was not granted")
                upload.raw(b"\0" + MIB.to_bytes(4, "big") + bytes(1024))  # of a frame of 1 MiB
                self.calls["upload"].append(upload)
        for _ in range(4):
            bulk = self.connect("bulk", makes_room=False)
            for _ in range(16):  # as many as a connection may have
                download = bulk.call(DOWNLOAD)
                download.send(message((9, [(1, 64 * MIB)])), end=True)
                self.calls["download"].append(download)
        for _ in range(4):
            control = self.connect("control", makes_room=False, first_room=0)
            for _ in range(16):
                call = control.call(SERVER_INFO)
                call.send(b"", end=True)
                self.calls["call"].append(call)
        self.held = len(os.listdir(f"/proc/{self.coordinator.pid}/fd"))
        self.start()

    def connect(self, port, **how):
        self.connections.append(Connection(self.coordinator.ports[port], **how))
        return self.connections[-1]

    def ended(self):
        return all(call.status is not None for calls in self.calls.values() for call in calls)

    def run(self):
        with selectors.DefaultSelector() as selector:
            for connection in self.connections:
                selector.register(connection.wire, selectors.EVENT_READ, connection)
            limit = time.monotonic() + 4 * STALL_SECONDS
            while not self.ended() and not self.cut and time.monotonic() < limit:
                for key, _ in selector.select(1):
                    try:
                        while key.data.pump(time.monotonic() + 0.01):
                            pass
                    except OSError as why:
                        self.cut = f"{why!r}"

    def check(self):
        """All are cut for their silence, and held little memory meanwhile."""
        self.join()
        equal(self.cut, "", "S30: what ended a whole connection")
        for what, calls in self.calls.items():
            # Unsent data blocks the end of a call: gRPC then resets it without a message.
            ends, said = (CANCELLED, "") if what in ("download", "call") else (DEADLINE_EXCEEDED, f"for {STALL_SECONDS} s")
            equal([call.status for call in calls], [ends] * len(calls), f"S30: how each stalled {what} ends")
            check(all(said in call.said for call in calls), f"S30: a stalled {what} is told {calls[0].said!r}")
        peak = self.coordinator.peak_mb() - self.before
        print(f"S30: {', '.join(f'{len(calls)} stalled {what}s' for what, calls in self.calls.items())}: {peak:+.1f} MB at most")
        check(peak < GROWTH_LIMIT_MB, f"S30: stalled streams took {peak:.1f} MB")
        for connection in self.connections:
            connection.wire.close()
        wait_for("closed descriptors", lambda: len(os.listdir(f"/proc/{self.coordinator.pid}/fd")) <= self.held - len(self.connections))
        self.scene.endpoint = f"127.0.0.1:{self.coordinator.ports['control']}"
        self.scene.atoll("job", "list")
        equal(self.coordinator.terminate(), 0, "the exit status of the coordinator")


def check_plaintext_stays_at_home(scene):
    """S26: plaintext only if it is requested by name, and only on loopback. The tests below show that --insecure
    enables plaintext on loopback."""
    said = scene.run("atoll-coordinator", "--state-dir", scene.path("unasked"), code=2).err
    check("--trust is missing" in said and "--insecure" in said, f"it said {said!r}")
    check(not scene.path("unasked").exists(), "a coordinator that may not start has made its state directory")
    coordinator = scene.launch_coordinator("--listen", "0.0.0.0", name="open", state="open")
    check(coordinator.end() != 0, "a coordinator with --insecure listens everywhere")
    check("--trust" in coordinator.log() and "0.0.0.0" in coordinator.log(), f"it said {coordinator.log()!r}")


def test(scene):
    stalled = Stalled(scene)
    check_with_trust(scene)
    check_plaintext_stays_at_home(scene)
    check_floods(scene)
    check_giants(scene)
    check_crowd(scene)
    check_resets(scene)
    stalled.check()


main(test)
