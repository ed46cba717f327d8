# SPDX-License-Identifier: Apache-2.0
"""gRPC and protobuf written by hand, including the answers: a peer that speaks the protocol and may lie in it. Uses
http2_by_hand.py.

Messages are lists of (number, value) pairs: a number is a varint, Fixed64 and Fixed32 have their width, text and
bytes are length-delimited, a list of pairs is a message. One connection belongs to one thread."""
import collections
import ctypes
import socket
import ssl
import struct
import time

from http2_by_hand import (ACK, CANCEL, DATA, END_HEADERS, END_STREAM, FIRST_ROOM, HEADERS, INITIAL_WINDOW_SIZE, PING, PREFACE, RST_STREAM, SETTINGS,
                           WINDOW_UPDATE, frame, headers)

GOAWAY, PADDED = 7, 8
OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED = range(8)
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED = range(8, 17)
STATIC_NAMES = 61  # entries of HPACK's static table
SECONDS = 5  # to wait for an answer

Fixed64 = collections.namedtuple("Fixed64", "value")
Fixed32 = collections.namedtuple("Fixed32", "value")


# ---- protobuf

def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, Fixed64):
        return varint(number << 3 | 1) + struct.pack("<Q", value.value)
    if isinstance(value, Fixed32):
        return varint(number << 3 | 5) + struct.pack("<I", value.value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else message(*value)
    return varint(number << 3 | 2) + varint(len(content)) + content


def message(*pairs):
    return b"".join(field(number, value) for number, value in pairs)


def read_varint(content, at):
    n = shift = 0
    while True:
        n |= (content[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if content[at - 1] < 128:
            return n, at


def fields(content):
    """Every value of each field number of a message, in order. Texts and messages are bytes."""
    found, at = collections.defaultdict(list), 0
    while at < len(content):
        key, at = read_varint(content, at)
        if key & 7 == 0:
            value, at = read_varint(content, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            if size is None:
                size, at = read_varint(content, at)
            value, at = content[at:at + size], at + size
            if key & 7 != 2:
                value = int.from_bytes(value, "little")
        found[key >> 3].append(value)
    return found


def one(found, number, otherwise=0):
    """The last value of a field; an absent field is zero."""
    return found[number][-1] if found[number] else otherwise


# ---- digests and checksums

class Xxh128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def digest(content):
    """XXH3-128 as a Digest of worker.proto, by the library that the coordinator links."""
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits.restype, library.XXH3_128bits.argtypes = Xxh128, [ctypes.c_char_p, ctypes.c_size_t]
    found = library.XXH3_128bits(content, len(content))
    return [(1, Fixed64(found.high)), (2, Fixed64(found.low))]


def crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# ---- HTTP/2

def hpack_number(block, at, bits):
    mask = (1 << bits) - 1
    n = block[at] & mask
    if n < mask:
        return n, at + 1
    more, at = read_varint(block, at + 1)
    return n + more, at


def hpack_text(block, at):
    """Leaves Huffman-coded text as it is: gRPC's own fields are not Huffman-coded."""
    size, end = hpack_number(block, at, 7)
    return block[end:end + size], end + size


def read_headers(block, table):
    """The fields of a block; `table` is the dynamic table of the connection, newest first."""
    named = lambda i: table[i - STATIC_NAMES - 1] if i > STATIC_NAMES and i - STATIC_NAMES <= len(table) else (b"static", b"")
    found, at = {}, 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            index, at = hpack_number(block, at, 7)
            name, value = named(index)
        elif first & 0xE0 == 0x20:
            _, at = hpack_number(block, at, 5)
            continue
        else:
            index, at = hpack_number(block, at, 6 if first & 0x40 else 4)
            name, at = (named(index)[0], at) if index else hpack_text(block, at)
            value, at = hpack_text(block, at)
            if first & 0x40:
                table.insert(0, (name, value))
        found[name] = value
    return found


class Connection:
    """A connection to one port, over TLS if a context is given. An OSError means that it was cut or nothing answers.
    Without window updates it accepts only the first bytes (64 KiB, or the given window per call)."""

    def __init__(self, port, context=None, makes_room=True, first_room=FIRST_ROOM):
        self.makes_room = makes_room
        self.wire = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        try:
            if context is not None:
                self.wire = context.wrap_socket(self.wire)
            self.wire.sendall(PREFACE + frame(SETTINGS, struct.pack(">HI", INITIAL_WINDOW_SIZE, first_room)))
        except OSError:
            self.wire.close()
            raise
        self.calls, self.table, self.buffer, self.next = {}, [], b"", 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.close()

    def send(self, content):
        self.wire.settimeout(SECONDS)
        self.wire.sendall(content)

    def call(self, path, *more):
        call = Call(self, self.next)
        self.calls[self.next] = call
        self.send(headers(self.next, path, *more))
        self.next += 2
        return call

    def take(self, count, until):
        """`count` bytes, left in the buffer; False if they do not arrive in time."""
        while len(self.buffer) < count:
            left = until - time.monotonic()
            if left <= 0:
                return False
            self.wire.settimeout(left)
            try:
                piece = self.wire.recv(65536)
            except (socket.timeout, ssl.SSLWantReadError):
                return False
            if not piece:
                raise ConnectionResetError("the coordinator has closed the connection")
            self.buffer += piece
        return True

    def pump(self, until):
        """Reads one frame. Returns False if none arrived in time."""
        if not self.take(9, until) or not self.take(9 + int.from_bytes(self.buffer[:3], "big"), until):
            return False
        size = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big")
        payload, self.buffer = self.buffer[9:9 + size], self.buffer[9 + size:]
        if kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, b"", ACK))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, payload, ACK))
        elif kind == DATA:
            if payload and self.makes_room:
                room = struct.pack(">I", len(payload))
                self.send(frame(WINDOW_UPDATE, room) + frame(WINDOW_UPDATE, room, 0, stream))
        elif kind == GOAWAY and int.from_bytes(payload[:4], "big") == 0:
            raise ConnectionResetError("the coordinator has ended the connection")
        found = read_headers(payload, self.table) if kind == HEADERS else {}
        if call := self.calls.get(stream):
            call.hear(kind, flags, payload, found)
        return True


