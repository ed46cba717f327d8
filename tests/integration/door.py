# SPDX-License-Identifier: Apache-2.0
"""S29, S33, S34, S35: input to the real program's ports from strangers and from members that are hostile below the level
of calls.

First: every header name that gRPC 1.51 treats specially, with good, empty, long and binary values, as HEADERS, as
HEADERS and CONTINUATION, and as trailers, on every port. The answer is an error, and the coordinator survives. Then two
addresses fill ports with connections, and others still get in. Then:
the known floods of HTTP/2 and TLS, each for ATOLL_DOOR_SECONDS (2) by one connection and by eight at once, from a
process with one core of its own, while two workers train. The coordinator's memory stays within its published bound,
/healthz answers, and rounds keep closing.

ATOLL_DOOR_FLOODS: plays only these floods, separated by commas."""
import errno
import multiprocessing
import os
import resource
import select
import socket
import ssl
import struct
import threading
import time

from atoll_harness import check, check_peak, equal, main, number, wait_for
from http2_by_hand import (ACK, CANCEL, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, greet)

SECONDS = float(os.environ.get("ATOLL_DOOR_SECONDS", "2"))
ASKED = [name for name in os.environ.get("ATOLL_DOOR_FLOODS", "").split(",") if name]
CONTINUATION, GOAWAY = 9, 7
JOBS_MB = 8  # of 20,000 parameters
GRPC_MB = max(256, min(1024, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 128 >> 20))  # of a port (docs/capacity.md, "Memory")
BUSY = "a busy loop"  # the reference for floods
REACH_GRPC = ("rapid resets", "zero windows", "pings", "settings", "empty data")  # with admitted calls
PATH = "/atoll.v1.JobService/ListJobs"
NAMES = (  # every trait of src/core/lib/transport/metadata_batch.h of gRPC 1.51 that can be sent
    ":path", ":authority", ":method", ":status", ":scheme", "content-type", "te", "grpc-encoding", "grpc-internal-encoding-request",
    "grpc-accept-encoding", "grpc-status", "grpc-timeout", "grpc-previous-rpc-attempts", "grpc-retry-pushback-ms", "user-agent", "grpc-message",
    "host", "endpoint-load-metrics-bin", "grpc-server-stats-bin", "grpc-trace-bin", "grpc-tags-bin", "grpclb_client_stats", "lb-cost-bin",
    "lb-token", "x-envoy-peer-metadata")
VALUES = {"good": b"1", "empty": b"", "long": b"x" * 6000, "binary": bytes(range(1, 256))}
CALL = [(":method", b"POST"), (":scheme", b"http"), (":path", PATH.encode()), (":authority", b"atoll"), ("content-type", b"application/grpc"),
        ("te", b"trailers")]


def length(n):
    """An HPACK integer of seven bits."""
    if n < 127:
        return bytes([n])
    out, n = b"\x7f", n - 127
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def block(fields):
    return b"".join(b"\0" + length(len(name)) + name.encode() + length(len(value)) + value for name, value in fields)


def shapes(name, value):
    """The same field in every possible place of a header."""
    pseudo = name.startswith(":")
    fields = [(name, value)] + CALL if pseudo else CALL + [(name, value)]
    whole = block(fields)
    message = frame(DATA, b"\0\0\0\0\0", END_STREAM, 1)
    yield "HEADERS", frame(HEADERS, whole, END_HEADERS, 1) + message
    yield "HEADERS and CONTINUATION", frame(HEADERS, whole[:20], 0, 1) + frame(CONTINUATION, whole[20:], END_HEADERS, 1) + message
    yield "trailers", (frame(HEADERS, block(CALL), END_HEADERS, 1) + frame(DATA, b"\0\0\0\0\0", 0, 1)
                       + frame(HEADERS, block([(name, value)]), END_HEADERS | END_STREAM, 1))


def read_answer(connection):
    """A server's answer to one call: "status" and its number, "goaway", "reset" or "closed"."""
    stream = connection.makefile("rb")
    try:
        while True:
            head = stream.read(9)
            if len(head) < 9:
                return "closed"
            payload = stream.read(int.from_bytes(head[:3], "big"))
            kind, flags = head[3], head[4]
            if kind == GOAWAY:
                return "goaway"
            if kind == RST_STREAM:
                return "reset"
            if kind == HEADERS and flags & END_STREAM:
                return "answer " + ("refused" if b"grpc-message" in payload or b"grpc-status" not in payload else "served")
            if kind == SETTINGS and not flags & ACK:
                connection.sendall(frame(SETTINGS, b"", ACK))
    except OSError:
        return "closed"


