"""Verdicts in words: one sentence a task, and what it rests on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from record_factory import record, sequence

from experiments.analysis import headlines, summary, verdicts
from experiments.analysis.differences import Difference
from experiments.analysis.headlines import Headline, headline
from experiments.analysis.labels import DEFAULT_BASELINES

FOUND = Difference(
    0.071, 0.02, 0.12, 36, 0, "higher", "", p=0.004, q=0.012, family=9, test="exact McNemar test", detectable=0.085
)


def task(*, kept: float = -3.2, spread: float = 2.0, places: bool = True, methods: tuple[str, ...] = ("local_masking", "smc"),
         instances: int = 36) -> summary.Task:  # fmt: skip
    """Local masking with two samples an instance that differ by `spread` nats in their kept mass, `kept` on average."""
    path = [0.25 * kept, 0.75 * kept]
    records: list[dict[str, Any]] = []
    for i in range(instances):
        for method in methods:
            drawn = [
                sequence(t, 0.5, path=[path[0], path[1] + s * spread / 2], correct=1.0)
                | ({"places": ["key", "end"]} if places else {})
                for t, s in (("a", 1), ("b", -1))
            ]
            records.append(record(drawn, instance=f"i{i:02d}", method=method, scores={"accuracy": 1.0}))
    return summary.by_task(records)[0]


def said(d: Difference | None, of: summary.Task | None = None) -> Headline:
    differences = {} if d is None else {"right": d}
    return headline(of or task(), [summary.Comparison("toy", "smc", "local_masking", differences)])


def test_costs_says_how_much_and_why() -> None:
    found = said(FOUND)
    assert found.kind == "costs"
    assert found.sentence == (
        "Local masking costs 7.1 points (95% interval 2.0 to 12.0, 36 instances), because the mask removes 3.2 nats a sample, 75% of it at "
        "the stop, and the weights that it forgets are somewhat uneven (ESS 63% of the samples)."
    )


def test_costs_without_places_or_with_nearly_even_weights() -> None:
    assert "removes 3.2 nats a sample and the weights" in said(FOUND, task(places=False)).sentence
    assert (
        ", although the weights that it forgets are nearly even (ESS 100% of the samples)."
        in said(FOUND, task(spread=0.1)).sentence
    )
    assert "sample, 75% of it at the stop, although" in said(FOUND, task(spread=0.1)).sentence
    assert headlines._unevenness(0.3) == "and the weights that it forgets are uneven (ESS 30% of the samples)"
    assert said(FOUND, task(kept=-0.02, spread=0.01)).sentence.endswith("36 instances)."), (
        "nothing removed is no reason"
    )


def test_local_masking_may_do_better() -> None:
    found = said(Difference(-0.05, -0.09, -0.01, 36, 0, "lower", "", p=0.01))
    assert found == Headline(
        "helps",
        "Local masking does better here: its draws score 5.0 points more than those of the posterior (95% interval 1.0 to 9.0, "
        "36 instances), so being truer to the model is no gain.",
    )


def test_harmless_by_the_score() -> None:
    assert said(Difference(0.002, -0.004, 0.007, 200, 0, "no difference", "")) == Headline(
        "harmless",
        "Local masking is harmless here: the posterior scores the same to within a point (+0.2 points, 95% interval −0.4 to +0.7, "
        "200 instances).",
    )
    equal = said(Difference(0.0, None, None, 30, 0, "no difference", "equal on all 30 instances"))
    assert (
        equal.sentence
        == "Local masking is harmless here: the posterior scores the same (30 instances, equal on all 30 instances)."
    )


def test_harmless_because_the_weights_are_even() -> None:
    unclear = Difference(0.01, -0.03, 0.05, 36, 0, "cannot tell", "", p=0.6, detectable=0.08)
    found = said(unclear, task(spread=0.0))
    assert found.kind == "harmless"
    assert (
        "as far as these show no score differs by more than 0.1 points (95% bound of the mean over 36 instances)"
        in found.sentence
    )
    assert said(unclear, task(spread=0.0, instances=20)).kind == "cannot tell", "twenty instances alike are too few"
    assert said(FOUND, task(spread=0.0)).kind == "costs", "what was seen comes before what was reckoned"


def failing(validity: dict[str, float], **options: Any) -> summary.Task:
    """`task` with shares of the methods' mass that ended validly."""
    records = [
        r | {"scores": {**r["scores"], "validity": validity.get(r["method"], 1.0)}} for r in task(**options).records
    ]
    return summary.by_task(records)[0]


