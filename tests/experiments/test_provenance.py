"""Where the records came from: commands, environments, options."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from experiments import environment, provenance
from experiments.errors import ExperimentError
from experiments.report.commands import commands


def run(command: str | None = None, **config: Any) -> provenance.Run:
    return provenance.Run("r", config, {"command": command} if command else {}, True)


def test_commands_make_exactly_the_runs_of_a_study() -> None:
    def of(name: str, seed: int, algorithm: str = "smc", **options: Any) -> provenance.Run:
        method = {"name": name, "algorithm": algorithm, "n_particles": 16, **options}
        return run(
            task={"name": "dates", "max_tokens": 16}, method=method, seed=seed, limit=3, study="a b", results="/x"
        )

    recorded = [of(m, s, m) for m in ("local_masking", "unconstrained") for s in (10, 2)]
    recorded += [of("smc", 2), of("smc_8", 2, n_particles=8)]
    start = "python -m experiments.run"
    assert sorted(commands(recorded)) == sorted([
        f"""{start} -m task=dates limit=3 'study.name='"'"'a b'"'"'' method=local_masking,unconstrained seed=2,10""",
        f"""{start} task=dates limit=3 'study.name='"'"'a b'"'"'' method=smc seed=2""",
        f"""{start} task=dates limit=3 'study.name='"'"'a b'"'"'' method=smc method.n_particles=8 method.name=smc_8 seed=2""",
    ])  # fmt: skip
    assert commands([run(task={"name": "dates"}, method={"name": "smc"}, seed=1)]) == [
        f"{start} task=dates method=smc seed=1"
    ]
    assert commands([run()]) == []


def test_a_run_continued_elsewhere_is_told() -> None:
    same = provenance.Run(
        "r", {}, {"device": "cpu", "command": "a", "resumed_with": [{"device": "cpu", "command": "b"}]}, True
    )
    other = provenance.Run("r", {}, {"device": "cpu", "resumed_with": [{"device": "cuda"}]}, True)
    assert not same.resumed_elsewhere
    assert other.resumed_elsewhere


def test_a_sharpened_method_is_known_by_its_options() -> None:
    runs = [
        run(method={"name": "hot", "target_power": 4.0}),
        run(method={"name": "smc", "target_power": 1.0}),
    ]
    assert provenance.sharpened(runs) == {"hot"}


def test_runs_of_two_revisions_are_no_study() -> None:
    def made(model: str | None, data: str | None) -> provenance.Run:
        config = {"task": {"name": "t"}, "model": {"name": "m"}, "method": {"name": "smc"}}
        return provenance.Run("r", config, {"model": model, "data": data} if model else {}, True)

    same = [made("v1", "d1"), made("v1", "d1"), made(None, None), made("unknown", "d1")]
    provenance.refuse_mixture(same, Path("s"))
    with pytest.raises(ExperimentError, match=r"two revisions of the model m .v1 and v2"):
        provenance.refuse_mixture([*same, made("v2", "d1")], Path("s"))
    with pytest.raises(ExperimentError, match=r"two revisions of the task t .d1 and d2"):
        provenance.refuse_mixture([*same, made("v1", "d2")], Path("s"))


def test_a_budget_is_told_with_the_options_of_the_methods() -> None:
    runs = [run(method={"name": "smc", "n_particles": 4}, budget={"rows": 256, "seconds": None})]
    assert provenance.method_options(runs) == {"smc": ["budget.rows = 256, n_particles = 4"]}


def test_a_checkout_is_dirty_when_its_code_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def dirty() -> bool:
        found = environment.environment(command="", device="cpu", dtype="float32", seed=0, model="m", data="d")
        assert found["git_commit"]
        return bool(found["git_dirty"])

    code, result = tmp_path / "experiments" / "x.py", tmp_path / "results" / "r.csv"
    for path in (code, result):
        path.parent.mkdir()
        path.write_text("1")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "x")
    monkeypatch.setattr(environment, "__file__", str(code))
    result.write_text("2")  # what a study writes while it runs
    assert not dirty()
    new = code.with_name("task.py")
    new.write_text("1")
    assert dirty()
    new.unlink()
    code.write_text("2")
    assert dirty()
