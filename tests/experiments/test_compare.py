"""The command that writes a report, and what it says of bad input."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from matplotlib.figure import Figure
from record_factory import record, sequence
from study_factory import save, study

from experiments.compare import main, make
from experiments.errors import ExperimentError
from experiments.report import rendering


@pytest.fixture(autouse=True)
def quick_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are made but not drawn, which takes longest: test_figures.py draws."""
    monkeypatch.setattr(Figure, "savefig", lambda self, buffer, **_: buffer.write("<?xml?><svg/>"))


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


def two_models_of_one_name(folder: Path) -> None:
    config = yaml.safe_load((folder / "big-smc-0" / "config.yaml").read_text())
    config["model"]["id"] = "another-model"
    (folder / "big-smc-0" / "config.yaml").write_text(yaml.safe_dump(config))


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
        (two_models_of_one_name, "differ in the model toy-model (model.id"), (bad_config, "config.yaml cannot be read"),
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


def test_make_is_for_other_code(tmp_path: Path) -> None:
    save(tmp_path / "study", study(2, 1, ["big"]))
    page = make(tmp_path / "study", tmp_path / "elsewhere" / "page")
    assert page == tmp_path / "elsewhere" / "page" / "report.html"
    assert page.is_file()
    assert not (tmp_path / "study" / "report.html").exists()
    with pytest.raises(ExperimentError, match="no records"):
        make(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "the disk is full"), (errno.EROFS, "Read-only file system. Give a folder that you may write to"),
        (errno.EACCES, "Permission denied"), (errno.EIO, "Input/output error"),
    ],
)  # fmt: skip
def test_a_report_that_cannot_be_written_is_one_paragraph_and_leaves_the_old_one(
    code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, study(2, 1, ["big"]))
    (tmp_path / "report.html").write_text("the old one")

    def fail(path: Path, content: str) -> None:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(rendering, "write_atomically", fail)
    assert main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "records are untouched" in error
    assert error.count("\n") == 1
    assert (tmp_path / "report.html").read_text() == "the old one"


def test_where_a_file_is_no_folder_can_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "study", study(1, 1, ["big"]))
    (tmp_path / "file").write_text("")
    assert main([str(tmp_path / "study"), "--out", str(tmp_path / "file")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_shards_of_a_run_are_one_run(tmp_path: Path) -> None:
    records = study(4, 1, ["big"])
    save(tmp_path / "whole", records)
    for shard in range(2):
        save(tmp_path / "parts" / f"shard{shard}", [r for r in records if int(r["instance"][-1]) % 2 == shard])
    one, two = make(tmp_path / "whole"), make(tmp_path / "parts")
    tables = [
        [line for line in page.with_name("report.md").read_text().splitlines() if line.startswith("| ")]
        for page in (one, two)
    ]
    assert tables[0] == tables[1]
