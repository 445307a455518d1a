"""Token healing: a prompt that ends in the middle of what would be one token.

A prompt that ends in ``http:`` ends in the token ``:``, after which the model hardly ever writes ``//``: in the texts that it learnt
from, ``://`` is one token. Healing takes the last tokens of the prompt back to the text s that they spell, and lets the model
spell s again, in any tokens, before and into the constrained text. With L the language and x the prompt that is left, the
target becomes p(y | x) on the token sequences y whose text is in s·L, so the evidence is log p(s·L | x), s included. What the
constraint's validator, the potentials and the result see is the text after s; only the tokens tell of s.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from smc.constraints.base import CompiledConstraint, Constraint
from smc.constraints.caching import per_vocabulary
from smc.constraints.prefixed import prefixed
from smc.potentials import Potential, PotentialRows
from smc.potentials.base import CountingRows
from smc.vocabulary import Vocabulary, to_text


@dataclass(frozen=True)
class Boundary:
    """Where a prompt ends and a run begins.

    Attributes:
        ids: the tokens of the prompt that stay.
        written: s, the bytes that the run spells before the text that counts; empty if nothing was taken back.
    """

    ids: tuple[int, ...]
    written: bytes = b""

    def compiled(
        self, constraint: Constraint, itself: CompiledConstraint, vocabulary: Vocabulary
    ) -> CompiledConstraint:
        """s·L for a constraint L; `itself` is L compiled for the same vocabulary."""
        return prefixed(to_text(self.written), constraint).compile(vocabulary) if self.written else itself

    def potentials(self, potentials: Sequence[Potential]) -> list[Potential]:
        """Potentials that see the text after s."""
        return [AfterText(potential, self.written) if self.written else potential for potential in potentials]


def heal(vocabulary: Vocabulary, ids: Sequence[int]) -> Boundary:
    """Take back as many of the last tokens as some token of the vocabulary could straddle.

    The longest ending of the prompt that is a proper beginning of some token decides: every token that it touches is taken
    back, mostly one. Never the first token of the prompt, nor a control or stop token or anything before it (what such a token
    ends is whole, like the turns of a chat), nor half a character.
    """
    spelled = per_vocabulary(vocabulary, "spelled tokens", _Spelled)
    taken, text, straddled = 0, b"", False
    best = 0
    for token in reversed(ids[1:]):
        data = vocabulary.tokens[token]
        if not vocabulary.spelling[token] or b"\0" in data or len(text) >= spelled.longest:
            break
        taken, text = taken + 1, data + text
        straddled = straddled or any(spelled.goes_beyond(text[cut:]) for cut in range(len(data)))
        if straddled and _is_text(text):
            best, straddled = taken, False
    kept = len(ids) - best
    return Boundary(tuple(ids[:kept]), vocabulary.spell(ids[kept:]))


@dataclass(frozen=True)
class AfterText:
    """A potential that is shown the text after `written`, which every sequence begins with.

    It is given a vocabulary with further tokens: one for each rest that a token can have after the end of `written`. So one
    that would look at tokens (:class:`smc.potentials.ModelCritic`) meets a vocabulary that is not its own.
    """

    potential: Potential
    written: bytes

    @property
    def log_bound(self) -> float:
        return self.potential.log_bound

    @property
    def boolean(self) -> bool:
        """Whether complete sequences are only ever allowed (0) or forbidden (minus infinity)."""
        return bool(getattr(self.potential, "boolean", False))

    def start(self, vocabulary: Vocabulary) -> PotentialRows:
        """One row: nothing of `written` yet."""
        rests = _Rests(vocabulary, self.written)
        return _RowsAfterText(rests, self.potential.start(rests.vocabulary), (self.written,))


class _RowsAfterText:
    """Rows of a potential; ``missing[i]`` is what row i has yet to spell before its text begins."""

    def __init__(self, rests: _Rests, inner: PotentialRows, missing: tuple[bytes, ...]):
        self._rests, self._inner, self._missing = rests, inner, missing

    def __len__(self) -> int:
        return len(self._missing)

    @property
    def failures(self) -> int:
        return self._inner.failures if isinstance(self._inner, CountingRows) else 0

    @property
    def log_prefix(self) -> np.ndarray:
        return self._inner.log_prefix

    def log_complete(self, rows: np.ndarray) -> np.ndarray:
        return self._inner.log_complete(rows)

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> _RowsAfterText:
        steps = [
            self._rests.step(self._missing[parent], int(token)) for parent, token in zip(parents, tokens, strict=True)
        ]
        shown = np.array([token for token, _ in steps], dtype=np.int64)
        return _RowsAfterText(self._rests, self._inner.advance(parents, shown), tuple(missing for _, missing in steps))

    def fork(self, rows: np.ndarray) -> _RowsAfterText:
        return _RowsAfterText(self._rests, self._inner.fork(rows), tuple(self._missing[row] for row in rows))


class _Rests:
    """A vocabulary with further ids for nothing and for what tokens spell beyond the end of `written`."""

    def __init__(self, vocabulary: Vocabulary, written: bytes):
        self._tokens = vocabulary.tokens
        spelled = per_vocabulary(vocabulary, "spelled tokens", _Spelled)
        endings = [written[cut:] for cut in range(len(written))]
        rests = {token[len(ending) :] for ending in endings for token in spelled.beginning_with(ending)}
        further = [b"", *sorted(rests - {b""})]
        self._ids = {rest: len(vocabulary) + place for place, rest in enumerate(further)}
        self.vocabulary = Vocabulary((*vocabulary.tokens, *further), vocabulary.stop_ids, vocabulary.special_ids)

    def step(self, missing: bytes, token: int) -> tuple[int, bytes]:
        """The id that shows what `token` spells after `missing`, and what is then still missing."""
        if not missing:
            return token, b""
        data = self._tokens[token]
        return self._ids[data[len(missing) :]], missing[len(data) :]


class _Spelled:
    """A vocabulary's ordinary byte strings, sorted."""

    def __init__(self, vocabulary: Vocabulary):
        self._sorted = sorted({vocabulary.tokens[token] for token in np.flatnonzero(vocabulary.spelling).tolist()})
        self.longest = max(map(len, self._sorted), default=0)

    def goes_beyond(self, text: bytes) -> bool:
        """Whether some token begins with `text` and is longer."""
        after = bisect_right(self._sorted, text)
        return after < len(self._sorted) and self._sorted[after].startswith(text)

    def beginning_with(self, text: bytes) -> Iterator[bytes]:
        """The tokens that begin with `text`."""
        for at in range(bisect_left(self._sorted, text), len(self._sorted)):
            if not self._sorted[at].startswith(text):
                return
            yield self._sorted[at]


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
