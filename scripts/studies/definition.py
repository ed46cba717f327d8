# SPDX-License-Identifier: Apache-2.0
"""Defines a study: reads deploy/examples/studies and makes one complete job file for each arm and seed. Runs nothing."""
import copy
import hashlib
import json
import os
import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STUDIES = ROOT / "deploy/examples/studies"
RESULTS = ROOT / "docs/results"
FOLDER = pathlib.Path(os.environ.get("ATOLL_STUDY_FOLDER", ROOT / "build/study"))  # for all intermediate files
KEYS = {"question", "source", "relation", "why", "job", "corpora", "corpus_bytes", "separate_corpora", "workers", "seeds", "set", "arms",
        "checks", "report", "noise", "measure", "tasks", "budget_hours", "sizes", "notes", "start", "size"}
CHECK_KEYS = {"arm", "of", "relation", "at_most_percent", "within_percent", "goal_percent", "goal_tokens", "gap_shrinks", "times_fewer_bytes", "faster",
              "ahead_early", "peak_share", "afterwards"}
ARM_KEYS = {"name", "seeds", "workers", "set", "times", "pin", "overlaps", "corpus_weights", "start"}
REPORTS = ("loss", "bytes", "noise")
EVALUATION_SHARE = 0.1  # of a run's time
CORES = 2               # of the machine on which the rates of sizes.yaml are measured
SECONDS_A_RUN = 10  # programs start, the model is exported and scored


class Loader(yaml.SafeLoader):
    """Numbers of YAML 1.2, where 4e-3 is a number; PyYAML takes it for text."""


Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)$"), list("-+0123456789."))


def read_yaml(file):
    try:
        return yaml.load(file.read_text(), Loader)
    except yaml.YAMLError as error:
        fail(f"{file} is no YAML: {' '.join(str(error).split())}")


def fail(sentence):
    sys.exit(f"study: {sentence}")


def names():
    return sorted(f.parent.name for f in STUDIES.glob("*/study.yaml"))


def set_path(tree, path, value):
    *parents, last = path.split(".")
    for part in parents:
        tree = tree.setdefault(part, {})
    tree[last] = value


def get_path(tree, path):
    for part in path.split("."):
        if part not in tree:
            fail(f"'times' names {path}, which neither the job file nor its settings give a value")
        tree = tree[part]
    return tree


