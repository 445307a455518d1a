"""The tracker: a mirror of the records, silent by default, and never on the network unless told."""

from __future__ import annotations

import builtins
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toy_study import ToyTask, install, settings

from experiments.config import TrackingConfig
from experiments.errors import ExperimentError
from experiments.job import execute
from experiments.store import read_records
from experiments.tracking import (
    EXAMPLE_COLUMNS,
    LONGEST_TEXT,
    MOST_EXAMPLES,
    Forgiving,
    NoTracker,
    WandbTracker,
    examples,
    instance_metrics,
    log_report,
    open_tracker,
    summarise,
)


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.tracking._WARNED", set())


def opened(mode: str, folder: Path) -> Any:
    return open_tracker(TrackingConfig(mode=mode), study="s", method="m", run_id="r0", settings={}, folder=folder)


def record(instance: str, accuracy: float | None, evidence: float | None, status: str = "complete") -> dict[str, Any]:
    return {
        "instance": instance,
        "status": status,
        "log_evidence": evidence,
        "ess": 2.0,
        "cost": {"forward_rows": 10, "seconds": 0.5},
        "scores": {"validity": 1.0, "accuracy": accuracy},
    }


def test_summary_skips_what_is_null() -> None:
    records = [record("1", 1.0, -2.0), record("2", None, None, "dead"), record("3", 0.0, -4.0)]
    assert summarise(records) == {
        "instances": 3,
        "mean/accuracy": 0.5,
        "mean/validity": 1.0,
        "mean/log_evidence": -3.0,
        "total/forward_rows": 30,
        "total/seconds": 1.5,
        "status/complete": 2,
        "status/dead": 1,
    }
    assert summarise([]) == {"instances": 0}
    assert instance_metrics(records[1]) == {
        "instance": "2",
        "validity": 1.0,
        "ess": 2.0,
        "cost/forward_rows": 10,
        "cost/seconds": 0.5,
    }


def sequence(text: str, target: float | None, kept: float | None = -0.5) -> dict[str, Any]:
    return {"text": text, "log_target": target, "log_prob": -2.0, "log_kept_mass": kept, "correct": 1.0}


def test_examples_show_the_best_text_of_the_first_instances() -> None:
    one = record("1", 1.0, -2.0) | {"prompt": "p" * 1000, "reference": None}
    rows = examples([one | {"sequences": [sequence("a", -3.0), sequence("b", -1.0), sequence("c", None)]}])
    assert dict(zip(EXAMPLE_COLUMNS, rows[0], strict=True)) == {
        "instance": "1",
        "prompt": "p" * (LONGEST_TEXT - 1) + "…",
        "reference": None,
        "best text": "b",
        "score": 1.0,
        "log p": -2.0,
        "kept mass": pytest.approx(math.exp(-0.5)),
    }
    assert examples([one | {"sequences": []}])[0][3:] == [None] * 4
    assert examples([one | {"sequences": [sequence("a", -3.0, None)]}])[0][-1] is None
    assert len(examples([one | {"sequences": []}] * (MOST_EXAMPLES + 1))) == MOST_EXAMPLES


