"""A worker of another protocol or arithmetic revision is refused with both numbers; so is what is no worker at all.

The worker is played by this test: a gRPC call by hand, so that its Hello can say what no program of this tree would.

S15.
"""
import re
import socket
import struct

from atoll_harness import Failure, check, equal, main

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header as HPACK spells it without tables and without Huffman."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    """A field of a protobuf message: text, bytes or a number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def hello(worker, protocol_revision, arithmetic_revision):
    """WorkerMessage{hello}, proto/atoll/v1/worker.proto."""
    nonce = varint(5 << 3 | 1) + struct.pack("<Q", 12345)
    return field(1, field(1, worker) + field(2, "0.0.0") + field(3, protocol_revision) + field(4, arithmetic_revision) + nonce + field(8, "cpu"))


def call(port, message):
    """Sends one message on a control stream and gives what comes back until the stream ends."""
    authority = f"127.0.0.1:{port}"
    headers = b"".join(literal(*pair) for pair in (
        (":method", "POST"), (":scheme", "http"), (":path", "/atoll.v1.WorkerService/Control"), (":authority", authority),
        ("content-type", "application/grpc"), ("te", "trailers")))
    with socket.create_connection(("127.0.0.1", port), timeout=30) as wire:
        body = b"\0" + struct.pack(">I", len(message)) + message
        wire.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, END_HEADERS, 1, headers) + frame(DATA, 0, 1, body))
        return read_answer(wire)


def exactly(wire, count):
    content = b""
    while len(content) < count:
        piece = wire.recv(count - len(content))
        if not piece:
            raise Failure("the coordinator closed the connection without an answer")
        content += piece
    return content


def read_answer(wire):
    answer = b""
    while True:
        head = exactly(wire, 9)
        kind, flags = head[3], head[4]
        payload = exactly(wire, int.from_bytes(head[:3], "big"))
        if kind == DATA:
            answer += payload
        elif kind == SETTINGS and not flags & ACK:
            wire.sendall(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            wire.sendall(frame(PING, ACK, 0, payload))
        if kind in (RST_STREAM, GOAWAY) or (kind in (DATA, HEADERS) and flags & END_STREAM):
            return answer


def refusal(port, message):
    """The sentence of Refused, which is the longest readable run in the answer."""
    answer = call(port, message).decode("utf-8", errors="replace")
    return max(re.findall(r"[ -~]+", answer), key=len, default="")


def test(scene):
    coordinator = scene.coordinator()
    port = coordinator.ports["control"]
    said = refusal(port, hello("stranger", 999, 1))
    check(re.search(r"speaks protocol revision 1, the worker.* 999", said), f"protocol revision 999 was refused with {said!r}")
    said = refusal(port, hello("stranger", 1, 999))
    check(re.search(r"arithmetic revision 1.* 999", said), f"arithmetic revision 999 was refused with {said!r}")
    call(port, hello("Not A Name", 1, 1))  # these two end with an error in the stream's trailers,
    call(port, b"\xff\xff\xff")           # and the coordinator goes on
    equal(scene.atoll("-o", "name", "worker", "list", "--all").out, "", "the workers after all refusals")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


main(test)
