"""The wall clock of real processes, moved by a test: what they read is moved, by a library that is loaded into them (moved_clock.cc)."""
import struct
import time

from atoll_harness import BIN, Skip

HOUR, DAY = 3600, 86400


def refuse_without_moved_clock():
    if not (BIN / "libmoved_clock.so").exists():
        raise Skip("libmoved_clock.so is not built")


class MovedClock:
    """The wall clock of whoever is started with `environment`: so many seconds from the true one. Where `rate` is not 1, all clocks are
    right now and go so many times as fast as they should; such a one is not moved."""

    def __init__(self, scene, name, rate=1):
        self.path, self.rate, self.right_at = scene.path(f"{name}.clock"), rate, time.time()
        self.path.write_bytes(struct.pack("<qqqqq", 0, 0, round(1000 * rate), int(self.right_at * 1e9), time.monotonic_ns()))
        self.environment = {"LD_PRELOAD": str(BIN / "libmoved_clock.so"), "MOVED_CLOCK_FILE": str(self.path)}

    def move(self, seconds):
        with open(self.path, "r+b") as file:  # in place: the process has it mapped
            file.write(struct.pack("<qq", seconds * 10**9, 0))

    def stop(self):
        """It stands still, from now until it is moved."""
        with open(self.path, "r+b") as file:
            file.write(struct.pack("<qq", 0, time.time_ns()))