def test_disabled_imports_nothing_and_a_missing_package_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real_import = builtins.__import__

    def without_wandb(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "wandb":
            raise ImportError("no wandb here")
        return real_import(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_wandb)
    assert isinstance(opened("disabled", tmp_path), NoTracker)
    assert not capsys.readouterr().err
    for _ in range(2):
        assert isinstance(opened("offline", tmp_path), NoTracker)
    log_report(TrackingConfig("offline"), study="s", folder=tmp_path)
    said = capsys.readouterr().err
    assert said.count("pip install wandb") == 1  # not once a job
    assert not list(tmp_path.iterdir())


def test_unknown_mode(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"'sometimes'.*disabled, offline, online"):
        opened("sometimes", tmp_path)


class FakeRun:
    """What a wandb server would hold: one row a step, and the summary."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.summary: dict[str, Any] = {}
        self.exit_codes: list[int] = []

    def log(self, values: dict[str, Any], step: int) -> None:
        self.rows[step] = self.rows.get(step, {}) | values

    def finish(self, exit_code: int = 0) -> None:
        self.exit_codes.append(exit_code)


def test_a_resumed_run_ends_with_the_mirror_of_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    server = FakeRun()
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Table=lambda columns, data: data))  # type: ignore[arg-type]
    monkeypatch.setattr("experiments.job.open_tracker", lambda *args, **more: WandbTracker(server))
    original = ToyTask.score

    def failing(self: ToyTask, instance: Any, text: str) -> float:
        if instance.id == "toy_10":
            raise KeyboardInterrupt
        return original(self, instance, text)

    with monkeypatch.context() as patch:
        patch.setattr(ToyTask, "score", failing)
        with pytest.raises(KeyboardInterrupt):
            execute(settings(tmp_path))
    assert sorted(server.rows) == [0, 1]
    assert server.exit_codes == [1]
    assert not server.summary
    execute(settings(tmp_path))
    records = read_records(tmp_path)
    assert server.exit_codes == [1, 0]
    assert server.summary == summarise(records)
    assert server.rows[len(records) - 1].pop("examples") == examples(records)
    assert [row[3] for row in examples(records)] == ["111"] * 4  # all are equally likely: the last of the alphabet
    assert server.rows == {i: instance_metrics(r) for i, r in enumerate(records)}


class Broken:
    """A mirror whose every call fails."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def log(self, *_: Any, **__: Any) -> None:
        self.calls.append("log")
        raise OSError(28, "No space left on device")

    def finish(self, *_: Any, **__: Any) -> None:
        self.calls.append("finish")
        raise RuntimeError

    abort = finish


def test_a_mirror_that_fails_is_left_alone_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch)
    broken = Broken()
    monkeypatch.setattr("experiments.job.open_tracker", lambda *args, **more: Forgiving(broken))
    execute(settings(tmp_path))
    assert len(read_records(tmp_path)) == 4
    assert broken.calls == ["log"]
    said = capsys.readouterr().err
    assert said.count("Warning: wandb failed (OSError: [Errno 28] No space left on device)") == 1
    for method in ("finish", "abort"):
        getattr(Forgiving(Broken()), method)(*[[]] * (method == "finish"))
    assert capsys.readouterr().err.count("wandb failed (RuntimeError)") == 1


def test_a_folder_that_cannot_be_written_is_said_and_wandb_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = SimpleNamespace(init=lambda **_: pytest.fail("wandb would put its files elsewhere"))
    monkeypatch.setitem(sys.modules, "wandb", fake)  # type: ignore[arg-type]
    assert isinstance(opened("offline", tmp_path / "missing"), NoTracker)
    monkeypatch.setattr("os.access", lambda *_: False)
    assert isinstance(opened("offline", tmp_path), NoTracker)
    assert capsys.readouterr().err.count("cannot be written") == 2


OFFLINE = """
import socket, sys
def refuse(self, address):
    # wandb talks to its own helper process over a local socket; nothing may go further
    if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
        print("NETWORK", address)
    return connect(self, address)
connect, socket.socket.connect = socket.socket.connect, refuse
from pathlib import Path
from experiments.config import TrackingConfig
from experiments.tracking import log_report, open_tracker
study = Path(sys.argv[1])
config = TrackingConfig(mode="offline")
tracker = open_tracker(config, study="s", method="m", run_id="abc", settings={"seed": 0}, folder=study / "abc")
row = {"text": "yes", "log_target": -1.0, "log_prob": -1.0, "log_kept_mass": -0.5, "correct": 1.0}
record = {"instance": "1", "prompt": "really?", "reference": "yes", "status": "complete", "log_evidence": None, "ess": 1.0,
          "cost": {}, "scores": {"accuracy": 1.0, "measure/length": 3.0}, "sequences": [row]}
tracker.log(0, record)
tracker.finish([record])
log_report(config, study="s", folder=study)
print("finished")
"""


def test_offline_writes_files_beside_the_records_and_stays_off_the_network(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    (tmp_path / "abc").mkdir()
    (tmp_path / "figures").mkdir()
    for name in ("report.html", "report.md", "figures/cost.svg"):
        (tmp_path / name).write_text("<p>a report</p>")
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.split() == ["finished"]
    assert [path.name for path in (tmp_path / "abc").iterdir()] == ["wandb"]
    (run,) = (tmp_path / "abc").rglob("run-abc.wandb")
    assert b"measure/length" in run.read_bytes()
    (table,) = (tmp_path / "abc").rglob("examples*.table.json")
    assert json.loads(table.read_text())["data"] == [["1", "really?", "yes", "yes", 1.0, -1.0, math.exp(-0.5)]]
    (report,) = (tmp_path / "wandb").rglob("run-report-s.wandb")
    assert b"figures/cost.svg" in report.read_bytes()
    assert not list(tmp_path.rglob("requirements.txt"))


def test_a_refusing_server_is_said_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: Any) -> None:
        raise ValueError("api_key not configured.")

    fake = SimpleNamespace(init=refuse, Settings=lambda **_: None)
    monkeypatch.setitem(sys.modules, "wandb", fake)  # type: ignore[arg-type]
    assert isinstance(opened("online", tmp_path), NoTracker)
    assert re.search(r"mode online \(ValueError: api_key.*wandb login.*wandb sync", capsys.readouterr().err)
