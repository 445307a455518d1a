"""Every method against the exact posterior, at equal numbers of forward rows.

python -m experiments.bench.methods

Problems: a date question and one small JSON schema of enums, on SmolLM2-135M. Each method runs with growing numbers of
samples; a budget of forward rows gets the largest number that it can pay for. Distances are over strings: total variation
and KL(estimate to exact), plug-in, beside their floor, which is what that many draws from the exact posterior itself
would score. A second table follows the target power from the posterior to beam search. Writes methods.json, methods.md and
two pictures to results/reference/.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.common import command, parsed, parser, store_page, timed
from experiments.bench.methods_figures import Curve, PowerPoint, draw_distances, draw_powers
from experiments.tasks import build_task
from smc import HFModel, JSONSchema, LearnedTwist, LookaheadTwist, MemoModel, SMCResult, SMCSampler, baselines
from smc.constraints.base import Constraint
from smc.distances import distance, floor
from smc.exact import CertifiedPosterior, branch_and_bound
from smc.models.base import Prompt
from smc.surrogates import fit_surrogate

BUDGETS = (16, 64, 128)
SIZES = tuple(2**i for i in range(10))
POWERS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)
SEEDS = 2
DRAWS = dict(max_draws=4096, batch_size=64)  # of the rejection family


@dataclass(frozen=True)
class Problem:
    """One prompt under a constraint, with a certified posterior of its strings."""

    task: str
    name: str
    prompt: Prompt
    constraint: Constraint
    max_tokens: int


@dataclass(frozen=True)
class Run:
    """One run of a method. `draws` is how many samples its floor is for; KL in nats, infinite if nothing came out."""

    problem: str
    task: str
    method: str
    size: int
    seed: int
    rows: int
    checks: int
    status: str
    tv: float
    kl: float
    draws: int
    log_evidence: float | None


@dataclass(frozen=True)
class Setting:
    """What a method is asked for."""

    model: MemoModel
    problem: Problem
    n: int
    seed: int

    @property
    def common(self) -> dict[str, Any]:
        problem = self.problem
        return dict(
            model=self.model,
            constraint=problem.constraint,
            prompt=problem.prompt,
            max_tokens=problem.max_tokens,
            seed=self.seed,
            key=f"{problem.name} {self.n}",
        )


Method = Callable[[Setting], SMCResult]


def _baseline(function: Callable[..., SMCResult], **options: Any) -> Method:
    return lambda at: function(**at.common, n_particles=at.n, **options)


def _sampler(at: Setting, **options: Any) -> SMCResult:
    """`SMCSampler` by the same names as the baselines."""
    call = at.common
    prompt, key = call.pop("prompt"), call.pop("key")
    return SMCSampler(call.pop("model"), call.pop("constraint"), n_particles=at.n, **call, **options).run(prompt, key)


def _lookahead(at: Setting, kind: str) -> SMCResult:
    """The surrogate's samples are part of the price."""
    problem = at.problem
    fitted = fit_surrogate(
        kind, at.model, problem.constraint, [problem.prompt], n_samples=32, max_tokens=problem.max_tokens, seed=at.seed
    )
    result = _sampler(at, twist=LookaheadTwist(fitted.surrogate))
    return replace(result, cost=result.cost + fitted.cost)


def _learned(at: Setting) -> SMCResult:
    """Four runs that learn from one another, averaged."""
    return _sampler(at, twist=LearnedTwist(), replicates=4)


NOT_DRAWS = {"greedy_masking", "beam", "best_of_n", "particle_gibbs", "pimh"}
"""Searches, and chains whose states are averaged: no number of draws says what an exact sampler would score."""

