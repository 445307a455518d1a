"""Against genlm-control: wall time at equal particles, and what an accurate evidence costs.

make bench-genlm, or python -m experiments.bench.versus_genlm

On the first tool-call prompts, bare or (`--examples`) with the worked examples of the task `bfcl`, SmolLM2-135M in float32 and at most
96 tokens, the same converted weights, prompt tokens, schemas
and numbers of particles go to both. What genlm-control is asked for is in :mod:`experiments.bench.genlm_worker`.

1. **Wall time** of a run at equal particles: genlm-control as its users have it (AWRS-SMC with its own JSON Schema potential)
   against `sample` and `enumerate` with 16, and `enumerate` with 4, the latter two also with `stop_fraction=1e-3` (they end
   once at most 0.1% of the evidence is missing). All take turns, seed by seed. Loading, one short run to warm up and, before each
   run, making the constraint anew on both sides are not timed: no run finds what an earlier one has learned of the language.
2. **The cost of error.** Its JSON Schema potential holds more spellings than the compact grammar (whitespace, order of keys), so
   this part runs on the compact language in both, by the same xgrammar grammar: genlm-control with AWRS, and with the
   exact mask of every token, which is the least noisy weight that it can have. Mean squared error of the
   log-evidence against a certified reference (:mod:`experiments.bench.reference`) times the mean seconds of a run, and the
   total variation distance of the posterior over strings to the reference's.

Writes results/bench/genlm.json after every run and genlm.md (genlm-examples.*). A repeated command does only what is missing.
"""

from __future__ import annotations

import argparse
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xgrammar as xgr

from experiments.bench.common import (
    MAX_TOKENS,
    Cells,
    command,
    parsed,
    parser,
    progress,
    seconds,
    settings,
    table,
    write_page,
)
from experiments.bench.genlm_client import Worker
from experiments.bench.prompts import tool_calls
from experiments.bench.reference import Reference, certify
from experiments.tasks import Instance
from smc import HFModel, JSONSchema, SMCResult, SMCSampler
from smc.constraints.caching import per_vocabulary
from smc.models.embedded import converted

MODEL = "smollm2-135m"


@dataclass(frozen=True)
class Method:
    """One way to run a prompt.

    Attributes:
        how: a branching of ours, or a token sampler of genlm-control and its language.
        stop_fraction: ours ends once what is live is below this share of the evidence; 1e-6 is the default.
    """

    name: str
    ours: bool
    how: tuple[str, ...]
    particles: int = 16
    stop_fraction: float = 1e-6


OURS = (
    Method("`enumerate` 16", True, ("enumerate",)),
    Method("`sample` 16", True, ("sample",)),
    Method("`enumerate` 4", True, ("enumerate",), particles=4),
    Method("`enumerate` 16, to 0.1%", True, ("enumerate",), stop_fraction=1e-3),
    Method("`enumerate` 4, to 0.1%", True, ("enumerate",), particles=4, stop_fraction=1e-3),
)
ITS_JSON = Method("genlm-control 16, its JSON Schema", False, ("awrs", "json"))
SAME_LANGUAGE = (
    Method("genlm-control 16, AWRS", False, ("awrs", "grammar")),
    Method("genlm-control 16, exact masks", False, ("direct", "grammar")),
)
METHODS = (*OURS, *SAME_LANGUAGE, ITS_JSON)

Runner = Callable[[Instance, Method, int], dict[str, Any]]


def cell(instance: str, method: Method, seed: int) -> str:
    """The name of one run."""
    return f"{instance} | {method.name} | seed {seed}"


@dataclass(frozen=True)
class Errors:
    """A method on one prompt, over seeds.

    Attributes:
        least, point, most: mean squared errors of the log-evidence, nats squared: the smallest that the certified bounds
            allow, against the point estimate, and the largest.
        seconds: mean of a run. distance: mean total variation distance to the reference posterior.
        lost: runs without an estimate (no particle left, or an error), which count nowhere.
    """

    mean: float
    least: float
    point: float
    most: float
    seconds: float
    distance: float
    runs: int
    lost: int


