# SPDX-License-Identifier: Apache-2.0
"""The wall clock of real processes, moved by a test: what they read is moved, by a library that is loaded into them (moved_clock.cc)."""
import struct
import time

from preload import SharedPage, refuse_without

LIBRARY = "libmoved_clock.so"
HOUR, DAY = 3600, 86400


def refuse_without_moved_clock():
    refuse_without(LIBRARY)


class MovedClock(SharedPage):
    """The wall clock of whoever is started with `environment`: so many seconds from the true one. Where `rate` is not 1, all clocks are
    right now and go so many times as fast as they should; such a one is not moved."""

    def __init__(self, scene, name, rate=1):
        self.rate, self.right_at = rate, time.time()
        page = struct.pack("<qqqqq", 0, 0, round(1000 * rate), int(self.right_at * 1e9), time.monotonic_ns())
        super().__init__(scene.path(f"{name}.clock"), LIBRARY, "MOVED_CLOCK_FILE", page)

    def move(self, seconds):
        self.write("<qq", seconds * 10**9, 0)

    def stop(self):
        """It stands still, from now until it is moved."""
        self.write("<qq", 0, time.time_ns())
