"""A model that does not read again what it has read in an earlier round.

Methods that draw sequence after sequence from one prompt (rejection samplers, chains) come through the same prefixes again and
again. Their log probabilities are remembered, up to a number of bytes, so that a step on a known way takes no pass. Who leaves
it is fed all of its tokens in the one pass that it needs anyway: a pass costs little more for them, since it is the weights
that take their time to read. No probability, weight or draw depends on it, up to the rounding of passes of other sizes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from smc.models.base import Anticipates, LanguageModel, ModelRows, Prompt, evaluate
from smc.vocabulary import Vocabulary

RECALLED_BYTES = 256 * 2**20
"""Of log probabilities that are remembered: those of 1,300 prefixes of a vocabulary of 49,000."""

Prefix = tuple[int, ...]


class RecallingModel:
    """The same model for one call of a method. It holds the prompt, and what is remembered after it, for as long as it lives.

    Only rows that take several tokens in a pass gain by it; others are handed on as they are.

    Args:
        model: what is asked when nothing is remembered.
        most_bytes: of log probabilities that are kept; what was used longest ago goes first.
    """

    def __init__(self, model: LanguageModel, most_bytes: int = RECALLED_BYTES):
        self._model, self._most_bytes = model, most_bytes
        self.vocabulary: Vocabulary = model.vocabulary
        self.context_length: int | None = model.context_length
        self._recalls: dict[tuple[int, ...], _Recall] = {}

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids, as the model encodes them."""
        return self._model.encode(prompt)

    def start(self, prompt: Sequence[int]) -> ModelRows:
        """One row: the prompt, which is read once."""
        ids = tuple(prompt)
        if ids not in self._recalls:
            rows = self._model.start(ids)
            if not isinstance(rows, Anticipates):
                return rows
            self._recalls[ids] = _Recall(self._model, rows, self._most_bytes)
        return RecalledRows(self._recalls[ids], ((),), {}, ())


@contextmanager
def held(model: LanguageModel, prompt: Sequence[int]) -> Iterator[None]:
    """Within the block, runs that follow each other do not read the prompt anew, if the model lets runs share prompts."""
    rows = model.start(prompt)
    if isinstance(rows, Anticipates):
        rows.log_probs  # noqa: B018  (read now, and kept as long as these rows are)
    yield


class _Recall:
    """The log probabilities [V] after some prefixes of continuations, and the rows of the prompt."""

    def __init__(self, model: LanguageModel, prompt: ModelRows, most_bytes: int):
        self._model, self._prompt, self._most_bytes = model, prompt, most_bytes
        self._known: OrderedDict[Prefix, torch.Tensor] = OrderedDict()
        self._bytes = 0

    @property
    def after_prompt(self) -> torch.Tensor:
        """[1, V] log probabilities after the prompt."""
        return self._prompt.log_probs

    def get(self, prefix: Prefix) -> torch.Tensor | None:
        """[V] log probabilities, if they are remembered."""
        if prefix in self._known:
            self._known.move_to_end(prefix)
        return self._known.get(prefix)

    def put(self, prefix: Prefix, log_probs: torch.Tensor) -> None:
        """Remember a copy of [V] log probabilities."""
        if prefix in self._known:
            return
        self._known[prefix] = log_probs.clone()
        self._bytes += log_probs.nbytes
        while self._bytes > self._most_bytes:
            self._bytes -= self._known.popitem(last=False)[1].nbytes

    def enter(self, prefixes: Sequence[Prefix]) -> ModelRows:
        """The model's own rows for prefixes of one length, at least 1; all tokens but the first wait to be fed with it."""
        n = len(prefixes)
        rows = self._prompt.fork(np.zeros(1, dtype=np.int64))
        rows = rows.advance(np.zeros(n, dtype=np.int64), np.array([prefix[0] for prefix in prefixes]))
        if len(prefixes[0]) == 1:
            return rows
        assert isinstance(rows, Anticipates)
        rows.anticipate({i: prefix[1:] for i, prefix in enumerate(prefixes)})
        return rows

    def evaluate(self, parts: Sequence[ModelRows]) -> None:
        """Compute what is not known of some rows in one pass."""
        evaluate(self._model, parts)


@dataclass
class _Held:
    """The model's own rows for some of the rows.

    Attributes:
        rows: [M] int, which.
        model_rows: theirs, perhaps still at their first token.
        behind: the tokens [M, L] that they have yet to take; all are fed in their first pass.
    """

    rows: np.ndarray
    model_rows: ModelRows
    behind: np.ndarray

    def caught_up(self) -> ModelRows:
        """The model's own rows at the prefixes themselves; the pass has been made."""
        each = np.arange(len(self.rows))
        for tokens in self.behind.T:
            self.model_rows = self.model_rows.advance(each, tokens)
        self.behind = self.behind[:, :0]
        return self.model_rows


