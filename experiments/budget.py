"""Matched budgets: a method runs again until it has spent what every method may spend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from experiments.calls import Call
from experiments.methods import Method
from smc.errors import OptionError, at_least, within
from smc.result import Cost
from smc.vocabulary import Vocabulary


def repeated(method: Method, rows: int | None = None, seconds: float | None = None) -> Method:
    """A method that runs again and again on an instance until a budget is spent, and pools what it got.

    It stops when another run, at the mean cost so far, would go beyond the budget by more than half a run; so it spends the
    budget within half a run on average, and runs at least once. The first run is the one that there would be without a
    budget; run r draws from (seed, "<key>#r"). Deterministic methods, which would only repeat themselves, run once.
    Pooled records say how many runs they are made of in `repeats`.

    With `rows`, everything follows from the seed. With `seconds`, the number of runs (but no run itself) depends on the
    machine and on what else it does, so the same seed may give another result.

    Args:
        rows: forward rows; seconds: wall time, as in the results' costs. One of the two, or neither for the method as it is.

    Raises:
        OptionError: both, or a budget that is not above zero.
    """
    if rows is None and seconds is None:
        return method
    if rows is not None and seconds is not None:
        raise OptionError(f"budget.rows={rows} and budget.seconds={seconds:g}: give one of the two.")
    if rows is not None:
        budget = float(at_least("budget.rows", rows, 1))
    else:
        budget = within("budget.seconds", seconds, 0, float("inf"), without_low=True)

    def spent(cost: Cost) -> float:
        return cost.seconds if rows is None else cost.forward_rows

    def run(call: Call) -> list[Any]:
        results = [method.run(call)]
        cost = results[0].cost
        while not method.deterministic and _goes_on(spent(cost), len(results), budget):
            results.append(method.run(replace(call, key=f"{call.key}#{len(results)}")))
            cost = cost + results[-1].cost
        return results

    def record(results: Sequence[Any], vocabulary: Vocabulary) -> dict[str, Any]:
        return method.pool([method.record(result, vocabulary) for result in results])

    return replace(method, run=run, record=record, sampler=None)


def _goes_on(spent: float, repeats: int, budget: float) -> bool:
    """Whether another run is nearer to the budget than none; what costs nothing is not repeated."""
    return spent > 0 and spent + spent / repeats / 2 <= budget
