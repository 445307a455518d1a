"""What the report says."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from record_factory import exact_record, record, sequence
from study_factory import BASELINES, save, study

from experiments.analysis import summary, verdicts
from experiments.analysis.differences import Difference
from experiments.compare import main
from experiments.report import build as report
from experiments.report import examples, rendering
from experiments.report.section import Section


@pytest.fixture(autouse=True)
def quick_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are made but not drawn, which takes longest: test_figures.py draws."""
    monkeypatch.setattr(Figure, "savefig", lambda self, buffer, **_: buffer.write("<?xml?><svg/>"))


def table_of(section: Section) -> dict[str, dict[str, str]]:
    """The summary with the columns that are folded away: cells by method and heading."""
    tables = [t for t in (section.summary, section.more) if t]
    return {
        row[0]: {h: c for t in tables for r in t.rows if r[0] == row[0] for h, c in zip(t.headings, r, strict=True)}
        for row in section.summary.rows
    }


def test_summary_rows() -> None:
    task = next(t for t in summary.by_task(study()) if t.name == "small")
    rows = {r.method: r for r in summary.summarise(task)}
    assert list(rows) == ["greedy_masking", "local_masking", "smc", "exact", summary.LOCAL_LAW]
    smc = rows["smc"]
    assert (smc.instances, smc.seeds, smc.ess_kind) == (8, 2, "concentration")
    assert smc.values["tv"] == pytest.approx(0.0, abs=1e-12)
    assert smc.values["log_evidence"] == pytest.approx(math.log(0.2))
    assert smc.values["log_evidence_sd"] == pytest.approx(0.0)
    assert smc.values["accuracy"] == pytest.approx(0.75 * 0.5 + 0.25 * 0.3)
    assert rows["local_masking"].values["tv"] == pytest.approx(0.3)
    assert rows["local_masking"].values["log_evidence"] is None
    assert rows["greedy_masking"].values["tv"] == pytest.approx(0.8)
    assert rows["greedy_masking"].values["kl_to_exact"] == pytest.approx(math.log(5))
    assert rows["greedy_masking"].values["kl_from_exact"] == math.inf
    law = rows[summary.LOCAL_LAW]
    assert law.values["tv"] == pytest.approx(0.3)
    assert law.values["kl_to_exact"] == pytest.approx(0.2 * math.log(0.4) + 0.5 * math.log(2.5))
    assert law.values["log_prob"] == pytest.approx(0.2 * math.log(0.1) + 0.3 * math.log(0.06) + 0.5 * math.log(0.04))


def test_evidence_is_averaged_as_a_probability_and_null_beside_a_number_is_zero() -> None:
    records = [
        record(seed=0, log_evidence=math.log(0.2)),
        record(seed=1, log_evidence=None),
        record(seed=0, instance="i1", log_evidence=math.log(0.1)),
        record(seed=1, instance="i1", log_evidence=math.log(0.3)),
        record(seed=0, instance="i2", log_evidence=None),
    ]
    (row,) = summary.summarise(summary.by_task(records)[0])
    assert row.values["log_evidence"] == pytest.approx((math.log(0.1) + math.log(0.2)) / 2)
    assert row.counts["log_evidence"] == 2
    assert row.values["log_evidence_sd"] == pytest.approx(math.log(3) / math.sqrt(2))
    assert row.counts["log_evidence_sd"] == 1


def test_shares_of_lost_mass() -> None:
    # Finished .4, rejected .3, censored .2, dead .1.
    lost = record(
        [sequence("a", 1.0, log_weight=math.log(0.4))],
        log_rejected_mass=math.log(0.3), log_censored_mass=math.log(0.2), scores={"validity": 0.4},
    )  # fmt: skip
    nothing = record([], instance="i1", log_censored_mass=-1.0, scores={"validity": 0.0})
    (row,) = summary.summarise(summary.by_task([lost])[0])
    assert [row.values[n] for n in ("rejected", "censored", "dead")] == pytest.approx([0.3, 0.2, 0.1])
    (row,) = summary.summarise(summary.by_task([nothing])[0])
    assert [row.values[n] for n in ("rejected", "censored", "dead")] == [0.0, 1.0, 0.0]


