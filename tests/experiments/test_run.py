"""The runner: records as promised, resuming, sweeps, and errors that a user can act on."""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from pyarrow import parquet
from toy_study import METHODS, STRINGS, ToyTask, install, settings

from experiments.choices import GROUPS, LAUNCHERS, meanings
from experiments.config import (
    Config,
    ExactConfig,
    LookaheadConfig,
    MethodConfig,
    ParticlesConfig,
    SMCConfig,
    StudyConfig,
    TaskConfig,
    identity,
)
from experiments.errors import BusyError, ExperimentError
from experiments.evaluate import normalised
from experiments.methods import ALGORITHMS
from experiments.run import CONFIGS, execute, main
from experiments.schemas import meanings as option_meanings
from experiments.schemas import register_schemas, schemas
from experiments.store import DONE, RECORDS, open_run, read_records, run_id
from experiments.tasks import TASKS, Instance
from experiments.traces import TRACES
from experiments.usage import help_text
from smc.errors import SMCError

ROOT = CONFIGS.parent
COSTS = {"forward_rows", "passes", "tokens", "masks", "checks", "potential_failures", "seconds"}
FIELDS = {
    *(
        "language",
        "task",
        "instance",
        "method",
        "seed",
        "run_id",
        "prompt",
        "reference",
        "status",
        "advice",
        "n_particles",
    ),
    *(
        "weighted",
        "log_evidence",
        "log_censored_mass",
        "log_rejected_mass",
        "log_unexplored_mass",
        "ess",
        "ess_kind",
    ),
    *("cost", "scores", "sequences", "trace"),
}


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    return install(monkeypatch)


# Configuration


def composed(*overrides: str) -> Config:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = OmegaConf.to_object(compose("config", list(overrides)))
    assert isinstance(config, Config)
    return config


def choices() -> list[str]:
    return [f"{path.parent.name}={path.stem}" for path in sorted(CONFIGS.glob("*/*.yaml"))]


# What a choice leaves to the user, who is told if it is not given.
GIVEN = {
    "model=hf": ["model.id=some/model"],
    "model=hf_sharded": ["model.id=some/model"],
    "task=spider": ["task.folder=some/folder"],
}


@pytest.mark.parametrize("choice", choices())
def test_every_yaml_composes(choice: str) -> None:
    config = composed(choice, *GIVEN.get(choice, []))
    group, _, name = choice.partition("=")
    assert config.method.algorithm in ALGORITHMS
    assert (config.task.kind or config.task.name) in TASKS
    if group != "study":
        label = getattr(config, group).mode if group == "tracking" else getattr(config, group).name
        wanted = "model" if choice in ("model=hf", "model=hf_sharded") else name  # by the last part of its id
        assert label == wanted, "records and reports call it as the command line does"
    if choice in GIVEN:
        assert "some/" in str(getattr(config, group))


