# SPDX-License-Identifier: Apache-2.0
"""One run from end to end: text (Shakespeare's if available), corpus, job, two workers, evaluation, export,
generation."""
import json

from atoll_harness import check, close, equal, main, number, real_text

HELD_OUT_TOKENS = 4096


def check_corpus(scene, manifest):
    directory = manifest.parent
    summary = scene.atoll("-o", "json", "data", "inspect", directory).json()
    check(summary["splits"]["train"]["tokens"] > 100_000, f"the corpus is too small: {summary}")
    check(summary["splits"]["held_out"]["tokens"] > HELD_OUT_TOKENS, f"too little is held out: {summary}")
    check(scene.atoll("-o", "json", "data", "verify", directory).json()["verified"], "the corpus is not verified")


def check_job(job, steps):
    equal(number(job, "step"), steps, "the job clock")
    equal(number(job, "stop_step"), steps, "the planned end")
    first, last = job["first_evaluation"], job["last_evaluation"]
    equal(number(first, "step"), 0, "the step of the first evaluation")
    equal(number(last, "step"), steps, "the step of the last evaluation")
    equal(number(last, "tokens"), HELD_OUT_TOKENS, "the targets of the last evaluation")
    check(last["perplexity"] < 0.2 * first["perplexity"], f"perplexity went only from {first['perplexity']} to {last['perplexity']}")
    ledger = job["ledger"]
    equal(number(ledger, "leased"), 0, "leased samples of an ended job")
    equal(number(ledger, "abandoned"), 0, "abandoned samples")
    equal(number(ledger, "consumed") * 32, number(job, "tokens"), "the tokens behind the consumed samples")
    check(number(job, "uploaded_bytes") > 0 and number(job, "downloaded_bytes") > 0, "no bytes were counted")


def check_event_log(scene, rounds):
    lines = scene.logged_events("job")
    revisions = [int(line["revision"]) for line in lines]
    equal(revisions, sorted(set(revisions)), "the order of revisions in the event log")
    commits = [line for line in lines if line["kind"] == "round committed"]
    check(len(commits) >= rounds, f"{len(commits)} commits in the event log, {rounds} rounds in the job")
    both = [c for c in commits if "a" in json.dumps(c) and "b" in json.dumps(c)]
    check(both, "no commit of both workers in the event log")


def check_export(scene, manifest, name, evaluation):
    """The exported directory has the loss that the job measured, and generates text."""
    directory = scene.path(f"export-{name}")
    scene.atoll("checkpoint", "export", name, directory)
    for file in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"):
        check((directory / file).exists(), f"the export has no {file}")
    loss = scene.run("atoll-worker", "eval-loss", "--checkpoint", directory, "--manifest", manifest.parent, "--sequence-length", 32,
                     "--max-tokens", HELD_OUT_TOKENS, "--threads", 1).json()
    equal(loss["tokens"], number(evaluation, "tokens"), "the targets of eval-loss")
    close(loss["loss"], evaluation["loss"], 1e-3, "the loss of the export")
    scene.path(f"expected-{name}.json").write_text(json.dumps({"loss": loss["loss"], "tokens": loss["tokens"]}))
    generate = ("generate", "--checkpoint", directory, "--prompt", "the ", "--max-tokens", 40, "--threads", 1, "--seed")
    texts = [scene.run("atoll-worker", *generate, seed).out for seed in range(3, 15)]
    print(f"loss {evaluation['loss']:.4f}, perplexity {evaluation['perplexity']:.2f}, generated {texts!r}")
    # Most texts may end early, with an end-of-text token: a model trained for seconds takes it for a common one.
    check(max(len(text.strip()) for text in texts) > 10, f"generate printed {texts!r}")
    equal(scene.run("atoll-worker", *generate, 3).out, texts[0], "the text of the same seed")