def test_comparisons_pair_what_both_have() -> None:
    task = next(t for t in summary.by_task(study()) if t.name == "small")
    found = {(c.baseline, c.method): c.differences for c in summary.comparisons(task, BASELINES)}
    assert set(found) == {
        ("greedy_masking", "local_masking"), ("greedy_masking", "smc"),
        ("local_masking", "greedy_masking"), ("local_masking", "smc"),
        *((summary.LOCAL_LAW, method) for method in ("greedy_masking", "local_masking", "smc")),
    }  # fmt: skip
    assert set(found["greedy_masking", "smc"]) == {"right", "best_accuracy", "log_prob"}
    assert set(found[summary.LOCAL_LAW, "smc"]) == {"tv", "kl_to_exact"}
    assert found[summary.LOCAL_LAW, "smc"]["tv"].mean == pytest.approx(-0.3)
    assert found[summary.LOCAL_LAW, "local_masking"]["kl_to_exact"].mean == pytest.approx(
        0.25 * math.log(0.5) + 0.25 * math.log(0.25 / 0.3) + 0.5 * math.log(2.5)
        - (0.2 * math.log(0.4) + 0.5 * math.log(2.5))
    )  # fmt: skip
    assert found["local_masking", "smc"]["tv"].mean == pytest.approx(-0.3)
    assert found["local_masking", "smc"]["tv"].verdict == "lower"
    assert found["greedy_masking", "smc"]["best_accuracy"].verdict == "cannot tell"
    assert found["greedy_masking", "smc"]["best_accuracy"].note == "equal on all 8 instances"


def test_right_counts_what_failed_as_wrong() -> None:
    half = record([sequence("a", 1.0, correct=1.0)], scores={"validity": 0.25, "accuracy": 0.8, "best_accuracy": 1.0})
    nothing = record([], scores={"validity": 0.0})
    assert summary.right(half) == pytest.approx(0.2)
    assert summary.best_right(half) == 1.0
    assert summary.right(nothing) == summary.best_right(nothing) == 0.0
    assert summary.right(record([sequence("a", 1.0)])) is None, "nothing scored: nothing known"


def test_mass_left_unexplored_is_a_share() -> None:
    left = record([sequence("a", 1.0, log_weight=math.log(0.3))], log_unexplored_mass=math.log(0.1))
    (row,) = summary.summarise(summary.by_task([left])[0])
    assert row.values["unexplored"] == pytest.approx(0.25)
    for records, shown in (([left], True), ([left | {"log_unexplored_mass": -17.0}], False), ([record()], False)):
        section = report.build(records, baselines=BASELINES).sections[0]
        assert ("Left unexplored" in table_of(section)["SMC (enumerate)"]) == shown


def test_few_instances_show_no_interval_anywhere() -> None:
    made = report.build(study(instances=5), baselines=BASELINES)
    for section in made.sections:
        assert "interval" not in section.headline.sentence + section.details
        assert "5 instances are too few for any claim" in section.headline.sentence
        assert "too few instances: 5" in section.details
        cells = [cell for d in section.differences for row in d.table.rows for cell in row[1:]]
        assert cells
        assert all(cell == "—" or cell.endswith(" (too few instances)") for cell in cells)
        captions = [p.caption for p in section.pictures.all if p.name.endswith("-cost")]
        assert captions
        assert all("No intervals are drawn" in caption for caption in captions)


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (Difference(0.07, 0.02, 0.12, 36, 0, "higher", ""),
         "gains 7.0 points over greedy masking (95% interval +2.0 to +12.0, 36 instances)"),
        (Difference(-0.07, -0.12, -0.02, 36, 0, "lower", ""),
         "costs 7.0 points against greedy masking (95% interval −12.0 to −2.0, 36 instances)"),
        (Difference(0.01, -0.03, 0.05, 36, 2, "cannot tell", ""),
         "cannot be told apart from greedy masking (+1.0 points, 95% interval −3.0 to +5.0, paired over the "
         "36 instances that both have, 2 more without a pair)"),
        (Difference(0.0, None, None, 30, 0, "no difference", "equal on all 30 instances"),
         "shows no difference from greedy masking (30 instances, equal on all 30 instances)"),
        (Difference(0.1, None, None, 3, 1, "cannot tell", "too few instances"),
         "cannot be told apart from greedy masking (+10.0 points, too few instances: 3, 1 more without a pair)"),
        (Difference(None, None, None, 0, 3, "cannot tell", "no instance has both"),
         "cannot be told apart from greedy masking (0 instances, 3 more without a pair, no instance has "
         "both)"),
    ],
)  # fmt: skip
def test_verdicts_in_words(difference: Difference, words: str) -> None:
    task = summary.by_task(study())[0]
    compared = [summary.Comparison("big", "smc", "greedy_masking", {"right": difference})]
    assert words in verdicts.verdict(task, compared, ["greedy_masking"])


def test_verdict_puts_distances_beside_sampling_error() -> None:
    small = report.build(study(tasks=["small"]), baselines=BASELINES).sections[0]
    assert "is 0.300 lower than that of local masking (8 instances, the same value on every instance" in small.details
    assert re.search(
        r"It is 0\.000; as many draws .* would score 0\.2\d\d, and local masking .* 0\.300\.$", small.details
    )