def test_even_weights_say_nothing_of_draws_that_fail() -> None:
    unclear = Difference(0.01, -0.03, 0.05, 36, 0, "cannot tell", "", p=0.6, detectable=0.08)
    assert said(unclear, failing({"local_masking": 0.7}, spread=0.0)).kind == "cannot tell"
    some = task(spread=0.0).records
    empty = [r | {"sequences": []} if r["method"] == "local_masking" and r["instance"] == "i00" else r for r in some]
    assert said(unclear, summary.by_task(empty)[0]).kind == "cannot tell", "an instance without samples is not known"


def test_failing_is_named_as_the_reason() -> None:
    assert said(FOUND, failing({"local_masking": 0.1, "smc": 0.96})).sentence == (
        "Local masking costs 7.1 points (95% interval 2.0 to 12.0, 36 instances), because 90% of its draws do not end validly, "
        "against 4% of the posterior's."
    )
    helps = said(
        Difference(-0.05, -0.09, -0.01, 36, 0, "lower", "", p=0.01), failing({"local_masking": 1.0, "smc": 0.8})
    )
    assert helps.kind == "helps"
    assert helps.sentence.endswith("as 20% of those do not end validly, against 0% of its own.")
    assert "because the mask removes" in said(FOUND, failing({"local_masking": 0.97})).sentence


def test_cannot_tell_says_what_could_have_been_seen() -> None:
    found = said(Difference(0.021, -0.01, 0.052, 60, 0, "cannot tell", "", p=0.2, detectable=0.085))
    assert found == Headline(
        "cannot tell",
        "Cannot tell: SMC (enumerate) scores 2.1 points more than local masking (95% interval −1.0 to +5.2, 60 instances); this study "
        "could only have seen a difference of 8.5 points or more.",
    )
    less = said(Difference(-0.01, -0.05, 0.03, 60, 0, "cannot tell", "", p=0.6, detectable=0.01))
    assert "scores 1.0 point less than" in less.sentence
    assert "difference of 1.0 point or more" in less.sentence
    even = said(Difference(0.0, -0.05, 0.05, 60, 0, "cannot tell", "", p=1.0))
    assert "score the same on average (95% interval −5.0 to +5.0, 60 instances)." in even.sentence


def test_a_claim_that_was_taken_back_is_told() -> None:
    found = said(replace(FOUND, verdict="cannot tell", p=0.04, q=0.12))
    assert (
        "but chance may do that (exact McNemar test p = 0.040, q = 0.12 adjusted for 9 comparisons); this study"
        in found.sentence
    )


@pytest.mark.parametrize(
    ("d", "words"),
    [
        (Difference(0.1, None, None, 3, 0, "cannot tell", "too few instances"), "Cannot tell: 3 instances are too few for any claim."),
        (Difference(0.1, None, None, 1, 0, "cannot tell", "too few instances"), "Cannot tell: 1 instance is too few for any claim."),
        (Difference(None, None, None, 0, 4, "cannot tell", "no instance has both"), "Cannot tell: no instance has both."),
    ],
)  # fmt: skip
def test_few_instances(d: Difference, words: str) -> None:
    assert said(d) == Headline("cannot tell", words)


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (("local_masking", "mcmc_restart"), "no method that estimates the posterior was run"),
        (("smc",), "local masking was not run"),
        (("local_masking", "smc"), "no instance has a score"),
    ],
)
def test_not_measured(methods: tuple[str, ...], words: str) -> None:
    found = said(None, task(methods=methods))
    assert found.kind == "not measured"
    assert words in found.sentence


