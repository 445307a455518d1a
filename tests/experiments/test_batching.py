"""Several instances in one batch: the records are those of one instance after the other."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from toy_study import METHODS, ToyTask, install, next_probs, settings

import experiments.job
import experiments.run
from experiments.config import (
    AWRSConfig,
    MCMCConfig,
    MethodConfig,
    ModelConfig,
    ParticlesConfig,
    RejectionConfig,
    SMCConfig,
    SteeringConfig,
    identity,
)
from experiments.errors import ExperimentError, InstanceFailed
from experiments.job import _batch_rows, execute
from experiments.methods import ALGORITHMS, Call, Method, build_method
from experiments.store import CONFIG, read_records, run_id
from experiments.tasks import TASKS, Instance
from smc import TableModel
from smc.errors import OptionError

SAMPLERS: dict[str, MethodConfig] = {
    **{name: config for name, config in METHODS.items() if name != "exact"},
    "smc_power4": SMCConfig("smc_power4", "smc", 4, target_power=4.0, replicates=2),
    "grammar_smc": ParticlesConfig("grammar_smc", "grammar_smc", 4),
    "smc_steering": SteeringConfig("smc_steering", "smc_steering", 4),
    "awrs_smc": AWRSConfig("awrs_smc", "awrs_smc", 4),
}


class Counting(TableModel):
    """Notes how many runs share a pass."""

    def __init__(self) -> None:
        super().__init__(vocab=["0", "1", "<eos>"], eos="<eos>", next_probs=next_probs)
        self.widest = 0

    def evaluate(self, rows: list[Any]) -> None:
        self.widest = max(self.widest, len(rows))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Counting:
    install(monkeypatch)
    counting = Counting()
    monkeypatch.setattr(experiments.job, "load_model", lambda config: counting)
    return counting


def by_instance(folder: Path | None) -> dict[str, dict[str, Any]]:
    """Records without their seconds."""
    assert folder is not None
    found = {}
    for record in read_records(folder):
        record["cost"].pop("seconds")
        found[record["instance"]] = record
    return found


@pytest.mark.parametrize("name", SAMPLERS)
def test_records_do_not_depend_on_what_shares_the_batch(model: Counting, tmp_path: Path, name: str) -> None:
    expected = by_instance(execute(settings(tmp_path / "alone", SAMPLERS[name])))
    assert model.widest == (2 if name == "smc_power4" else 1)  # replicates of one instance share passes
    for batch_rows in (1, 9, 64):
        folder = execute(settings(tmp_path / str(batch_rows), SAMPLERS[name], batch_rows=batch_rows))
        assert by_instance(folder) == expected
    assert model.widest == 4 * (2 if name == "smc_power4" else 1)


def test_every_method_that_is_a_sampler_can_share_batches() -> None:
    """What cannot is a choice among samples, a chain, a search, a rejection loop, an enumeration, or learns beforehand."""
    apart = {"beam", "best_of_n", "sample_rerank", "rejection", "ars", "rsft", "cars", "asap", "mcmc", "particle_gibbs"}
    apart |= {"pimh", "exact", "branch_and_bound", "smc_lookahead", "smc_learned"}
    assert {config.algorithm for config in SAMPLERS.values()} == set(ALGORITHMS) - apart
    assert all(build_method(config).sampler is not None for config in SAMPLERS.values())


def test_other_methods_run_one_instance_after_the_other(model: Counting, tmp_path: Path) -> None:
    config = RejectionConfig("rejection", "rejection", 4)
    expected = by_instance(execute(settings(tmp_path / "a", config)))
    assert by_instance(execute(settings(tmp_path / "b", config, batch_rows=64))) == expected


def test_what_is_done_is_not_done_again(model: Counting, tmp_path: Path) -> None:
    folder = execute(settings(tmp_path, "smc_sample", limit=2, batch_rows=64))
    assert execute(settings(tmp_path, "smc_sample", batch_rows=8)) == folder
    alone = execute(settings(tmp_path / "alone", "smc_sample"))
    assert by_instance(folder) == by_instance(alone)


def test_the_rows_of_a_batch_are_noted_and_are_no_part_of_a_run_s_identity(model: Counting, tmp_path: Path) -> None:
    config = settings(tmp_path, batch_rows=8)
    assert run_id(identity(config)) == run_id(identity(settings(tmp_path)))
    folder = execute(config)
    assert folder is not None
    assert yaml.safe_load((folder / CONFIG).read_text())["batch_rows"] == 8


def test_on_an_accelerator_instances_share_batches_by_default(tmp_path: Path) -> None:
    gpu = ModelConfig("m", "hub", "m", device="cuda:1")
    assert _batch_rows(settings(tmp_path)) is None
    assert _batch_rows(settings(tmp_path, model=gpu)) == 64
    assert _batch_rows(settings(tmp_path, model=gpu, batch_rows=1)) == 1


@pytest.mark.parametrize("batch_rows", [0, -3])
def test_bad_batches_are_refused_before_anything_is_made(model: Counting, tmp_path: Path, batch_rows: int) -> None:
    with pytest.raises(OptionError, match="batch_rows must be a whole number of at least 1"):
        execute(settings(tmp_path, batch_rows=batch_rows))
    assert not list(tmp_path.iterdir())


def test_an_instance_that_cannot_be_run_is_refused_before_any_starts(
    model: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ToyTask.instances

    def with_bad_prompt(self: ToyTask, limit: int | None = None) -> list[Instance]:
        first, second, *rest = original(self, limit)
        return [first, Instance("bad", "?", second.constraint, "?", None), second, *rest]

    monkeypatch.setattr(ToyTask, "instances", with_bad_prompt)
    with pytest.raises(ExperimentError, match="instance bad: ") as caught:
        execute(settings(tmp_path, batch_rows=64))
    assert "Job" not in str(caught.value)
    assert model.widest == 0
    assert not read_records(tmp_path)


def test_a_failure_keeps_the_records_of_those_that_ran_beside_it(
    model: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(prefix: tuple[str, ...]) -> Any:
        return None if prefix[:3] == ("0", "1", "1") else next_probs(prefix)

    monkeypatch.setattr(model, "_next_probs", broken)
    with pytest.raises(ExperimentError, match="instance toy_01: TableModel: next_probs gave None"):
        execute(settings(tmp_path, batch_rows=16))
    assert set(by_instance(tmp_path)) == {"toy_00"}  # two have room, and nobody starts after a failure
    monkeypatch.setattr(model, "_next_probs", next_probs)
    assert len(by_instance(execute(settings(tmp_path, batch_rows=16)))) == 4


def test_records_are_stored_as_soon_as_they_end(
    model: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies when the third result comes: the first two are on disk."""
    original = Method.results

    def cut(self: Method, *arguments: Any) -> Any:
        for i, pair in enumerate(original(self, *arguments)):
            if i == 2:
                raise KeyboardInterrupt
            yield pair

    monkeypatch.setattr(Method, "results", cut)
    with pytest.raises(KeyboardInterrupt):
        execute(settings(tmp_path, batch_rows=64))
    assert len(by_instance(tmp_path)) == 2


