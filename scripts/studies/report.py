# SPDX-License-Identifier: Apache-2.0
"""Writes docs/results/LABEL.md from the finished runs alone."""
import math
import statistics

from studies import compare, definition, judging, records


def codec_bytes(codec, elements):
    """docs/formats/codecs.md, implemented a second time on purpose: a formula cannot check itself."""
    if codec in ("fp32", "fp16", "bf16"):
        return {"fp32": 4, "fp16": 2, "bf16": 2}[codec] * elements
    if codec == "int8":
        return elements + 2 * math.ceil(elements / 128)
    rest = elements % 32
    return 17 * (elements // 32) + (1 + math.ceil(rest / 2) if rest else 0)


class Results:
    """The runs of a study that match its present settings, by (arm, seed)."""

    def __init__(self, study, runs):
        seeds = sorted({r["seed"] for r in runs} | set(study.seeds))
        self.study, self.planned, self.runs = study, {}, {}
        by_key = {r["key"]: r for r in runs}
        for planned in study.plan(seeds):
            self.planned[planned.arm, planned.seed] = planned
            if planned.key in by_key:
                self.runs[planned.arm, planned.seed] = by_key[planned.key]
        self.starts = records.starts_of(self.runs.values())
        self.arms = [a["name"] for a in study.arms if any(arm == a["name"] for arm, _ in self.runs)]
        power = math.exp if study.measure == "perplexity" else float
        self.table = compare.Table({key: power(r["loss"]) for key, r in self.runs.items()}, noise_of(study), equal=bool(study.noise))

    def of(self, arm):
        return [r for (a, _), r in sorted(self.runs.items()) if a == arm]

    def times_fewer(self, arm):
        """Reduction of payload bytes relative to fp32 gradients every step, from and to every worker: (up, down), or None."""
        run, planned = self.of(arm)[0], self.planned[next(k for k in self.runs if k[0] == arm)]
        every_step = planned.spec["stop"]["inner_steps"] * planned.workers * 4 * run["parameters"]
        if planned.workers == 1 or not run["payload"]["up"]:
            return None
        return every_step / run["payload"]["up"], every_step / run["payload"]["down"]


def noise_of(study):
    """(variance, degrees of freedom) of one run: the residual in the study named by this one, which has runs of the
    same kind, or in the study noise of the same size, for studies with the same kind of start."""
    if study.noise:
        other = definition.Study(study.noise, study.size)
        return Results(other, records.Records(other).runs).table.residual()
    if study.report != "loss" or not study.pretraining:
        return None, 0
    measured = definition.Study("noise", study.size)
    by_key = {r["key"]: r for r in records.Records(measured).runs}
    power = math.exp if study.measure == "perplexity" else float
    found = {(p.arm, p.seed): math.log(power(by_key[p.key]["loss"])) for p in measured.planned(None, ["base", "again"]) if p.key in by_key}
    pairs = [found["base", s] - found["again", s] for s in measured.seeds if ("base", s) in found and ("again", s) in found]
    return (sum(d * d for d in pairs) / (2 * len(pairs)), len(pairs)) if pairs else (None, 0)  # equal settings: their means are equal


def check_lines(results):
    lines = ["| expected | measured | verdict |", "|---|---|---|"]
    verdicts = []
    for check in results.study.checks:
        words, measured, verdict = judging.judge(results, check)
        verdicts.append(verdict)
        lines.append(f"| {words}{afterwards(check)} | {measured} | {verdict} |")
    return lines if verdicts else []


def afterwards(check):
    """True for a check that was not in study.yaml before its first run."""
    return " (asked afterwards)" if check.get("afterwards") else ""


def verdicts(results):
    return [judging.judge(results, c)[2] for c in results.study.checks]


def loss_lines(results):
    base = results.arms[0]
    tasks = any("tasks" in r for r in results.runs.values())
    lines = [f"| arm | seeds | held-out loss | perplexity | {results.study.measure} against {base}, paired | tokens | payload up, down | "
             "fewer than fp32 gradients |" + (" minimal pairs |" if tasks else ""), "|---|---|---|---|---|---|---|---|" + ("---|" if tasks else "")]
    for arm in results.arms:
        runs = results.of(arm)
        loss = statistics.mean(r["loss"] for r in runs)
        gap = "" if arm == base else str(results.table.gap(arm, base) or "")
        fewer = results.times_fewer(arm)
        payload = f"{runs[0]['payload']['up'] / 1e6:.2f}, {runs[0]['payload']['down'] / 1e6:.2f} MB" if fewer else "one worker"
        row = (f"| {arm} | {len(runs)} | {loss:.4f} | {math.exp(loss):.3f} | {gap} | {runs[0]['tokens'] / 1e6:.2f} M | {payload} | " +
               (f"{fewer[0]:.0f}, {fewer[1]:.0f} times |" if fewer else "|"))
        if tasks:
            scores = [accuracy(r["tasks"]) for r in runs if r.get("tasks")]
            of = "" if len(scores) == len(runs) else f" ({len(scores)} of {len(runs)} runs)"
            row += f" {100 * statistics.mean(scores):.1f} %{of} |" if scores else " not scored |"
        lines.append(row)
    return lines + ["", *footnotes(results, tasks), *domain_lines(results)]


def domain_lines(results):
    """For a study with separate corpora: the loss on each, and its difference to the first arm's in the same seeds."""
    base, found = results.arms[0], {key: r["domains"] for key, r in results.runs.items() if "domains" in r}
    names = list(next(iter(found.values()))) if found else []
    lines = ["", "| held-out loss by domain | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)] if names else []
    for arm in results.arms if names else []:
        cells, of_arm = [], {seed: losses for (a, seed), losses in found.items() if a == arm}
        for name in names:
            gaps = [100 * (losses[name] / found[base, seed][name] - 1) for seed, losses in of_arm.items() if (base, seed) in found]
            gap = f": {statistics.mean(gaps):+.2f} % ({min(gaps):+.2f} to {max(gaps):+.2f})" if gaps and arm != base else ""
            cells.append(f"{statistics.mean(losses[name] for losses in of_arm.values()):.4f}{gap}" if of_arm else "not looked at")
        lines.append(f"| {arm} | " + " | ".join(cells) + " |")
    return lines + (["", f"Each over as many held-out tokens as an evaluation reads of all domains together; differences are to {base} of the same seed, "
                     "mean and range over the seeds."] if lines else [])


def accuracy(tasks):
    """The mean over task files, shown when there are several."""
    return tasks["mean"] if "mean" in tasks else next(iter(tasks.values()))


def footnotes(results, tasks):
    variance, degrees = results.table.residual()
    yield ("Loss is in nats per byte on held-out documents, of the outer parameters at the end. ± is half a 95 % interval of the mean difference between arms of one seed: "
           + (f"the noise of a single run is {100 * math.sqrt(variance):.2f} %, with {degrees} degrees of freedom, "
              + (f"as in the study {results.study.noise}." if results.study.noise and variance == results.table.known[0] else
                 "by pairs of equal runs (the study noise), until every arm has two seeds here." if variance == results.table.known[0] else
                 "what is left beside arm and seed.")
              if variance else "there are too few seeds for it."))
    if tasks:
        yield ("\nMinimal pairs: mean accuracy over the BLiMP files at hand, where chance is 50 %. At this size it is near chance and differences between arms "
               "mean nothing. No multiple-choice file in HellaSwag's form is at hand, so none is scored.")
    missing = {}  # shares of its runs, by arm
    for (arm, _), r in results.runs.items():
        if r["commits"] and r["contributions"] < r["commits"] * r["workers"]:
            missing.setdefault(arm, []).append(1 - r["contributions"] / (r["commits"] * r["workers"]))
    if missing:
        told = (f"{arm} {100 * sum(shares) / len(shares):.1f} %" for arm, shares in missing.items())
        yield "\nContributions that rounds went without, on average: " + ", ".join(told) + "."


def noise_lines(results):
    lines = ["| arm | runs | mean loss | standard deviation over seeds | lowest | highest |", "|---|---|---|---|---|---|"]
    for arm in results.arms:
        losses = [r["loss"] for r in results.of(arm)]
        mean = statistics.mean(losses)
        spread = f"{100 * statistics.stdev(losses) / mean:.2f} %" if len(losses) > 1 else ""
        lines.append(f"| {arm} | {len(losses)} | {mean:.4f} | {spread} | {min(losses):.4f} | {max(losses):.4f} |")
    lines.append("")
    for arm in results.arms:
        other = "again" if arm == "base" else f"{arm} again"
        pairs = [100 * abs(results.runs[other, s]["loss"] / results.runs[arm, s]["loss"] - 1) for s in results.table.seeds_of(arm, other)
                 if other in results.arms]
        if pairs:
            error = math.sqrt(statistics.mean(p * p for p in pairs) / 2)
            lines.append(f"Two runs of one seed, {arm}: they differ by {', '.join(f'{p:.2f}' for p in pairs)} %, so one run has a standard deviation "
                         f"of {error:.2f} % beside its seed, and the mean difference of two arms over three seeds one of {error * math.sqrt(2 / 3):.2f} %.\n")
    tasks = [r["tasks"] for r in results.runs.values() if r.get("tasks")]
    if tasks:
        lines.append("| minimal pairs of BLiMP, all runs | mean accuracy |\n|---|---|")
        lines += [f"| {name} | {100 * statistics.mean(t[name] for t in tasks):.1f} % |" for name in tasks[0]]
        lines.append("\nChance is 50 %. A model of this size on technical text has learnt next to nothing that these ask for: files far from 50 % on either side "
                     "are those where one sentence is always the shorter or the more usual in spelling.")
    return lines


def byte_ratios(results):
    """By arm: counted bytes relative to the formula. "contributions" and "updates" count payload, "up" and "down" all
    of TCP; and the figures."""
    ratios = {}
    for (arm, _), r in results.runs.items():
        planned = results.planned[arm, r["seed"]]
        sync, elements = planned.spec["sync"], r["parameters"]
        up = r["contributions"] * codec_bytes(sync["upload_codec"], elements)
        down = planned.workers * r["commits"] * codec_bytes(sync["download_codec"], elements)
        fragment = planned.workers * 4 * elements  # version 0 to each worker
        ratios[arm] = {"contributions": r["payload"]["up"] / up, "updates": r["payload"]["down"] / down, "up": r["tcp"]["up"] / up,
                       "down": r["tcp"]["down"] / (down + fragment), "formula": (up, down)}
    return ratios


def bytes_lines(results):
    lines = ["| arm | contributions, formula | contributions, counted | updates, formula | updates, counted | all of TCP, up | all of TCP, down | "
             "worst ratio |", "|---|---|---|---|---|---|---|---|"]
    worst_of_all = 0
    for arm, found in byte_ratios(results).items():
        r, (up, down) = results.of(arm)[0], found.pop("formula")
        worst = max(found.values(), key=lambda x: abs(x - 1))
        worst_of_all = max(worst_of_all, abs(worst - 1))
        lines.append(f"| {arm} | {up:,} | {r['payload']['up']:,} | {down:,} | {r['payload']['down']:,} | {r['tcp']['up']:,} | {r['tcp']['down']:,} | "
                     f"{worst:.4f} |")
    return lines + ["", "Bytes. \"All of TCP\" is every byte of both connections of all workers, counted by a proxy between them and the coordinator: "
                    "frames, HTTP/2, heartbeats, leases. Down it holds version 0 of the whole model in fp32 as well, and the ratio is to updates plus "
                    "that.", "", f"Largest deviation from the formula: {100 * worst_of_all:.2f} %; at most 2 % is asked: {'holds' if worst_of_all <= 0.02 else 'does not hold'}."]


def head(study, results):
    runs = results.runs.values()
    dates = sorted({r["date"] for r in runs})
    size = "" if study.size == "small" else f" --size {study.size}"
    wanted, missing = len(results.planned), len(results.planned) - len(results.runs)
    lines = [f"<!-- Made by scripts/study {study.name}{size} --report. -->", f"# {study.question}", "",
             f"`scripts/study {study.name}{size}`: {origins(results)}; {dates[0]}" + (f" to {dates[-1]}" if len(dates) > 1 else "") +
             f", {sum(r['seconds'] for r in runs) / 60:.0f} minutes of runs (the machine did other things too). Settings: "
             f"`deploy/examples/studies/{study.name}`. Data: [data/{study.label}.json](data/{study.label}.json).", "",
             f"Expected ({study.source}): {study.relation}", ""]
    if missing:
        lines += [f"{missing} of {wanted} runs are still to be played.", ""]
    return lines + ([study.why, ""] if study.why else []) + [size_line(results), ""]


def origins(results):
    """Programs and machine of the runs; if there are several, with their arms."""
    arms = {}
    for (arm, _), r in results.runs.items():
        named = arms.setdefault((r["commit"], r["machine"]), [])
        if arm not in named:
            named.append(arm)
    if len(arms) == 1:
        return "programs of {}, {}".format(*next(iter(arms)))
    return "; ".join(f"programs of {commit}, {machine} ({', '.join(named)})" for (commit, machine), named in arms.items())


def size_line(results):
    key = next(iter(results.runs))
    run, planned = results.runs[key], results.planned[key]
    model, start = planned.spec["model"], planned.start
    words = f"Size: {run['parameters']:,} parameters, {model['layers']} layers of {model['hidden_size']}, on bytes. "
    if run["parameters"] < 890_000 and results.study.report == "loss":
        million = definition.Study(results.study.name, "million")
        words += "A question like this wants a million or more; " + (
            f"[`--size million`]({million.label}.md) has that. " if (definition.RESULTS / f"{million.label}.md").exists() else
            f"`--size million` would take {million.hours(million.planned()):.1f} hours on two cores. ")
    if not start:
        return words + "From scratch."
    return words + (f"All arms and seeds start from the same parameters (SHA-256 {results.starts[0]}...), which had {start.tokens() / 1e6:.1f} million "
                    "tokens of ordinary training (one worker, AdamW, a constant rate).")


def check(study, runs):
    """Refuses runs that cannot make a report."""
    results = Results(study, runs)
    command = f"scripts/study {study.name}" + ("" if study.size == "small" else f" --size {study.size}")
    if not results.runs:
        definition.fail(f"no run of {study.label} fits its present settings; {command} plays them")
    if len(results.starts) > 1:
        definition.fail(f"the runs of {study.label} begin from different parameters ({', '.join(results.starts)}), made on different "
                        f"machines, and cannot be compared; {command} plays those again that did not begin from this machine's")


def write(study, runs):
    results = Results(study, runs)
    body = {"bytes": bytes_lines, "loss": loss_lines, "noise": noise_lines}[study.report](results)
    checks = check_lines(results)
    picture = [f"![{study.question}]({study.label}.png)", ""] if (study.results / f"{study.label}.png").exists() else []
    lines = [*head(study, results), *checks, *([""] if checks else []), *picture, *body]
    if study.notes:
        lines += ["", study.notes]
    path = study.results / f"{study.label}.md"
    path.write_text("\n".join(lines).rstrip() + "\n")
    return path