class Call:
    """One call. status: None while it runs; said: the message of its end."""

    def __init__(self, connection, stream):
        self.connection, self.stream, self.data, self.status, self.said = connection, stream, b"", None, ""

    def send(self, content, end=False, compressed=0):
        body = bytes([compressed]) + struct.pack(">I", len(content)) + content
        pieces = range(0, len(body), 16384)
        self.connection.send(b"".join(frame(DATA, body[at:at + 16384], END_STREAM if end and at == pieces[-1] else 0, self.stream) for at in pieces))

    def raw(self, content):
        """Raw bytes of the stream."""
        self.connection.send(frame(DATA, content, 0, self.stream))

    def reset(self):
        self.connection.send(frame(RST_STREAM, struct.pack(">I", CANCEL), 0, self.stream))
        self.connection.calls.pop(self.stream, None)

    def hear(self, kind, flags, payload, found):
        if kind == DATA:
            self.data += payload
        elif kind == HEADERS and b"grpc-status" in found:
            self.status, self.said = int(found[b"grpc-status"]), found.get(b"grpc-message", b"").decode(errors="replace")
        elif kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
            self.status = CANCELLED if self.status is None else self.status
        if flags & END_STREAM and kind == DATA and self.status is None:
            self.status = CANCELLED

    def pop(self):
        if len(self.data) < 5 or len(self.data) < 5 + int.from_bytes(self.data[1:5], "big"):
            return None
        end = 5 + int.from_bytes(self.data[1:5], "big")
        content, self.data = self.data[5:end], self.data[end:]
        return content

    def answer(self, seconds=SECONDS):
        """The next message; None if the call has ended, or nothing arrives for that long."""
        until = time.monotonic() + seconds
        while (content := self.pop()) is None and self.status is None:
            if not self.connection.pump(until):
                return None
        return content

    def end(self, seconds=SECONDS):
        """The status of its end; DEADLINE_EXCEEDED if it runs longer."""
        until = time.monotonic() + seconds
        while self.status is None:
            if not self.connection.pump(until):
                return DEADLINE_EXCEEDED
        return self.status
