# SPDX-License-Identifier: Apache-2.0
"""Evaluation tasks of a job: scored by the evaluating worker, stored by the coordinator, equal to `atoll-worker eval`
on the export."""
import json

import atoll_harness
from atoll_harness import check, close, equal, generated_text, main, number

EXAMPLES = 20


def tasks(scene):
    """Files of both forms: BLiMP's pairs if available, generated ones otherwise, and generated multiple choice."""
    blimp = atoll_harness.TEST_DATA / "blimp" / "passive_1.jsonl"
    text = generated_text(20_000, seed=9)
    words = text.split()
    pairs = scene.path("passive_1.jsonl")
    if blimp.is_file():
        pairs.write_text(blimp.read_text(encoding="utf-8"), encoding="utf-8")
    else:
        made = [{"sentence_good": " ".join(words[i:i + 4]), "sentence_bad": " ".join(words[i + 3:i - 1:-1])} for i in range(50, 400, 4)]
        pairs.write_text("".join(json.dumps(p) + "\n" for p in made), encoding="utf-8")
    choices = scene.path("choices.jsonl")
    made = [{"ctx": " ".join(words[i:i + 5]), "endings": [words[i + 5], words[i + 90], "zzz"], "label": str(i % 3)} for i in range(0, 300, 5)]
    choices.write_text("".join(json.dumps(c) + "\n" for c in made), encoding="utf-8")
    return pairs, choices


def metric(page, name, task):
    found = [line.split()[-1] for line in page.splitlines() if line.startswith(name + "{") and f'task="{task}"' in line]
    equal(len(found), 1, f"the lines of {name} for {task}")
    return float(found[0])


def check_tokenizer(scene, coordinator, files, name, options):
    manifest = scene.corpus(name=f"text-{name}", text=generated_text(120_000), options=options)
    given = [{"file": str(files[0]), "examples": EXAMPLES}, {"name": "endings", "file": str(files[1])}]
    refused = scene.atoll("job", "submit", scene.job_file(f"short-{name}", manifest, data={"corpora": [{"manifest": str(manifest)}], "sequence_length": 8},
                                                          evaluation={"tasks": given}), code=2)
    check("the model's longest sequence is 8" in refused.err, f"submit said {refused.err!r}")
    scene.submit(name, manifest, steps=40, workers={"min": 2}, data={"corpora": [{"manifest": str(manifest)}], "sequence_length": 128},
                 evaluation={"every_rounds": 1, "max_tokens": 2048, "tasks": given, "tasks_every_rounds": 2})
    scene.wait_end(name)
    described = scene.describe(name)
    scored = [e for e in described["evaluations"] if "tasks" in e]
    check(len(scored) >= 2, f"the tasks were scored {len(scored)} times")
    equal(number(scored[0], "step"), 0, "the step of the first scores")
    equal(number(scored[-1], "step"), 40, "the step of the last scores")
    last = scored[-1]["tasks"]
    equal([t["name"] for t in last], ["passive_1", "endings"], "the tasks")
    equal(number(last[0], "examples"), EXAMPLES, "the examples of the first task")

    directory = scene.path(f"export-{name}")
    scene.atoll("checkpoint", "export", name, directory)
    for task, file, limit in ((last[0], files[0], EXAMPLES), (last[1], files[1], 0)):
        alone = scene.run("atoll-worker", "eval", "--checkpoint", directory, "--task", file, "--limit", limit, "--threads", 1).json()
        for key in ("examples", "correct"):
            equal(number(task, key), alone[key], f"{key} of {task['name']} in the job and of the export")
        close(task.get("accuracy", 0), alone["accuracy"], 1e-5, "the accuracy")
        close(task.get("standard_error", 0), alone["standard_error"], 1e-3, "the standard error")
        equal(number(task, "correct_per_byte") if "correct_per_byte" in task else None, alone.get("correct_per_byte"), "correct_per_byte")

    curves = {c["metric"]: c["points"] for c in scene.atoll("-o", "json", "job", "metrics", name).json()["curves"]}
    equal(len(curves["task_accuracy/passive_1"]), len(scored), "the points of the curve")
    close(curves["task_accuracy/endings"][-1].get("value", 0), last[1].get("accuracy", 0), 1e-9, "the end of the curve")
    check("Evaluation tasks" in scene.atoll("job", "describe", name).out, "describe shows no tasks")
    page = coordinator.page("/metrics")
    own = "\n".join(line for line in page.splitlines() if f'job="{name}"' in line)
    close(metric(own, "atoll_task_accuracy_ratio", "passive_1"), last[0].get("accuracy", 0), 1e-6, "the metric")
    close(metric(own, "atoll_task_standard_error_ratio", "passive_1"), last[0].get("standard_error", 0), 1e-6, "the metric of the error")
    lines = scene.logged_events(name)
    check(any("task_accuracy/passive_1" in line["fields"] for line in lines if line["kind"] == "evaluation"), "the event log has no accuracy")


def test(scene):
    scene.path("data").mkdir()
    files = tasks(scene)
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    for name in ("a", "b"):
        scene.worker(name, coordinator, "--data-root", scene.path("data"))
    check_tokenizer(scene, coordinator, files, "bytes", ())
    check_tokenizer(scene, coordinator, files, "pieces", ("--train-tokenizer", "400"))


main(test)