def check_headers(scene, coordinator, member):
    stranger = client_context(None)
    said = {}
    for port in ("control", "bulk"):
        for name in NAMES:
            for kind, value in VALUES.items():
                for shape, sent in shapes(name, value):
                    with greet(coordinator.ports[port], member) as connection:
                        connection.settimeout(20)
                        connection.sendall(sent)
                        answer = read_answer(connection)
                    said[answer] = said.get(answer, 0) + 1
                    passes = shape != "trailers" and name in ("grpc-encoding", "grpc-accept-encoding", "grpc-timeout", "user-agent")
                    check(passes or answer != "answer served", f"{name} with a {kind} value as {shape} at the {port} port is served")
    for port in ("control", "bulk", "enroll"):
        for name in NAMES:
            for _, sent in shapes(name, b"x"):
                try:
                    with greet(coordinator.ports[port], stranger) as connection:
                        connection.settimeout(20)
                        connection.sendall(sent)
                        answer = read_answer(connection)
                except OSError:
                    answer = "closed"
                equal(answer, "closed", f"what a stranger is answered at the {port} port")
    coordinator.check_alive()
    scene.atoll("job", "list")
    print(f"S33: {sum(said.values())} crafted calls of a member: {said}")


# ---- floods

def client_context(identity):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if identity:
        context.load_cert_chain(identity)
    return context


def endless_block(send):
    send(frame(HEADERS, block(CALL), 0, 1))
    while True:
        send(frame(CONTINUATION, block([("x", b"x" * 16000)]), 0, 1))


def small_continuations(send):
    send(frame(HEADERS, b"", 0, 1))
    while True:
        send(frame(CONTINUATION, b"\0", 0, 1) * 500)


def rapid_resets(send):
    stream = 1
    while True:
        send(b"".join(frame(HEADERS, block(CALL), END_HEADERS, s) + frame(RST_STREAM, struct.pack(">I", CANCEL), 0, s)
                      for s in range(stream, stream + 100, 2)))
        stream += 100


def same(*frames):
    def flood(send):
        while True:
            send(b"".join(frames) * 100)
    return flood


def zero_windows(send):
    """Calls with answers that never fit."""
    send(frame(SETTINGS, struct.pack(">HI", 4, 0)))
    for stream in range(1, 4000, 2):
        send(frame(HEADERS, block(CALL), END_HEADERS, stream) + frame(DATA, b"\0\0\0\0\0", END_STREAM, stream))
    while True:
        send(frame(WINDOW_UPDATE, struct.pack(">I", 1), 0, 0))


def header_bombs(send):
    """A field of 3.9 kB is stored in the table, and then referenced 16,000 times per block."""
    field = b"\x40" + length(1) + b"x" + length(3900) + b"x" * 3900
    stream = 1
    while True:
        send(frame(HEADERS, block(CALL) + field + b"\xbe" * 12000, END_HEADERS, stream))
        stream += 2


MEMBERS = {  # floods that end before gRPC come first
    "endless header block": endless_block, "small continuations": small_continuations, "header bombs": header_bombs, "rapid resets": rapid_resets,
    "settings": same(frame(SETTINGS, struct.pack(">HI", 4, 70000))), "pings": same(frame(PING, b"12345678")),
    "zero windows": zero_windows, "empty data": same(frame(HEADERS, block(CALL), END_HEADERS, 1), frame(DATA, b"", 0, 1))}


def connect_and_flood(port, identity, flood, until):
    """Repeats, since the connection is ended each time."""
    context = client_context(identity)
    while time.monotonic() < until:
        try:
            with greet(port, context) as connection:
                connection.settimeout(0.5)

                def send(content):
                    if time.monotonic() > until:
                        raise OSError("it is over")
                    connection.sendall(content)
                flood(send)
        except OSError:
            pass