def out_of_memory() -> Exception:
    return RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes.\nMore words")


@pytest.mark.parametrize(
    "error",
    [out_of_memory(), torch.OutOfMemoryError("CUDA out of memory."), MemoryError()],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("name", ["beam", "rejection", "mcmc", "exact"])
def test_running_out_of_memory_is_said_in_words_and_keeps_the_records(
    model: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception
) -> None:
    def scarce(prefix: tuple[int, ...]) -> Any:
        if prefix[:2] == (0, 1):
            raise error
        return TableModel.log_probs(model, prefix)

    config = {
        "beam": ParticlesConfig("beam", "beam", 2),
        "rejection": RejectionConfig("rejection", "rejection", 2),
        "mcmc": MCMCConfig("mcmc", "mcmc", 2, n_steps=2),
        "exact": METHODS["exact"],
    }[name]
    monkeypatch.setattr(model, "log_probs", scarce)
    shortage = (str(error) or "MemoryError").splitlines()[0]
    expected = rf"instance toy_01: It does not fit in memory \({re.escape(shortage)}\)\. Lower .*model\.dtype"
    with pytest.raises(ExperimentError, match=expected) as caught:
        execute(settings(tmp_path, config))
    assert "More words" not in str(caught.value)
    assert set(by_instance(tmp_path)) == {"toy_00"}


def test_other_runtime_errors_name_the_instance() -> None:
    def broken(call: Call) -> None:
        raise RuntimeError("shape mismatch")

    call = Call(None, None, None, "k", 0, 1)
    with pytest.raises(InstanceFailed) as caught:
        list(Method(broken).results([call], None))
    assert caught.value.instance == "k"
    assert str(caught.value.__cause__) == "shape mismatch"


def test_a_job_that_runs_out_of_memory_does_not_keep_a_sweep_from_the_others(
    model: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def beam(call: Call) -> Any:
        raise out_of_memory()

    build = experiments.job.build_method

    def scarce(config: MethodConfig) -> Method:
        return Method(beam) if config.algorithm == "beam" else build(config)

    monkeypatch.setattr(experiments.job, "build_method", scarce)
    monkeypatch.setitem(TASKS, "dates", ToyTask)
    arguments = [
        "run.py",
        "-m",
        "method=beam,greedy_masking",
        "limit=1",
        f"results={tmp_path}",
        "study.name=s",
        "tracking=disabled",
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "")
    with pytest.raises(SystemExit) as stop:
        experiments.run.main()
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "instance toy_00: It does not fit in memory" in said
    assert "Traceback" not in said
    assert [record["method"] for record in read_records(tmp_path / "s")] == ["greedy_masking"]
