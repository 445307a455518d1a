"""The report: what it says, that it says it safely, and that the same files give the same bytes."""

from __future__ import annotations

import base64
import csv
import json
import math
import random
import re
from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt
from record_factory import exact_record, record, sequence

from experiments import examples, figures, provenance, rendering, report, summary, text, verdicts
from experiments.commands import commands
from experiments.compare import main
from experiments.statistics import Difference

EVIL = "<script>alert('x')</script> | `a` ``b`` [l](javascript:x) **b** \x1b[31m \u202e \udc80\n# heading\n</pre><img src=x>"
BASELINES = ["greedy_masking", "local_masking"]


def study(instances: int = 8, seeds: int = 2, tasks: Iterable[str] = ("big", "small")) -> list[dict[str, Any]]:
    """Two tasks. On "small" the exact posterior is known, .5, .3, .2; local masking follows .2, .3, .5."""
    records = []
    p, q = {"aa": 0.10, "b": 0.06, "c": 0.04}, {"aa": 0.2, "b": 0.3, "c": 0.5}
    for task in tasks:
        for i in range(instances):
            where: dict[str, Any] = {
                "task": task,
                "instance": f"{task}_{i}",
                "prompt": f"Prompt {i}",
                "reference": "aa",
            }
            right = [1.0, 0.0, 0.0] if i % 4 else [0.0, 1.0, 0.0]
            if task == "small":
                records.append(exact_record(p, q, **where, seed=0))
            for seed in range(seeds):
                for method, weights, evidence in (
                    ("greedy_masking", (0.0, 0.0, 1.0), None),
                    ("local_masking", (0.25, 0.25, 0.5), None),
                    ("smc", (0.5, 0.3, 0.2), math.log(0.2)),
                ):
                    sequences = [
                        sequence(t, w, log_prob=math.log(p[t]), path=[-0.5 - 0.1 * k, -0.2], count=k + 1, correct=c)
                        for k, (t, w, c) in enumerate(zip(p, weights, right, strict=True))
                        if w
                    ]
                    accuracy = sum(s["weight"] * s["correct"] for s in sequences)
                    records.append(
                        record(
                            sequences, **where, method=method, seed=seed, log_evidence=evidence,
                            weighted=method == "smc", n_particles=1 if method == "greedy_masking" else 4,
                            ess_kind="concentration" if method == "smc" else "sampling",
                            scores={
                                "accuracy": accuracy, "best_accuracy": right[0], "log_prob": -2.0 + 0.1 * i,
                            },
                        )
                    )  # fmt: skip
    return records


def save(folder: Path, records: Iterable[Mapping[str, Any]], model: str = "toy-model") -> Path:
    """Write records as the runner lays them out: one folder a run."""
    for r in records:
        run = folder / f"{r['task']}-{r['method']}-{r['seed']}"
        run.mkdir(parents=True, exist_ok=True)
        with (run / "records.jsonl").open("a") as stream:
            stream.write(json.dumps(r) + "\n")
        config = {"task": {"name": r["task"]}, "method": {"name": r["method"]}, "model": {"name": model}}
        (run / "config.yaml").write_text(yaml.safe_dump(config | {"seed": r["seed"], "study": "s"}))
        (run / "environment.json").write_text(json.dumps({"device": "cpu", "packages": {"torch": "2.13"}}))
        (run / "DONE").write_text("")
    return folder


def outputs(folder: Path) -> dict[str, bytes]:
    files = [
        folder / "report.md",
        folder / "report.html",
        folder / "summary.csv",
        *sorted((folder / "figures").iterdir()),
    ]
    return {f.name: f.read_bytes() for f in files}