def test_a_whole_study_in_one_go() -> None:
    """Twelve instances on which local masking is right half of the time and the posterior always."""
    rng = np.random.default_rng(0)
    records = []
    for i in range(12):
        for method, accuracy in (("local_masking", float(rng.uniform(0.3, 0.7))), ("smc", 1.0)):
            drawn = [sequence(t, 0.5, path=[0.0 if t == "a" else -2.0], correct=accuracy) for t in "ab"]
            records.append(record(drawn, instance=f"i{i:02d}", method=method, scores={"accuracy": accuracy}))
    tasks = summary.by_task(records)
    found = headline(tasks[0], summary.compare(tasks, DEFAULT_BASELINES)["toy"])
    assert found.kind == "costs"
    assert "because the mask removes 1.0 nats a sample" in found.sentence


# The details and the table


def test_the_basis_names_test_and_both_chances() -> None:
    compared = [summary.Comparison("toy", "smc", "local_masking", {"right": FOUND})]
    words = verdicts.verdict(task(), compared, ["local_masking"])
    assert words == (
        "In the score of one draw, SMC (enumerate) gains 7.1 points over local masking (95% interval +2.0 to +12.0, 36 instances, exact "
        "McNemar test p = 0.004, q = 0.012 adjusted for 9 comparisons)."
    )


def test_the_method_that_gains_most_is_named_where_it_is_another() -> None:
    more = replace(FOUND, mean=0.2)
    compared = [
        summary.Comparison("toy", m, "local_masking", {"right": d}) for m, d in (("smc", FOUND), ("smc_power4", more))
    ]
    assert "Of all methods SMC (power 4) gains most on local masking: 20.0 points" in verdicts.verdict(
        task(), compared, ["local_masking"]
    )
    assert "Of all methods" not in verdicts.verdict(task(), compared[:1], ["local_masking"])


@pytest.mark.parametrize(
    ("d", "shown"),
    [
        (FOUND, "+7.1 [+2.0, +12.0; q = 0.012] higher"),
        (replace(FOUND, q=None), "+7.1 [+2.0, +12.0; p = 0.004] higher"),
        (replace(FOUND, q=1e-5, low=None, high=None), "+7.1 [no interval; q < 0.001] higher"),
        (Difference(0.1, None, None, 3, 0, "cannot tell", "too few instances"), "+10.0 (n=3) (too few instances)"),
        (None, "—"),
    ],
)  # fmt: skip
def test_cells(d: Difference | None, shown: str) -> None:
    assert verdicts.cell(d, "points", 36) == shown


# What the summary keeps for files


def test_the_csv_has_intervals_chances_and_what_could_be_seen() -> None:
    of = task()
    compared = summary.compare([of], DEFAULT_BASELINES)["toy"]
    lines = {line["method"]: line for line in summary.summary_csv(summary.summarise(of), compared)}
    d = next(c for c in compared if c.method == "smc").differences["right"]
    assert lines["smc"]["right_minus_local_masking"] == d.mean == 0.0
    assert lines["smc"]["right_minus_local_masking_q"] == d.q == 1.0
    assert lines["smc"]["right_minus_local_masking_detectable"] == pytest.approx(d.detectable)
    assert lines["smc"]["right_minus_local_masking_verdict"] == "no difference"
    assert lines["local_masking"]["right_minus_local_masking"] is None
    assert lines["local_masking"]["distortion"] == pytest.approx(math.tanh(1.0) / 2)
    assert len({tuple(line) for line in lines.values()}) == 1


def test_a_tasks_own_measures_become_columns() -> None:
    records = [
        record(
            [sequence("a", 1.0)],
            instance=f"i{i}",
            scores={"measure/qed": 0.5 + 0.1 * i, "measure/valid": 1.0, "together/distinct_share": 0.25},
        )
        for i in range(2)
    ]
    rows = summary.summarise(summary.by_task(records)[0])
    columns = {c.name: c for c in summary.columns_of(rows)}
    assert columns["measure/qed"].heading == "QED"
    assert columns["measure/valid"].heading == "Valid (measure)", "two columns of one name cannot be told apart"
    assert columns["together/distinct_share"].heading == "Distinct share"
    assert rows[0].values["measure/qed"] == pytest.approx(0.55)
    assert rows[0].counts["together/distinct_share"] == 2
    assert summary.summary_csv(rows)[0]["measure/qed"] == pytest.approx(0.55)
