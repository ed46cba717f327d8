# SPDX-License-Identifier: Apache-2.0
"""An idle coordinator is small. The time until it was ready is printed, not checked, because it depends on the
machine."""
import time

from atoll_harness import check, equal, main

RSS_LIMIT_MB = 60


def test(scene):
    began = time.monotonic()
    coordinator = scene.coordinator()
    ready = time.monotonic() - began
    for page in ("/healthz", "/readyz"):
        equal(coordinator.page(page), "ok\n", page)
    scene.atoll("job", "list")
    rss = coordinator.resident_mb()
    print(f"ready after {ready:.2f} s, {rss:.1f} MB resident")
    check(rss < RSS_LIMIT_MB, f"an idle coordinator takes {rss:.1f} MB, the limit is {RSS_LIMIT_MB}")
    equal(coordinator.terminate(), 0, "its exit status")


main(test)