@pytest.mark.parametrize("path", sorted((CONFIGS / "study").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_sweep_of_a_study_names_what_there_is(path: Path) -> None:
    written = yaml.safe_load(path.read_text())
    params = written.get("hydra", {}).get("sweeper", {}).get("params", {})
    for group in params.keys() & {"task", "method", "model"}:
        names = set() if params[group] == "glob(*)" else set(params[group].split(","))
        assert names <= {choice.stem for choice in (CONFIGS / group).glob("*.yaml")}
    tasks = {composed(f"task={name}").task.name for name in params.get("task", "").split(",") if name}
    assert composed(f"study={path.stem}").study.limits.keys() <= tasks
    assert {name.split("/")[0] for name in composed(f"study={path.stem}").study.seeds} <= tasks
    assert ("study" in written) == bool(params) == (path.stem != "default")


def test_a_sweep_passes_over_seeds_that_the_study_does_not_run(
    loads: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = StudyConfig("s", seeds={"toy": 1, "toy/smc_sample": 2})
    assert execute(settings(tmp_path, "smc_sample", study=study, seed=1), sweep=True) is not None
    assert execute(settings(tmp_path, study=study), sweep=True) is not None
    assert execute(settings(tmp_path, study=study, seed=1), sweep=True) is None
    assert "seeds below 1" in capsys.readouterr().out
    assert execute(settings(tmp_path, study=study, seed=1)) is not None, "asked for by hand"


def test_identity_ignores_what_does_not_affect_results(tmp_path: Path) -> None:
    def named(**changes: Any) -> str:
        return run_id(identity(settings(tmp_path, **changes)))

    assert (
        named()
        == named(limit=3)
        == named(study=StudyConfig("other"))
        == named(shards=2, shard=1)
        == run_id(identity(settings("elsewhere")))
    )
    assert len({named(), named(seed=1), named(method="exact"), named(task=TaskConfig("toy", 9))}) == 4


# Records


@pytest.mark.parametrize("method", METHODS)
def test_records_hold_what_was_promised(loads: list[Any], tmp_path: Path, method: str) -> None:
    folder = execute(settings(tmp_path, method))
    assert folder == tmp_path / "s" / folder.name
    assert (folder / DONE).exists()
    records = read_records(folder)
    assert [record["instance"] for record in records] == ["toy_00", "toy_01", "toy_10", "toy_11"]
    for record in records:
        assert set(record) >= FIELDS
        assert (record["task"], record["method"], record["seed"]) == ("toy", method, 0)
        assert record["prompt"].startswith("bits ")
        assert record["reference"] == "000"
        assert set(record["cost"]) == COSTS
        assert set(record["scores"]) == {"validity", "accuracy", "best_accuracy", "log_prob"}
        sequences = record["sequences"]
        if sequences:
            assert math.fsum(s["weight"] for s in sequences) == pytest.approx(1)
            weights = [s["weight"] for s in sequences]
            assert weights == sorted(weights, reverse=True)
            expected = math.fsum(s["weight"] * s["correct"] for s in sequences)
            assert record["scores"]["accuracy"] == pytest.approx(expected)
        for s in sequences:
            assert s["text"] in STRINGS
            assert s["correct"] == float(s["text"] == "000")
            assert s["log_prob"] == pytest.approx(3 * math.log(0.5))
            assert s["log_q"] == pytest.approx(s["log_prob"] - s["log_kept_mass"])
            if method != "exact":
                assert math.fsum(s["kept_path"]) == pytest.approx(s["log_kept_mass"])
        json.dumps(record, allow_nan=False)


def test_exact_and_smc_records_hold_the_known_posterior(loads: list[Any], tmp_path: Path) -> None:
    for method in ("exact", "smc"):
        folder = execute(settings(tmp_path, method, limit=1))
        assert folder is not None
        (record,) = read_records(folder)
        assert record["log_evidence"] == pytest.approx(math.log(5 / 8), rel=1e-12)
        assert record["scores"] == pytest.approx(
            {
                "validity": 1,
                "accuracy": 1 / 5,
                "best_accuracy": record["scores"]["best_accuracy"],
                "log_prob": -math.log(8),
            }
        )
        by_text = {s["text"]: s for s in record["sequences"]}
        assert set(by_text) == set(STRINGS)
        assert by_text["000"]["weight"] == pytest.approx(1 / 5)
        assert math.exp(by_text["000"]["log_q"]) == pytest.approx(1 / 2)
        assert record["ess_kind"] == "concentration"


def test_methods_without_evidence_say_so(loads: list[Any], tmp_path: Path) -> None:
    for method in ("greedy_masking", "local_masking"):
        folder = execute(settings(tmp_path, method, limit=1))
        assert folder is not None
        (record,) = read_records(folder)
        assert record["log_evidence"] is None
        assert record["weighted"] is False


def test_normalised_weights() -> None:
    assert normalised([]) == []
    assert normalised([-math.inf] * 2) == [0, 0]
    assert normalised([-1000.0, -math.inf, -1000.0]) == [0.5, 0, 0.5]


# Resuming


def without_time(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record | {"cost": record["cost"] | {"seconds": None}} for record in records]


@pytest.mark.parametrize("method", ["smc_sample", "local_masking"])
def test_an_interrupted_run_ends_with_the_records_of_an_uninterrupted_one(
    loads: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    whole = execute(settings(tmp_path / "whole", method))
    calls = []

    def interrupted(self: ToyTask, instance: Instance, text: str) -> float:
        calls.append(instance.id)
        if instance.id == "toy_10":
            raise KeyboardInterrupt
        return float(text == instance.reference)

    with monkeypatch.context() as patch:
        patch.setattr(ToyTask, "score", interrupted)
        with pytest.raises(KeyboardInterrupt):
            execute(settings(tmp_path / "cut", method))
    cut = tmp_path / "cut" / "s" / run_id(identity(settings(tmp_path, method)))
    assert len(read_records(cut)) == 2
    assert not (cut / DONE).exists()
    with open(cut / RECORDS, "ab") as stream:
        stream.write(b'{"task": "toy", "inst')
    assert execute(settings(tmp_path / "cut", method)) == cut
    assert whole is not None
    assert (cut / DONE).exists()
    assert without_time(read_records(cut)) == without_time(read_records(whole))


def test_finished_runs_are_skipped_and_larger_limits_continue(
    loads: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = execute(settings(tmp_path, limit=2))
    assert folder is not None
    before = (folder / RECORDS).read_bytes()
    assert execute(settings(tmp_path, limit=2)) == execute(settings(tmp_path, limit=1)) == folder
    assert len(loads) == 1
    assert capsys.readouterr().out.count(", skipped: ") == 2
    assert execute(settings(tmp_path)) == folder
    after = (folder / RECORDS).read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == 4
    assert (folder / DONE).exists()
    assert "4 instances complete (2 new)" in capsys.readouterr().out


def test_seeds_depend_on_the_instance_and_not_on_the_order(
    loads: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = execute(settings(tmp_path / "a", "smc_sample"))
    original = ToyTask.instances
    monkeypatch.setattr(ToyTask, "instances", lambda self, limit=None: original(self, limit)[::-1])
    backward = execute(settings(tmp_path / "b", "smc_sample"))
    assert forward is not None
    assert backward is not None
    assert without_time(read_records(forward)) == without_time(read_records(backward))[::-1]


# Several jobs for one run


def test_shards_split_the_instances_and_merge_without_a_coordinator(
    loads: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = execute(settings(tmp_path / "whole", "smc_sample"))
    parts = [settings(tmp_path / "parts", "smc_sample", shards=3, shard=k) for k in range(3)]
    folders = [execute(part) for part in parts[:2]]
    assert whole is not None
    assert folders[0] is not None
    assert not (folders[0] / DONE).exists(), "a part is missing"
    assert {execute(part) for part in parts} == set(folders) == {tmp_path / "parts" / "s" / whole.name}
    assert (folders[0] / DONE).read_text() == "4 records\n"
    assert sorted(p.name for p in folders[0].glob("records*")) == [f"records.{k}-of-3.jsonl" for k in range(3)]
    by_instance = {r["instance"]: r for r in without_time(read_records(folders[0]))}
    assert by_instance == {r["instance"]: r for r in without_time(read_records(whole))}
    assert capsys.readouterr().out.count("complete already") == 2
    # another split of the same run, or none, finds nothing left to do
    before = len(loads)
    for again in (settings(tmp_path / "parts", "smc_sample", shards=2), settings(tmp_path / "parts", "smc_sample")):
        assert execute(again) == folders[0]
    assert len(loads) == before
    assert len(read_records(folders[0])) == 4


def test_a_run_that_was_stopped_before_it_was_marked_is_marked(loads: list[Any], tmp_path: Path) -> None:
    folder = execute(settings(tmp_path))
    assert folder is not None
    for name in (DONE, TRACES):
        (folder / name).unlink()
    assert execute(settings(tmp_path)) == folder
    assert len(loads) == 1, "nothing was left to run"
    assert (folder / DONE).exists()
    assert (folder / TRACES).exists()


def test_two_processes_on_one_run(loads: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for method in ("smc", "greedy_masking"):
        with open_run(tmp_path / "s" / run_id(identity(settings(tmp_path, method)))):
            with pytest.raises(BusyError, match="Another process"):
                execute(settings(tmp_path, method))
            assert not loads, "refused before the model is loaded"
    with open_run(tmp_path / "s" / run_id(identity(settings(tmp_path, "greedy_masking")))):
        # in a sweep over seeds each of them stands for the same run of a method that draws nothing
        assert execute(settings(tmp_path, "greedy_masking", seed=1), sweep=True) is None
    assert "Another job is at it" in capsys.readouterr().out


def test_a_method_that_draws_nothing_runs_once(loads: list[Any], tmp_path: Path) -> None:
    folders = {execute(settings(tmp_path, "greedy_masking", seed=seed)) for seed in range(3)}
    assert len(folders) == 1
    assert {record["seed"] for record in read_records(tmp_path)} == {0}


def test_traces_are_a_table(loads: list[Any], tmp_path: Path) -> None:
    folder = execute(settings(tmp_path, "smc_sample"))
    assert folder is not None
    rows = parquet.read_table(folder / TRACES).to_pylist()
    records = read_records(folder)
    assert len(rows) == sum(len(record["trace"]) for record in records)
    assert (
        rows[0]
        == {name: records[0][name] for name in ("task", "model", "instance", "method", "seed")} | records[0]["trace"][0]
    )


def test_traces_that_cannot_be_written_are_written_by_the_next_run(
    loads: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ExperimentError, match=r"pyarrow: install it .* run the same command again"):
            execute(settings(tmp_path))
    folder = execute(settings(tmp_path))
    assert len(loads) == 1, "the records were complete"
    assert folder is not None
    assert (folder / TRACES).exists()


# Bad input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"limit": 0}, "limit=0"),
        ({"study": StudyConfig("../x")}, "study.name='../x'"),
        ({"study": StudyConfig("s", {"toy": 0})}, "study.limits.toy=0"),
        ({"shards": 2, "shard": 2}, "shard=2 is none of the 2 parts"),
        ({"shards": 0}, "shards must be"),
        ({"task": TaskConfig("a b", 8, kind="toy")}, "task.name='a b'"),
        ({"task": TaskConfig("nope", 8)}, "no task 'nope'"),
        ({"method": SMCConfig("smc", "nope", 4)}, "no algorithm 'nope'"),
        ({"method": SMCConfig("a b", "smc", 4)}, "method.name='a b'"),
        ({"method": SMCConfig("smc", "smc", 0)}, "n_particles"),
        ({"method": SMCConfig("smc", "smc", 4, branching="nope")}, "branching"),
        ({"task": TaskConfig("large", 8), "method": "exact"}, "out of reach"),
    ],
)
def test_bad_input_is_named(loads: list[Any], tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ExperimentError, SMCError), match=message) as caught:
        execute(settings(tmp_path, **changes))
    assert "\n" not in str(caught.value)


def test_an_error_in_the_middle_names_the_instance_and_loses_nothing(
    loads: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ToyTask.instances

    def with_bad_prompt(self: ToyTask, limit: int | None = None) -> list[Instance]:
        first, second, *rest = original(self, limit)
        return [first, Instance("bad", "?", second.constraint, "?", None), *rest]

    monkeypatch.setattr(ToyTask, "instances", with_bad_prompt)
    with pytest.raises(ExperimentError, match="instance bad: "):
        execute(settings(tmp_path))
    assert [record["instance"] for record in read_records(tmp_path)] == ["toy_00"]


def test_a_sweep_passes_over_exact_where_it_is_impossible(
    loads: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(settings(tmp_path, "exact", task=TaskConfig("large", 8)), sweep=True) is None
    assert "skipped" in capsys.readouterr().out
    assert not loads
    assert not list(tmp_path.iterdir())


def test_two_settings_under_one_label_are_refused(loads: list[Any], tmp_path: Path) -> None:
    execute(settings(tmp_path, limit=1))
    with pytest.raises(ExperimentError, match=r"method\.n_particles 8 there, 4 here"):
        execute(settings(tmp_path, limit=1, method=SMCConfig("smc", "smc", 4)))
    assert execute(settings(tmp_path, limit=1, method=SMCConfig("smc_4", "smc", 4)))


# The command line, in this process


def command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `python -m experiments.run` with these arguments."""
    mirror = [] if any("tracking" in argument for argument in arguments) else ["tracking=disabled"]
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments, *mirror])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "")
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task=nope"], "There is no task 'nope': choose one of bfcl, "),
        (["method=nope"], "There is no method 'nope': choose one of ars, asap, awrs_smc, beam, "),
        (["model=nope"], "There is no model 'nope': choose one of hf, hf_sharded, smollm2."),
        (["study=mine"], "There is no study 'mine': choose one of compare, "),
        (["study=mine"], "study.name=mine"),
        (["tracking=nope"], "There is no tracking 'nope': choose one of disabled, offline, online."),
        (["nope=1"], "There is no option 'nope': the options are task, method, "),
        (["branching=enumerate"], "give method.branching=enumerate"),
        (["foo"], "name=value"),
        (["method=null"], "name of a choice"),
        (["seed=-1"], "seed must be"),
        (["+n_particles=2"], "There is no option 'n_particles' at the top: give method.n_particles=2"),
        (["+method.k=2"], "There is no option 'method.k' with this choice of method"),
        (["++method.n_particle=2"], "did you mean method.n_particles=2?"),
        (["+budget.row=2"], "did you mean budget.rows=2?"),
        (["+hydra.launche=2"], "There is no option 'hydra.launche'"),
        (["+study.limits.dats=2"], "there is no task 'dats': did you mean dates?"),
        (["hydra/launcher=slurm"], "put -m in front"),
        (["hydra.sweep.dir=x"], "put -m in front"),
        (["hydra.launcher.partition=gpu"], "hydra/launcher=<one of local, slurm, slurm_cpu>"),
        (["--limit", "3"], "options are given without dashes, limit=3"),
        (["--limit=3"], "options are given without dashes, limit=3"),
        (["--multi"], "did you mean --multirun?"),
        (["--resolve"], "--cfg job --resolve"),
        (["--cfg", "nope"], "the values are job, hydra, all"),
        (["task.max_tokens=0"], "task.max_tokens must be"),
        (["model=hf"], "model.id"),
        (["seed=x"], "seed must be a whole number"),
        (["method.n_particles=abc"], "method.n_particles must be a whole number"),
        (["method.nope=1"], "There is no option 'method.nope'"),
        (["limit=0"], "limit=0"),
        (["task=bfcl", "task.category=java"], "java"),
        (["task=bfcl", "method=exact"], "out of reach"),
        (["tracking.mode=nope", "limit=1"], "tracking.mode='nope'"),
        (["method.n_particles=0", "limit=1"], "n_particles"),
        (["results=/proc/nowhere", "limit=1"], "/proc/nowhere"),
        (["-m", "results=/proc/nowhere", "seed=0,1"], "/proc/nowhere"),
    ],
)
def test_the_command_line_answers_bad_input_in_one_paragraph(
    loads: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    where = [] if any("results=" in argument for argument in arguments) else [f"results={tmp_path}"]
    code, _, err = command_line(monkeypatch, capsys, *where, *arguments)
    assert code != 0
    assert message in err
    assert "Traceback" not in err
    assert len(err) < 1500
    if "-m" not in arguments and "study=compare" not in arguments:
        assert err.rstrip("\n").count("\n") == 0, "one paragraph"
    assert "search path" not in err
    assert "Error executing job" not in err


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file or directory", "/data/x.json"), "/data/x.json could not be read"),
        (ConnectionError("no route to the hub"), "ConnectionError: no route to the hub"),
        (OSError(28, "No space left on device"), "results could not be written (RESULTS): No space left"),
    ],
)
def test_files_are_not_blamed_for_each_other(
    loads: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    error: OSError,
    words: str,
) -> None:
    def fails(self: ToyTask, instance: Instance, text: str) -> float:
        raise error

    monkeypatch.setitem(TASKS, "dates", ToyTask)
    monkeypatch.setattr(ToyTask, "score", fails)
    code, _, err = command_line(monkeypatch, capsys, "limit=1", f"results={tmp_path}")
    assert code == 2
    assert words.replace("RESULTS", str(tmp_path)) in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "method",
    [
        SMCConfig("smc", "smc", 0),
        SMCConfig("smc", "smc", 4, branching="nope"),
        SMCConfig("smc", "smc", 4, branching="sample", resampling="nope"),
        SMCConfig("smc", "smc", 4, branching="sample", draws="nope"),
        SMCConfig("smc", "smc", 4, finished="nope"),
        SMCConfig("smc", "smc", 4, target_power=0.0),
        SMCConfig("smc", "smc", 4, branching="sample", ess_threshold=2.0),
        SMCConfig("smc", "smc", 4, ess_threshold=0.5),
        SMCConfig("smc", "smc", 4, draws="systematic"),
        SMCConfig("smc", "smc", 4, stop="roulette", stop_fraction=0.0),
        LookaheadConfig("bigram", "smc_lookahead", 4, surrogate="bigram", n_states=4),
        SMCConfig("smc", "smc", 4, stop_fraction=1.0),
        ParticlesConfig("local_masking", "local_masking", 0),
        ExactConfig("exact", "exact", 0),
    ],
)
def test_bad_method_options_are_refused_before_anything_is_loaded_or_made(
    loads: list[Any], tmp_path: Path, method: MethodConfig
) -> None:
    with pytest.raises(SMCError):
        execute(settings(tmp_path, method))
    assert not loads
    assert not list(tmp_path.iterdir())


def test_a_sweep_runs_every_job_and_leaves_no_litter(
    loads: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(TASKS, "dates", ToyTask)
    code, out, err = command_line(
        monkeypatch,
        capsys,
        "-m",
        "method=smc,greedy_masking",
        "seed=0,1",
        "limit=2",
        "results=out",
        "study.name=s",
    )
    assert code == 0, err
    assert len(read_records(tmp_path / "out" / "s")) == 6, "greedy masking draws nothing, so it runs once"
    assert out.count("2 instances complete (2 new)") == 3
    assert "Report: " in out
    assert (tmp_path / "out" / "s" / "report.html").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    environment = json.loads(next((tmp_path / "out" / "s").glob("*/environment.json")).read_text())
    assert environment["command"].startswith("python -m experiments.run ")
    assert "method=" in environment["command"]


def test_a_failing_job_does_not_keep_a_sweep_from_the_others(
    loads: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(TASKS, "dates", ToyTask)
    code, _, err = command_line(
        monkeypatch, capsys, "-m", "method.n_particles=0,4", "limit=1", f"results={tmp_path}", "study.name=s"
    )
    assert code != 0
    assert "n_particles" in err
    assert "Traceback" not in err
    assert len(read_records(tmp_path / "s")) == 1


def test_flags_may_stand_anywhere(
    loads: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(TASKS, "dates", ToyTask)
    code, out, err = command_line(
        monkeypatch, capsys, "seed=0,1", f"results={tmp_path}", "-m", "limit=1", "study.name=s", "study.report=false"
    )
    assert (code, err.count("usage")) == (0, 0), err
    assert out.count("1 instances complete (1 new)") == 2


def test_help_gives_every_choice_and_option_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_text(["--help", "method=mcmc_restart", "task=bfcl"])
    for group in (*GROUPS, LAUNCHERS):
        for name, meaning in meanings(group).items():
            assert len(meaning) > 15, f"configs/{group}/{name}.yaml begins with a comment that says what it is"
            assert f"  {name}" in text
            assert meaning.split()[0] in text
    for name, schema in schemas().items():
        lacking = [n for n, words in option_meanings(schema).items() if not words]
        assert not lacking, name
    for option in ("budget.rows=null", "method.proposal=restart", "task.category=simple_python", "limit=null"):
        assert option in text
    assert max(map(len, text.splitlines())) <= 120


OWN = """
@dataclass(frozen=True)
class OwnTask(ToyTask):
    only: str = "111"  # the one string that counts
    labels: tuple[str, ...] = ()

    def score(self, instance, text):
        return float(text == self.only)
"""


def test_an_own_task_with_an_option_needs_its_class_and_its_file(
    loads: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    module = tmp_path / "own_task.py"
    module.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom toy_study import ToyTask\n" + OWN
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(TASKS, "own", importlib.import_module("own_task").OwnTask)  # experiments/tasks/__init__.py
    (tmp_path / "task").mkdir()  # configs/task/
    (tmp_path / "task" / "own.yaml").write_text(
        "# Own.\ndefaults: [/schema/own@_here_, _self_]\nname: own\nmax_tokens: 8\nlabels: [a]\n"
    )
    register_schemas()
    assert option_meanings(schemas()["own"])["only"] == "the one string that counts"
    own = (f"--config-dir={tmp_path}", "task=own", f"results={tmp_path}/r", "limit=1")
    code, _, err = command_line(monkeypatch, capsys, *own, "task.only='000'")
    assert code == 0, err
    (record,) = read_records(tmp_path / "r")
    assert {s["text"]: s["correct"] for s in record["sequences"]} == {t: float(t == "000") for t in STRINGS}
    code, _, err = command_line(monkeypatch, capsys, *own, "task.onyl=x")
    assert "There is no option 'task.onyl' with this choice of task: did you mean task.only=x?" in err
    assert code == 2


# The command line with the real model


def real(results: Path, *arguments: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "experiments.run",
        "task=dates",
        "method=greedy_masking",
        "tracking=disabled",
        f"results={results}",
        *arguments,
    ]


@pytest.mark.model
def test_kill_and_resume_with_a_real_process(tmp_path: Path) -> None:
    process = subprocess.Popen(real(tmp_path / "cut", "limit=2"), cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if any(path.stat().st_size for path in (tmp_path / "cut").rglob(RECORDS)):
            os.kill(process.pid, signal.SIGKILL)
            break
        time.sleep(0.02)
    process.wait()
    subprocess.run(real(tmp_path / "cut", "limit=2"), cwd=ROOT, check=True, capture_output=True)
    execute(
        composed("task=dates", "method=greedy_masking", "limit=2", "tracking=disabled", f"results={tmp_path / 'whole'}")
    )
    cut, whole = read_records(tmp_path / "cut"), read_records(tmp_path / "whole")
    assert len(whole) == 2
    assert [(r["instance"], r["sequences"][0]["text"]) for r in cut] == [
        (r["instance"], r["sequences"][0]["text"]) for r in whole
    ]


@pytest.mark.model
def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    # shells start background jobs with SIGINT ignored, and a child would inherit that
    process = subprocess.Popen(
        real(tmp_path),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not any(p.stat().st_size for p in tmp_path.rglob(RECORDS)):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command again" in err
    assert "Traceback" not in err