def errors(runs: list[dict[str, Any]], reference: Reference) -> Errors | None:
    """What a method's runs amount to; None if none has an estimate."""
    kept = [run for run in runs if run.get("log_evidence") is not None]
    if not kept:
        return None
    found = np.array([reference.error(run["log_evidence"]) for run in kept])
    least, point, most = (found**2).mean(axis=0)
    return Errors(
        mean=float(np.mean([run["log_evidence"] for run in kept])),
        least=float(least),
        point=float(point),
        most=float(most),
        seconds=float(np.mean([run["seconds"] for run in kept])),
        distance=float(np.mean([reference.total_variation(run["posterior"]) for run in kept])),
        runs=len(kept),
        lost=len(runs) - len(kept),
    )


def runs_of(cells: Cells, instance: str, method: Method, seeds: int) -> list[dict[str, Any]]:
    """The stored runs."""
    names = [cell(instance, method, seed) for seed in range(seeds)]
    return [cells[name] for name in names if name in cells]


def wall_part(cells: Cells, instances: list[str], seeds: Callable[[Method], int]) -> str:
    """Median seconds, passes and rows of a run, and how many times longer genlm-control takes."""
    rows: list[list[object]] = []
    faster: dict[Method, list[float]] = {method: [] for method in METHODS}
    for instance in instances:
        found = {m: [r for r in runs_of(cells, instance, m, seeds(m)) if "seconds" in r] for m in METHODS}

        def median(method: Method, what: str, found: dict[Method, Any] = found) -> float:
            values = [run[what] for run in found[method] if what in run]
            return float(np.median(values)) if values else float("nan")

        for method in METHODS:
            ratio = median(ITS_JSON, "seconds") / median(method, "seconds")
            faster[method].append(ratio)
            passes, fed = (f"{median(method, what):.0f}" for what in ("passes", "rows"))
            taken = f"{median(method, 'seconds'):.2f}"
            rows.append([instance, method.name, taken, passes, fed, f"{ratio:.3g}", len(found[method])])
    heads = ["prompt", "method", "s a run", "passes", "forward rows", "times as fast as its JSON Schema", "runs"]
    least = {method: min(ratios) for method, ratios in faster.items()}
    verdict = (
        f"On the prompt where it is least ahead, {OURS[0].name} is {least[OURS[0]]:.3g} times and {OURS[1].name} "
        f"{least[OURS[1]]:.3g} times as fast as genlm-control with its own JSON Schema potential (target: 25, and 50 where the passes "
        "allow)."
    )
    return f"## Wall time at equal particles\n\nMedians over seeds.\n\n{table(heads, rows)}\n\n{verdict}"


def error_part(cells: Cells, instances: list[str], seeds: Callable[[Method], int]) -> str:
    """Mean squared error, its price, and the distance to the reference posterior."""
    heads = [
        "prompt",
        "method",
        "mean log Z",
        "MSE",
        "MSE, within bounds",
        "mean s",
        "MSE x s",
        "TV",
        "runs (without estimate)",
    ]
    rows: list[list[object]] = []
    better: dict[tuple[Method, Method], list[tuple[float, float]]] = {}
    for instance in instances:
        reference = Reference(**cells[f"{instance} | reference"])
        found = {m: errors(runs_of(cells, instance, m, seeds(m)), reference) for m in (*OURS, *SAME_LANGUAGE)}
        for method, e in found.items():
            if e is None:
                rows.append([instance, method.name, *["-"] * 6, "none"])
                continue
            within = f"{e.least:.2g} to {e.most:.2g}"
            price, runs = f"{e.point * e.seconds:.2g}", f"{e.runs} ({e.lost})"
            rows.append(
                [
                    instance,
                    method.name,
                    f"{e.mean:.4f}",
                    f"{e.point:.2g}",
                    within,
                    f"{e.seconds:.2f}",
                    price,
                    f"{e.distance:.4f}",
                    runs,
                ]
            )
        for theirs in SAME_LANGUAGE:
            for ours in OURS:
                a, b = found[theirs], found[ours]
                if a is not None and b is not None:
                    times = a.seconds / b.seconds
                    better.setdefault((theirs, ours), []).append((a.point / b.point * times, a.least / b.most * times))
    ratios = []
    for (theirs, ours), pairs in better.items():
        each, sure = np.array(pairs).T
        shown = ", ".join(f"{value:.3g}" for value in each)
        ratios.append([theirs.name, ours.name, shown, f"{_geometric_mean(each):.3g}", f"{_geometric_mean(sure):.3g}"])
    ratio_heads = [
        "genlm-control",
        "ours",
        "times better in MSE x s, by prompt",
        "geometric mean",
        "the least that the bounds allow",
    ]
    return (
        "## The cost of error, on the same language\n\n"
        "MSE: mean squared error of the log-evidence, nats squared, against the reference's point estimate; *within bounds*: the "
        "least and the most that it can be, wherever in the certified bounds log Z lies. TV: mean total variation distance of the posterior "
        f"over strings to the reference's.\n\n{table(heads, rows)}\n\n{table(ratio_heads, ratios)}\n\nTarget: 1000."
    )


