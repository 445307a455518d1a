"""Where the records came from: commands, environments, options."""

from __future__ import annotations

from typing import Any

from experiments import provenance
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
