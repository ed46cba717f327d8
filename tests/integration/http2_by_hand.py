# SPDX-License-Identifier: Apache-2.0
"""Foreign clients for tests of an open port: HTTP/2 and gRPC written by hand, so that they may send invalid bytes."""
import gzip
import socket
import struct

from atoll_harness import check

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_STREAM, END_HEADERS, CANCEL, ACK, INITIAL_WINDOW_SIZE = 1, 4, 8, 1, 4
FIRST_ROOM = 65535  # window of a connection, and of a stream until the server's settings
ASKED_AT = ("/atoll.v1.JobService/ListJobs", "/atoll.v1.TransferService/Upload")  # one of them exists on every port
GENTLE_SECONDS = 20
STALLED_SECONDS = 2  # a send that waits for so long is held back


def frame(kind, payload=b"", flags=0, stream=0):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers(stream, path, *more):
    """Opens a call. Header fields are literals without indexing (RFC 7541, 6.2.2)."""
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "atoll"), ("content-type", "application/grpc"),
              ("te", "trailers"), *more]
    block = b"".join(b"\0" + bytes([len(k)]) + k.encode() + bytes([len(v)]) + v.encode() for k, v in fields)
    return frame(HEADERS, block, END_HEADERS, stream)


def greet(port, context=None):
    """A connection that is ready for calls; over TLS if a context is given."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=GENTLE_SECONDS)
    try:
        if context is not None:
            connection = context.wrap_socket(connection)
        connection.sendall(PREFACE + frame(SETTINGS))
    except OSError:
        connection.close()
        raise
    return connection


class Sender:
    """Sends the bytes of streams within the peer's flow-control windows; a server disconnects a client that sends
    more. Raises OSError if the server disconnects, or if nothing arrives for STALLED_SECONDS."""

    def __init__(self, connection):
        connection.settimeout(STALLED_SECONDS)
        self.connection, self.first, self.room, self.over = connection, FIRST_ROOM, {0: FIRST_ROOM}, set()

    def exactly(self, count):
        content = b""
        while len(content) < count:
            piece = self.connection.recv(count - len(content))
            if not piece:
                raise ConnectionResetError("the server has closed the connection")
            content += piece
        return content

    def hear(self):
        head = self.exactly(9)
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
        payload = self.exactly(int.from_bytes(head[:3], "big"))
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                number, value = struct.unpack(">HI", payload[at:at + 6])
                if number == INITIAL_WINDOW_SIZE:
                    self.room = {s: room + (value - self.first if s else 0) for s, room in self.room.items()}
                    self.first = value
            self.connection.sendall(frame(SETTINGS, b"", ACK))
        elif kind == PING and not flags & ACK:
            self.connection.sendall(frame(PING, payload, ACK))
        elif kind == WINDOW_UPDATE and stream in self.room:
            self.room[stream] += int.from_bytes(payload, "big")
        elif kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
            self.over.add(stream)

    def begin(self, stream, path, *more):
        self.room[stream] = self.first
        self.connection.sendall(headers(stream, path, *more))

    def pour(self, stream, content):
        """Returns False if the call ended before everything was accepted."""
        at = 0
        while at < len(content) and stream not in self.over:
            size = min(16384, len(content) - at, self.room[0], self.room[stream])
            if size <= 0:
                self.hear()
                continue
            self.connection.sendall(frame(DATA, content[at:at + size], 0, stream))
            self.room = {s: room - size if s in (0, stream) else room for s, room in self.room.items()}
            at += size
        return at == len(content)

    def end(self, stream):
        """Waits for the answer."""
        self.connection.sendall(frame(DATA, b"", END_STREAM, stream))
        while stream not in self.over:
            self.hear()


def giant_message(port, megabytes=256, context=None):
    """S31: announces a message of 4 GB, in a unary call and in a stream, and sends as much of it as the coordinator
    accepts. Returns the larger number of MiB."""
    most = 0
    for path in ASKED_AT:
        with greet(port, context) as connection:
            sender, sent = Sender(connection), 0
            try:
                sender.begin(1, path)
                sender.pour(1, b"\0\xff\xff\xff\xff")
                while sent < megabytes << 20 and sender.pour(1, bytes(65536)):
                    sent += 65536
            except OSError:
                pass  # cut, or it accepts no more
        most = max(most, sent >> 20)
    return most


def bomb(port, context=None):
    """S27: 256 MB of zeros compressed to a quarter of a megabyte, an allowed message size. Nothing decompresses it."""
    packed = gzip.compress(bytes(256 << 20))
    for path in ASKED_AT:
        with greet(port, context) as connection:
            sender = Sender(connection)
            try:
                sender.begin(1, path, ("grpc-encoding", "gzip"))
                if sender.pour(1, b"\1" + struct.pack(">I", len(packed)) + packed):
                    sender.end(1)
            except OSError:
                pass


def broken_text(port):
    """A name that is not valid text: refused, without a library's line in the log."""
    message = b"\x0a\x02\xff\xfe"
    with greet(port) as connection:
        connection.sendall(headers(1, "/atoll.v1.JobService/GetJob") + frame(DATA, b"\0" + struct.pack(">I", len(message)) + message, 1, 1))
        answers, kind = connection.makefile("rb"), None
        while kind != HEADERS:  # those of the answer
            head = answers.read(9)
            check(len(head) == 9, "no answer to a broken message")
            kind = head[3]
            answers.read(int.from_bytes(head[:3], "big"))


def rapid_resets(port, calls=2000, context=None):
    """S28: calls that are cancelled at once. The coordinator cuts the connection if they come too fast."""
    with greet(port, context) as connection:
        try:
            for first in range(1, 2 * calls, 200):
                connection.sendall(b"".join(headers(s, "/atoll.v1.JobService/ListJobs") + frame(RST_STREAM, struct.pack(">I", CANCEL), 0, s)
                                            for s in range(first, first + 200, 2)))
        except OSError:
            pass


def call(stream, path, message):
    """A call with its only message."""
    return headers(stream, path) + frame(DATA, b"\0" + struct.pack(">I", len(message)) + message, END_STREAM, stream)
