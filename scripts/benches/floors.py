# SPDX-License-Identifier: Apache-2.0
"""Lower bounds for a round: its bytes over plain and TLS sockets of this machine, and its uploads on its disk."""
import multiprocessing
import os
import pathlib
import socket
import ssl
import time

PIECE = 1 << 20  # size of one write or read


class Ended(Exception):
    """An end of a connection stopped before the bytes had moved."""


def moved(workers, size, identity=None):
    """(seconds, CPU seconds) to move `size` bytes up each of the connections at once and then down each of them, as in
    a round. Every end is a separate process. `identity`, a file with key and certificate: over TLS 1.3."""
    fork = multiprocessing.get_context("fork")
    gate, used = fork.Barrier(2 * workers + 1), fork.Array("d", 2 * workers)
    ends = []
    for i in range(workers):
        listener = socket.create_server(("127.0.0.1", 0))
        for k, begin in enumerate((listener.accept, lambda to=listener.getsockname(): [socket.create_connection(to)])):
            ends.append(fork.Process(target=one_end, args=(begin, size, k == 1, identity, gate, used, 2 * i + k), daemon=True))
            ends[-1].start()
        listener.close()
    try:
        gate.wait(60)  # connected, buffers touched
        begin = time.monotonic()
        for _ in ("up", "down"):
            gate.wait(600)
        return time.monotonic() - begin, sum(used)
    except Exception as why:
        raise Ended("raw sockets: an end of a connection failed; its own words are above") from why
    finally:
        for end in ends:
            end.join(10)
            end.kill()


def one_end(connect, size, dials, identity, gate, used, place):
    connection = connect()[0]
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if identity:
        connection = encrypted(connection, dials, identity)
    buffer = memoryview(bytearray(os.urandom(PIECE)) * -(-size // PIECE))[:size]
    gate.wait(60)
    begin = time.process_time()
    for sends in (dials, not dials):
        if sends:
            connection.sendall(buffer)
        else:
            fill(connection, buffer)
        used[place] = time.process_time() - begin
        gate.wait(600)
    connection.close()


def encrypted(connection, dials, identity):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if dials else ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if dials:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_cert_chain(identity)
    return context.wrap_socket(connection, server_side=not dials)


def fill(connection, buffer):
    at = 0
    while at < len(buffer):
        got = connection.recv_into(buffer[at:at + PIECE])
        if got == 0:
            raise Ended("the other end of a raw connection closed it")
        at += got


def flushed(directory, size):
    """(seconds, CPU seconds) to write this many bytes to one new file below `directory`, in pieces, with one flush."""
    piece = os.urandom(PIECE)
    path = pathlib.Path(directory) / "floor"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        begin, cpu = time.monotonic(), time.process_time()
        for at in range(0, size, PIECE):
            os.write(file, piece[:min(PIECE, size - at)])
        os.fdatasync(file)
        return time.monotonic() - begin, time.process_time() - cpu
    finally:
        os.close(file)
        path.unlink()
