# SPDX-License-Identifier: Apache-2.0
"""State directories of every earlier revision of the ledger (ledgers/revision-N.sql) with the current program: it
upgrades them, shows their contents, trains a job in addition to the old one, and `verify` finds the ledger complete."""
import pathlib
import sqlite3

from atoll_harness import equal, main, number

LEDGERS = pathlib.Path(__file__).resolve().parent / "ledgers"
TOKENS, QUARANTINES, CORDONS, USED_TOKEN = 3, 4, 5, 7  # the revisions that added them, and whose ledger also has a used token
DAMAGED = 65
# Only ledgers were kept of earlier revisions: the files of the old job are missing, and nothing else.
NOT_KEPT = ["blobs/ab/" + "ab" * 32, "jobs/tiny/snapshots"]


def ledger_of(scene, state):
    return scene.path(state) / "ledger.sqlite"


def ask(scene, state, sql):
    with sqlite3.connect(f"file:{ledger_of(scene, state)}?mode=ro", uri=True) as ledger:
        return ledger.execute(sql).fetchone()[0]


def revision_of(scene, state):
    return ask(scene, state, "PRAGMA user_version")


def make_state(scene, revision):
    state = f"state-{revision}"
    scene.path(state).mkdir(mode=0o700)
    with sqlite3.connect(ledger_of(scene, state)) as ledger:
        ledger.executescript((LEDGERS / f"revision-{revision}.sql").read_text())
    equal(revision_of(scene, state), revision, "the revision of the ledger that was made")
    return state


def look(scene, revision):
    """The contents of the old ledger are shown."""
    job = scene.job("tiny")
    equal(job["state"], "JOB_STATE_CANCELLED", "the state of the old job")
    equal(number(job["fragments"][0], "version"), 1, "the version of the old job")
    evaluations = scene.describe("tiny")["evaluations"]
    equal([number(e, "step") for e in evaluations], [16], "the step of the old evaluation")
    [worker] = scene.atoll("-o", "json", "worker", "list").json()["workers"]
    equal("quarantine" in worker["state"].lower(), revision >= QUARANTINES, "that the old worker is quarantined")
    equal(bool(worker.get("cordoned")), revision >= CORDONS, "that the old worker is cordoned")


def go_on(scene, state, corpus, coordinator):
    """Another job is trained to its end in addition to the old one."""
    worker = scene.worker("w1", coordinator, "--data-root", scene.path("data"))
    name = scene.submit(f"after-{state}", corpus, steps=16, inner_steps=8)
    scene.wait_end(name)
    equal(worker.terminate(), 0, "the exit status of the worker")


def test(scene):
    revisions = sorted(int(path.stem.split("-")[1]) for path in LEDGERS.glob("revision-*.sql"))
    equal(revisions, list(range(1, len(revisions) + 1)), "the revisions that have a ledger")
    corpus = scene.corpus()
    scene.coordinator(state="fresh").terminate()
    equal(revision_of(scene, "fresh"), len(revisions) + 1, "today's revision: a new one leaves a ledger of the one before in ledgers/")
    for revision in revisions:
        state = make_state(scene, revision)
        coordinator = scene.coordinator("--data-root", scene.path("data"), state=state, name=f"coordinator-{revision}")
        look(scene, revision)
        if revision in (revisions[0], revisions[-1]):
            go_on(scene, state, corpus, coordinator)
        equal(coordinator.terminate(), 0, "the exit status of the coordinator")
        equal(revision_of(scene, state), len(revisions) + 1, "the revision of the ledger afterwards")
        equal(ask(scene, state, "SELECT count(*) FROM tokens"), (revision >= TOKENS) + (revision >= USED_TOKEN), "the tokens of the old ledger")
        used = ask(scene, state, "SELECT count(*) FROM tokens WHERE issue_s > end_s")
        equal(used, int(revision >= USED_TOKEN), "the used tokens, that count as used just now")
        missed = {damage["file"] for damage in scene.verify(state, code=DAMAGED)["damage"]}
        equal(missed, {str(scene.path(state) / file) for file in NOT_KEPT}, "what verify finds wrong")


main(test)