class Page(HTMLParser):
    """Tags, ids, links and sources of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [v for k, v in attrs if k == "id" and v]
        self.links += [v for k, v in attrs if k == "href" and v]
        self.sources += [v for k, v in attrs if k in ("src", "srcset", "data") and v]
        self.images += [found] if tag == "img" else []


# What it says


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
        assert ("Left unexplored" in section.summary.headings) == shown


def test_few_instances_show_no_interval_anywhere() -> None:
    made = report.build(study(instances=5), baselines=BASELINES)
    for section in made.sections:
        assert "interval" not in section.verdict
        assert "too few instances: 5" in section.verdict
        cells = [cell for d in section.differences for row in d.table.rows for cell in row[1:]]
        assert cells
        assert all(cell == "—" or cell.endswith(" (too few instances)") for cell in cells)
        captions = [p.caption for p in section.pictures if p.name.endswith("-cost")]
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
         "cannot be told apart from greedy masking (+1.0 points, 95% interval −3.0 to +5.0, 36 instances, "
         "2 more without a pair)"),
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
    assert "is 0.300 lower than that of local masking (8 instances, the same value on every instance" in small.verdict
    assert re.search(
        r"It is 0\.000; as many draws .* would score 0\.2\d\d, and local masking .* 0\.300\.$", small.verdict
    )


def test_verdict_names_a_baseline_that_was_not_run() -> None:
    records = [r for r in study(tasks=["big"]) if r["method"] != "greedy_masking"]
    made = report.build(records, baselines=BASELINES)
    assert "no comparison with greedy masking, which was not run" in made.sections[0].verdict
    assert made.sections[0].absent_baselines == ("Greedy masking",)


def test_nulls_are_left_out_and_counted() -> None:
    records = study(tasks=["big"])
    for r in records:
        if r["method"] == "smc" and r["instance"] == "big_0":
            r["scores"] |= {"accuracy": None, "log_prob": None}
            r |= {"sequences": [], "status": "censored", "advice": "Raise max_tokens."}
    made = report.build(records, baselines=BASELINES)
    big = made.sections[0]
    smc = next(row for row in big.summary.rows if row[0] == "SMC (enumerate)")
    assert smc[big.summary.headings.index("Accuracy")] == "50.0% (n=7)".replace(
        "50.0", f"{100 * (6 * 0.5 + 0.3) / 7:.1f}"
    )
    assert any("that many instances only" in note for note in big.footnotes)
    right = next(cell for name, cell in zip(big.summary.headings, smc, strict=True) if name == "Right")
    assert right == f"{100 * (6 * 0.5 + 0.3) / 8:.1f}%", "what did not finish is wrong"
    assert any(cell.startswith("0.00 (n=7) ") for row in big.differences[0].table.rows for cell in row)
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
    cells = {row[0]: dict(zip(section.summary.headings, row, strict=True)) for row in section.summary.rows}
    assert cells["SMC (enumerate)"]["ESS"].endswith("*")
    assert not cells["Local masking"]["ESS"].endswith("*")
    assert cells["SMC (sharpened)"]["log Z"].endswith("†")
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


# That it says it safely


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report on a study whose every text wants to be markup."""
    tmp_path = tmp_path_factory.mktemp("hostile")
    records = study()
    for r in records:
        r["prompt"] = r["reference"] = r["advice"] = EVIL
        r["instance"] = f"<b>{r['instance']}</b>"
        for s in r["sequences"]:
            s["text"] = EVIL + s["text"]
    save(tmp_path, records, model="<i>model</i>")
    assert main([str(tmp_path)]) == 0
    return tmp_path


def test_html_is_escaped_and_self_contained(hostile: Path) -> None:
    source = (hostile / "report.html").read_text(encoding="utf-8")
    page = Page(source)
    assert not {"script", "i", "link", "iframe", "object"} & set(page.tags)
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in source
    assert "\\x1b[31m \\u202e \\x80" in source
    assert "\x1b" not in source
    assert "\u202e" not in source
    assert page.sources
    assert all(s.startswith("data:image/svg+xml;base64,") for s in page.sources)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert len(page.ids) == len(set(page.ids))
    assert all(image["alt"] for image in page.images)
    assert not re.search(r"(src|href|url)\s*[=(]\s*[\"']?\s*(https?:)?//", source)
    assert "@import" not in source


def test_markdown_is_escaped_and_its_pictures_exist(hostile: Path) -> None:
    source = (hostile / "report.md").read_text(encoding="utf-8")
    page = Page(MarkdownIt("commonmark").enable("table").render(source))
    assert not {"script", "b", "i"} & set(page.tags)
    assert "javascript:x" not in page.links
    assert all((hostile / s).is_file() for s in page.sources)
    assert len(page.sources) == len(list((hostile / "figures").iterdir()))
    assert page.tags.count("h1") == 1
    assert page.tags.count("table") == 2 + 2 * 2 + 1


@pytest.mark.parametrize(
    "value",
    ["", "  ", "`", "``a`", "a`", "a|b", "a\nb", "*a*", "# a", "1. a", "<b>", "&lt;", "\udcff", "\x00"],
)
def test_markdown_code_and_text_keep_every_character_and_no_markup(value: str) -> None:
    render = MarkdownIt("commonmark").enable("table").render
    for shown in (text.markdown_code(value), text.markdown_text(value)):
        page = Page(render(shown))
        assert set(page.tags) <= {"p", "code"}
        assert len(Page(render(f"- x {shown}")).tags) <= 3
    block = Page(render(text.markdown_block(value)))
    assert set(block.tags) <= {"pre", "code"}


