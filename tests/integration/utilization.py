# SPDX-License-Identifier: Apache-2.0
"""A running job shows each worker's measured utilization and the plan's, on a link that is narrow enough to matter.
No figure depends on this machine's speed: the shown values must follow from the worker's counters, the plan from the
displayed figures, and the bytes per second from the cap."""
import collections
import re

from atoll_harness import check, close, equal, main, number, wait_for

LIMIT = 2e6  # bytes per second upwards
AT_ONCE = 0.2 * LIMIT  # two frames of a tenth of a second; further bytes wait
INNER_STEPS, TOKENS_A_STEP = 10, 4 * 32
KEPT_OF_A_STEP = 499 / 500  # decay of the measured share with each step


def counted(worker):
    """The values of its metrics without labels; 0 for a metric without a value."""
    return collections.defaultdict(float, {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", worker.page("/metrics"), re.M)})


def computed(counts):
    return counts["atoll_step_duration_seconds_sum"]


def beside_steps(counts):
    return sum(counts[f"atoll_{what}_seconds_total"] for what in ("data_wait", "sync_wait", "sync_work"))


def shown(scene, name, step):
    """The worker once it shows the plan in addition to its measurement, after that step."""
    worker = scene.listed_worker(name)
    known = "planned_utilization_ratio" in worker and worker.get("tokens_per_second", 0) > 0
    return worker if known and number(worker, "step") > step else None


def check_measured(name, measured, before, after):
    """The displayed value lies between two reads of the worker's counters, which only grow."""
    kept = KEPT_OF_A_STEP ** after["atoll_step_duration_seconds_count"]
    least = kept * computed(before) / (computed(after) + beside_steps(after))
    most = computed(after) / (computed(before) + beside_steps(before)) / kept
    check(0 < measured < 1 and 0.999 * least <= measured <= 1.001 * most, f"{name} shows {measured}, and has counted from {least} to {most}")


def look_at(scene, name, process, parameters):
    before = counted(process)
    # One step more, since the previous step may have been counted in part.
    worker = wait_for(f"the plan of {name} beside what was measured", lambda: shown(scene, name, before["atoll_inner_step"] + 1))
    after = counted(process)
    measured, planned = worker["compute_utilization_ratio"], worker["planned_utilization_ratio"]
    up, down = worker["upload_bytes_per_second"], worker["download_bytes_per_second"]
    print(f"{name}: measured {measured:.3f}, planned {planned:.3f}, up {up:.0f} B/s, down {down:.0f} B/s")
    check_measured(name, measured, before, after)
    period = INNER_STEPS * TOKENS_A_STEP / worker["tokens_per_second"]  # without waits
    close(planned, period / (period + 4 * parameters / up + 2 * parameters / down), 0.001, f"the plan of {name} for the figures beside it")
    # The cap alone makes each period wait so long: a slow machine waits longer, a machine without a cap hardly at
    # all.
    least = (4 * parameters - AT_ONCE) / LIMIT
    check(0 < up <= 1.01 * 4 * parameters / least, f"a limit of {LIMIT:.0f} B/s shows as {up:.0f}")
    periods = (after["atoll_step_duration_seconds_count"] - 1) // INNER_STEPS
    check(periods >= 2, f"{name} has taken part in 4 rounds, and has counted {periods:.0f} periods")
    check(beside_steps(after) >= 0.5 * periods * least, f"{name} counted {beside_steps(after)} s beside its steps in {periods:.0f} periods")
    equal(worker["participation_ratio"], 1, f"the participation of {name}")


def test(scene):
    manifest = scene.corpus(text_bytes=400_000)
    data = scene.path("data")
    coordinator = scene.coordinator("--data-root", data)
    workers = {name: scene.worker(name, coordinator, "--data-root", data, "--upload-limit", f"{LIMIT / 1e6:.0f}MB/s") for name in ("a", "b")}
    # 2.3 MB of contribution every ten steps.
    scene.submit("job", manifest, steps=5000, workers={"min": 2}, model={"layers": 2, "hidden_size": 256},
                 sync={"inner_steps": INNER_STEPS, "upload_codec": "fp32", "download_codec": "bf16"})
    scene.wait_round("job", 4)
    parameters = number(scene.job("job"), "parameters")
    for name, process in workers.items():
        look_at(scene, name, process, parameters)
    text = scene.atoll("job", "describe", "job").out
    check("\nUtilization\n" in text and "MB/s" in text, f"describe shows no utilization: {text}")
    scene.atoll("job", "cancel", "job")


main(test)
