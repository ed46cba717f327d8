# SPDX-License-Identifier: Apache-2.0
"""A link with a rate, a delay, a loss, jitter, and duplicated or reordered packets, for real processes on one
machine: a TUN device returns packets with their two addresses exchanged. A program that dials `link.there` reaches a
listener on this machine, and every packet of the connection passes through the emulator (exchanging addresses keeps
all checksums valid). Needs root and /dev/net/tun."""
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import threading
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCSIFADDR, SIOCSIFNETMASK, SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8916, 0x891C, 0x8913, 0x8914, 0x1
QUEUE_SECONDS = 0.5  # the link's buffer at its rate; further packets are dropped


def available():
    """None, or the reason why no link can be created here."""
    if os.geteuid() != 0:
        return "a TUN device takes root"
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}"
    return None


class TunLink:
    """`up` is the direction towards `ports`, `down` the way back. All settings may change while packets flow."""

    def __init__(self, seed=1):
        self.set()
        self.blocked = set()  # of "up", "down"
        self.carried = {"up": 0, "down": 0}  # bytes
        self.waited = {"up": 0, "down": 0}  # bytes of packets that found the line busy
        self.random = random.Random(seed)
        block = os.getpid() % 16000 * 4
        self.here, self.there = (f"10.{210 + block // 65536}.{block // 256 % 256}.{block % 256 + i}" for i in (1, 2))
        self.tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        name = struct.unpack("16sH", fcntl.ioctl(self.tun, TUNSETIFF, struct.pack("16sH", b"atoll%d", IFF_TUN | IFF_NO_PI)))[0]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for request, address in ((SIOCSIFADDR, self.here), (SIOCSIFNETMASK, "255.255.255.252")):
                fcntl.ioctl(control, request, struct.pack("16sH2s4s8s", name, socket.AF_INET, b"", socket.inet_aton(address), b""))
            flags = struct.unpack("16sH", fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sH", name, 0)))[1]
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH", name, flags | IFF_UP))
        self.ports = set()  # listening ports; a packet to one of them goes up
        self.stop_read, self.stop_write = os.pipe()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def set(self, rate_bits=None, delay_seconds=0.0, jitter_seconds=0.0, loss=0.0, twice=0.0):
        """Bits per second in each direction (None: unlimited), one-way delay and its largest jitter, which lets
        packets overtake one another, and the shares of lost and duplicated packets."""
        self.rate_bits, self.delay_seconds, self.jitter_seconds, self.loss, self.twice = rate_bits, delay_seconds, jitter_seconds, loss, twice

    def close(self):
        os.write(self.stop_write, b".")
        self.thread.join()
        for descriptor in (self.tun, self.stop_read, self.stop_write):
            os.close(descriptor)

    def run(self):
        due, free, count = [], {"up": 0.0, "down": 0.0}, 0
        while True:
            now = time.monotonic()
            while due and due[0][0] <= now:
                try:
                    os.write(self.tun, heapq.heappop(due)[2])
                except OSError:
                    pass  # its queue is full: one more lost packet
            ready, _, _ = select.select([self.tun, self.stop_read], [], [], max(0.0, due[0][0] - now) if due else None)
            if self.stop_read in ready:
                return
            if self.tun not in ready:
                continue
            packet = os.read(self.tun, 65536)
            if packet[0] >> 4 != 4:
                continue
            header = (packet[0] & 15) * 4
            way = "up" if struct.unpack_from(">H", packet, header + 2)[0] in self.ports else "down"
            now = time.monotonic()
            begin = max(now, free[way])
            if way in self.blocked or self.random.random() < self.loss or begin - now > QUEUE_SECONDS:
                continue
            free[way] = begin + (len(packet) * 8 / self.rate_bits if self.rate_bits else 0.0)
            self.carried[way] += len(packet)
            self.waited[way] += len(packet) if begin > now else 0
            for _ in range(2 if self.random.random() < self.twice else 1):
                count += 1  # equal times keep their order
                at = free[way] + self.delay_seconds + self.random.random() * self.jitter_seconds
                heapq.heappush(due, (at, count, packet[:12] + packet[16:20] + packet[12:16] + packet[20:]))
