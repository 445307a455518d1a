"""The methods by name: each runs one prompt under one constraint and gives the fields of a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from experiments.config import MethodConfig, options
from experiments.errors import ExperimentError
from experiments.evaluate import exact_record, sampled_record
from smc import FiniteLanguage, SMCSampler, TableModel, baselines
from smc.errors import at_least
from smc.exact import enumerate_posterior


@dataclass(frozen=True)
class Call:
    """What a method is asked for: the prompt, its constraint, and what the randomness derives from."""

    model: Any
    constraint: Any
    prompt: Any
    key: str
    seed: int
    max_tokens: int

    def arguments(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class Method:
    """`run(call)` gives a result, `record(result, score)` the record's fields. `exact` methods need an exact task."""

    run: Callable[[Call], Any]
    record: Callable[[Any, Callable[[str], float]], dict[str, Any]] = sampled_record
    exact: bool = False


def build_method(config: MethodConfig) -> Method:
    """The method of a config group.

    Raises ExperimentError for an algorithm that does not exist, and the library's OptionError for an option value
    that it would refuse: here, before a model is loaded or a folder is made.
    """
    if config.algorithm not in ALGORITHMS:
        raise ExperimentError(
            f"There is no algorithm {config.algorithm!r} (method {config.name!r}): "
            f"choose one of {', '.join(sorted(ALGORITHMS))}."
        )
    return ALGORITHMS[config.algorithm](options(config, "name", "algorithm"))


# The library knows best which options go together, so a method is tried once on a model of one token.
_TINY = TableModel(vocab=["a", "<eos>"], eos="<eos>", next_probs=lambda prefix: {"a": 0.5, "<eos>": 0.5})
_ONE_WORD = FiniteLanguage(("a",))


def _baseline(function: Callable[..., Any], options: dict[str, Any]) -> Method:
    function(_TINY, _ONE_WORD, "", max_tokens=1, **options)
    return Method(lambda call: function(**call.arguments(), **options))


def _smc(options: dict[str, Any]) -> Method:
    SMCSampler(_TINY, _ONE_WORD, **options)

    def run(call: Call) -> Any:
        sampler = SMCSampler(call.model, call.constraint, max_tokens=call.max_tokens, seed=call.seed, **options)
        return sampler.run(call.prompt, key=call.key)

    return Method(run)


def _exact(options: dict[str, Any]) -> Method:
    for name, value in options.items():
        at_least(name, value, 1)

    def run(call: Call) -> Any:
        return enumerate_posterior(call.model, call.constraint, call.prompt, max_tokens=call.max_tokens, **options)

    return Method(run, exact_record, exact=True)


ALGORITHMS: dict[str, Callable[[dict[str, Any]], Method]] = {
    "greedy_masking": partial(_baseline, baselines.greedy_masking),
    "local_masking": partial(_baseline, baselines.local_masking),
    "importance_resampling": partial(_baseline, baselines.importance_resampling),
    "unconstrained": partial(_baseline, baselines.unconstrained),
    "beam": partial(_baseline, baselines.beam),
    "best_of_n": partial(_baseline, baselines.best_of_n),
    "rejection": partial(_baseline, baselines.rejection),
    "ars": partial(_baseline, baselines.ars),
    "rsft": partial(_baseline, baselines.rsft),
    "cars": partial(_baseline, baselines.cars),
    "asap": partial(_baseline, baselines.asap),
    "mcmc": partial(_baseline, baselines.mcmc),
    "awrs_smc": partial(_baseline, baselines.awrs_smc),
    "grammar_smc": partial(_baseline, baselines.grammar_smc),
    "smc_steering": partial(_baseline, baselines.smc_steering),
    "particle_gibbs": partial(_baseline, baselines.particle_gibbs),
    "pimh": partial(_baseline, baselines.pimh),
    "smc": _smc,
    "exact": _exact,
}
