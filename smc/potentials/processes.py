"""Slow or untrusted potentials in processes of their own, side by side and under a time limit."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, fields
from functools import cached_property
from types import TracebackType
from typing import Self

import numpy as np

from smc.errors import OptionError, at_least, one_of, quoted, shortened, within
from smc.potentials.base import PotentialRows
from smc.potentials.failures import Answer, OnFailure
from smc.potentials.text import Question, TextBased
from smc.potentials.workers import WorkerPool
from smc.vocabulary import Vocabulary


@dataclass(frozen=True)
class InProcesses(TextBased):
    """A potential whose functions run in a pool of processes; the rows of one step are judged in parallel.

    A call that takes longer than `seconds` is stopped by killing its process, with all that it has started, and a crash
    ends that process alone; both are failures (:mod:`smc.potentials.failures`) and the process is replaced. Processes
    start with the first question, which therefore takes as long as importing this package, and end at exit, by
    :meth:`close` or at the end of a ``with`` block; a question after that starts them again. They are forked from a
    server process, not from this one, so scripts need the usual ``if __name__ == "__main__":``.

    Attributes:
        potential: any potential that reads text.
        workers: processes.
        seconds: time limit of one call. Starting does not count.
        on_failure: "zero" or "error".
        memo: see :class:`smc.potentials.TextBased`.

    Raises:
        OptionError: a potential that does not read text, or with a function that cannot be sent to a process.
    """

    potential: TextBased
    workers: int = 2
    seconds: float = 1.0
    on_failure: OnFailure = "zero"

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("workers", self.workers, 1)
        within("seconds", self.seconds, 0, np.inf, without_low=True)
        one_of("on_failure", self.on_failure, ["zero", "error"])
        if not isinstance(self.potential, TextBased) or isinstance(self.potential, InProcesses):
            raise OptionError(
                f"InProcesses takes a potential that reads text, such as TextPotential(score), not {quoted(self.potential)}."
            )
        self._pickled  # noqa: B018  (what cannot travel is refused before any run)

    @property
    def log_bound(self) -> float:
        return self.potential.log_bound

    @property
    def boolean(self) -> bool:
        return self.potential.boolean

    def judge(self, text: str) -> float:
        return self.potential.judge(text)

    def judge_prefix(self, text: str) -> float:
        return self.potential.judge_prefix(text)

    @property
    def judges_prefixes(self) -> bool:
        return self.potential.judges_prefixes

    def start(self, vocabulary: Vocabulary) -> PotentialRows:
        """One row: the empty prefix."""
        return self.start_guarded(vocabulary, self.on_failure)

    def close(self) -> None:
        """End the processes."""
        if "_pool" in self.__dict__:
            self.__dict__.pop("_pool").close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, asked: list[tuple[Question, str]]) -> list[Answer]:
        return self._pool.answers(asked)

    @cached_property
    def _pool(self) -> WorkerPool:
        return WorkerPool(self._pickled, self.workers, self.seconds)

    @cached_property
    def _pickled(self) -> bytes:
        try:
            return pickle.dumps(self.potential)
        except Exception as error:
            raise OptionError(
                f"{_culprit(self.potential)} cannot be sent to another process: {shortened(str(error), 200)}. Define it at the top level of a "
                "module, not as a lambda or inside a function."
            ) from error


def _culprit(potential: TextBased) -> str:
    """Which field of a potential cannot be pickled."""
    kind = type(potential).__name__
    for f in fields(potential):
        value = getattr(potential, f.name)
        try:
            pickle.dumps(value)
        except Exception:
            return f"{f.name}={quoted(value)} of {kind}"
    return kind
