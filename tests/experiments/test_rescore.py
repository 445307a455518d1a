"""Judging records anew from their files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toy_study import ToyTask, install, settings

from experiments.config import StudyConfig
from experiments.job import execute
from experiments.rescore import main
from experiments.store import CONFIG, RECORDS, open_run, read_records
from experiments.tasks import Instance


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    return install(monkeypatch)


def more_ones(self: ToyTask, instance: Instance, text: str) -> float:
    return text.count("1") / 3


def test_rescoring_gives_what_running_again_would(
    loads: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for method in ("smc", "local_masking", "exact"):
        execute(settings(tmp_path / "old", method))
    execute(settings(tmp_path / "old", "smc_sample", shards=2, shard=1))
    before = read_records(tmp_path / "old")
    assert main([str(tmp_path / "old" / "s")]) == 0
    assert capsys.readouterr().out.count("0 of 4 records changed") == 3
    assert read_records(tmp_path / "old") == before

    monkeypatch.setattr(ToyTask, "score", more_ones)
    monkeypatch.setattr(ToyTask, "measures", lambda self, instance, text: {"zeros": text.count("0")})
    n_loads = len(loads)
    assert main([str(tmp_path / "old" / "s")]) == 0
    assert len(loads) == n_loads, "no model"
    assert "2 of 2 records changed" in capsys.readouterr().out
    for method in ("smc", "local_masking", "exact"):
        execute(settings(tmp_path / "new", method))
    execute(settings(tmp_path / "new", "smc_sample", shards=2, shard=1))
    found, expected = read_records(tmp_path / "old"), read_records(tmp_path / "new")
    for record in (*found, *expected):
        record["cost"]["seconds"] = 0
    assert found == expected
    assert found[0]["scores"]["measure/zeros"] == pytest.approx(3 - 3 * found[0]["scores"]["accuracy"])


def test_bad_input_is_one_paragraph(loads: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(folder: Path) -> str:
        assert main([str(folder)]) == 2
        text = capsys.readouterr().err
        assert text.count("\n") == 1
        return text

    assert "holds no records" in told(tmp_path)
    assert "holds no records" in told(tmp_path / "nowhere")
    folder = execute(settings(tmp_path))
    assert folder is not None
    capsys.readouterr()
    with open_run(folder):
        assert "Another process" in told(tmp_path)
    record = json.loads((folder / RECORDS).read_text().splitlines()[0])
    (folder / RECORDS).write_text(json.dumps(record | {"instance": "gone"}) + "\n")
    assert "gone" in told(tmp_path)
    (folder / CONFIG).unlink()
    assert "config.yaml" in told(tmp_path)


def test_studies_that_share_a_run_are_judged_each(
    loads: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for study in ("one", "two"):
        execute(settings(tmp_path, study=StudyConfig(study)))
    capsys.readouterr()
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("0 of 4 records changed") == 2