def _geometric_mean(values: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(values).mean()))


def reference_part(cells: Cells, instances: list[str]) -> str:
    """The references."""
    rows = []
    for instance in instances:
        r = Reference(**cells[f"{instance} | reference"])
        estimates = ", ".join(f"{value:.4f}" for value in r.estimates)
        rows.append(
            [
                instance,
                f"{r.log_lower:.4f}",
                f"{r.log_upper:.4f}",
                estimates,
                f"{r.log_evidence:.4f}",
                f"{r.total_variation_bound:.4f}",
            ]
        )
    first = Reference(**cells[f"{instances[0]} | reference"])
    heads = [
        "prompt",
        "log Z at least",
        "at most",
        "estimates",
        "point",
        "TV of the reference posterior to the exact one, at most",
    ]
    return (
        "## The reference\n\n"
        f"Certified by branch and bound over {first.bound_rows} prefixes; estimates by `enumerate` with {first.estimate_rows} rows.\n\n"
        + table(heads, rows)
    )


def grammar_text(constraint: JSONSchema) -> str:
    """The language that the mask enforces, as EBNF."""
    nothing = xgr.TokenizerInfo([b"a"], xgr.VocabType.RAW, vocab_size=1, stop_token_ids=[0])
    return str(constraint.grammar(nothing))


def anew(model: HFModel, constraint: JSONSchema) -> JSONSchema:
    """A constraint without what earlier runs have left with it: compiled masks, the validator's verdicts."""
    per_vocabulary(model.vocabulary, "compiled", lambda _: OrderedDict[Any, Any]()).clear()
    return JSONSchema(
        constraint.text,
        whitespace=constraint.whitespace,
        engine=constraint.engine_name,  # type: ignore[arg-type]
        closed=constraint.closed,
    )


def runner(model: HFModel, worker: Worker) -> Runner:
    """What runs one (prompt, method, seed) and gives its cell."""

    def ours(instance: Instance, method: Method, seed: int, max_tokens: int = MAX_TOKENS) -> dict[str, Any]:
        prompt = model.encode(instance.prompt)
        assert isinstance(instance.constraint, JSONSchema)
        sampler = SMCSampler(
            model,
            anew(model, instance.constraint),
            n_particles=method.particles,
            branching=method.how[0],
            max_tokens=max_tokens,
            stop_fraction=method.stop_fraction,
            seed=seed,
        )
        results: list[SMCResult] = []
        taken = seconds(lambda: results.append(sampler.run(prompt, key=instance.id)))
        result = results[0]
        cost = result.cost
        log_evidence = result.log_evidence if result.sequences else None
        return {
            "seconds": taken,
            "log_evidence": log_evidence,
            "posterior": result.posterior(),
            "passes": cost.passes,
            "rows": cost.forward_rows,
        }

    def theirs(instance: Instance, method: Method, seed: int, max_tokens: int = MAX_TOKENS) -> dict[str, Any]:
        sampler, language = method.how
        assert isinstance(instance.constraint, JSONSchema)
        job = {
            "sampler": sampler,
            "language": language,
            "prompt": list(model.encode(instance.prompt)),
            "schema": instance.constraint.text,
            "grammar": grammar_text(instance.constraint),
            "particles": method.particles,
            "max_tokens": max_tokens,
            "seed": seed,
        }
        return worker.ask(job)

    warm: set[bool] = set()

    def run(instance: Instance, method: Method, seed: int) -> dict[str, Any]:
        side = ours if method.ours else theirs
        if method.ours not in warm:
            warm.add(method.ours)
            side(instance, method, seed, max_tokens=3)
        return side(instance, method, seed)

    return run