METHODS: dict[str, Method] = {
    "greedy_masking": lambda at: baselines.greedy_masking(**at.common),
    "beam": _baseline(baselines.beam),
    "best_of_n": _baseline(baselines.best_of_n),
    "local_masking": _baseline(baselines.local_masking),
    "importance_resampling": _baseline(baselines.importance_resampling),
    "rejection": _baseline(baselines.rejection, **DRAWS),
    "ars": _baseline(baselines.ars, **DRAWS),
    "rsft": _baseline(baselines.rsft, **DRAWS),
    "cars": _baseline(baselines.cars, **DRAWS),
    "asap": _baseline(baselines.asap),
    "mcmc_restart": _baseline(baselines.mcmc, proposal="restart"),
    "mcmc_uniform": _baseline(baselines.mcmc, proposal="uniform"),
    "mcmc_priority": _baseline(baselines.mcmc, proposal="priority"),
    "awrs_smc": _baseline(baselines.awrs_smc),
    "grammar_smc": _baseline(baselines.grammar_smc),
    "smc_steering": _baseline(baselines.smc_steering),
    "smc_sample": partial(_sampler, branching="sample"),
    "smc": _sampler,
    "smc_lookahead": partial(_lookahead, kind="bigram"),
    "smc_learned": _learned,
    "particle_gibbs": _baseline(baselines.particle_gibbs),
    "pimh": _baseline(baselines.pimh),
}


def problems() -> list[Problem]:
    """The prompts."""
    dates = [
        Problem("dates", instance.id, instance.prompt, instance.constraint, 16)
        for instance in build_task("dates").instances(1)
    ]
    return [*dates, _order()]


def _order() -> Problem:
    schema = {
        "type": "object",
        "properties": {
            "drink": {"enum": ["coffee", "tea", "water"]},
        },
        "required": ["drink"],
        "additionalProperties": False,
    }
    asked = "Turn orders into JSON. 'A cup of tea, no milk.' -> "
    prompt = f'{asked}{{"drink":"tea"}}\n\'Something hot with milk, please.\' -> '
    return Problem("enums", "order", prompt, JSONSchema(schema, whitespace="compact"), 16)


def measure(model: MemoModel, problem: Problem, exact: dict[str, float], seeds: int, budget: int) -> list[Run]:
    """Run every method with growing size until it costs more than the budget, or gives up."""
    runs = []
    for name, method in METHODS.items():
        for n in SIZES[name == "particle_gibbs" :]:  # one particle would never move
            with timed(f"{problem.name}, {name}, {n}"):
                group = [_run(name, method, Setting(model, problem, n, seed), exact) for seed in range(seeds)]
            runs += group
            too_much = np.mean([run.rows for run in group]) > budget
            given_up = all(run.status == "incomplete" for run in group)
            if too_much or given_up or name == "greedy_masking":
                break
    return runs


def _run(name: str, method: Method, at: Setting, exact: dict[str, float]) -> Run:
    result = method(at)
    estimate = result.posterior()
    apart = distance(estimate, exact) if estimate else None
    return Run(
        problem=at.problem.name,
        task=at.problem.task,
        method=name,
        size=at.n,
        seed=at.seed,
        rows=result.cost.forward_rows,
        checks=result.cost.checks,
        status=result.status,
        tv=apart.tv if apart else 1.0,
        kl=apart.kl_to_exact if apart else math.inf,
        draws=sum(s.count for s in result.sequences),
        log_evidence=result.log_evidence,
    )


@dataclass(frozen=True)
class Cell:
    """A method under a budget on one task: means over prompts and seeds, and the floor of as many exact draws."""

    task: str
    method: str
    budget: int
    size: int
    rows: float
    tv: float
    tv_floor: float
    kl: float
    kl_floor: float
    empty: float


def curves(runs: Sequence[Run], exact: dict[str, dict[str, float]]) -> list[Curve]:
    """Mean distance against mean rows, a point for each size; prompts of a task and seeds averaged."""
    out = []
    for task in dict.fromkeys(run.task for run in runs):
        for method in METHODS:
            mine = [run for run in runs if (run.task, run.method) == (task, method)]
            sizes = [n for n in SIZES if {r.problem for r in mine if r.size == n} == {r.problem for r in mine}]
            cells = [_cell(task, method, 0, n, mine, exact) for n in sizes]
            out.append(Curve(task, method, [cell.rows for cell in cells], [cell.tv for cell in cells]))
    return out


def under_budget(runs: Sequence[Run], exact: dict[str, dict[str, float]]) -> list[Cell]:
    """For every budget the largest size whose mean rows fit into it on every prompt of the task."""
    cells = []
    for task in dict.fromkeys(run.task for run in runs):
        for method in METHODS:
            mine = [run for run in runs if (run.task, run.method) == (task, method)]
            for budget in BUDGETS:
                fits = [n for n in SIZES if _fits([r for r in mine if r.size == n], budget, {r.problem for r in mine})]
                if fits:
                    cells.append(_cell(task, method, budget, max(fits), mine, exact))
    return cells


