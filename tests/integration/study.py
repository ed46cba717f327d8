# SPDX-License-Identifier: Apache-2.0
"""A study from nothing: text, the common start, two runs, the report. Finished runs are not repeated; --job prints a
run's job file. A study with one corpus per worker reports the loss on each."""
import json
import pathlib
import subprocess

from atoll_harness import BIN, check, equal, generated_text, main

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ARMS = ["plain", "k = 1"]


def test(scene):
    texts, folder = scene.path("texts"), scene.path("study")
    (texts / "corpus").mkdir(parents=True)
    (texts / "blimp").mkdir()
    for name in ("peps", "rfcs", "cppdocs"):
        lines = [json.dumps({"text": generated_text(1_000, seed=i)}) for i in range(80)]
        (texts / "corpus" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    pair = {"sentence_good": "the dog sleeps", "sentence_bad": "the dog sleep"}
    (texts / "blimp" / "pairs.jsonl").write_text(json.dumps(pair) + "\n")
    environment = scene.environment(ATOLL_TEST_DATA=str(texts), ATOLL_STUDY_FOLDER=str(folder), ATOLL_BIN=str(BIN))

    def study(*options, status=0):
        done = subprocess.run([ROOT / "scripts/study", *options], env=environment, capture_output=True, text=True, timeout=200)
        equal(done.returncode, status, f"the exit status of study {' '.join(options)}: {done.stderr}")
        return done.stdout + done.stderr

    job = study("k1", "--size", "smoke", "--job", "k = 1")
    check("made by the first run" in job and f"{folder}/pretrained" in job, f"the job file does not say where it starts: {job}")
    chosen = ["k1", "--size", "smoke", "--seeds", "1", "--arms", ",".join(ARMS)]
    said = study(*chosen)
    check("pretraining: loss" in said and all(f"{arm}, seed 1: loss" in said for arm in ARMS), f"it says: {said}")
    runs = json.loads((folder / "smoke/data/k1-smoke.json").read_text())["runs"]
    equal(sorted(run["arm"] for run in runs), sorted(ARMS), "the arms that were kept")
    check(len({run["start"] for run in runs}) == 1, "the runs do not begin from the same parameters")
    check(all(run["tasks"]["pairs"] in (0, 1) for run in runs), "the pair was not scored")
    page = (folder / "smoke/k1-smoke.md").read_text()
    check("one seed only" in page and "not run" in page, f"the page does not say what was played: {page}")
    check("seed 1" not in study(*chosen), "what was there was played again")
    by_domain = ["domains", "--size", "smoke", "--seeds", "1", "--arms", "mixed,own domain"]
    study(*by_domain)
    runs = json.loads((folder / "smoke/data/domains-smoke.json").read_text())["runs"]
    check(all(sorted(run["domains"]) == ["cppdocs", "peps", "rfcs"] for run in runs), f"the losses by domain are not all there: {runs}")
    check("| held-out loss by domain | peps | rfcs | cppdocs |" in (folder / "smoke/domains-smoke.md").read_text(), "the page lacks them")
    check("weight: 17" in study("domains-unequal", "--job", "mixed by size"), "a corpus has not the share that its study gives it")
    check("no arm other" in study("k1", "--size", "smoke", "--arms", "other", status=1), "an arm that is not there is not named")


main(test)
