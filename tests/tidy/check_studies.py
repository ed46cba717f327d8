# SPDX-License-Identifier: Apache-2.0
"""The studies of deploy/examples/studies are valid in every size, and the statistics of their reports are correct."""
import math
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from studies import compare, definition, judging, report  # noqa: E402


def expect(truth, sentence):
    if not truth:
        sys.exit(f"check_studies: {sentence}")


def check_definitions():
    sizes = definition.read_yaml(definition.STUDIES / "sizes.yaml")
    for name in definition.names():
        for size in sizes:
            study = definition.Study(name, size)
            planned = study.planned()
            expect(size == "smoke" or len({p.key for p in planned}) == len(planned), f"{name}, {size}: two arms have the same settings")
            expect(all(p.spec["sync"].get("overlap_steps", 0) < p.spec["sync"]["inner_steps"] for p in planned), f"{name}, {size}: overlap")
        small = definition.Study(name)
        expect(small.hours(small.planned()) <= small.budget_hours, f"{name} takes longer than its budget")
    expect(definition.read_yaml(definition.STUDIES / "base.yaml")["spec"]["inner_optimizer"]["learning_rate"] == 0.004, "4e-3 is a number")


def check_refusals():
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write("relation: one: two\n")
        file.flush()
        try:
            definition.read_yaml(pathlib.Path(file.name))
        except SystemExit as end:
            said = str(end)
        expect("is no YAML: mapping values are not allowed here" in said and "line 1" in said, f"a study that is no YAML: {said}")


def check_keys():
    study = definition.Study("codecs")
    first = study.planned(1, ["fp32"])[0]
    study.set = study.set | {"inner_optimizer.beta2": 0.96}
    expect(study.planned(1, ["fp32"])[0].key != first.key, "a changed setting must change the key")
    expect(definition.Study("noise").planned(1, ["base"])[0].key == first.key, "equal settings of two studies must have one key")
    same = [name for name in vars(first) if name != "start" and not hasattr(study.pretraining, name)]
    expect(not same, f"a pretraining is played as a run is, and has no {', '.join(same)}")
    expect([p.seed for p in definition.Study("codecs").planned(5, ["fp32"])] == [1, 2, 3, 4, 5], "--seeds goes on counting")


def check_comparison():
    # Two arms, three seeds: the layout's residual is the paired test. Differences of logarithms 0.01, 0.02, 0.03.
    values = {("a", s): math.exp(0.1 * s) for s in (1, 2, 3)} | {("b", s): math.exp(0.1 * s + 0.01 * s) for s in (1, 2, 3)}
    gap = compare.Table(values).gap("b", "a")
    expect(abs(gap.mean - 2.0235) < 1e-3, f"mean {gap.mean}")
    expect(abs(gap.error - 100 * 0.01 / math.sqrt(3)) < 1e-6, f"standard error {gap.error}")
    expect(abs(gap.half / gap.error - 4.30) < 1e-9, "two degrees of freedom")
    uneven = compare.Table(values | {("c", 1): 1.2})  # an arm of one seed does not affect the others
    expect(uneven.residual()[1] == 2 and abs(uneven.gap("b", "a").error - gap.error) < 1e-9, "an arm that was played once")
    expect(uneven.gap("c", "a").seeds == 1 and uneven.gap("c", "a").half > uneven.gap("b", "a").half, "its own gap is the less certain")
    better = compare.Table(values, (1e-6, 9), equal=True)
    expect(better.residual() == (1e-6, 9) and compare.Table(values, (1e-6, 9)).residual()[1] == 2, "noise of equal runs that is known better")
    one = compare.Table({("a", 1): 1.0, ("b", 1): 1.1}).gap("b", "a")
    expect(one.half is None and abs(one.mean - 10) < 1e-9, "one seed has no interval of its own")
    lent = compare.Table({("a", 1): 1.0, ("b", 1): 1.1}, (1e-4, 2)).gap("b", "a")
    expect(abs(lent.half - 4.30 * math.sqrt(2)) < 1e-9 and str(lent).endswith("(one seed)"), "one seed with noise measured elsewhere")


