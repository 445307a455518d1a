"""That the pages say it safely, and that the same files give the same bytes."""

from __future__ import annotations

import base64
import csv
import math
import random
import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from study_factory import EVIL, Page, outputs, save, study

from experiments import text
from experiments.analysis import summary
from experiments.compare import main
from experiments.report import curve_figures


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
    assert page.tags.count("table") > 2


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


def test_regenerates_byte_identically_whatever_the_order(tmp_path: Path) -> None:
    records = study(instances=2, tasks=["small"])
    save(tmp_path / "a", records)
    random.Random(0).shuffle(records)
    save(tmp_path / "b", records)
    assert main([str(tmp_path / "a")]) == 0
    first = outputs(tmp_path / "a")
    assert main([str(tmp_path / "a")]) == 0
    assert main([str(tmp_path / "b")]) == 0
    assert outputs(tmp_path / "a") == first == outputs(tmp_path / "b")
    assert len(first) == 4 + 4


def test_methods_of_one_cost_do_not_hide_each_other() -> None:
    factors = curve_figures.set_apart({"a": 100.0, "b": 100.0, "c": 101.0, "d": 300.0})
    assert factors == pytest.approx({"a": 1.0, "b": 1.06, "c": 1.1236 / 1.01, "d": 1.0})


def test_figures_are_small_pictures_without_a_date(hostile: Path) -> None:
    figures = {path.stem: path.read_text() for path in (hostile / "figures").iterdir()}
    assert sorted(figures) == [
        "big-lost-mass", "big-score-cost", "big-weights", "overview-greedy-masking", "overview-local-masking",
        "small-distance-cost", "small-lost-mass", "small-score-cost", "small-weights",
    ]  # fmt: skip
    page = (hostile / "report.html").read_text(encoding="utf-8")
    for svg in figures.values():
        assert svg.lstrip().startswith("<?xml")
        assert "dc:date" not in svg
        assert base64.b64encode(svg.encode()).decode() in page


def test_the_page_fits_any_screen(hostile: Path) -> None:
    source = (hostile / "report.html").read_text(encoding="utf-8")
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in source
    page = Page(source)
    assert not {"script", "link", "iframe", "video", "form"} & set(page.tags)
    css = source[source.index("<style>") : source.index("</style>")]
    widths = [float(w) for w in re.findall(r"(?:^|[\s;{])(?:min-)?width:\s*([0-9.]+)(?:px|rem|em)", css)]
    assert all(width <= 20 for width in widths), "nothing is wider than a phone by its style"
    assert "overflow-x: auto" in css, "wide tables scroll inside themselves"
    assert not re.search(r"style=\"[^\"]*width:\s*[0-9.]+(px|rem|em)", source)
    assert "prefers-color-scheme: dark" in css
    assert "@media print" in css
    # Every table lies in a box that scrolls and can be reached by the keyboard.
    assert page.tags.count("table") == source.count('<div class="scroll" tabindex="0" role="region" aria-label=')


def test_contents_lead_to_every_task(hostile: Path) -> None:
    page = Page((hostile / "report.html").read_text(encoding="utf-8"))
    assert {"overview", "task-big", "task-small", "costs", "notes"} <= set(page.ids)
    assert {f"#{name}" for name in ("overview", "task-big", "task-small", "costs", "notes")} <= set(page.links)


def test_csv_has_raw_numbers(hostile: Path) -> None:
    lines = list(csv.DictReader((hostile / "summary.csv").open()))
    assert [(line["task"], line["method"]) for line in lines] == [
        ("big", "greedy_masking"), ("big", "local_masking"), ("big", "smc"), ("small", "greedy_masking"),
        ("small", "local_masking"), ("small", "smc"), ("small", "exact"), ("small", summary.LOCAL_LAW),
    ]  # fmt: skip
    assert float(lines[4]["tv"]) == pytest.approx(0.3)
    assert lines[0]["log_evidence"] == ""
    assert lines[3]["kl_from_exact"] == "inf"
    assert lines[2]["accuracy_instances"] == "8"
