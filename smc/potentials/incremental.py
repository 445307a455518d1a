"""Potentials that read each token once: a fold, for critics to which rereading the whole text is too dear."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from smc.errors import function_of, one_of
from smc.potentials.base import checked_log_bound
from smc.potentials.failures import Answer, Failure, OnFailure, Tally, attempted, refuse, settled
from smc.vocabulary import Vocabulary, to_text

S = TypeVar("S")
Reads = Literal["text", "bytes"]


@dataclass(frozen=True)
class Incremental(Generic[S]):
    """A potential as a fold over the pieces that tokens spell.

    ``feed`` is called once for each distinct prefix and token, and what it returns is kept for as long as the prefix
    lives.

    Attributes:
        initial: the state before the first piece.
        feed: (state, piece) to the next state. It must not change the state that it is given, which siblings share.
        complete: state of a finished sequence to log phi.
        prefix: state of a prefix to the log of its running value; None for no opinion.
        reads: "text" (pieces are strings: a character that several tokens spell comes with the last of them, bytes that
            are not UTF-8 by surrogateescape) or "bytes" (what each token spells).
        log_bound: see :class:`smc.potentials.Potential`.
        boolean: a promise that `complete` returns 0 or minus infinity and nothing else.

    Where `feed` fails, all continuations have failed (:mod:`smc.potentials.failures`).

    Raises:
        OptionError: an unknown `reads`, something in place of a function that is none, or a `log_bound` that is no
            log value or not that of a Boolean potential.
    """

    initial: S
    feed: Callable[[S, Any], S]
    complete: Callable[[S], float]
    prefix: Callable[[S], float] | None = None
    reads: Reads = "text"
    log_bound: float = np.inf
    boolean: bool = False

    def __post_init__(self) -> None:
        one_of("reads", self.reads, ["text", "bytes"])
        function_of("feed", self.feed, "a state and a piece")
        function_of("complete", self.complete, "a state")
        if self.prefix is not None:
            function_of("prefix", self.prefix, "a state")
        object.__setattr__(self, "log_bound", checked_log_bound(self.log_bound, self.boolean))

    def start(self, vocabulary: Vocabulary) -> _FoldRows:
        """One row: the empty prefix."""
        return self.start_guarded(vocabulary, "error")

    def start_guarded(self, vocabulary: Vocabulary, on_failure: OnFailure) -> _FoldRows:
        """:meth:`start` under a failure rule."""
        empty: _Place = _Place(b"", self.initial, b"")
        return _FoldRows(self, vocabulary, on_failure, Tally(), (empty,), np.zeros(1))


@dataclass(frozen=True)
class _Place(Generic[S]):
    """Where one prefix stands.

    Attributes:
        data: its bytes, for error messages.
        state: what `feed` has made of it.
        waiting: bytes at its end that do not make a character yet.
    """

    data: bytes
    state: S | Failure
    waiting: bytes


class _FoldRows(Generic[S]):
    def __init__(
        self,
        potential: Incremental[S],
        vocabulary: Vocabulary,
        on_failure: OnFailure,
        tally: Tally,
        places: tuple[_Place[S], ...],
        carried: np.ndarray,
    ):
        self._potential, self._vocabulary, self._on_failure = potential, vocabulary, on_failure
        self._tally, self._places, self._carried = tally, places, carried
        self._values: np.ndarray | None = None if potential.prefix is not None else np.zeros(len(places))

    def __len__(self) -> int:
        return len(self._places)

    @property
    def failures(self) -> int:
        return self._tally.failures

    @property
    def log_prefix(self) -> np.ndarray:
        if self._values is None:
            assert self._potential.prefix is not None
            self._values = self._judged(self._potential.prefix, self._places, self._carried)
        return self._values

    def log_complete(self, rows: np.ndarray) -> np.ndarray:
        ended = [self._ended(self._places[row]) for row in rows]
        return self._judged(self._potential.complete, ended, np.full(len(rows), -np.inf))

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> _FoldRows[S]:
        spelled = self._vocabulary.tokens
        steps = list(zip(parents.tolist(), tokens.tolist(), strict=True))
        children = {step: self._moved(self._places[step[0]], spelled[step[1]]) for step in dict.fromkeys(steps)}
        carried = self._carried if self._values is None else self._values
        return self._rows(tuple(children[step] for step in steps), carried[parents])

    def fork(self, rows: np.ndarray) -> _FoldRows[S]:
        other = self._rows(tuple(self._places[row] for row in rows), self._carried[rows])
        if self._values is not None:
            other._values = self._values[rows]
        return other

    def _judged(self, judge: Callable[[S], float], places: Sequence[_Place[S]], instead: np.ndarray) -> np.ndarray:
        answers: list[Answer] = [
            place.state if isinstance(place.state, Failure) else attempted(judge, place.state) for place in places
        ]
        if self._on_failure == "error":
            refuse([to_text(place.data) for place in places], answers)
        return settled(answers, instead, self._tally)

    def _moved(self, place: _Place[S], piece: bytes) -> _Place[S]:
        """One token further."""
        data = place.data + piece
        if self._potential.reads == "bytes":
            return self._fed(_Place(data, place.state, b""), piece)
        waiting = place.waiting + piece
        text, read = codecs.utf_8_decode(waiting, "surrogateescape", False)
        return self._fed(_Place(data, place.state, waiting[read:]), text)

    def _ended(self, place: _Place[S]) -> _Place[S]:
        """The end of the sequence is the end of what may complete a character."""
        return self._fed(_Place(place.data, place.state, b""), to_text(place.waiting)) if place.waiting else place

    def _fed(self, place: _Place[S], piece: str | bytes) -> _Place[S]:
        if not piece or isinstance(place.state, Failure):
            return place
        try:
            state: S | Failure = self._potential.feed(place.state, piece)
        except Exception as error:
            state = Failure.of(error)
        fed = _Place(place.data, state, place.waiting)
        if self._on_failure == "error":
            refuse([to_text(fed.data)], [fed.state])
        return fed

    def _rows(self, places: tuple[_Place[S], ...], carried: np.ndarray) -> _FoldRows[S]:
        return _FoldRows(self._potential, self._vocabulary, self._on_failure, self._tally, places, carried)
