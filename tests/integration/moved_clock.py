# SPDX-License-Identifier: Apache-2.0
"""Moves the wall clock of real processes: a preloaded library (moved_clock.cc) changes the time that they read."""
import struct
import time

from preload import SharedPage, refuse_without

LIBRARY = "libmoved_clock.so"
HOUR, DAY = 3600, 86400


def refuse_without_moved_clock():
    refuse_without(LIBRARY)


class MovedClock(SharedPage):
    """The clocks of processes started with `environment`: the wall clock differs from the true one by a number of
    seconds. If `rate` is not 1, all clocks are right now and run at that rate; such clocks cannot be moved."""

    def __init__(self, scene, name, rate=1):
        self.rate, self.right_at = rate, time.time()
        page = struct.pack("<qqqqq", 0, 0, round(1000 * rate), int(self.right_at * 1e9), time.monotonic_ns())
        super().__init__(scene.path(f"{name}.clock"), LIBRARY, "MOVED_CLOCK_FILE", page)

    def move(self, seconds):
        self.write("<qq", seconds * 10**9, 0)

    def stop(self):
        """Stops the clock until it is moved."""
        self.write("<qq", 0, time.time_ns())
