#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rules and dashboards use only existing metrics, each alert is explained, and the dashboards are as their script
generates them."""
import importlib.util
import pathlib
import re
import sys


def known_metrics(root):
    known = set()
    for name, kind in re.findall(r"^\| `(atoll_\w+)` \| (\w+)", (root / "docs/metrics.md").read_text(), re.M):
        known.add(name)
        if kind == "histogram":
            known |= {f"{name}_{part}" for part in ("bucket", "sum", "count")}
    return known


def unknown_metrics(root, known):
    rules = root / "deploy/prometheus/atoll.rules.yml"
    for path in [rules, rules.with_name("atoll_test.yml"), *sorted((root / "deploy/grafana").glob("*.json"))]:
        # A name after a colon belongs to a recording rule.
        for name in re.findall(r"(?<![\w:])atoll_\w+(?![\w:.])", path.read_text()):
            if name not in known:
                yield f"{path.relative_to(root)}: there is no metric {name}; docs/metrics.md lists them"


def unexplained_alerts(root):
    rules = (root / "deploy/prometheus/atoll.rules.yml").read_text()
    tests = (root / "deploy/prometheus/atoll_test.yml").read_text()
    page = (root / "docs/alerts.md").read_text()
    for alert in re.findall(r"- alert: (\w+)", rules):
        if f"| `{alert}` |" not in page:
            yield f"docs/alerts.md has no row for {alert}; write its check and do into the rules and run scripts/generate-docs"
        if len(re.findall(rf"alertname: {alert}\b", tests)) < 2:
            yield f"deploy/prometheus/atoll_test.yml: {alert} wants a case where it fires and one where it does not"


def unknown_sections(root):
    """Runbook annotations that do not refer to a page's heading by its GitHub anchor."""
    rules = (root / "deploy/prometheus/atoll.rules.yml").read_text()
    for link in dict.fromkeys(re.findall(r"^ *runbook: (\S+)$", rules, re.M)):
        page, _, anchor = link.partition("#")
        headings = re.findall(r"^#+ (.*)$", (root / page).read_text(), re.M) if (root / page).is_file() else []
        if anchor not in (re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings):
            yield f"deploy/prometheus/atoll.rules.yml: runbook {link} is no section of a page"


def stale_dashboards(root):
    script = root / "deploy/grafana/make_dashboards.py"
    spec = importlib.util.spec_from_file_location("make_dashboards", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, text in module.files().items():
        path = script.with_name(name)
        if not path.is_file() or path.read_text() != text:
            yield f"deploy/grafana/{name} is not what make_dashboards.py writes; run it"


def check(root):
    """The problems, one sentence each."""
    root = pathlib.Path(root)
    known = known_metrics(root)
    if not known:
        return ["docs/metrics.md lists no metric"]
    return list(dict.fromkeys([*unknown_metrics(root, known), *unexplained_alerts(root), *unknown_sections(root), *stale_dashboards(root)]))


def main():
    faults = check(pathlib.Path(__file__).resolve().parent.parent.parent)
    print("\n".join(faults) or "rules and dashboards name only metrics that exist")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
