"""Potentials that read the text alone: log values (:class:`TextPotential`) and the two bases that built-in ones share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from smc.errors import SMCError, at_least, function_of, quoted
from smc.portable import Portable
from smc.potentials.base import PotentialRows, checked_log_bound
from smc.potentials.failures import Answer, OnFailure, Tally, attempted, refuse, settled
from smc.potentials.memo import Memo
from smc.vocabulary import Vocabulary, to_text

Question = Literal["complete", "prefix"]


def no_opinion(text: str) -> float:
    """The running value of a potential that only judges complete sequences."""
    return 0.0


@dataclass(frozen=True)
class TextBased(Portable, ABC):
    """A potential whose value depends on the text alone, not on how tokens spell it.

    Subclasses say what a finished text is worth (:meth:`judge`) and perhaps what they think of a prefix
    (:meth:`judge_prefix`). Both must be pure functions: a distinct text is asked about once, across rows, steps and
    runs, for as long as it is among the last `memo` texts. Bytes that are not UTF-8 arrive by surrogateescape. A
    failure is an error unless :class:`smc.potentials.Guarded` says otherwise.

    Attributes:
        memo: how many answers are remembered; 0 for none (then each row is still asked about once).
    """

    memo: int = field(default=4096, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        at_least("memo", self.memo, 0)

    @property
    def log_bound(self) -> float:
        """See :class:`smc.potentials.Potential`."""
        return np.inf

    @property
    def boolean(self) -> bool:
        """Whether complete sequences are only ever allowed (0) or forbidden (minus infinity)."""
        return False

    @abstractmethod
    def judge(self, text: str) -> float:
        """log phi of a finished text."""

    def judge_prefix(self, text: str) -> float:
        """log of the running value of a prefix; minus infinity only if no continuation has a positive phi."""
        return 0.0

    @property
    def judges_prefixes(self) -> bool:
        """Whether it has an opinion of prefixes at all; if not, it is never asked."""
        return type(self).judge_prefix is not TextBased.judge_prefix

    def start(self, vocabulary: Vocabulary) -> PotentialRows:
        """One row: the empty prefix."""
        return self.start_guarded(vocabulary, "error")

    def start_guarded(self, vocabulary: Vocabulary, on_failure: OnFailure) -> PotentialRows:
        """:meth:`start` under a failure rule."""
        return _TextRows(self, vocabulary, on_failure, Tally(), (b"",), np.zeros(1))

    def answers(self, question: Question, texts: Sequence[str], on_failure: OnFailure) -> list[Answer]:
        """[N] answers, from memory or fresh.

        Raises:
            PotentialError: a failure where the rule is "error"; nothing of that call is remembered.
        """

        def ask(asked: list[tuple[Question, str]]) -> list[Answer]:
            fresh = self._ask(asked)
            if on_failure == "error":
                refuse([text for _, text in asked], fresh)
            return fresh

        return self._memory.answers([(question, text) for text in texts], ask)

    def answer(self, question: Question, text: str) -> Answer:
        """One answer, without memory."""
        return attempted(self.judge if question == "complete" else self.judge_prefix, text)

    def _ask(self, asked: list[tuple[Question, str]]) -> list[Answer]:
        return [self.answer(question, text) for question, text in asked]

    @cached_property
    def _memory(self) -> Memo[tuple[Question, str], Answer]:
        return Memo(self.memo)


class TextCondition(TextBased):
    """A yes or no about the text: phi is 1 or 0, so that it is a part of the language."""

    @property
    def log_bound(self) -> float:
        return 0.0

    @property
    def boolean(self) -> bool:
        return True

    @abstractmethod
    def holds(self, text: str) -> bool:
        """Whether a finished text meets the condition."""

    def viable(self, text: str) -> bool:
        """Whether some continuation of a prefix (itself included) may meet it; yes if in doubt."""
        return True

    def judge(self, text: str) -> float:
        return _log(self.holds(text))

    def judge_prefix(self, text: str) -> float:
        return _log(self.viable(text))

    @property
    def judges_prefixes(self) -> bool:
        return type(self).viable is not TextCondition.viable


def _log(verdict: object) -> float:
    if not isinstance(verdict, (bool, np.bool_)):
        raise TypeError(f"a condition returned {quoted(verdict)}, not True or False (is a return missing?)")
    return 0.0 if verdict else -np.inf


@dataclass(frozen=True)
class TextPotential(TextBased):
    """A potential from functions of the text.

    Attributes:
        complete: text of a finished sequence to log phi (minus infinity for "never").
        prefix: text of a prefix to the log of its running value.
        log_bound: see :class:`smc.potentials.Potential`.
        boolean: a promise that `complete` returns 0 ("good") or minus infinity ("never") and nothing else, which makes
            the potential a part of the language (its `log_bound` is then 0). Methods that only decide membership ask
            for it. See also :class:`smc.potentials.Predicate`.
        memo: see :class:`TextBased`.

    Raises:
        OptionError: something in place of a function that is none; a `log_bound` that is no log value.
    """

    complete: Callable[[str], float]
    prefix: Callable[[str], float] = field(default=no_opinion)
    log_bound: float = np.inf
    boolean: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        function_of("complete", self.complete, "a text")
        function_of("prefix", self.prefix, "a text")
        object.__setattr__(self, "log_bound", checked_log_bound(self.log_bound, self.boolean))

    def judge(self, text: str) -> float:
        return self.complete(text)

    def judge_prefix(self, text: str) -> float:
        return self.prefix(text)

    @property
    def judges_prefixes(self) -> bool:
        return self.prefix is not no_opinion


class _TextRows:
    """R texts; `carried` [R] is the last running value that was asked for on the way to each."""

    def __init__(
        self,
        potential: TextBased,
        vocabulary: Vocabulary,
        on_failure: OnFailure,
        tally: Tally,
        texts: tuple[bytes, ...],
        carried: np.ndarray,
    ):
        self._potential, self._vocabulary, self._on_failure = potential, vocabulary, on_failure
        self._tally, self._texts, self._carried = tally, texts, carried
        self._values: np.ndarray | None = None if potential.judges_prefixes else np.zeros(len(texts))

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def failures(self) -> int:
        return self._tally.failures

    @property
    def log_prefix(self) -> np.ndarray:
        if self._values is None:
            self._values = self._settled("prefix", self._texts, self._carried)
        return self._values

    def log_complete(self, rows: np.ndarray) -> np.ndarray:
        log_phi = self._settled("complete", [self._texts[row] for row in rows], np.full(len(rows), -np.inf))
        if self._potential.boolean and not np.isin(log_phi, [0.0, -np.inf]).all():
            raise SMCError(
                "A potential with boolean=True returned something other than 0 or minus infinity. Correct it, or leave out "
                "boolean=True."
            )
        return log_phi

    def _settled(self, question: Question, texts: Sequence[bytes], instead: np.ndarray) -> np.ndarray:
        answers = self._potential.answers(question, [to_text(text) for text in texts], self._on_failure)
        return settled(answers, instead, self._tally)

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> _TextRows:
        spelled = self._vocabulary.tokens
        texts = tuple(self._texts[parent] + spelled[token] for parent, token in zip(parents, tokens, strict=True))
        return self._rows(texts, self._last[parents])

    def fork(self, rows: np.ndarray) -> _TextRows:
        other = self._rows(tuple(self._texts[row] for row in rows), self._carried[rows])
        if self._values is not None:
            other._values = self._values[rows]
        return other

    @property
    def _last(self) -> np.ndarray:
        """[R] the running values, or the last ones before them if nobody asked."""
        return self._carried if self._values is None else self._values

    def _rows(self, texts: tuple[bytes, ...], carried: np.ndarray) -> _TextRows:
        return _TextRows(self._potential, self._vocabulary, self._on_failure, self._tally, texts, carried)