class Pretraining:
    """The common start of all arms and seeds, if a study has one: one worker, plain AdamW, a constant rate after warm-up."""
    arm, seed, workers, pin, overlaps, corpus_weights = "pretraining", 1000, 1, None, None, None

    def __init__(self, study):
        spec = copy.deepcopy(study.spec)
        for path, value in study.set.items():
            if path.startswith("model.") or path == "inner_optimizer.learning_rate":
                set_path(spec, path, value)
        spec["batch"]["sequences_per_step"] *= 2
        spec["workers"] = {"min": 1, "planned": 1}
        spec["inner_optimizer"]["schedule"] = {"kind": "constant", "warmup_steps": min(100, study.pretraining_steps // 2)}
        spec["outer_optimizer"] = {"kind": "sgd", "learning_rate": 1, "momentum": 0}  # the identity
        spec["sync"] = {"inner_steps": 100, "fragments": "whole"}
        spec["evaluation"] = {"max_tokens": 65536}
        spec["stop"] = {"inner_steps": study.pretraining_steps}
        set_path(spec, "model.init.seed", self.seed)
        set_path(spec, "data.seed", self.seed)
        self.spec = spec
        self.key = key_of([spec, study.corpora, study.corpus_bytes])

    def job(self, manifests):
        return job_file(self.spec, manifests)

    def tokens(self):
        return tokens_of(self)

    @property
    def folder(self):
        """Folder of its parameters after it was played."""
        return FOLDER / "pretrained" / self.key


def tokens_of(planned):
    spec = planned.spec
    return planned.workers * spec["stop"]["inner_steps"] * spec["batch"]["sequences_per_step"] * spec["data"]["sequence_length"]


def key_of(settings):
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def job_file(spec, manifests, weights=None):
    spec = copy.deepcopy(spec)
    spec["data"]["corpora"] = [{"manifest": str(m)} | ({"weight": weights[i]} if weights else {}) for i, m in enumerate(manifests)]
    return yaml.safe_dump({"apiVersion": "atoll/v1", "kind": "TrainingJob", "metadata": {"name": "study"}, "spec": spec}, sort_keys=False)


class Planned:
    """A run of a study: a complete job specification, its number of workers, and its key."""

    def __init__(self, study, arm, seed):
        self.arm, self.seed, self.workers = arm["name"], seed, arm.get("workers", study.workers)
        spec = copy.deepcopy(study.spec)
        spec["workers"] = {"min": self.workers, "planned": self.workers}
        for path, value in (study.set | arm.get("set", {})).items():
            set_path(spec, path, value)
        for path, factor in arm.get("times", {}).items():
            set_path(spec, path, round(get_path(spec, path) * factor))
        set_path(spec, "model.init.seed", seed)
        set_path(spec, "data.seed", seed)
        for path, value in study.over.items():
            set_path(spec, path, value)
        self.spec, self.pin, self.overlaps, self.start = spec, arm.get("pin"), arm.get("overlaps"), None if arm.get("start") == "scratch" else study.pretraining
        self.corpus_weights = arm.get("corpus_weights")
        # Equal settings give equal keys in all studies, so that studies share common arms.
        own = ([self.pin] if self.pin else []) + [{name: value} for name, value in
                                                  (("overlaps", self.overlaps), ("corpus_weights", self.corpus_weights)) if value]
        self.key = key_of([spec, self.workers, study.corpora, study.corpus_bytes, study.separate_corpora] + own +
                          ([self.start.key] if self.start else []))

    def tokens(self):
        return tokens_of(self)

    def job(self, manifests, start=None):
        spec = copy.deepcopy(self.spec)
        if start:
            spec["model"]["init"] = {"directory": str(start)}
        return job_file(spec, manifests, self.corpus_weights)


class Study:
    def __init__(self, name, size=None):
        """`size`: from sizes.yaml; None: the size named by the study, or small."""
        file = STUDIES / name / "study.yaml"
        if not file.is_file():
            fail(f"there is no study '{name}'; scripts/study --list names them")
        text = read_yaml(file)
        self._check(file, text)
        sizes = read_yaml(STUDIES / "sizes.yaml")
        size = size or text.get("size", "small")
        if size not in sizes:
            fail(f"there is no size '{size}'; deploy/examples/studies/sizes.yaml has {', '.join(sizes)}")
        job = text.get("job", "base.yaml")
        self.name, self.size = name, size
        self.spec = read_yaml(STUDIES / job)["spec"]
        self.rate, self.over = sizes[size]["tokens_per_second"], sizes[size].get("over", {})
        self.results = FOLDER / "smoke" if size == "smoke" else RESULTS
        self.question, self.source, self.relation = (text[k].strip() for k in ("question", "source", "relation"))
        self.why, self.notes = text.get("why", "").strip(), text.get("notes", "").strip()
        self.corpora = text.get("corpora", ["peps.jsonl", "rfcs.jsonl", "cppdocs.jsonl"])
        self.corpus_bytes = text.get("corpus_bytes", 30_000_000)
        self.separate_corpora = text.get("separate_corpora", False)
        self.workers, self.seeds, self.arms = text.get("workers", 2), text["seeds"], [a | {"name": str(a["name"])} for a in text["arms"]]
        self.set = (sizes[size]["set"] if job == "base.yaml" else {}) | text.get("set", {}) | text.get("sizes", {}).get(size, {})
        self.checks, self.report, self.measure = text.get("checks", []), text.get("report", "loss"), text.get("measure", "loss")
        self.noise = text.get("noise")
        self.tasks, self.budget_hours = text.get("tasks", True), text["budget_hours"]
        self.pretraining_steps = sizes[size]["pretraining_steps"]
        self.pretraining = Pretraining(self) if text.get("start", "pretrained") == "pretrained" else None

    @staticmethod
    def _check(file, text):
        unknown = set(text) - KEYS | {k for arm in text["arms"] for k in set(arm) - ARM_KEYS}
        if unknown:
            fail(f"{file}: unknown keys {', '.join(sorted(unknown))}")
        if text.get("report", "loss") not in REPORTS:
            fail(f"{file}: report is one of {', '.join(REPORTS)}")
        arms = [str(arm["name"]) for arm in text["arms"]]
        if len(set(arms)) != len(arms):
            fail(f"{file}: two arms have one name")
        for check in text.get("checks", []):
            strange = set(check) - CHECK_KEYS
            if strange:
                fail(f"{file}: a check has unknown keys {', '.join(sorted(strange))}")
            for word in ("arm", "of"):
                if str(check[word]) not in arms:
                    fail(f"{file}: a check names the arm '{check[word]}', which is not there")

    @property
    def label(self):
        return self.name if self.size == "small" else f"{self.name}-{self.size}"

    def planned(self, seeds=None, arms=None):
        """All arms of a seed before the next seed, so that an interrupted study can still be compared."""
        chosen = self.seeds[:seeds] if seeds and seeds <= len(self.seeds) else list(self.seeds)
        while seeds and len(chosen) < seeds:
            chosen.append(max(chosen) + 1)
        unknown = set(arms or []) - {arm["name"] for arm in self.arms}
        if unknown:
            fail(f"{self.name} has no arm {', '.join(sorted(unknown))}; it has {'; '.join(a['name'] for a in self.arms)}")
        return self.plan(chosen, arms)

    def plan(self, seeds, arms=None):
        return [Planned(self, arm, seed) for seed in seeds for arm in self.arms
                if (not arms or arm["name"] in arms) and seed in arm.get("seeds", seeds)]

    def hours(self, planned):
        """Time on two idle cores. A shared machine takes longer."""
        # A worker takes one core, so a single worker leaves the other one idle.
        training = sum(p.tokens() / min(1, p.workers / CORES) for p in planned) / self.rate * (1 + EVALUATION_SHARE)
        return (training + SECONDS_A_RUN * len(planned)) / 3600
