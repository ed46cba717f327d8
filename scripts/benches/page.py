# SPDX-License-Identifier: Apache-2.0
"""Writes docs/results/benchmarks.md: conditions and table of each benchmark from docs/results/data/performance-NAME.json."""
import json

from benches import conditions, machine

PAGE = machine.ROOT / "docs/results/benchmarks.md"
DATA = machine.ROOT / "docs/results/data"
HEAD = """<!-- Made by scripts/bench. -->
# Benchmarks

The tables of every benchmark, with its conditions. [performance.md](performance.md) has the main figures, the method and the missed goals."""


def keep(name, answer):
    """A machine without a GPU keeps the figures from one with a GPU."""
    path = DATA / f"performance-{name}.json"
    if "gpu" not in answer and path.exists():
        answer = answer | {part: value for part, value in json.loads(path.read_text()).items() if part == "gpu"}
    replace(path, json.dumps(answer) + "\n")


def replace(path, text):
    """Writes atomically."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def section(name, bench, answer):
    title, about = conditions.OF[name]
    return "\n".join([f"## {title}", "", about.strip(), "", machine.provenance(name, answer), "", *bench.table(answer)]).rstrip()


def write(benches):
    """Rewrites the page from the kept figures."""
    sections = [HEAD]
    for name, bench in benches.items():
        kept = DATA / f"performance-{name}.json"
        if not kept.exists():
            continue
        answer = json.loads(kept.read_text())
        sections.append(section(name, bench, answer))
        if hasattr(bench, "picture"):
            bench.picture(answer)
    replace(PAGE, "\n\n".join(sections) + "\n")
