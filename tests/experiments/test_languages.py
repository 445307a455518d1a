"""What the report says of the language that was enforced."""

from __future__ import annotations

from dataclasses import asdict

import pytest
import toy_study
from record_factory import record
from toy_study import install, settings

import experiments.job
from experiments.config import StudyConfig
from experiments.errors import ExperimentError
from experiments.job import execute
from experiments.report import build as report
from experiments.report import languages, rendering
from experiments.store import read_records
from smc import FiniteLanguage
from smc.constraints.notes import LanguageNote, language_of

ORDER = LanguageNote("narrower", "/p/a", "properties", "keys in another order", "spelling")
UNIQUE = LanguageNote("wider", "/p/b", "uniqueItems", "arrays with equal items")
LOST = LanguageNote("narrower", "", "maximum", "exponents <b>| `x`", "values")


def language(*notes: LanguageNote, engine: str = "xgrammar") -> dict[str, object]:
    return {"engine": engine, "notes": [asdict(note) for note in notes]}


def test_notes_of_several_instances_come_together_what_is_lost_first() -> None:
    records = [
        record(instance="a", language=language(ORDER, UNIQUE)),
        record(instance="a", seed=1, language=language(ORDER, UNIQUE)),
        record(instance="b", language=language(ORDER, LOST)),
        record(instance="c"),
    ]
    found = languages.deviations(records)
    assert [(d.label, d.keyword, d.places, d.instances) for d in found] == [
        ("left out", "maximum", ("",), 1),
        ("left out, other spellings only", "properties", ("/p/a",), 2),
        ("let through, then refused", "uniqueItems", ("/p/b",), 1),
    ]
    assert "never be produced: see the first 1 line" in str(languages.sentence(records))


def test_what_a_report_says_without_notes_and_without_languages() -> None:
    assert languages.sentence([record()]) is None
    assert "no difference" in str(languages.sentence([record(language=language())]))
    assert "Every value" in str(languages.sentence([record(language=language(ORDER))]))


def test_both_pages_list_the_deviations_safely() -> None:
    page = report.build([record(language=language(LOST, UNIQUE))], baselines=[])
    html, markdown = rendering.html(page), rendering.markdown(page)
    assert "exponents &lt;b&gt;" in html
    assert "<h3>Language</h3>" in html
    assert "toy: language" in markdown
    assert "uniqueItems at /p/b; 1 instance" in markdown
    silent = report.build([record()], baselines=[])
    assert "Language</h3>" not in rendering.html(silent)
    assert "toy: language" not in rendering.markdown(silent)


class Narrow(FiniteLanguage):
    """A list that owns up to a loss."""

    notes = (LOST,)


def test_runs_record_the_language_and_strict_runs_refuse_before_a_model_is_loaded(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = install(monkeypatch)
    folder = execute(settings(tmp_path))
    assert folder is not None
    assert all(r["language"] == {"engine": "finite", "notes": []} for r in read_records(folder))
    monkeypatch.setattr(toy_study, "FiniteLanguage", Narrow)
    assert language_of(Narrow(["000"])).loses_values == (LOST,)
    loads.clear()
    with pytest.raises(ExperimentError, match=r"Instance toy_00: strict_language.*maximum"):
        execute(settings(tmp_path, strict_language=True, study=StudyConfig("strict")))
    assert not loads
    assert experiments.job.execute(settings(tmp_path, study=StudyConfig("lenient"))) is not None
