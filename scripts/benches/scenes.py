# SPDX-License-Identifier: Apache-2.0
"""Scenes of real processes for benchmarks: the harness of the integration tests, with links in between."""
import collections
import contextlib
import functools
import json
import os
import re
import shutil
import sys
import types

from benches import machine

sys.path.insert(0, str(machine.ROOT / "tests/integration"))
import atoll_harness  # noqa: E402

SCRATCH = machine.ROOT / "build/bench-scenes"


@functools.cache
def harness():
    """The module tests/integration/atoll_harness with the release programs, even if it was imported before."""
    atoll_harness.BIN = machine.built("release", "atoll", "atoll-coordinator", "atoll-worker")
    machine.built("bench", "bench_link")
    return atoll_harness


@contextlib.contextmanager
def scene(name):
    """A scene that ends its processes and deletes its files; on failure the logs are printed and kept."""
    directory = SCRATCH / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    made, failed = harness().Scene(directory), True
    try:
        yield made
        failed = False
    finally:
        made.close(failed)
        if not failed:
            shutil.rmtree(directory)


def linked(scene, name, coordinator, bits_per_second, delay_seconds=0):
    """The coordinator's replacement for a worker with a link of its own (tests/bench/link_shaper.h)."""
    relay = scene.start(f"link-{name}", [machine.ROOT / "build/bench/bin/bench_link", "relay", bits_per_second, delay_seconds,
                                         coordinator.ports["control"], coordinator.ports["bulk"]])
    line = harness().wait_for(f"the ports of {relay.name}", lambda: relay.log().partition("\n")[0] if "\n" in relay.log() else None, 30, [relay])
    control, bulk = json.loads(line)["ports"]
    return types.SimpleNamespace(ports={"control": control, "bulk": bulk})


def metrics(process):
    """Numbers from its page, without labels; 0 for metrics not counted yet."""
    return collections.defaultdict(float, {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", process.page("/metrics"), re.M)})


def cpu_seconds(process):
    """User and system time of all threads of a running process."""
    fields = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
