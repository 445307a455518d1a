"""What becomes of a text that a potential cannot judge: the potential raised, took too long, or returned no log value.

The caller chooses. "error" raises a :class:`PotentialError` that shows the text and the reason. "zero" gives a
*finished* text phi = 0. A *prefix* whose running value failed keeps the running value that it had one token earlier:
running values only steer the search, so the target stays p(y) phi(y) whatever fails on the way. Failures are counted,
row by row, in ``result.cost.potential_failures``.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

from smc.errors import OptionError, SMCError, one_of, quoted, shortened
from smc.potentials.base import PotentialRows
from smc.vocabulary import Vocabulary

OnFailure = Literal["error", "zero"]
T = TypeVar("T")

_LONGEST_SHOWN = 200  # characters of a text in an error message


class PotentialError(SMCError):
    """A potential failed on a text, or returned something that is not a log value."""


@dataclass(frozen=True)
class Failure:
    """In place of an answer.

    Attributes:
        reason: a verb phrase, such as "raised KeyError: 'a'".
        error: the exception, where it happened in this process.
    """

    reason: str
    error: BaseException | None = field(default=None, compare=False)

    @staticmethod
    def of(error: BaseException) -> Failure:
        return Failure(f"raised {type(error).__name__}: {_shown(str, error)}", error)


Answer = float | Failure


@dataclass
class Tally:
    """Rows for which a potential has failed, shared by all rows of one start."""

    failures: int = 0


def attempted(function: Callable[[T], object], argument: T) -> Answer:
    """What a function answers, if that is a log value."""
    try:
        value = function(argument)
        number = float(value) if isinstance(value, numbers.Real) else math.nan
    except Exception as error:
        return Failure.of(error)
    if isinstance(value, (bool, np.bool_)):
        return Failure(f"returned {bool(value)}, not a log value (a yes or no is a Predicate)")
    if not isinstance(value, numbers.Real):
        return Failure(f"returned {_shown(repr, value)}, not a log value (is a return missing?)")
    if math.isnan(number) or number == math.inf:
        return Failure(f"returned {number}: a log value is finite, or minus infinity for 'never'")
    return number


def _shown(spell: Callable[[object], str], value: object) -> str:
    """`value` for a message, cut, even if its own way to spell itself fails."""
    try:
        return shortened(spell(value), _LONGEST_SHOWN)
    except Exception:
        return f"(no {spell.__name__}: it raises)"


def excerpt(text: str) -> str:
    """The beginning of a text, quoted, for a message."""
    return quoted(text, _LONGEST_SHOWN)


def refuse(texts: Sequence[str], answers: Sequence[object]) -> None:
    """Raise the first failure, if there is one.

    Raises:
        PotentialError: with the text and the reason.
    """
    for text, answer in zip(texts, answers, strict=True):
        if isinstance(answer, Failure):
            raise PotentialError(
                f"A potential {answer.reason}, for the text {excerpt(text)}. Correct it, or let such texts weigh nothing: "
                "Guarded(potential, on_failure='zero')."
            ) from answer.error


def settled(answers: Sequence[Answer], instead: np.ndarray, tally: Tally) -> np.ndarray:
    """[N] log values: the answers, and where one failed the value `instead` ([N]). Failures are tallied."""
    failed = [isinstance(answer, Failure) for answer in answers]
    tally.failures += sum(failed)
    values = [0.0 if isinstance(answer, Failure) else answer for answer in answers]
    return np.where(np.array(failed, dtype=bool), instead, np.array(values, dtype=np.float64))


@runtime_checkable
class Fallible(Protocol):
    """A potential made of the caller's functions, which can be started under a failure rule."""

    @property
    def log_bound(self) -> float: ...

    @property
    def boolean(self) -> bool: ...

    def start_guarded(self, vocabulary: Vocabulary, on_failure: OnFailure) -> PotentialRows:
        """One row: the empty prefix."""
        ...


@dataclass(frozen=True)
class Guarded:
    """A potential with a stated outcome for texts on which its functions fail (see :mod:`smc.potentials.failures`).

    Functions run here, so nothing can stop one that never returns: for that see
    :class:`smc.potentials.InProcesses`, which brings its own `on_failure`.

    Attributes:
        potential: any potential that reads text, or an :class:`smc.potentials.Incremental`.
        on_failure: "zero" or "error" (which is also what happens without a guard).

    Raises:
        OptionError: a potential that is not made of functions, or an unknown rule.
    """

    potential: Fallible
    on_failure: OnFailure = "zero"

    def __post_init__(self) -> None:
        one_of("on_failure", self.on_failure, ["zero", "error"])
        if isinstance(self.potential, type) or not isinstance(self.potential, Fallible):
            raise OptionError(
                f"Guarded takes a potential made of functions, such as TextPotential(...), not {quoted(self.potential)}. "
                "Inside AtBoundaries, guard what it holds: AtBoundaries(Guarded(...), at)."
            )

    @property
    def log_bound(self) -> float:
        return self.potential.log_bound

    @property
    def boolean(self) -> bool:
        """Whether complete sequences are only ever allowed (0) or forbidden (minus infinity)."""
        return self.potential.boolean

    def start(self, vocabulary: Vocabulary) -> PotentialRows:
        """One row: the empty prefix."""
        return self.potential.start_guarded(vocabulary, self.on_failure)