def check_verdicts():
    def said(check, mean, error, half):
        return compare.verdict(check, compare.Gap([mean] * 3, error, half))
    below, within, most = {"relation": "below"}, {"within_percent": 0.2}, {"at_most_percent": 4}
    expect(said(below, -1, 0.2, 0.5) == "holds" and said(below, 1, 0.2, 0.5) == "does not hold", "below")
    expect(said(below, -0.4, 0.2, 0.5) == "not resolved at this size", "an interval over zero decides nothing")
    expect(said(within, 0.05, 0.05, 0.1) == "holds" and said(within, -0.5, 0.05, 0.1) == "does not hold", "within")
    expect(said(within, 0.15, 0.1, 0.3) == "holds within two standard errors", "two standard errors")
    expect(said(within, 0.15, 1, 3) == "not resolved at this size", "noise above the bound proves nothing")
    expect(said(most, -9, 0.2, 0.5) == "holds" and said(most, 3, 0.2, 0.5) == "holds" and said(most, 5, 0.2, 0.5) == "does not hold", "at most")
    expect(compare.verdict(below, compare.Gap([-1], None, None)) == "one seed only", "one seed")
    # Three seeds of two quiet arms, in a study with noisy other arms.
    quiet = compare.Gap([0.43, 0.46, 0.47], 0.2, 0.5, compare.Gap([0.43, 0.46, 0.47], 0.012, 0.05))
    expect(compare.verdict({"at_most_percent": 0.2}, quiet) == "not resolved at this size; by these two arms alone: does not hold", "both are told")
    expect(quiet.whole() == "+0.45 % ± 0.50; alone ± 0.05 (+0.43, +0.46, +0.47)", f"a gap, whole: {quiet.whole()}")
    expect(compare.verdict(below, compare.Gap([-1, -1.1], 0.1, 0.3, compare.Gap([-1, -1.1], 0.05, 0.6))) == "holds", "where they agree it is said once")
    hoped = most | {"goal_percent": 2, "goal_tokens": 40}
    goal = lambda mean, half, tokens: compare.verdict(hoped, compare.Gap([mean] * 3, half / 4, half), tokens)
    expect(goal(1, 0.5, 40) == "holds; goal met" and goal(3, 0.5, 40) == "holds; goal missed", "a goal")
    expect(goal(1, 0.5, 20) == "holds; goal met, but at 20 tokens a parameter: 40 not played", "a goal at another size")
    expect(goal(1.9, 0.5, 40) == "holds; goal met within two standard errors", "a goal within the noise")


class Two:
    """Results of two arms over two seeds, as judging reads them."""

    def __init__(self, **fields):
        self.runs = {(arm, seed): {key: value(arm, seed) for key, value in fields.items()} for arm in "ab" for seed in (1, 2)}
        self.table = compare.Table({key: 1.0 for key in self.runs})
        self.planned = {key: definition.Study("fragments").planned(1, ["strided"])[0] for key in self.runs}

    def of(self, arm):
        return [self.runs[arm, s] for s in (1, 2)]


def check_judging():
    def curves(gap_of):
        def curve(arm, seed):
            return [[step, 1 + (gap_of(step, seed) if arm == "a" else 0)] for step in range(0, 101, 10)]
        return Two(curve=curve)
    check = {"arm": "a", "of": "b"}
    said = lambda kind, results: judging.judge(results, check | {kind: True})[2]
    expect(said("gap_shrinks", curves(lambda step, _: 0.1 - 0.001 * step)) == "holds", "a gap that shrinks in both seeds")
    expect(said("gap_shrinks", curves(lambda step, _: 0.001 * step)) == "does not hold", "a gap that grows in both")
    expect(said("gap_shrinks", curves(lambda step, seed: 0.001 * step * (1 if seed == 1 else -1))) == "not resolved at this size", "seeds that differ")
    expect(said("ahead_early", curves(lambda step, _: -0.1 if step <= 50 else 0.5)) == "holds", "ahead in the first half, whatever follows")
    expect(said("ahead_early", curves(lambda step, _: 0.1)) == "does not hold", "behind in the first half")
    # The other arm's curve falls steeply at first and is sampled every 10 steps; this arm's 1 step earlier.
    steep = Two(curve=lambda arm, seed: [[0, 5.0], *([[step - (1 if arm == "a" else 0), 1 + 1 / step + (0.02 if arm == "a" else 0)] for step in range(10, 101, 10)])])
    expect(said("ahead_early", steep) == "does not hold", "nothing is read between step 0 and the other's first evaluation")
    rates = Two(paced=lambda arm, seed: {"tokens": 100, "seconds": 1.0 if arm == "a" else 1.0 + 0.1 * seed})
    expect(said("faster", rates) == "holds" and judging.judge(rates, check | {"faster": True})[1] == "1.15 times (1.10 to 1.20)", "rates")
    sent = Two(largest_update=lambda arm, seed: 40 if arm == "a" else 100)
    expect(said("peak_share", sent) == "holds" and "0.40" in judging.judge(sent, check | {"peak_share": True})[1], "the largest fragment of four layers by two")
    expect(said("peak_share", Two(loss=lambda arm, seed: 1.0)) == "not run", "runs of before it was kept")


def check_sizes_of_codecs():
    # docs/formats/codecs.md
    expect([report.codec_bytes(c, 100) for c in ("fp32", "bf16", "int8", "mxfp4", "e3m0")] == [400, 200, 102, 54, 54], "bytes of 100 elements")


for check in (check_definitions, check_refusals, check_keys, check_comparison, check_verdicts, check_judging, check_sizes_of_codecs):
    check()