def test_verdict_names_a_baseline_that_was_not_run() -> None:
    records = [r for r in study(tasks=["big"]) if r["method"] != "greedy_masking"]
    made = report.build(records, baselines=BASELINES)
    assert "no comparison with greedy masking, which was not run" in made.sections[0].details
    assert made.sections[0].absent_baselines == ("Greedy masking",)


def test_nulls_are_left_out_and_counted() -> None:
    records = study(tasks=["big"])
    for r in records:
        if r["method"] == "smc" and r["instance"] == "big_0":
            r["scores"] |= {"accuracy": None, "log_prob": None}
            r |= {"sequences": [], "status": "censored", "advice": "Raise max_tokens."}
    made = report.build(records, baselines=BASELINES)
    big = made.sections[0]
    smc = table_of(big)["SMC (enumerate)"]
    assert smc["Score if valid"] == f"{100 * (6 * 0.5 + 0.3) / 7:.1f} (n=7)"
    assert any("that many instances only" in note for note in big.footnotes)
    assert smc["Score"] == f"{100 * (6 * 0.5 + 0.3) / 8:.1f}", "what did not finish is wrong"
    assert any(cell.startswith("0.00 (n=7) ") for d in big.differences for row in d.table.rows for cell in row)
    assert big.troubles == (
        "SMC (enumerate): of 16 runs, censored 2, complete 14.",
        "SMC (enumerate) on big_0: Raise max_tokens.",
    )


def test_examples_come_in_order_of_disagreement() -> None:
    records = study(instances=3, seeds=1)
    for r in records:
        if r["instance"] == "small_1" and r["method"] == "greedy_masking":
            r["sequences"] = [sequence("aa", 1.0)]
    task = next(t for t in summary.by_task(records) if t.name == "small")
    found = examples.choose(task, 2)
    assert [e.instance for e in found] == ["small_0", "small_2"]
    assert found[0].disagreement == pytest.approx(0.8)
    assert [c.method for c in found[0].columns] == ["greedy_masking", "local_masking", "smc"]
    local = found[0].columns[1]
    assert [(a.text, a.share, a.count, a.exact) for a in local.answers] == [
        ("c", 0.5, 3, pytest.approx(0.2)),
        ("aa", 0.25, 1, pytest.approx(0.5)),
        ("b", 0.25, 2, pytest.approx(0.3)),
    ]  # fmt: skip


def test_concentration_and_sharpened_targets_are_marked() -> None:
    records = study(tasks=["big"])
    records += [r | {"method": "smc_power"} for r in records if r["method"] == "smc"]
    section = report.build(records, baselines=BASELINES).sections[0]
    cells = table_of(section)
    assert cells["SMC (enumerate)"]["ESS"].endswith("*")
    assert not cells["Local masking"]["ESS"].endswith("*")
    assert cells["SMC (power 4)"]["log Z"].endswith("†")
    assert cells["SMC (enumerate)"]["log Z"] == "−1.61"


def test_a_single_unknown_method_makes_a_report(tmp_path: Path) -> None:
    save(tmp_path, [record([sequence("a", 1.0)], method="my_own_method", instance=f"i{k}") for k in range(2)])
    assert main([str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "my_own_method" in page
    assert "No method that estimates the posterior was run" in page


def test_the_exact_reference_alone_makes_a_report(tmp_path: Path) -> None:
    save(tmp_path, [exact_record({"a": 0.5, "b": 0.1}, {"a": 0.5, "b": 0.5})])
    assert main([str(tmp_path)]) == 0
    assert "nothing yet to compare" in (tmp_path / "report.md").read_text()


def test_examples_show_where_greedy_masking_and_the_posterior_part() -> None:
    records = [
        record([sequence("2024-05-01", 1.0, correct=0.0)], method="greedy_masking", instance="i0"),
        record([sequence("2024-11", 1.0, correct=0.4)], method="smc", instance="i0"),
    ]
    (example,) = examples.choose(summary.by_task(records)[0], 1)
    assert example.parting is not None
    assert (example.parting.at, example.parting.first_rest, example.parting.second_rest) == (5, "05-01", "11")
    assert [c.answers[0].parts_at for c in example.columns] == [5, 5]
    assert [c.answers[0].mark for c in example.columns] == [("wrong", "✗ wrong"), ("partly", "◐ score 0.40")]
    assert rendering._parted("2024-05-01", 5) == "2024-<mark>0</mark>5-01"
    assert rendering._parted("ab", 2) == "ab<mark>∎</mark>", "the other text goes on"
    assert rendering._parted("<" * 500, 400).startswith("(240 characters that are the same) … &lt;")
