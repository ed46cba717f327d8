# SPDX-License-Identifier: Apache-2.0
"""A coordinator with a disk budget behaves as if the disk had that size. It refuses jobs that would take more. With
less than a tenth of the budget left it accepts no contributions and the job gives the reason, although the disk has
space. With space again it continues by itself."""
from atoll_harness import check, equal, main, number, wait_for

BUDGET_BYTES = 96 << 20
ENDLESS = 1_000_000


def held_back(scene):
    return "disk is almost full" in scene.job("job").get("reason", "")


def test(scene):
    manifest = scene.corpus()
    data = ("--data-root", scene.path("data"))
    coordinator = scene.coordinator(*data, "--disk-budget", f"{BUDGET_BYTES >> 20}MiB")
    worker = scene.worker("a", coordinator, *data)
    scene.submit("job", manifest, steps=ENDLESS)
    scene.wait_round("job", 3, alive=[worker])
    greedy = scene.job_file("greedy", manifest, steps=ENDLESS, checkpoint={"keep_contributions": True})
    refused = scene.atoll("job", "submit", greedy, code=3)
    check("of the coordinator's disk" in refused.err and "--disk-budget" in refused.err, f"submit said {refused.err!r}")
    filler = scene.path("state") / "filler"
    filler.write_bytes(bytes(BUDGET_BYTES // 100 * 92))
    wait_for("the word about an almost full disk", lambda: held_back(scene), 60, [coordinator, worker])
    ratio = next(line for line in coordinator.page("/metrics").splitlines() if line.startswith("atoll_disk_free_ratio"))
    check(float(ratio.split()[-1]) < 0.1, f"the page says {ratio}")
    filler.unlink()
    wait_for("the end of that word", lambda: not held_back(scene), 60, [coordinator, worker])
    scene.wait_round("job", number(scene.job("job"), "round") + 2, alive=[worker])
    scene.atoll("job", "cancel", "job")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


main(test)