def check_diagnostics(scene):
    """The measurements of the newest round of each fragment, of each contribution and each worker, as shown to people
    and programs."""
    fragments = scene.atoll("-o", "json", "job", "describe", "four").json()["job"]["fragments"]
    for newest in [fragment["newest"] for fragment in fragments]:
        check(0.01 < newest["download_error_ratio"] < 0.5, f"four bits lost {newest['download_error_ratio']} of an update")
        check(newest["pseudo_gradient_norm"] > 0 and newest["outer_step_gain_ratio"] > 0, f"no norms: {newest}")
        for alignment in ("outer_step_alignment_ratio", "momentum_alignment_ratio", "mean_cosine_ratio"):
            check(-1 <= newest[alignment] <= 1, f"{alignment} is {newest[alignment]}")
        check(any(0.01 < c["upload_error_ratio"] < 0.5 for c in newest["contributions"]), f"no error of the upload: {newest}")
    text = scene.atoll("job", "describe", "four").out
    check("Newest rounds" in text and "Newest contributions" in text, f"describe shows no diagnostics: {text}")
    lines = scene.logged_events("four")
    fields = [line["fields"] for line in lines if line["kind"] == "round committed"][-1]
    for name in ("directions", "participation", "download_error", "outer_step_gain", "step_alignment", "momentum_alignment",
                 "staleness_steps"):
        check(fields.get(name), f"the line of a round has no {name}: {fields}")
    for worker in scene.atoll("-o", "json", "worker", "list").json()["workers"]:
        check(0 < worker["compute_utilization_ratio"] <= 1, f"the utilization of {worker['name']} is not a share: {worker}")
    check("COMPUTING" in scene.atoll("-o", "wide", "worker", "list").out, "worker list -o wide shows no utilization")


def four_bits(scene, manifest):
    """Streaming with four bits in both directions, on the same workers: fragments in flight, error memory on both
    legs, QK-norm."""
    steps = 160
    scene.submit("four", manifest, steps=steps, workers={"min": 2}, model={"layers": 4, "qk_norm": True, "z_loss": 1e-4},
                 sync={"fragments": "strided", "layers_per_fragment": 2, "overlap_steps": 2, "mix": 0.25, "upload_codec": "mxfp4",
                       "download_codec": "mxfp4", "upload_error_memory": "loco", "download_error_memory": "feedback"},
                 evaluation={"every_rounds": 0, "max_tokens": HELD_OUT_TOKENS})
    job = scene.wait_end("four")
    check_job(job, steps)
    equal(len(job["fragments"]), 3, "the fragments")
    for worker in ("a", "b"):
        check("another hash" not in scene.path(f"{worker}.log").read_text(), f"worker {worker} was a deviant")
    check_diagnostics(scene)
    check_export(scene, manifest, "four", job["last_evaluation"])


def test(scene):
    manifest = scene.corpus(text=real_text(300_000))
    check_corpus(scene, manifest)
    data = scene.path("data")
    coordinator = scene.coordinator("--data-root", data)
    workers = [scene.worker(name, coordinator, "--data-root", data) for name in ("a", "b")]
    steps = 120
    scene.submit("job", manifest, steps=steps, workers={"min": 2}, sync={"upload_codec": "bf16", "download_codec": "bf16"},
                 evaluation={"every_rounds": 4, "max_tokens": HELD_OUT_TOKENS}, checkpoint={"every_rounds": 4, "keep_last": 2})
    watched = scene.atoll("job", "watch", "job").out
    check("round committed" in watched, f"watch printed no commit: {watched}")
    job = scene.wait_end("job")
    check_job(job, steps)
    check_event_log(scene, number(job, "round"))
    checkpoints = scene.atoll("-o", "json", "checkpoint", "list", "job").json()["checkpoints"]
    check(1 <= len(checkpoints) <= 3, f"{len(checkpoints)} checkpoints are kept")
    check_export(scene, manifest, "job", job["last_evaluation"])
    four_bits(scene, manifest)
    for worker in workers:
        equal(worker.terminate(), 0, f"the exit status of worker {worker.name}")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


main(test)