def client_hello():
    """The first record of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        client_context(None).wrap_bio(incoming, outgoing).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


STRANGERS = {  # what a connection sends, and then nothing more
    "half handshakes": client_hello(),
    "announced hellos": b"\x16\3\1\0\4\1\2\1\x44",  # of 131,396 bytes
    "hellos in pieces": b"".join(b"\x16\3\1\0\1" + bytes([byte]) for byte in b"\1\2\1\x44" + bytes(131_000))}


def begin_handshakes(port, hello, until):
    held = []
    while time.monotonic() < until:
        try:
            held.append(socket.create_connection(("127.0.0.1", port), timeout=0.5))
            held[-1].sendall(hello)
        except OSError:
            pass
        if len(held) > 200:
            held.pop(0).close()


def busy(until):
    while time.monotonic() < until:
        pass


def flood_process(name, ports, identity, connections, core, until):
    """Confined to one core, like the reference."""
    os.sched_setaffinity(0, {core})
    threads = []
    for port in ports:
        for _ in range(connections):
            if name == BUSY:
                work = lambda: busy(until)  # noqa: E731
            elif name in STRANGERS:
                work = lambda p=port: begin_handshakes(p, STRANGERS[name], until)  # noqa: E731
            elif name == "http/2 to the enrolment port":
                work = lambda p=port: connect_and_flood(p, None, endless_block, until)  # noqa: E731
            else:
                work = lambda p=port: connect_and_flood(p, identity, MEMBERS[name], until)  # noqa: E731
            threads.append(threading.Thread(target=work, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()) + 1)
    os._exit(0)


def check_floods(scene, coordinator, jobs_mb):
    core = sorted(os.sched_getaffinity(0))[-1]
    floods = [(name, ("control", "bulk"), scene.member) for name in MEMBERS]
    floods += [(name, ("control", "bulk", "enroll"), None) for name in STRANGERS] + [("http/2 to the enrolment port", ("enroll",), None)]
    floods = [flood for flood in floods if not ASKED or flood[0] in ASKED]
    reference = (BUSY, ("control",), None)
    # The speed of the machine drifts: a long run measures the reference before each flood.
    played = [one for flood in floods for one in (reference, flood)] if SECONDS > 2 else [reference, *floods]
    context, reached_grpc, quiet = multiprocessing.get_context("fork"), False, 0.0
    for name, ports, identity in played:
        reached_grpc = reached_grpc or name in REACH_GRPC  # a peak stays
        for connections in (1,) if name == BUSY else (1, 8):
            begun, rounds = time.monotonic(), number(scene.job("tiny"), "round")
            flooder = context.Process(target=flood_process, args=(name, [coordinator.ports[p] for p in ports], identity, connections, core,
                                                                  begun + SECONDS))
            flooder.start()
            answers = 0
            while flooder.is_alive():
                check("ok" in coordinator.page("/healthz").lower(), f"{name}: /healthz says that something is wrong")
                answers += 1
                flooder.join(0.1)
            coordinator.check_alive()
            seconds = time.monotonic() - begun
            closed = number(scene.job("tiny"), "round") - rounds
            check_peak(coordinator, f"S34, {name}, {connections} connections", jobs_mb + (GRPC_MB if reached_grpc else 0))
            quiet = closed / seconds if name == BUSY else quiet
            print(f"S34, {name} by {connections}: {closed / seconds:.1f} rounds a second, {closed / seconds / quiet:.2f} of those beside a busy loop, "
                  f"/healthz answered {answers} times, {coordinator.resident_mb():.0f} MiB in use")
            now = number(scene.job("tiny"), "round")
            wait_for(f"a round after {name}", lambda: number(scene.job("tiny"), "round") > now)


def fill(port, sources, stop, full):
    """Holds connections that send nothing, from these addresses, and makes a new one for each that is ended: then `full`.
    At most 2,000 a second, which is less than the guard accepts: beyond that the kernel drops those of everybody."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held, poll, made, begun = {}, select.epoll(), 0, time.monotonic()
    while not stop.is_set():
        for _ in range(50):
            if len(held) >= 1300 or made >= 2000 * (1 + time.monotonic() - begun):
                break
            connection = socket.socket()
            connection.setblocking(False)
            connection.bind((sources[made % len(sources)], 0))
            made += 1
            if connection.connect_ex(("127.0.0.1", port)) not in (0, errno.EINPROGRESS):
                continue
            held[connection.fileno()] = connection
            poll.register(connection, select.EPOLLRDHUP | select.EPOLLIN)
        for fd, _ in poll.poll(0.01):
            held.pop(fd).close()
            full.set()
    os._exit(0)


def check_full_ports(scene, coordinator):
    """Two addresses that fill a port and come again at once do not keep others out."""
    context = multiprocessing.get_context("fork")
    token = scene.path("token-late")
    token.write_text(scene.atoll("token", "create", "--role", "viewer", "--name", "late").out)
    enrol = ("enroll", "--at", f"127.0.0.1:{coordinator.ports['enroll']}", "--join-token", token, "--name", "late", "--out", scene.path("late.pem"))
    for port, commands in (("control", [("job", "list")] * 4), ("enroll", [enrol])):
        stop, full = context.Event(), context.Event()
        flooder = context.Process(target=fill, args=(coordinator.ports[port], ("127.0.0.2", "127.0.0.3"), stop, full), daemon=True)
        flooder.start()
        wait_for(f"the {port} port to be full", full.is_set)
        for command in commands:
            scene.atoll(*command)
        stop.set()
        flooder.join()


def test(scene):
    trust = scene.path("trust")
    scene.identity = scene.atoll("ca", "init", trust).out.strip()
    scene.member = scene.path("viewer.pem")
    scene.atoll("ca", "issue", trust, "--role", "viewer", "--name", "eve", "--out", scene.member)
    coordinator = scene.coordinator("--trust", trust, "--enroll-port", 0, state="trusted")
    check_headers(scene, coordinator, client_context(scene.member))
    check_full_ports(scene, coordinator)
    corpus = scene.corpus("text", 400_000)
    scene.submit("tiny", corpus, steps=1_000_000, inner_optimizer={"learning_rate": 1e-4, "schedule": {"kind": "constant"}})
    workers = []
    for name in ("a", "b"):
        token = scene.path(f"token-{name}")
        token.write_text(scene.atoll("token", "create", "--name", name).out)
        token.chmod(0o600)
        workers.append(scene.worker(name, coordinator, "--data-root", scene.path("data"), "--coordinator-enroll", f"127.0.0.1:{coordinator.ports['enroll']}", "--join-token", token))
    scene.wait_round("tiny", 2, alive=workers)
    check_floods(scene, coordinator, JOBS_MB)
    scene.atoll("job", "cancel", "tiny")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


if __name__ == "__main__":
    main(test)