def _fits(runs: list[Run], budget: int, prompts: set[str]) -> bool:
    if {r.problem for r in runs} != prompts:  # it was not tried where a smaller size had cost too much
        return False
    return all(float(np.mean([r.rows for r in runs if r.problem == p])) <= budget for p in prompts)


def _cell(task: str, method: str, budget: int, size: int, runs: list[Run], exact: dict[str, dict[str, float]]) -> Cell:
    chosen = [r for r in runs if r.size == size]
    floors = [floor(exact[r.problem], max(r.draws, 1)) for r in chosen]
    finite = [r.kl for r in chosen if math.isfinite(r.kl)]
    return Cell(
        task=task,
        method=method,
        budget=budget,
        size=size,
        rows=float(np.mean([r.rows for r in chosen])),
        tv=float(np.mean([r.tv for r in chosen])),
        tv_floor=float(np.mean([f.tv for f in floors])),
        kl=float(np.mean(finite)) if finite else math.inf,
        kl_floor=float(np.mean([f.kl_to_exact for f in floors])),
        empty=float(np.mean([not math.isfinite(r.kl) for r in chosen])),
    )


def power_sweep(
    model: MemoModel,
    problem: Problem,
    reference: CertifiedPosterior,
    powers: Sequence[float],
    n: int,
    seeds: int,
) -> list[PowerPoint]:
    """E[log p(y)] under p^a for growing a: the exact value and SMC's, up to what beam search finds."""
    log_p = np.array([s.log_prob for s in reference.sequences])
    best = baselines.beam(**Setting(model, problem, n, 0).common, n_particles=n).best()
    greedy = baselines.greedy_masking(**Setting(model, problem, n, 0).common).best()
    assert best is not None
    assert greedy is not None
    points = []
    for power in powers:
        weight = np.exp(power * (log_p - log_p.max()))
        mine = [_sampler(Setting(model, problem, n, seed), target_power=power) for seed in range(seeds)]
        means = [sum(w * s.log_prob for w, s in zip(r.weights, r.sequences, strict=True)) for r in mine]
        exact = float((weight * log_p).sum() / weight.sum())
        points.append(
            PowerPoint(
                problem.name, power, exact, float(np.mean(means)), float(np.std(means)), best.log_prob, greedy.log_prob
            )
        )
    return points


def table(task: str, cells: Sequence[Cell]) -> str:
    """One task as Markdown: a line a method, three columns a budget."""
    head = "".join(f" {b} rows: n | TV (floor) | KL (floor) |" for b in BUDGETS)
    lines = [f"| method |{head}", "|---|" + "---|" * 3 * len(BUDGETS)]
    by = {(c.method, c.budget): c for c in cells if c.task == task}
    for method in METHODS:
        line = f"| {method} |"
        for budget in BUDGETS:
            cell = by.get((method, budget))
            line += " – | – | – |" if cell is None else f" {cell.size} | {_distances(cell)} |"
        lines.append(line)
    return "\n".join(lines)


def _pair(value: float, low: float) -> str:
    return f"{value:.3f} ({low:.3f})"


def _distances(cell: Cell) -> str:
    if cell.empty == 1:
        return "nothing came out |"
    both = f"{cell.tv:.3f} | {cell.kl:.3f}"
    if cell.method not in NOT_DRAWS:
        both = f"{_pair(cell.tv, cell.tv_floor)} | {_pair(cell.kl, cell.kl_floor)}"
    return both + (f", nothing came out in {cell.empty:.0%}" if cell.empty else "")


def sweep_table(points: Sequence[PowerPoint]) -> str:
    """The power sweep as Markdown."""
    lines = [
        "| prompt | power | E[log p], exact | SMC, mean over seeds | sd | beam search | greedy |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {p.problem} | {p.power:g} | {p.exact:.3f} | {p.smc:.3f} | {p.spread:.3f} | {p.beam:.3f} | {p.greedy:.3f} |"
        for p in points
    ]
    return "\n".join(lines)


QUICK = dict(seeds=1, budget=8, reference_rows=100, powers=[1.0, 4.0])
"""The settings of --quick, which has one problem."""