def measure(cells: Cells, instances: list[Instance], seeds: Callable[[Method], int], run: Runner) -> None:
    """Every run that is missing, the methods taking turns."""
    for seed in range(max(seeds(method) for method in METHODS)):
        for instance in instances:
            for method in METHODS:
                name = cell(instance.id, method, seed)
                if seed < seeds(method) and name not in cells:
                    answer = run(instance, method, seed)
                    cells.put(name, answer)
                    progress(f"{name}: {answer['error'] if 'error' in answer else format(answer['seconds'], '.2f')}")


QUICK = dict(prompts=1, seeds=1, json_seeds=1, reference_rows=50, reference_particles=8, limit=60.0)
"""The settings of --quick."""


def main() -> None:
    """Measure, print and store."""
    options = arguments()
    instances = tool_calls(options.prompts, options.examples)
    ids = [instance.id for instance in instances]
    stem = "genlm-examples" if options.examples else "genlm"
    cells = Cells(options.out / f"{stem}.json", settings(), options.fresh)
    model = HFModel.load(MODEL)
    setting = {
        "folder": str(converted(MODEL)),
        "threads": torch.get_num_threads(),
        "stop_ids": list(model.vocabulary.stop_ids),
        "control_ids": np.flatnonzero(~model.vocabulary.maskable).tolist(),
    }

    def seeds(method: Method) -> int:
        return options.json_seeds if method == ITS_JSON else options.seeds

    for instance in instances:
        prompt = model.encode(instance.prompt)
        cells.get(
            f"{instance.id} | reference",
            lambda c=instance.constraint, p=prompt: certify(  # type: ignore[misc]
                model, c, p, MAX_TOKENS, options.reference_rows, options.reference_particles
            ),
        )
    with Worker.of_python(options.python, setting, options.limit) as worker:
        measure(cells, instances, seeds, runner(model, worker))
    write_page(
        options.out / f"{stem}.md",
        "Against genlm-control",
        "python -m experiments.bench.versus_genlm" + (" --examples" if options.examples else ""),
        [
            "genlm-control 0.4.1 with its Hugging Face backend, SmolLM2-135M-Instruct in float32, tool calls `simple_python`, at "
            f"most {MAX_TOKENS} tokens, the same weights, prompts, schemas and particles; {options.seeds} seeds, "
            f"{options.json_seeds} of its JSON Schema potential.",
            wall_part(cells, ids, seeds),
            error_part(cells, ids, seeds),
            reference_part(cells, ids),
        ],
        quick=options.quick,
    )


def arguments() -> argparse.Namespace:
    """The command line."""
    made = parser(__doc__)
    made.add_argument("--python", type=Path, default=Path(".venv-genlm/bin/python"), help="Python of genlm-control")
    made.add_argument("--prompts", type=int, default=3, help="how many prompts, from the first (default 3)")
    made.add_argument("--examples", action="store_true", help="with the worked examples of the task bfcl in the prompt")
    made.add_argument("--seeds", type=int, default=8, help="seeds of each method (default 8)")
    made.add_argument("--json-seeds", type=int, default=2, help="seeds with genlm's JSON Schema potential (default 2)")
    made.add_argument("--reference-rows", type=int, default=4000, help="prefixes of branch and bound (default 4000)")
    made.add_argument("--reference-particles", type=int, default=512, help="rows of the estimates (default 512)")
    made.add_argument("--limit", type=float, default=1800, help="seconds after which a genlm run is given up")
    return parsed(made, QUICK)


if __name__ == "__main__":
    command(main)
