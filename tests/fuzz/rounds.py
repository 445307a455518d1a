"""Rounds of a fuzzer: hypothesis draws inputs from a seed, and shrinks the first of each kind of failure."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Flaky

from tests.fuzz.fuzzer import Failure, Fuzzer, Outcome, features

EXAMPLES = 100
"""Inputs of one round."""

AT_MOST = 5
"""Findings of one cause."""

SHRINK_SECONDS = 15.0
"""How long one failure may be shrunk."""


@dataclass(frozen=True)
class Finding:
    """A failure that is as small as could be.

    Attributes:
        kind: of fuzzer. seed: of the round that found it.
        case: the input.
        failure: what is wrong with it.
    """

    kind: str
    seed: int
    case: Any
    failure: Failure


@dataclass
class Memory:
    """What was found before, so that one fault does not flood.

    A failure is taken for one that is known if its cause is, and if it is made of all that the known one is made of; or if there are
    AT_MOST of its cause. Inputs made of all that one is made of that ended its process are not even tried.
    """

    known: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    fatalities: list[frozenset[str]] = field(default_factory=list)

    def holds(self, cause: str, case: Any) -> bool:
        made_of, same = features(case), [fewer for other, fewer in self.known if other == cause]
        return len(same) >= AT_MOST or any(fewer <= made_of for fewer in same)

    def add(self, cause: str, case: Any) -> None:
        self.known.append((cause, features(case)))

    def fatal(self, cause: str, case: Any) -> None:
        self.add(cause, case)
        self.fatalities.append(features(case))

    def forbids(self, case: Any) -> bool:
        if not self.fatalities:
            return False
        made_of = features(case)
        return any(fewer <= made_of for fewer in self.fatalities)


def play(
    fuzzer: Fuzzer,
    seed: int,
    memory: Memory,
    tally: Counter[str],
    *,
    examples: int = EXAMPLES,
    trying: Callable[[Any], None] = lambda case: None,
    end: float = float("inf"),
) -> Finding | None:
    """One round: at most one new finding, which is shrunk and remembered.

    Args:
        seed: of the inputs.
        memory: of findings; the new one is added.
        tally: counts inputs by outcome, "repeated" for failures that are known; those of shrinking do not count.
        trying: told of each input before it is tried.
        end: on the clock of `time.monotonic`; after it, nothing new is tried.
    """
    best: list[tuple[Any, Failure]] = []
    began = 0.0

    @seeded(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(fuzzer.cases())
    def one(case: Any) -> None:
        nonlocal began
        now = time.monotonic()
        if now > (began + SHRINK_SECONDS if best else end):
            return
        if memory.forbids(case):
            tally["repeated"] += not best
            return
        trying(case)
        outcome: Outcome | str = "broken"
        try:
            outcome = fuzzer.examine(case)
        except Failure as failure:
            outcome = "repeated" if memory.holds(failure.cause, case) else "failed"
            if outcome == "failed" and (not best or failure.cause == best[0][1].cause):
                began = began or time.monotonic()
                best.append((case, failure))
                raise
        finally:
            if not best:
                tally[outcome] += 1

    try:
        one()
    except Failure:
        case, failure = best[-1]  # hypothesis ends with the smallest
    except Flaky:  # shrinking took too long, or the same input does not always fail
        case, failure = min(best, key=lambda pair: len(repr(pair[0])))
    else:
        return None
    memory.add(failure.cause, case)
    tally["failed"] += 1
    return Finding(fuzzer.name, seed, case, failure)