def test_long_texts_are_cut_and_the_rest_counted() -> None:
    assert text.visible("a" * 1500) == "a" * 1200 + " … (300 more characters)"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (text.number(-0.0), "0.00"), (text.number(-0.004), "0.00"), (text.number(-1.5, 1), "−1.5"),
        (text.number(None), "—"),
        (text.number(math.inf), "∞"), (text.number(-math.inf), "−∞"), (text.number(math.nan), "—"),
        (text.signed(0.5, 1), "+0.5"), (text.signed(0.001, 1), "0.0"), (text.signed(-2, 1), "−2.0"),
        (text.signed(math.inf), "+∞"),
        (text.percent(0.125), "12.5%"), (text.percent(None), "—"), (text.points(-0.07), "−7.0"),
        (text.whole(12345.6), "12,346"),
        (text.listed(["a", "b", "c"]), "a, b and c"), (text.counted(1, "run"), "1 run"),
        (text.counted(2, "run"), "2 runs"),
    ],
)  # fmt: skip
def test_numbers_in_words(shown: str, expected: str) -> None:
    assert shown == expected


# That the same files give the same bytes


def test_regenerates_byte_identically_whatever_the_order(tmp_path: Path) -> None:
    records = study(tasks=["small"])
    save(tmp_path / "a", records)
    random.Random(0).shuffle(records)
    save(tmp_path / "b", records)
    assert main([str(tmp_path / "a")]) == 0
    first = outputs(tmp_path / "a")
    assert main([str(tmp_path / "a")]) == 0
    assert main([str(tmp_path / "b")]) == 0
    assert outputs(tmp_path / "a") == first == outputs(tmp_path / "b")


def test_methods_of_one_cost_do_not_hide_each_other() -> None:
    placed = figures._set_apart({"a": 100.0, "b": 100.0, "c": 101.0, "d": 300.0})
    assert placed == pytest.approx({"a": 100.0, "b": 106.0, "c": 112.36, "d": 300.0})


def test_figures_are_small_pictures_without_a_date() -> None:
    made = report.build(study(), baselines=BASELINES)
    names = [p.name for s in made.sections for p in s.pictures]
    assert names == [
        "big-lost-mass", "big-weights", "big-accuracy-cost",
        "small-lost-mass", "small-weights", "small-accuracy-cost", "small-distance-cost",
    ]  # fmt: skip
    for picture in (p for s in made.sections for p in s.pictures):
        assert picture.svg.lstrip().startswith("<?xml")
        assert "dc:date" not in picture.svg
        assert base64.b64encode(picture.svg.encode()).decode() in rendering.html(made)


def test_csv_has_raw_numbers(tmp_path: Path) -> None:
    save(tmp_path, study())
    assert main([str(tmp_path)]) == 0
    lines = list(csv.DictReader((tmp_path / "summary.csv").open()))
    assert [(line["task"], line["method"]) for line in lines] == [
        ("big", "greedy_masking"), ("big", "local_masking"), ("big", "smc"), ("small", "greedy_masking"),
        ("small", "local_masking"), ("small", "smc"), ("small", "exact"), ("small", summary.LOCAL_LAW),
    ]  # fmt: skip
    assert float(lines[4]["tv"]) == pytest.approx(0.3)
    assert lines[0]["log_evidence"] == ""
    assert lines[3]["kl_from_exact"] == "inf"
    assert lines[2]["accuracy_instances"] == "8"


# The command


