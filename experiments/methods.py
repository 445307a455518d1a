"""The methods by name: each runs prompts under their constraints and gives the fields of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from experiments.config import MethodConfig, options
from experiments.errors import ExperimentError
from experiments.evaluate import exact_record, sampled_record
from smc import FiniteLanguage, SMCSampler, TableModel, baselines
from smc.errors import MemoryLimitError, SMCError, about_job, at_least
from smc.exact import enumerate_posterior
from smc.memory import is_out_of_memory
from smc.packing import stream


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
    """How a method is called.

    Attributes:
        run: ``run(call)`` gives a result.
        record: ``record(result, score)`` gives the record's fields.
        exact: whether it needs an exact task.
        sampler: ``sampler(call)`` gives what `run` runs, for methods that are samplers: their calls can share batches.
    """

    run: Callable[[Call], Any]
    record: Callable[[Any, Callable[[str], float]], dict[str, Any]] = sampled_record
    exact: bool = False
    sampler: Callable[[Call], SMCSampler] | None = None

    @staticmethod
    def of(sampler: Callable[[Call], SMCSampler]) -> Method:
        """The method that a sampler is."""
        return Method(lambda call: sampler(call).run(call.prompt, call.key), sampler=sampler)

    def results(self, calls: Sequence[Call], batch_rows: int | None) -> Iterator[tuple[Call, Any]]:
        """Calls and their results, each as soon as it is there.

        One after the other in their order; or, if the method is a sampler and `batch_rows` is not None, together, with so
        many rows in a forward pass, and in the order in which they end.

        Raises:
            SMCError: a call failed or did not fit in memory, naming its key. Those that run beside it are handed out first; a call that cannot be
                run at all is refused before any of them starts.
        """
        if self.sampler is None or batch_rows is None:
            for call in calls:
                yield call, _naming(call, self.run)
        else:
            by_key = {call.key: call for call in calls}
            make = self.sampler
            requests = [_naming(call, lambda call: make(call).request(call.prompt, call.key)) for call in calls]
            for request, result in stream(requests, batch_rows):
                yield by_key[request.key], result


def _naming(call: Call, function: Callable[[Call], Any]) -> Any:
    """What a function makes of a call; its errors, running out of memory among them, name the call."""
    try:
        return function(call)
    except SMCError as error:
        raise about_job(call.key, error) from error
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        shortage = (str(error) or type(error).__name__).splitlines()[0]
    # out here the error is gone, and the memory that its traceback held on to
    raise about_job(
        call.key,
        MemoryLimitError(
            f"It does not fit in memory ({shortage}). Lower the method's sizes (such as method.n_particles) or "
            "task.max_tokens, load the model in a smaller dtype (model.dtype), or use a device with more memory. What was "
            "written before is kept: the same command does only what is missing."
        ),
    )


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


def _sampler(make: Callable[..., SMCSampler], options: dict[str, Any]) -> Method:
    make(_TINY, _ONE_WORD, max_tokens=1, **options)

    def sampler(call: Call) -> SMCSampler:
        return make(call.model, call.constraint, max_tokens=call.max_tokens, seed=call.seed, **options)

    return Method.of(sampler)


def _exact(options: dict[str, Any]) -> Method:
    for name, value in options.items():
        at_least(name, value, 1)

    def run(call: Call) -> Any:
        return enumerate_posterior(call.model, call.constraint, call.prompt, max_tokens=call.max_tokens, **options)

    return Method(run, exact_record, exact=True)


ALGORITHMS: dict[str, Callable[[dict[str, Any]], Method]] = {
    "greedy_masking": partial(_sampler, baselines.greedy_masking_sampler),
    "local_masking": partial(_sampler, baselines.local_masking_sampler),
    "importance_resampling": partial(_sampler, baselines.importance_resampling_sampler),
    "unconstrained": partial(_sampler, baselines.unconstrained_sampler),
    "beam": partial(_baseline, baselines.beam),
    "best_of_n": partial(_baseline, baselines.best_of_n),
    "rejection": partial(_baseline, baselines.rejection),
    "ars": partial(_baseline, baselines.ars),
    "rsft": partial(_baseline, baselines.rsft),
    "cars": partial(_baseline, baselines.cars),
    "asap": partial(_baseline, baselines.asap),
    "mcmc": partial(_baseline, baselines.mcmc),
    "awrs_smc": partial(_sampler, baselines.awrs_smc_sampler),
    "grammar_smc": partial(_sampler, baselines.grammar_smc_sampler),
    "smc_steering": partial(_sampler, baselines.smc_steering_sampler),
    "particle_gibbs": partial(_baseline, baselines.particle_gibbs),
    "pimh": partial(_baseline, baselines.pimh),
    "smc": partial(_sampler, SMCSampler),
    "exact": _exact,
}
