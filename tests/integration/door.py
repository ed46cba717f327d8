# SPDX-License-Identifier: Apache-2.0
"""S29, S31, S33, S34, S35, S36: input to the real program's ports from strangers and hostile members below the level
of calls.

First: every header name that gRPC 1.51 treats specially, with good, empty, long and binary values, as HEADERS, as
HEADERS and CONTINUATION, and as trailers, on every port. The answer is an error, and the coordinator survives. Then two
addresses fill ports with connections, and others still get in. Then:
the known floods of HTTP/2 and TLS, each for ATOLL_DOOR_SECONDS (2) by one connection and by eight at once, from a
process with one core and one thread of its own, while two workers train. The coordinator's memory stays within its published bound,
/healthz answers, and rounds keep closing.

ATOLL_DOOR_FLOODS: plays only these floods, separated by commas."""
import errno
import multiprocessing
import os
import resource
import select
import socket
import time

from atoll_harness import check, check_peak, equal, main, number, wait_for
from floods import BUSY, CALL, CONTINUATION, MEMBERS, QUERIES, REACH_GRPC, SHORT, STRANGERS, TO_ENROLMENT, block, client_context, flood_process
from http2_by_hand import ACK, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, frame, greet

SECONDS = float(os.environ.get("ATOLL_DOOR_SECONDS", "2"))
ASKED = [name for name in os.environ.get("ATOLL_DOOR_FLOODS", "").split(",") if name]
GOAWAY = 7
JOBS_MB = 8  # of 20,000 parameters
GRPC_MB = max(256, min(1024, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 128 >> 20))  # of a port (docs/capacity.md, "Memory")
NAMES = (  # every trait of src/core/lib/transport/metadata_batch.h of gRPC 1.51 that can be sent
    ":path", ":authority", ":method", ":status", ":scheme", "content-type", "te", "grpc-encoding", "grpc-internal-encoding-request",
    "grpc-accept-encoding", "grpc-status", "grpc-timeout", "grpc-previous-rpc-attempts", "grpc-retry-pushback-ms", "user-agent", "grpc-message",
    "host", "endpoint-load-metrics-bin", "grpc-server-stats-bin", "grpc-trace-bin", "grpc-tags-bin", "grpclb_client_stats", "lb-cost-bin",
    "lb-token", "x-envoy-peer-metadata")
VALUES = {"good": b"1", "empty": b"", "long": b"x" * 6000, "binary": bytes(range(1, 256))}


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


def check_floods(scene, coordinator, jobs_mb):
    core = sorted(os.sched_getaffinity(0))[-1]
    floods = [(name, ("control", "bulk"), scene.member) for name in MEMBERS]
    floods += [(name, ("control", "bulk", "enroll"), None) for name in STRANGERS] + [(TO_ENROLMENT, ("enroll",), None)]
    floods += [(path, ("control",), scene.asker) for path in list(QUERIES)[:None if SECONDS > 2 or ASKED else SHORT]]
    floods = [flood for flood in floods if not ASKED or flood[0] in ASKED]
    reference = (BUSY, ("control",), None)
    # The speed of the machine drifts: a long run measures the reference before each flood.
    played = [one for flood in floods for one in (reference, flood)] if SECONDS > 2 else [reference, *floods]
    context, reached_grpc, quiet = multiprocessing.get_context("fork"), False, 0.0
    for name, ports, identity in played:
        reached_grpc = reached_grpc or name in REACH_GRPC or name in QUERIES  # a peak stays
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
    scene.member = scene.path("operator.pem")
    scene.atoll("ca", "issue", trust, "--role", "operator", "--name", "eve", "--out", scene.member)
    scene.asker = scene.path("asker.pem")
    scene.atoll("ca", "issue", trust, "--role", "viewer", "--name", "ask", "--out", scene.asker)
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
