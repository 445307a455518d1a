"""Runs that fail: what is kept, what goes on, what the report says, and that the same command tries again."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from record_factory import record
from study_factory import BASELINES, save, study
from test_run import command_line
from toy_study import STRINGS, ToyTask, install, settings

from experiments import compare, failures
from experiments.errors import RunFailed
from experiments.job import execute
from experiments.methods import ALGORITHMS, Method
from experiments.report import build, rendering
from experiments.store import DONE, read_records
from experiments.tasks import TASKS, Instance
from smc import FiniteLanguage, SMCSampler


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    return install(monkeypatch)


def raises(call: Any) -> Any:
    raise RuntimeError("view size is not compatible")


@dataclass(frozen=True)
class BrokenTask(ToyTask):
    """The third instance has a potential that raises what nobody expected, deep inside."""

    def instances(self, limit: int | None = None) -> list[Instance]:
        first, second, third, *rest = super().instances(limit)
        return [first, second, replace(third, constraint=Broken(STRINGS)), *rest]


class Broken(FiniteLanguage):
    """A constraint that fails when it is compiled."""

    def compile(self, vocabulary: Any) -> Any:
        raise RuntimeError("view size is not\ncompatible")


@pytest.mark.parametrize("batch_rows", [None, 64])
def test_an_unexpected_exception_is_kept_and_the_run_is_tried_again(
    loads: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_rows: int | None
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(TASKS, "toy", BrokenTask)
        with pytest.raises(
            RunFailed, match=r"instance toy_10: RuntimeError: view size is not compatible.*error\.txt"
        ) as caught:
            execute(settings(tmp_path, batch_rows=batch_rows))
    assert "\n" not in str(caught.value)
    (failure,) = failures.failures(tmp_path)
    assert (
        failure.line == "toy smc table seed 0 failed on the instance toy_10: RuntimeError: view size is not compatible."
    )
    assert "Traceback" in failure.path.read_text()
    assert "in compile" in failure.path.read_text()
    assert not (failure.path.parent / DONE).exists()
    if batch_rows is None:
        assert [r["instance"] for r in read_records(tmp_path)] == ["toy_00", "toy_01"]
    execute(settings(tmp_path, batch_rows=batch_rows))
    assert len(read_records(tmp_path)) == 4
    assert not failures.failures(tmp_path)
    assert not list(tmp_path.rglob("error*.txt"))


def test_of_a_batch_that_fails_midway_the_others_are_kept(
    loads: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, begun = SMCSampler.init, SMCSampler.step

    def init(self: Any, prompt: Any, *rest: Any, **named: Any) -> Any:
        state = original(self, prompt, *rest, **named)
        broken.extend([state.draws] if prompt == "01" else [])
        return state

    def step(self: Any, state: Any, *rest: Any, **named: Any) -> Any:
        if any(state.draws is draws for draws in broken):
            raise KeyError("lost")
        return begun(self, state, *rest, **named)

    broken: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(SMCSampler, "init", init)
        patch.setattr(SMCSampler, "step", step)
        with pytest.raises(RunFailed, match="instance toy_01: KeyError: 'lost'"):
            execute(settings(tmp_path, batch_rows=64))
    assert [r["instance"] for r in read_records(tmp_path)] == ["toy_00"], "one by one, up to the one that fails"
    execute(settings(tmp_path, batch_rows=64))
    assert len(read_records(tmp_path)) == 4


def test_a_scorer_that_fails_names_its_instance(
    loads: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: ToyTask, instance: Instance, text: str) -> float:
        return float({"toy_00": 1.0}[instance.id])

    monkeypatch.setattr(ToyTask, "score", fails)
    with pytest.raises(RunFailed, match="instance toy_01: KeyError: 'toy_01'"):
        execute(settings(tmp_path))
    assert len(read_records(tmp_path)) == 1


def test_what_fails_before_there_is_a_folder_gets_one(
    loads: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ToyTask, "instances", lambda self, limit=None: [][0])
        with pytest.raises(RunFailed, match="IndexError"):
            execute(settings(tmp_path, "greedy_masking", seed=1))
    assert len(failures.failures(tmp_path)) == 1
    execute(settings(tmp_path, "greedy_masking", seed=1))
    assert not failures.failures(tmp_path), "kept under seed 1, done as seed 0"


def test_a_sweep_goes_on_and_its_report_says_what_failed(
    loads: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(TASKS, "dates", ToyTask)
    sweep = ("-m", "method=local_masking,smc,greedy_masking", f"results={tmp_path}", "study.name=s")
    with monkeypatch.context() as patch:
        patch.setitem(ALGORITHMS, "smc", lambda options: Method(raises))
        code, out, err = command_line(patch, capsys, *sweep)
    assert code == 2
    assert err.count("RuntimeError: view size is not compatible") == 1, err
    assert "Traceback" not in err + out
    page, markdown = ((tmp_path / "s" / f"report.{kind}").read_text() for kind in ("html", "md"))
    for said in (page, markdown, " ".join(out.split())):
        assert "smc smollm2 seed 0 failed on the instance toy\\_00" in said.replace("toy_00", "toy\\_00")
    assert {r["method"] for r in read_records(tmp_path / "s")} == {"local_masking", "greedy_masking"}
    code, out, _ = command_line(monkeypatch, capsys, *sweep)
    assert code == 0
    assert "failed" not in out
    assert "Failed" not in (tmp_path / "s" / "report.html").read_text()


def test_a_study_of_failures_alone_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failures.write(tmp_path / "abc" / "error.txt", "dates smc m seed 0 failed: KeyError: 'x'.", KeyError("x"))
    assert compare.main([str(tmp_path)]) == 2
    assert "failed: KeyError: 'x'. (" in capsys.readouterr().err


def test_a_report_that_cannot_be_made_is_one_line_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, study())
    with monkeypatch.context() as patch:
        patch.setattr(rendering, "html", lambda report: {}["page"])
        assert compare.main([str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "KeyError: 'page'" in err
    assert err.count("\n") == 1
    assert "Traceback" in (tmp_path / compare.FAULT).read_text()
    assert compare.main([str(tmp_path)]) == 0
    assert not (tmp_path / compare.FAULT).exists()


def test_methods_that_were_run_on_other_instances_are_marked() -> None:
    records = [
        record(method=method, instance=f"i{k}", scores={"accuracy": a, "best_accuracy": a})
        for method, count in (("local_masking", 10), ("smc", 8))
        for k in range(count)
        for a in [float(k > 6) if method == "smc" else float(k % 3 == 0)]
    ]
    made = build.build(records, baselines=BASELINES)
    (section,) = made.sections
    names = [row[0] for row in section.summary.rows]
    assert "SMC (enumerate) (8 of 10 instances)" in names
    assert "Local masking" in names
    (note,) = [n for n in section.footnotes if "8 of 10" in n or "… of …" in n]
    assert "lacks i8, i9" in note
    assert "paired over the 8 instances that both have" in section.headline.sentence
    assert "8 of 10" not in rendering.markdown(build.build(study(), baselines=BASELINES))


SITE = """
import experiments.job
from experiments.tasks import TASKS
from smc import TableModel
from toy_study import ToyTask, next_probs

class Broken(ToyTask):
    def instances(self, limit=None):
        raise RuntimeError("view size is not compatible")

TASKS |= {"dates": Broken, "binary": ToyTask}
model = TableModel(vocab=["0", "1", "<eos>"], eos="<eos>", next_probs=next_probs)
experiments.job.load_model = lambda config: model
"""


def test_a_failing_job_of_a_launcher_is_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "experiments.run", "-m", "hydra/launcher=local", "task=dates,binary", "seed=0"),
            *("method=local_masking", "limit=2", "tracking=disabled", "study.name=s", f"results={tmp_path}/r"),
        ],
        cwd=root,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{root}:{root / 'tests' / 'experiments'}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2, done.stderr
    assert "RuntimeError: view size is not compatible" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(read_records(tmp_path / "r" / "s")) == 2
    assert "dates local_masking smollm2 seed 0 failed" in (tmp_path / "r" / "s" / "report.html").read_text()