class RecalledRows:
    """R prefixes of one length. Those that are not remembered hold rows of the model.

    Attributes:
        fed: rows and tokens of the pass that was made for them; None before it.
    """

    def __init__(
        self, recall: _Recall, prefixes: tuple[Prefix, ...], known: dict[int, torch.Tensor], held: tuple[_Held, ...]
    ):
        self._recall, self._prefixes, self._known, self._held = recall, prefixes, known, held
        self._table: torch.Tensor | None = None
        self.fed: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self._prefixes)

    @property
    def unknown(self) -> np.ndarray:
        """The rows that a pass still has to be made for."""
        if self._table is not None:
            return np.zeros(0, dtype=np.int64)
        rows = [row for part in self._held for row in part.rows.tolist()]
        return np.array(sorted(rows), dtype=np.int64)

    def anticipate(self, guesses: dict[int, tuple[int, ...]]) -> None:
        """Nothing is fed in advance but what is known to come."""

    @property
    def log_probs(self) -> torch.Tensor:
        """[R, V]."""
        if self._table is None:
            if self._prefixes and not self._prefixes[0]:
                self.fed = 1, 1
                self._table = self._recall.after_prompt.expand(len(self), -1)
                return self._table
            rows, fed = dict(self._known), [(0, 0)]
            self._recall.evaluate([part.model_rows for part in self._held])
            for part in self._held:
                first = part.model_rows
                table = part.caught_up().log_probs
                fed.append((isinstance(first, Anticipates) and first.fed) or (len(first), len(first)))
                for at, row in enumerate(part.rows.tolist()):
                    rows[row] = table[at]
                    self._recall.put(self._prefixes[row], table[at])
            self.fed = sum(n_rows for n_rows, _ in fed), sum(n_tokens for _, n_tokens in fed)
            none = self._recall.after_prompt[:0]
            self._table = torch.stack([rows[row] for row in range(len(self))]) if rows else none
        return self._table

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> RecalledRows:
        self.log_probs  # noqa: B018  (a part that is held must have been fed first)
        parents, tokens = np.asarray(parents, dtype=np.int64), np.asarray(tokens, dtype=np.int64)
        prefixes = tuple((*self._prefixes[p], int(t)) for p, t in zip(parents, tokens, strict=True))
        known = {i: found for i, prefix in enumerate(prefixes) if (found := self._recall.get(prefix)) is not None}
        waiting = np.array([i for i in range(len(prefixes)) if i not in known], dtype=np.int64)
        held = []
        for part in self._held:
            place = {row: at for at, row in enumerate(part.rows.tolist())}
            children = np.array([i for i in waiting if int(parents[i]) in place], dtype=np.int64)
            if len(children):
                own = np.array([place[int(parents[i])] for i in children], dtype=np.int64)
                rows = part.model_rows.advance(own, tokens[children])
                held.append(_Held(children, rows, np.zeros((len(children), 0), dtype=np.int64)))
                waiting = np.setdiff1d(waiting, children)
        if len(waiting):
            entering = [prefixes[i] for i in waiting]
            behind = np.array([prefix[1:] for prefix in entering], dtype=np.int64).reshape(len(entering), -1)
            held.append(_Held(waiting, self._recall.enter(entering), behind))
        return RecalledRows(self._recall, prefixes, known, tuple(held))

    def fork(self, rows: np.ndarray) -> RecalledRows:
        rows = np.asarray(rows, dtype=np.int64)
        prefixes = tuple(self._prefixes[row] for row in rows)
        known = {i: self._known[row] for i, row in enumerate(rows.tolist()) if row in self._known}
        held = []
        for part in self._held:
            place = {row: at for at, row in enumerate(part.rows.tolist())}
            chosen = np.array([i for i, row in enumerate(rows.tolist()) if row in place], dtype=np.int64)
            if len(chosen):
                own = np.array([place[int(rows[i])] for i in chosen], dtype=np.int64)
                held.append(_Held(chosen, part.model_rows.fork(own), part.behind[own]))
        other = RecalledRows(self._recall, prefixes, known, tuple(held))
        if self._table is not None:
            other._table, other.fed = self._table[torch.as_tensor(rows, device=self._table.device)], self.fed
        return other
