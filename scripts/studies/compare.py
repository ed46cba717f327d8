# SPDX-License-Identifier: Apache-2.0
"""Paired comparison of arms. Arms of one seed start from the same weights and read the data in the same order, so a
seed's luck is common to its arms: a two-way layout of arms and seeds, with the noise of a difference as residual."""
import math
import statistics

# Two-sided 95 % of Student's t, by degrees of freedom.
STUDENT = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09,
           2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04]


def student(degrees):
    return STUDENT[degrees - 1] if degrees <= len(STUDENT) else 1.98


class Gap:
    """Gap of an arm to another in percent: `each` by seed, their mean, its standard error and half a 95 % interval
    (None: one seed) by the noise of all arms. `alone`: the same by the spread of these two arms' own differences, or
    None."""

    def __init__(self, each, error, half, alone=None):
        self.each, self.mean, self.error, self.half, self.seeds, self.alone = each, statistics.mean(each), error, half, len(each), alone

    def __str__(self):
        return f"{self.mean:+.2f} %" + (f" ± {self.half:.2f}" if self.half is not None else "") + (" (one seed)" if self.seeds == 1 else "")

    def whole(self):
        """Text with the interval of the two arms alone, and the seeds."""
        return f"{self}" + (f"; alone ± {self.alone.half:.2f}" if self.alone else "") + (
            f" ({', '.join(f'{g:+.2f}' for g in self.each)})" if self.seeds > 1 else "")


class Table:
    """Final figures by (arm, seed). `values` are compared by their ratios, so the layout uses their logarithms. For
    values of one seed, `known` replaces the estimate: (variance of one run's logarithm, degrees of freedom), measured
    elsewhere; with `equal`, from runs of the same kind, also when it has more degrees of freedom."""

    def __init__(self, values, known=(None, 0), equal=False):
        self.values, self.known, self.equal = values, known, equal
        self.arms = list(dict.fromkeys(a for a, _ in values))
        seeds = sorted({s for _, s in values})
        self.whole = [s for s in seeds if all((a, s) in values for a in self.arms)]

    def seeds_of(self, *arms):
        return sorted(s for s in {s for _, s in self.values} if all((a, s) in self.values for a in arms))

    def residual(self):
        """(variance of one run's logarithm without arm and seed, degrees of freedom): over the seeds that have every
        arm, or over the arms that have every seed, whichever gives more."""
        every = sorted({s for _, s in self.values})
        layouts = [(self.arms, self.whole), ([a for a in self.arms if all((a, s) in self.values for s in every)], every)]
        arms, seeds = max(layouts, key=lambda layout: (len(layout[0]) - 1) * (len(layout[1]) - 1) if layout[0] and layout[1] else -1)
        degrees = (len(arms) - 1) * (len(seeds) - 1)
        if degrees < 1 or (self.equal and degrees < self.known[1]):
            return self.known
        logs = {(a, s): math.log(self.values[a, s]) for a in arms for s in seeds}
        arm_mean = {a: statistics.mean(logs[a, s] for s in seeds) for a in arms}
        seed_mean = {s: statistics.mean(logs[a, s] for a in arms) for s in seeds}
        all_mean = statistics.mean(logs.values())
        squares = sum((logs[a, s] - arm_mean[a] - seed_mean[s] + all_mean) ** 2 for a, s in logs)
        return squares / degrees, degrees

    def gap(self, arm, of):
        seeds = self.seeds_of(arm, of)
        if not seeds:
            return None
        each = [100 * (self.values[arm, s] / self.values[of, s] - 1) for s in seeds]
        alone = None
        if len(seeds) > 1:
            own = statistics.stdev(each) / math.sqrt(len(seeds))
            alone = Gap(each, own, student(len(seeds) - 1) * own)
        variance, degrees = self.residual()
        if variance is None:
            return Gap(each, None, None, alone)
        error = 100 * math.sqrt(2 * variance / len(seeds))
        return Gap(each, error, student(degrees) * error, alone)


def verdict(check, gap, tokens=math.inf):
    """Text of the reports for a check of study.yaml, the measured gap of its arm, and the tokens per parameter that the
    arm saw. When the noise of all arms and the spread of the two alone disagree, both are stated: two or three
    differences determine their own spread poorly, and the arms of a study need not be equally noisy."""
    if gap is None:
        return "not run"
    if gap.half is None:
        return "one seed only"
    said, alone = (words_of(check, g, tokens) if g else None for g in (gap, gap.alone))
    return said if alone in (None, said) else f"{said}; by these two arms alone: {alone}"


def words_of(check, gap, tokens):
    if "goal_percent" in check:
        goal = bounded({"at_most_percent": check["goal_percent"]}, gap)
        goal = {"does not hold": "missed"}.get(goal, goal.replace("holds", "met"))
        wanted = check.get("goal_tokens", 0)  # a parameter
        return f"{bounded(check, gap)}; goal {goal}" + (f", but at {tokens:.0f} tokens a parameter: {wanted} not played" if tokens < wanted else "")
    if "within_percent" in check or "at_most_percent" in check:
        return bounded(check, gap)
    lower = check["relation"] == "below"
    if (gap.mean + gap.half < 0) if lower else (gap.mean - gap.half > 0):
        return "holds"
    if (gap.mean - gap.half > 0) if lower else (gap.mean + gap.half < 0):
        return "does not hold"
    return "not resolved at this size"


def bounded(check, gap):
    """Reads a bound of the literature as: within the bound, or within two standard errors where these resolve the bound."""
    two_sided = "within_percent" in check
    bound = check["within_percent"] if two_sided else check["at_most_percent"]
    away = abs(gap.mean) if two_sided else gap.mean
    if away + gap.half <= bound:
        return "holds"
    if away - gap.half > bound:
        return "does not hold"
    if away <= max(bound, 2 * gap.error) and gap.error <= bound:
        return "holds within two standard errors"
    return "not resolved at this size"


def goal_size(check):
    return f" at {check['goal_tokens']} tokens a parameter" if "goal_tokens" in check else ""


def words(check):
    arm, of = check["arm"], check["of"]
    if "within_percent" in check:
        return f"{arm} within {check['within_percent']} % of {of}"
    if "at_most_percent" in check:
        return f"{arm} at most {check['at_most_percent']} % above {of}" + (
            f" (goal {check['goal_percent']} %{goal_size(check)})" if "goal_percent" in check else "")
    return f"{arm} {check['relation']} {of}"
