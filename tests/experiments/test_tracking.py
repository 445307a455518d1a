"""The tracker: a mirror of the records, silent by default, and never on the network unless told."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toy_study import ToyTask, install, settings

from experiments.config import TrackingConfig
from experiments.errors import ExperimentError
from experiments.run import execute
from experiments.store import read_records
from experiments.tracking import NoTracker, WandbTracker, instance_metrics, open_tracker, summarise


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


def test_disabled_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without_wandb(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "wandb":
            raise ImportError("no wandb here")
        return real_import(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_wandb)
    assert isinstance(opened("disabled", tmp_path), NoTracker)
    with pytest.raises(ExperimentError, match="pip install wandb"):
        opened("offline", tmp_path)
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
        self.rows[step] = values

    def finish(self, exit_code: int = 0) -> None:
        self.exit_codes.append(exit_code)


def test_a_resumed_run_ends_with_the_mirror_of_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    server = FakeRun()
    monkeypatch.setattr("experiments.run.open_tracker", lambda *args, **more: WandbTracker(server))
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
    assert server.rows == {i: instance_metrics(r) for i, r in enumerate(records)}


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
from experiments.tracking import open_tracker
tracker = open_tracker(
    TrackingConfig(mode="offline"), study="s", method="m", run_id="abc", settings={"seed": 0}, folder=Path(sys.argv[1])
)
record = {"instance": "1", "status": "complete", "log_evidence": None, "ess": 1.0, "cost": {}, "scores": {"accuracy": 1.0}}
tracker.log(0, record)
tracker.finish([record])
print("finished")
"""


def test_offline_writes_files_beside_the_records_and_stays_off_the_network(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["finished"]
    assert [path.name for path in tmp_path.iterdir()] == ["wandb"]
    assert list(tmp_path.rglob("run-abc.wandb"))


def test_a_refusing_server_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Error(Exception):
        pass

    def refuse(**_: Any) -> None:
        raise Error("api_key not configured.")

    fake = SimpleNamespace(Error=Error, init=refuse, Settings=lambda **_: None)
    monkeypatch.setitem(sys.modules, "wandb", fake)  # type: ignore[arg-type]
    with pytest.raises(ExperimentError, match=r"mode online: api_key.*wandb login"):
        opened("online", tmp_path)
