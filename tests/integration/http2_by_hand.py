"""Clients that are none of ours, for tests of an open port: HTTP/2 and gRPC written by hand, so that what is sent may be wrong."""
import gzip
import socket
import struct

from atoll_harness import check

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS = 0, 1, 3, 4
END_STREAM, END_HEADERS, CANCEL = 1, 4, 8
GENTLE_SECONDS = 20
STALLED_SECONDS = 2  # a send that waits for so long is held back


def frame(kind, payload=b"", flags=0, stream=0):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers(stream, path, *more):
    """Opens a call. Header fields are written as literals that nobody keeps (RFC 7541, 6.2.2)."""
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "atoll"), ("content-type", "application/grpc"),
              ("te", "trailers"), *more]
    block = b"".join(b"\0" + bytes([len(k)]) + k.encode() + bytes([len(v)]) + v.encode() for k, v in fields)
    return frame(HEADERS, block, END_HEADERS, stream)


def greet(port, context=None):
    """A connection on which calls may begin; over TLS where a context is given."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=GENTLE_SECONDS)
    try:
        if context is not None:
            connection = context.wrap_socket(connection)
        connection.sendall(PREFACE + frame(SETTINGS))
    except OSError:
        connection.close()
        raise
    return connection


def giant_message(port, megabytes=256, context=None):
    """S31: a message of 4 GB is announced, and as much of it sent as the coordinator takes."""
    with greet(port, context) as connection:
        connection.settimeout(STALLED_SECONDS)
        try:
            connection.sendall(headers(1, "/atoll.v1.JobService/ListJobs") + frame(DATA, b"\0\xff\xff\xff\xff", 0, 1))
            for _ in range(megabytes * 64):
                connection.sendall(frame(DATA, bytes(16384), 0, 1))
        except OSError:
            pass  # cut, or it takes no more


def bomb(port, context=None):
    """S27: 256 MB of zeros in a quarter of a megabyte. Nobody unpacks it."""
    packed = gzip.compress(bytes(256 << 20), 1)
    with greet(port, context) as connection:
        connection.settimeout(STALLED_SECONDS)
        try:
            connection.sendall(headers(1, "/atoll.v1.JobService/ListJobs", ("grpc-encoding", "gzip")))
            message = b"\1" + struct.pack(">I", len(packed)) + packed
            for at in range(0, len(message), 16384):
                connection.sendall(frame(DATA, message[at:at + 16384], int(at + 16384 >= len(message)), 1))
        except OSError:
            pass


def broken_text(port):
    """A name that is no text: refused, without a line of a library in the log."""
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
    """S28: calls that are taken back at once. The coordinator cuts the connection when they come too fast."""
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
