"""The methods by name: each runs prompts under their constraints and gives the fields of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from experiments import reach
from experiments.analysis.pooling import pool
from experiments.analysis.pooling_best import pool_best
from experiments.calls import Call, smc_sampler
from experiments.config import MethodConfig, options
from experiments.errors import ExperimentError, InstanceFailed
from experiments.evaluate import exact_record, sampled_record
from experiments.evaluate_bounds import bounds_record
from experiments.tasks.base import Instance
from experiments.twists import learned, lookahead
from smc import FiniteLanguage, SMCSampler, TableModel, baselines
from smc.errors import MemoryLimitError, SMCError, about_job, at_least
from smc.exact import branch_and_bound, enumerate_posterior
from smc.memory import is_out_of_memory
from smc.packing import stream
from smc.vocabulary import Vocabulary

__all__ = ["ALGORITHMS", "Call", "Method", "build_method"]


@dataclass(frozen=True)
class Method:
    """How a method is called.

    Attributes:
        run: ``run(call)`` gives a result.
        record: ``record(result, vocabulary)`` gives the record's fields, before the task has judged them (`evaluate.judged`).
        pool: ``pool(records)`` makes one record of those of several runs.
        exact: whether it needs an exact task.
        deterministic: whether it draws nothing, so that every seed gives the same.
        sampler: ``sampler(call)`` gives what `run` runs, for methods that are samplers: their calls can share batches.
        refuses: ``refuses(instance, vocabulary)`` says in a sentence why an instance is out of the method's reach, None if it
            is not; without a vocabulary (None), only what is known without a model.
    """

    run: Callable[[Call], Any]
    record: Callable[[Any, Vocabulary], dict[str, Any]] = sampled_record
    pool: Callable[[Sequence[dict[str, Any]]], dict[str, Any]] = pool
    exact: bool = False
    deterministic: bool = False
    sampler: Callable[[Call], SMCSampler] | None = None
    refuses: reach.Refuses = reach.everything

    @staticmethod
    def of(sampler: Callable[[Call], SMCSampler], deterministic: bool = False) -> Method:
        """The method that a sampler is."""
        return Method(
            lambda call: sampler(call).run(call.prompt, call.key), deterministic=deterministic, sampler=sampler
        )

    def refusal(self, instances: Sequence[Instance], vocabulary: Vocabulary | None = None) -> str | None:
        """The first sentence of `refuses`, naming the instance; None if all instances can be run."""
        for instance in instances:
            if (sentence := self.refuses(instance, vocabulary)) is not None:
                return f"Instance {instance.id}: {sentence}"
        return None

    def results(self, calls: Sequence[Call], batch_rows: int | None) -> Iterator[tuple[Call, Any]]:
        """Calls and their results, each as soon as it is there.

        One after the other in their order; or, if the method is a sampler and `batch_rows` is not None, together, with so
        many rows in a forward pass, and in the order in which they end.

        Raises:
            SMCError: a call failed or did not fit in memory, naming its key. Those that run beside it are handed out first; a
                call that cannot be run at all is refused before any of them starts.
            InstanceFailed: the same for an exception that nobody expected, which is its cause.
        """
        if self.sampler is None or batch_rows is None:
            for call in calls:
                yield call, _naming(call, self.run)
            return
        make, left = self.sampler, {call.key: call for call in calls}
        requests = [_naming(call, lambda call: make(call).request(call.prompt, call.key)) for call in calls]
        try:
            for request, result in stream(requests, batch_rows):
                yield left.pop(request.key), result
        except SMCError:
            raise
        except Exception:  # a batch does not say whose it was: the calls that are left do, one after the other
            for call in left.values():
                yield call, _naming(call, self.run)
            raise


def _naming(call: Call, function: Callable[[Call], Any]) -> Any:
    """What a function makes of a call; its errors, running out of memory among them, name the call."""
    try:
        return function(call)
    except SMCError as error:
        raise about_job(call.key, error) from error
    except OSError:  # it names its file
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise InstanceFailed(call.key) from error
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
_TRIAL = Call(
    model=TableModel(vocab=["a", "<eos>"], eos="<eos>", next_probs=lambda prefix: {"a": 0.5, "<eos>": 0.5}),
    constraint=FiniteLanguage(("a",)),
    prompt="",
    key="",
    seed=0,
    max_tokens=1,
)

Options = dict[str, Any]


def _tried(method: Method) -> Method:
    method.run(_TRIAL)
    return method


def _made(sampler: Callable[[Call], SMCSampler], deterministic: bool = False) -> Method:
    sampler(_TRIAL)  # a sampler checks its options when it is made
    return Method.of(sampler, deterministic)


def _baseline(function: Callable[..., Any], options: Options, **attributes: Any) -> Method:
    return _tried(Method(lambda call: function(**call.arguments(), **options), **attributes))


def _sampler(make: Callable[..., SMCSampler], options: Options, deterministic: bool = False) -> Method:
    return _made(lambda call: make(**call.of_sampler(), **options), deterministic)


def _smc(options: Options) -> Method:
    return _made(lambda call: smc_sampler(call, **options))


def _lookahead(options: Options) -> Method:
    made = _tried(Method(lambda call: lookahead(call, **options)))
    return replace(made, refuses=reach.with_automaton(options["max_states"]))


def _learned(options: Options) -> Method:
    return _tried(Method(lambda call: learned(call, **options)))


def _bounds(options: Options) -> Method:
    def run(call: Call) -> Any:
        return branch_and_bound(**_without_randomness(call), **options)

    return _tried(Method(run, bounds_record, deterministic=True, refuses=reach.bounded("Branch and bound")))


def _exact(options: Options) -> Method:
    for name, value in options.items():
        at_least(name, value, 1)

    def run(call: Call) -> Any:
        return enumerate_posterior(**_without_randomness(call), **options)

    def record(posterior: Any, vocabulary: Vocabulary) -> dict[str, Any]:
        return exact_record(posterior)  # strings, of which the tokenisations are merged

    return Method(run, record, exact=True, deterministic=True)


def _without_randomness(call: Call) -> Options:
    return {name: value for name, value in call.arguments().items() if name not in ("key", "seed")}


ALGORITHMS: Mapping[str, Callable[[Options], Method]] = {
    "greedy_masking": partial(_sampler, baselines.greedy_masking_sampler, deterministic=True),
    "local_masking": partial(_sampler, baselines.local_masking_sampler),
    "importance_resampling": partial(_sampler, baselines.importance_resampling_sampler),
    "unconstrained": partial(_sampler, baselines.unconstrained_sampler),
    "beam": partial(_baseline, baselines.beam, deterministic=True),
    "best_of_n": partial(_baseline, baselines.best_of_n, pool=pool_best),
    "sample_rerank": partial(_baseline, baselines.sample_rerank),
    "rejection": partial(_baseline, baselines.rejection, refuses=reach.bounded("Rejection sampling")),
    "ars": partial(_baseline, baselines.ars, refuses=reach.boolean("ARS")),
    "rsft": partial(_baseline, baselines.rsft, refuses=reach.boolean("RSFT")),
    "cars": partial(_baseline, baselines.cars, refuses=reach.boolean("CARS")),
    "asap": partial(_baseline, baselines.asap),
    "mcmc": partial(_baseline, baselines.mcmc),
    "awrs_smc": partial(_sampler, baselines.awrs_smc_sampler),
    "grammar_smc": partial(_sampler, baselines.grammar_smc_sampler),
    "smc_steering": partial(_sampler, baselines.smc_steering_sampler),
    "particle_gibbs": partial(_baseline, baselines.particle_gibbs),
    "pimh": partial(_baseline, baselines.pimh),
    "smc": _smc,
    "smc_lookahead": _lookahead,
    "smc_learned": _learned,
    "branch_and_bound": _bounds,
    "exact": _exact,
}
