"""Answers of a pure function, remembered up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """The answers to the last `limit` distinct questions; the one that was asked longest ago goes first."""

    def __init__(self, limit: int):
        self._limit = limit
        self._answers: dict[K, V] = {}  # in the order in which they were last asked for

    def __len__(self) -> int:
        return len(self._answers)

    def answers(self, questions: Sequence[K], ask: Callable[[list[K]], Sequence[V]]) -> list[V]:
        """[N] answers; `ask` gets the distinct questions without a known one, in one call, if there are any.

        If `ask` raises, nothing of that call is remembered.
        """
        distinct = list(dict.fromkeys(questions))
        found = {question: self._answers[question] for question in distinct if question in self._answers}
        if missing := [question for question in distinct if question not in found]:
            found |= zip(missing, ask(missing), strict=True)
        for question in distinct:
            self._answers.pop(question, None)
            self._answers[question] = found[question]
        while len(self._answers) > self._limit:
            del self._answers[next(iter(self._answers))]
        return [found[question] for question in questions]
