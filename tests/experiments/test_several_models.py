"""A study of several models: told apart in records and runs, judged each by itself, side by side in the report."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from study_factory import BASELINES, save, study
from toy_study import install, settings

from experiments import compare, provenance
from experiments.analysis import summary
from experiments.config import ModelConfig, identity
from experiments.errors import ExperimentError
from experiments.job import execute
from experiments.report import build, rendering
from experiments.schemas import label_of
from experiments.store import RECORDS, read_records, run_id


def two_models() -> list[dict[str, Any]]:
    """On the second model local masking and the posterior swap their answers."""
    swapped = {"local_masking": "smc", "smc": "local_masking"}
    other = [r | {"model": "other", "method": swapped.get(r["method"], r["method"])} for r in study()]
    return [r | {"model": "tiny"} for r in study()] + other


def test_runs_and_records_of_two_models_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loads = install(monkeypatch)
    one, other = (settings(tmp_path, model=ModelConfig(name, "package", "table")) for name in ("one", "other"))
    assert run_id(identity(one)) != run_id(identity(other))
    folders = [execute(config) for config in (one, other)]
    assert len(set(folders)) == 2
    assert len(read_records(tmp_path)) == 8
    assert {r["model"] for r in read_records(tmp_path)} == {"one", "other"}
    execute(other)
    assert len(loads) == 2, "the second time nothing was missing"
    records, runs = compare.load(tmp_path / "s")
    assert len(records) == 8
    assert len(provenance.models(runs)) == 2


def test_two_models_of_one_name_are_refused_before_the_second_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loads = install(monkeypatch)
    execute(settings(tmp_path, model=ModelConfig("hf", "hub", "a/x")))
    with pytest.raises(ExperimentError, match=r"model\.id 'a/x' there, 'b/x' here.*model\.name=hf_2"):
        execute(settings(tmp_path, "greedy_masking", model=ModelConfig("hf", "hub", "b/x")))
    assert len(loads) == 1
    execute(settings(tmp_path, "greedy_masking", model=ModelConfig("hf", "hub", "a/x", device="cuda")))


def test_records_from_before_records_named_their_model_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch)
    folder = execute(settings(tmp_path, limit=2))
    assert folder is not None
    lines = [json.loads(line) for line in (folder / RECORDS).read_text().splitlines()]
    old = "".join(json.dumps({k: v for k, v in line.items() if k != "model"}) + "\n" for line in lines)
    (folder / RECORDS).write_text(old)
    assert {r["model"] for r in read_records(folder)} == {"table"}
    execute(settings(tmp_path))
    assert len(read_records(folder)) == 4


def test_each_model_is_judged_by_itself() -> None:
    tasks = summary.by_task(two_models())
    assert [(t.name, t.model) for t in tasks] == [
        ("big", "other"),
        ("big", "tiny"),
        ("small", "other"),
        ("small", "tiny"),
    ]
    alone = summary.compare(summary.by_task(study()), BASELINES)["big"]
    together = summary.compare(tasks, BASELINES)["big, tiny"]
    for a, b in zip(alone, together, strict=True):
        assert (a.method, a.baseline) == (b.method, b.baseline)
        for name, d in a.differences.items():
            assert (d.mean, d.low, d.high, d.p, d.instances) == (
                *(getattr(b.differences[name], part) for part in ("mean", "low", "high", "p", "instances")),
            )
    (this,) = [c for c in together if (c.method, c.baseline) == ("smc", "local_masking")]
    swapped = summary.compare(tasks, BASELINES)["big, other"]
    (that,) = [c for c in swapped if (c.method, c.baseline) == ("smc", "local_masking")]
    assert this.differences["right"].mean == pytest.approx(-(that.differences["right"].mean or 0.0))


def test_the_report_has_a_panel_a_model_and_one_table_of_all() -> None:
    made = build.build(two_models(), baselines=BASELINES)
    assert [s.name for s in made.sections] == ["big, other", "big, tiny", "small, other", "small, tiny"]
    assert made.overview.headings[:2] == ("Task", "Model")
    assert made.models is not None
    assert made.models.headings == ("Score of a draw", "other", "tiny")
    rows = {row[0]: row[1:] for row in made.models.rows}
    assert rows["big, Local masking"] == rows["big, SMC (enumerate)"][::-1]
    assert rows["big, SMC (enumerate)"][1].startswith("45.0 (")
    assert "[" not in rows["big, SMC (enumerate)"][1]
    names = [picture.name for picture in made.all_pictures]
    assert len(names) == len(set(names))
    lines = list(csv.DictReader(io.StringIO(rendering.csv_text(made))))
    assert {line["model"] for line in lines} == {"other", "tiny"}
    assert "& Model & Method &" in rendering.latex_text(made).replace("Task ", "")
    assert len(made.costs.rows) == 8
    assert "models" in made.notes[-1]
    for text in (rendering.html(made), rendering.markdown(made)):
        assert "big, tiny" in text


def test_a_study_of_one_model_has_no_column_for_it(tmp_path: Path) -> None:
    plain = build.build(study(), baselines=BASELINES)
    named = build.build([r | {"model": "tiny"} for r in study()], baselines=BASELINES)
    assert rendering.files(plain) == rendering.files(named)
    assert "model" not in rendering.csv_text(named).splitlines()[0].split(",")
    assert named.models is None
    assert "Model" not in named.overview.headings
    save(tmp_path, study())
    assert compare.main([str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("id", "label"), [("org/Small-1.5", "Small-1.5"), ("./models/a b/", "a_b"), ("x", "x"), ("org/.hidden", "hidden")]
)
def test_a_model_without_a_name_is_called_by_its_id(id: str, label: str) -> None:
    assert label_of(id) == label
