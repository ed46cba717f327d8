# SPDX-License-Identifier: Apache-2.0
"""docs/results/performance.md: words by hand, tables between marks from docs/results/data/performance-NAME.json."""
import json
import sys

from benches import machine

PAGE = machine.ROOT / "docs/results/performance.md"
DATA = machine.ROOT / "docs/results/data"


def keep(name, answer):
    """A machine without a GPU leaves what one with a GPU has measured."""
    path = DATA / f"performance-{name}.json"
    if "gpu" not in answer and path.exists():
        answer = answer | {part: value for part, value in json.loads(path.read_text()).items() if part == "gpu"}
    replace(path, json.dumps(answer) + "\n")


def replace(path, text):
    """All of it or nothing."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def section(name, bench, answer):
    return "\n".join([f"<!-- begin {name}: made by scripts/bench -->", "", machine.provenance(name, answer), "", *bench.table(answer), "", f"<!-- end {name} -->"])


def write(benches):
    """Replaces what lies between the marks."""
    page = PAGE.read_text()
    for name, bench in benches.items():
        kept = DATA / f"performance-{name}.json"
        if not kept.exists():
            continue
        begin, end = page.find(f"<!-- begin {name}:"), page.find(f"<!-- end {name} -->")
        if begin < 0 or end < 0:
            sys.exit(f"bench: {PAGE.relative_to(machine.ROOT)} has no marks '<!-- begin {name}: made by scripts/bench -->' and '<!-- end {name} -->'; put them where its table belongs")
        answer = json.loads(kept.read_text())
        page = page[:begin] + section(name, bench, answer) + page[end + len(f"<!-- end {name} -->"):]
        if hasattr(bench, "picture"):
            bench.picture(answer)
    PAGE.write_text(page)