def test_command_prints_the_table_and_the_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path, study(tasks=["big"]))
    assert main([str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "SMC (enumerate)" in printed
    assert "big (8 instances, 2 seeds)" in printed
    assert f"Report: {tmp_path / 'report.html'}" in printed


def test_a_torn_last_line_is_ignored(tmp_path: Path) -> None:
    save(tmp_path, study(2, 1, ["big"]))
    with (tmp_path / "big-smc-0" / "records.jsonl").open("a") as stream:
        stream.write('{"task": "big", "instance": "torn", "met')
    assert main([str(tmp_path)]) == 0
    assert "torn" not in (tmp_path / "report.md").read_text()


def test_baselines_can_be_chosen(tmp_path: Path) -> None:
    save(tmp_path, study(2, 1, ["big"]))
    assert main([str(tmp_path), "--baseline", "smc"]) == 0
    page = (tmp_path / "report.md").read_text()
    assert "against SMC (enumerate)" in page
    assert "against Greedy masking" not in page


def bad_line(folder: Path) -> None:
    with (folder / "big-smc-0" / "records.jsonl").open("a") as stream:
        stream.write("not json\n")


def bad_field(folder: Path) -> None:
    save(folder, [record([sequence("a", 1.0) | {"weight": "heavy"}], task="bad")])


def lacking(folder: Path) -> None:
    r = record()
    del r["scores"]
    save(folder, [r | {"task": "bad"}])


def two_models(folder: Path) -> None:
    save(folder, [record(task="other")], model="another-model")


def two_limits(folder: Path) -> None:
    config = yaml.safe_load((folder / "big-smc-0" / "config.yaml").read_text())
    config["task"]["max_tokens"] = 48
    (folder / "big-smc-0" / "config.yaml").write_text(yaml.safe_dump(config))


def bad_environment(folder: Path) -> None:
    (folder / "big-smc-0" / "environment.json").write_text('{"device": ')


def bad_config(folder: Path) -> None:
    (folder / "big-smc-0" / "config.yaml").write_text("a: [")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (bad_line, "not a record"), (bad_field, "usable weight"), (lacking, "usable scores"),
        (two_models, "model.name toy-model and another-model"), (bad_config, "config.yaml cannot be read"),
        (two_limits, "task.max_tokens"), (bad_environment, "environment.json cannot be read"),
    ],
)  # fmt: skip
def test_bad_files_give_one_paragraph_and_no_report(
    spoil: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, study(instances=1, seeds=1))
    spoil(tmp_path)
    assert main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_bad_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "absent")]) == 2
    assert "There is no folder" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 2
    assert "holds no records" in capsys.readouterr().err
    save(tmp_path, study(instances=1, seeds=1))
    assert main([str(tmp_path), "--baseline", "nonesuch"]) == 2
    assert "greedy_masking, local_masking, smc, exact" in capsys.readouterr().err


def test_unfinished_runs_are_told(tmp_path: Path) -> None:
    save(tmp_path, study(2, 1, ["big"]))
    (tmp_path / "big-smc-0" / "DONE").unlink()
    assert main([str(tmp_path)]) == 0
    assert "1 run of 3 did not run to the end (big-smc-0)" in (tmp_path / "report.md").read_text()


def test_a_run_without_records_is_not_told(tmp_path: Path) -> None:
    save(tmp_path, study(2, 1, ["big"]))
    (tmp_path / "refused").mkdir()
    (tmp_path / "refused" / "records.jsonl").write_text("")
    assert main([str(tmp_path)]) == 0
    assert "did not run to the end" not in (tmp_path / "report.md").read_text()


def test_the_whole_prompt_is_folded_away(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be <brief>."}, {"role": "user", "content": "Say it."}]
    save(tmp_path, [r | {"full_prompt": messages} for r in study(1, 1, ["big"])])
    assert main([str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "<details>" in page
    assert "system: Be &lt;brief&gt;." in page
    assert "Be <brief>" not in (tmp_path / "report.md").read_text()


# Where the records came from


def run(command: str | None = None, **config: Any) -> provenance.Run:
    return provenance.Run("r", config, {"command": command} if command else {}, True)


def test_commands_make_exactly_the_runs_of_a_study() -> None:
    def of(name: str, seed: int, algorithm: str = "smc", **options: Any) -> provenance.Run:
        method = {"name": name, "algorithm": algorithm, "n_particles": 16, **options}
        return run(
            task={"name": "dates", "max_tokens": 16}, method=method, seed=seed, limit=3, study="a b", results="/x"
        )

    recorded = [of(m, s, m) for m in ("local_masking", "unconstrained") for s in (10, 2)]
    recorded += [of("smc", 2), of("smc_8", 2, n_particles=8)]
    start = "python -m experiments.run"
    assert sorted(commands(recorded)) == sorted([
        f"""{start} -m task=dates limit=3 'study='"'"'a b'"'"'' method=local_masking,unconstrained seed=2,10""",
        f"""{start} task=dates limit=3 'study='"'"'a b'"'"'' method=smc seed=2""",
        f"""{start} task=dates limit=3 'study='"'"'a b'"'"'' method=smc method.n_particles=8 method.name=smc_8 seed=2""",
    ])  # fmt: skip
    assert commands([run(task={"name": "dates"}, method={"name": "smc"}, seed=1)]) == [
        f"{start} task=dates method=smc seed=1"
    ]
    assert commands([run()]) == []


def test_a_run_continued_elsewhere_is_told() -> None:
    same = provenance.Run(
        "r", {}, {"device": "cpu", "command": "a", "resumed_with": [{"device": "cpu", "command": "b"}]}, True
    )
    other = provenance.Run("r", {}, {"device": "cpu", "resumed_with": [{"device": "cuda"}]}, True)
    assert not same.resumed_elsewhere
    assert other.resumed_elsewhere


def test_a_sharpened_method_is_known_by_its_options() -> None:
    runs = [
        run(method={"name": "hot", "target_power": 4.0}),
        run(method={"name": "smc", "target_power": 1.0}),
    ]
    assert provenance.sharpened(runs) == {"hot"}
