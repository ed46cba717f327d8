# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy with the faults of networks and middleboxes: flipped bits, connections that are reset or closed in one
direction, bytes delivered one by one, or a silent stop. One fault at a time, for existing and new connections."""
import random
import socket
import struct
import threading

PIECE_BYTES = 65536
WHOLE, FLIPS, RESETS, HALF_CLOSES, TRICKLES, SILENCE = "whole", "flips", "resets", "half closes", "trickles", "silence"


class Wire:
    """Listens at `port` of 127.0.0.1 and forwards to `target`, also a port of 127.0.0.1. `befallen`: the number of
    occurrences of the current fault."""

    def __init__(self, target, seed, mean_bytes):
        self.target, self.mean_bytes = target, mean_bytes  # a fault occurs after 1 to 2 * mean_bytes bytes of a direction
        self.dice = random.Random(seed)
        self.change = threading.Condition()
        self.fault, self.befallen = WHOLE, 0
        self.onward = set()  # local ports of the connections to the target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def turn(self, fault):
        with self.change:
            self.fault, self.befallen = fault, 0
            self.change.notify_all()

    def _accept(self):
        while True:
            near, _ = self.listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            with self.change:
                self.onward.add(far.getsockname()[1])
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for way in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=way, daemon=True).start()

    def _draw(self):
        with self.change:
            return self.dice.randint(1, 2 * self.mean_bytes)

    def _befell(self):
        with self.change:
            self.befallen += 1

    def _carry(self, source, sink):
        """Runs until one of its ends is closed."""
        left = self._draw()  # bytes until the fault
        try:
            while data := source.recv(PIECE_BYTES):
                with self.change:  # bytes in flight wait and arrive when they can, as with TCP
                    if self.fault == SILENCE:
                        self.befallen += 1
                    self.change.wait_for(lambda: self.fault != SILENCE)
                    fault = self.fault
                left -= len(data)
                if fault == TRICKLES:
                    self._trickle(sink, data)
                elif left <= 0 and fault != WHOLE:
                    data = data[:len(data) + left] or data[:1]  # up to the position of the fault
                    if not self._fail(fault, source, sink, bytearray(data)):
                        return
                else:
                    sink.sendall(data)
                if left <= 0:
                    left = self._draw()
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for one in (source, sink):
                one.close()

    def _fail(self, fault, source, sink, data):
        """True if this direction continues."""
        self._befell()
        if fault == FLIPS:
            data[-1] ^= 1 << self._draw() % 8
            sink.sendall(data)
            return True
        sink.sendall(data)
        if fault == HALF_CLOSES:
            sink.shutdown(socket.SHUT_WR)
            return False  # later bytes are not read
        for one in (source, sink):  # closed with a reset
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.shutdown(socket.SHUT_RD)  # wakes the other direction, which holds it as well
            one.close()
        return False

    def _trickle(self, sink, data):
        """The first bytes one by one, each in its own packet; the rest at once, to finish in reasonable time."""
        self._befell()
        for i in range(min(len(data), 64)):
            sink.sendall(data[i:i + 1])
        sink.sendall(data[64:])
