"""A running job shows each worker's measured utilization beside the plan's, on a link that is narrow enough to matter."""
from atoll_harness import check, equal, main, wait_for


def shown(scene):
    """The workers once all of them show the plan beside what they measured."""
    workers = scene.atoll("-o", "json", "worker", "list").json()["workers"]
    return workers if len(workers) == 2 and all("planned_utilization_ratio" in worker for worker in workers) else None


def test(scene):
    manifest = scene.corpus(text_bytes=400_000)
    data = scene.path("data")
    coordinator = scene.coordinator("--data-root", data)
    for name in ("a", "b"):
        scene.worker(name, coordinator, "--data-root", data, "--upload-limit", "2MB/s")
    # 2.3 MB of contribution every ten steps.
    scene.submit("job", manifest, steps=5000, workers={"min": 2}, model={"layers": 2, "hidden_size": 256},
                 sync={"inner_steps": 10, "upload_codec": "fp32", "download_codec": "bf16"})
    scene.wait_round("job", 4)
    for worker in wait_for("the plan beside what was measured", lambda: shown(scene)):
        measured, planned = worker["compute_utilization_ratio"], worker["planned_utilization_ratio"]
        print(f"{worker['name']}: measured {measured:.3f}, planned {planned:.3f}, up {worker['upload_bytes_per_second']:.0f} B/s, "
              f"down {worker['download_bytes_per_second']:.0f} B/s")
        check(0 < measured < 1 and 0 < planned < 1, f"no share of time: {worker}")
        check(1 / 10 < measured / planned < 10, f"measured {measured} where the plan says {planned}")
        # All but two frames of a tenth of a second wait for their turn.
        check(0 < worker["upload_bytes_per_second"] < 3e6, f"a limit of 2 MB/s shows as {worker['upload_bytes_per_second']}")
        equal(worker["participation_ratio"], 1, f"the participation of {worker['name']}")
    text = scene.atoll("job", "describe", "job").out
    check("\nUtilization\n" in text and "MB/s" in text, f"describe shows no utilization: {text}")
    scene.atoll("job", "cancel", "job")


main(test)