def main() -> None:
    """Measure, print and store."""
    made = parser(__doc__, Path("results/reference"))
    made.add_argument("--seeds", type=int, default=SEEDS, help=f"runs of each size (default {SEEDS})")
    made.add_argument("--budget", type=int, default=max(BUDGETS), help="stop growing beyond so many forward rows")
    made.add_argument("--reference-rows", type=int, default=3000, help="prefixes of branch and bound (default 3000)")
    made.add_argument("--powers", type=float, nargs="+", default=list(POWERS), help="of the target, in the sweep")
    options = parsed(made, QUICK)
    model = MemoModel(HFModel.load("smollm2-135m"))
    runs: list[Run] = []
    exact: dict[str, dict[str, float]] = {}
    points: list[PowerPoint] = []
    said = []
    for problem in problems()[-1:] if options.quick else problems():
        with timed(f"{problem.name}, reference"):
            reference = branch_and_bound(
                model,
                problem.constraint,
                problem.prompt,
                max_tokens=problem.max_tokens,
                max_rows=options.reference_rows,
                tolerance=1e-2,
            )
        exact[problem.name] = reference.posterior()
        said.append(
            f"- {problem.task}, `{problem.name}`: log Z {reference.log_lower:.3f}, {len(exact[problem.name])} strings, total "
            f"variation of the reference at most {reference.total_variation_bound:.1e} ({reference.cost.forward_rows} rows)."
        )
        runs += measure(model, problem, exact[problem.name], options.seeds, options.budget)
        with timed(f"{problem.name}, powers"):
            points += power_sweep(model, problem, reference, options.powers, 16, options.seeds)
        model.forget()
        text = _write(
            options.out, runs, exact, points, said, options.seeds, options.quick
        )  # what there is, should the rest be cut off
    print(text)


def _write(
    folder: Path,
    runs: Sequence[Run],
    exact: dict[str, dict[str, float]],
    points: Sequence[PowerPoint],
    said: Sequence[str],
    seeds: int,
    quick: bool,
) -> str:
    """Store everything; the page."""
    cells = under_budget(runs, exact)
    folder.mkdir(parents=True, exist_ok=True)
    stored = {
        "runs": [asdict(r) for r in runs],
        "cells": [asdict(c) for c in cells],
        "powers": [asdict(p) for p in points],
    }
    (folder / "methods.json").write_text(json.dumps(_finite(stored), allow_nan=False) + "\n")
    (folder / "methods.svg").write_text(draw_distances(curves(runs, exact), BUDGETS))
    (folder / "methods-power.svg").write_text(draw_powers(points))
    return store_page(folder / "methods.md", _page(cells, points, said, seeds), quick)


def _page(cells: Sequence[Cell], points: Sequence[PowerPoint], said: Sequence[str], seeds: int) -> str:
    parts = [
        "# Every method against the exact posterior",
        f"SmolLM2-135M-Instruct in float32; means over prompts and {seeds} seeds. Made by `python -m experiments.bench.methods`. "
        "`n` is the number of samples, particles, chains or beams, the largest that the budget of forward rows pays for. TV "
        "and KL(estimate to exact, nats, plug-in) are over strings; in parentheses what as many draws from the exact "
        "posterior as the method returned sequences would score on average: equally weighted draws cannot do better than "
        "that on average, weights that are exact masses can. Where nothing came out TV counts as 1 and KL is left out. "
        "Surrogate samples are part of the price of `smc_lookahead`. Passes, tokens, checks and seconds of every run are in "
        "`methods.json`; the seconds are those of a model that remembers, so they do not compare methods. "
        "`sample_rerank` is local masking where there is no potential, and `unconstrained` is `rejection` without the "
        "rejection: neither is repeated here.",
        "\n".join(said),
        "![Total variation distance against forward rows, one curve a method](methods.svg)",
    ]
    for task in dict.fromkeys(c.task for c in cells):
        parts += [f"## {task}", table(task, cells)]
    parts += [
        "## From the posterior to beam search",
        "SMC (`enumerate`, 16 rows) on p^a: the expected log-probability rises from the posterior's to the best sequence's.",
        "![Expected log-probability against the target power](methods-power.svg)",
        sweep_table(points),
    ]
    return "\n\n".join(parts) + "\n"


def _finite(value: Any) -> Any:
    """JSON has no infinities: null in their place."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    command(main)
