# SPDX-License-Identifier: Apache-2.0
"""Writes docs/results/README.md: one line for each study with results, and the other pages of the folder."""
from studies import definition, judging, records, report

OTHERS = {"compute-utilization": "the planner's utilization against the paper's table", "long": "the long tests",
          "crash-points": "each durable call meets each fault; pairs of faults",
          "faults": "each fault, how it is injected, and the test that shows no harm", "soak": "real processes under seeded faults",
          "recovery": "the cost of faults: goodput, loss, rounds, time to detect a death", "simulation": "hours of faults in one thread, from a seed",
          "performance": "speed against the limits of the machine and other systems", "benchmarks": "the tables of every benchmark",
          "security": "attacks, and the tests that show that they fail", "hostile-contributions": "what merges and screens bear",
          "mutants": "deliberate mistakes, and the tests that caught them", "fuzzing": "parsers of outside bytes, under the sanitizers"}
HEAD = """<!-- Made by scripts/study, with every report. -->
# Results

Each page has its command, commit and machine.

## Studies

A study compares arms that start from the same weights and read the same data, over several seeds, at sizes for two CPU cores. Each page lists its
expected relations with the measured figures and a verdict. The table counts the verdicts and names the relations that do not hold.

- Settings and relations were fixed before the first run: from the papers, else outer rate and momentum by the defaults and the inner rate by a sweep
  on data parallel ([from scratch](learning-rate.md), [from trained parameters](start-rate.md)). A relation that was added after a result is marked on its page.
- "Holds" and "does not hold": the 95 % interval by the noise of all arms lies wholly on one side. "Not resolved": it does not. Where the interval of the
  two arms alone gives another verdict, the page shows both. [noise](noise.md) explains which differences can be seen.
- deploy/examples/studies/README.md explains how to add seeds or larger sizes to a study.

| page | question | holds | holds within two standard errors | not resolved | does not hold |
|---|---|---|---|---|---|"""


def result_of(study):
    runs = records.Records(study).runs
    return report.Results(study, runs) if runs else None


def line(study, results):
    row = f"| [{study.label}]({study.label}.md) | {study.question} |"
    if study.report == "bytes":
        found = next(l for l in report.bytes_lines(results) if l.startswith("Largest"))
        return f"{row} {found} ||||"
    if len(results.starts) > 1:
        return f"{row} to be run again: its runs began from different parameters ||||"
    judged = [(words, measured.split(";")[0], verdict.split(";")[0]) for words, measured, verdict in (judging.judge(results, check) for check in study.checks)]
    holds, within, open_, not_run = (sum(verdict == v for _, _, verdict in judged)
                                     for v in ("holds", "holds within two standard errors", "not resolved at this size", "not run"))
    unresolved = ", ".join([str(open_)] * (open_ > 0) + [f"{not_run} not run"] * (not_run > 0))
    failed = "<br>".join(f"{words}: {measured}" for words, measured, verdict in judged if verdict == "does not hold")
    return row + "".join(f" {cell} |" if cell else "|" for cell in (holds, within, unresolved, failed))


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
    lines = [HEAD, *rows(), "", "## Other pages", "", *[f"- [{page}]({page}.md): {OTHERS[page]}" for page in pages]]
    (definition.RESULTS / "README.md").write_text("\n".join(lines).rstrip() + "\n")
