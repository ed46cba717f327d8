# SPDX-License-Identifier: Apache-2.0
"""Writes docs/results/README.md: one line for each study that has results, and the other pages of the folder."""
from studies import definition, judging, records, report

OTHERS = {"compute-utilization": "What the planner says of utilization against the paper's table", "long": "The long tests",
          "crash-points": "The coordinator ended at every point where it writes",
          "faults": "What goes wrong, how it is made to, and what shows that it does no harm", "soak": "Real processes under seeded faults", "recovery": "What faults cost: goodput, loss, rounds, and how soon death is noticed",
          "simulation": "Hours of faults in one thread, from a seed",
          "performance": "How fast, beside what the machine can do", "security": "What an attacker may try, and what shows that it fails", "mutants": "Mistakes made on purpose, and who caught them",
          "fuzzing": "Parsers of bytes from outside, under the sanitizers"}


def result_of(study):
    runs = records.Records(study).runs
    return report.Results(study, runs) if runs else None


def line(study, results):
    if study.report == "bytes":
        found = next(l for l in report.bytes_lines(results) if l.startswith("Largest"))
        return f"| [{study.label}]({study.label}.md) | {study.question} | {found} |"
    if len(results.starts) > 1:
        return f"| [{study.label}]({study.label}.md) | {study.question} | some of its runs began from other parameters than the rest: to be played again |"
    judged = [judging.judge(results, check) for check in study.checks]
    told = "<br>".join(f"{words}: {measured}, **{verdict}**" for words, measured, verdict in judged) or "see the page"
    return f"| [{study.label}]({study.label}.md) | {study.question} | {told} |"


def rows():
    sizes = definition.read_yaml(definition.STUDIES / "sizes.yaml")
    for name in definition.names():
        for size in sizes:
            study = definition.Study(name, size)
            if not (definition.RESULTS / f"{study.label}.md").exists():
                continue
            results = result_of(study)
            if results and results.runs:
                yield line(study, results)


def write():
    pages = [p for p in OTHERS if (definition.RESULTS / f"{p}.md").exists()]
    lines = ["<!-- Made by scripts/study, with every report. -->", "# Results", "",
             "What was measured, each page with the command, commit and machine. A study compares arms that start from the same weights and read "
             "the same data, over several seeds, at sizes that two CPU cores can do. Settings and relations were fixed before the first run: by the "
             "papers where they name them, the inner rate by a sweep on data parallel from scratch ([learning-rate](learning-rate.md); from trained parameters: [start-rate](start-rate.md)), outer rate and "
             "momentum by the defaults. What was asked after a result was seen is a study of its own that says so, or marked. "
             "\"Holds\" and \"does not hold\" mean that a 95 % interval lies wholly on one side, \"not resolved at this size\" that it does not; "
             "where the interval by the noise of all arms and the one by the two arms alone disagree, both are told. "
             "[noise](noise.md) says what can be seen. deploy/examples/studies/README.md tells how a study goes on with more seeds or larger.", "", "| page | question | expected: measured, verdict |", "|---|---|---|", *rows(), "",
             *[f"- [{page}]({page}.md): {OTHERS[page]}" for page in pages]]
    (definition.RESULTS / "README.md").write_text("\n".join(lines).rstrip() + "\n")
