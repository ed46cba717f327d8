# SPDX-License-Identifier: Apache-2.0
"""Every program prints, reports and logs the version of CMakeLists.txt; `atoll version` adds gRPC's and OpenSSL's."""
import pathlib
import re

from atoll_harness import check, equal, main, wait_for

LISTS = pathlib.Path(__file__).resolve().parent.parent.parent / "CMakeLists.txt"
PROGRAMS = ("atoll", "atoll-coordinator", "atoll-worker")


def test(scene):
    version = re.search(r"project\(atoll VERSION (\d+\.\d+\.\d+) ", LISTS.read_text()).group(1)
    for name in PROGRAMS:
        equal(scene.run(name, "--version").out, f"{name} {version}\n", f"{name} --version")
    linked = scene.atoll("version").out
    check(re.fullmatch(rf"atoll {version} \(gRPC 1\.[0-9.]+, OpenSSL 3\.[0-9.]+\)\n", linked), f"atoll version prints {linked!r}")
    coordinator = scene.coordinator()
    info = scene.atoll("version", "--server", "-o", "json").json()
    equal((info["version"], info["coordinator_version"]), (version, version), "atoll version --server")
    check(f'atoll_build_info{{version="{version}"}} 1' in coordinator.page("/metrics"), "atoll_build_info has another version")
    worker = scene.worker("w1", coordinator)
    wait_for("the worker's log to name the version", lambda: version in worker.log(), alive=[worker])


main(test)
