# SPDX-License-Identifier: Apache-2.0
"""A worker without a copy of the corpus streams the blocks of its leases; its cache keeps them for the next run."""
from atoll_harness import check, equal, main, number

BLOCK_BYTES = 1 << 20


def block_bytes(coordinator):
    """Bytes of blocks sent to the worker, by the coordinator's count."""
    lines = [line for line in coordinator.page("/metrics").splitlines()
             if line.startswith("atoll_transfer_bytes_total") and 'kind="block"' in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def cached_files(scene):
    return {file: file.stat().st_size for file in scene.path("cache-a").rglob("*") if file.is_file()}


def test(scene):
    manifest = scene.corpus(text_bytes=1_400_000)  # 2 bytes a token: three training blocks
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    worker = scene.worker("a", coordinator)
    scene.submit("first", manifest, data={"corpora": [{"manifest": str(manifest)}], "sequence_length": 32, "window_blocks": 2})
    first = scene.wait_end("first")
    streamed = block_bytes(coordinator)
    check(streamed >= BLOCK_BYTES, f"only {streamed} bytes of blocks were streamed")
    cached = cached_files(scene)
    check(sum(cached.values()) >= BLOCK_BYTES, f"the cache holds {cached}")
    check("from=coordinator" in worker.log(), "the worker does not say where its data comes from")

    scene.submit("second", manifest, data={"corpora": [{"manifest": str(manifest)}], "sequence_length": 32, "window_blocks": 2})
    second = scene.wait_end("second")
    equal(block_bytes(coordinator), streamed, "the bytes streamed after the second run, which has the same order of samples")
    equal(cached_files(scene), cached, "the cache after the second run")
    equal(number(second, "tokens"), number(first, "tokens"), "the tokens of the second run")
    # The same samples in the same order from the same seed: the same numbers.
    equal(second["last_evaluation"]["loss"], first["last_evaluation"]["loss"], "the loss of the second run")


main(test)
