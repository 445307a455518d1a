"""Rows of a neural model that hold their prompt once and share forward passes with other runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from smc.models.attention import PromptCache
from smc.models.slots import Lease

if TYPE_CHECKING:
    from smc.models.engine import SharedEngine

Chain = tuple[tuple[int, torch.Tensor], ...]
"""Tokens that may follow a row and have been fed already, each with the log probabilities [V] after it."""


@dataclass
class Knowledge:
    """What is known of R rows before their pass, thanks to tokens that were fed in advance.

    Attributes:
        log_probs: [V] of rows that need no pass.
        chains: of rows that have one.
        guesses: tokens to feed along with a row's own.
    """

    log_probs: dict[int, torch.Tensor] = field(default_factory=dict)
    chains: dict[int, Chain] = field(default_factory=dict)
    guesses: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def after(self, parents: np.ndarray, tokens: np.ndarray) -> Knowledge:
        """Of children: those whose token was guessed are known."""
        found = Knowledge()
        if self.chains:
            for child, (parent, token) in enumerate(zip(parents.tolist(), tokens.tolist(), strict=True)):
                chain = self.chains.get(parent, ())
                if chain and chain[0][0] == token:
                    found.log_probs[child] = chain[0][1]
                    if len(chain) > 1:
                        found.chains[child] = chain[1:]
        return found

    def of(self, rows: np.ndarray) -> Knowledge:
        """Of a copy of the given rows."""
        at = list(enumerate(rows.tolist()))
        return Knowledge(
            {i: self.log_probs[row] for i, row in at if row in self.log_probs},
            {i: self.chains[row] for i, row in at if row in self.chains},
            {i: self.guesses[row] for i, row in at if row in self.guesses},
        )


class SharedRows:
    """R continuations of one prompt, all of one length.

    Row i lies in slot ``slots[i]`` of the engine's pool, its last token still to be fed (`pending`) until its log
    probabilities are asked for. Rows of length 0 are the prompt itself and have no slot. Threads take turns.

    Attributes:
        fed: rows and tokens that their pass was given; None before it.
    """

    def __init__(
        self,
        engine: SharedEngine,
        prompt: tuple[int, ...],
        cache: PromptCache | None,
        lease: Lease | None,
        length: int,
        pending: np.ndarray,
        knowledge: Knowledge,
        log_probs: torch.Tensor | None = None,
    ):
        self.engine, self.prompt, self.cache, self.length = engine, prompt, cache, length
        self.lease, self.pending = lease, pending
        self.fed: tuple[int, int] | None = None
        self._knowledge, self._log_probs = knowledge, log_probs
        self._consumed = False

    @staticmethod
    def start(engine: SharedEngine, prompt: tuple[int, ...]) -> SharedRows:
        """One row: the prompt, which is run through the model on first use."""
        return SharedRows(engine, prompt, None, None, 0, np.zeros(1, dtype=np.int64), Knowledge())

    @property
    def slots(self) -> np.ndarray:
        """[R] where the rows lie in the pool."""
        assert self.lease is not None
        return self.lease.slots

    def __len__(self) -> int:
        return len(self.pending)

    @property
    def log_probs(self) -> torch.Tensor:
        """[R, V]."""
        self._check()
        if self._log_probs is None:
            self.engine.evaluate([self])
        assert self._log_probs is not None
        return self._log_probs

    @property
    def waiting(self) -> bool:
        """Whether their log probabilities are still to be computed."""
        return self._log_probs is None and not self._consumed

    @property
    def unknown(self) -> np.ndarray:
        """The rows that a pass has to be made for."""
        known = self._knowledge.log_probs
        if not known:
            return np.arange(len(self))
        return np.array([row for row in range(len(self)) if row not in known], dtype=np.int64)

    def anticipate(self, guesses: dict[int, tuple[int, ...]]) -> None:
        """Tokens that may well follow some rows: fed along with them, so that a step to them takes no pass of its own."""
        if self.length:  # a prompt goes alone
            self._knowledge.guesses = guesses

    def to_feed(self) -> list[tuple[int, ...]]:
        """The tokens of each unknown row: its own, and what is guessed to follow."""
        guesses = self._knowledge.guesses
        return [(int(self.pending[row]), *guesses.get(row, ())) for row in self.unknown.tolist()]

    def receive(self, cache: PromptCache, fed: Sequence[tuple[int, ...]], table: torch.Tensor | None = None) -> None:
        """What the engine has computed: [M, V] after each of the tokens `fed` (:meth:`to_feed`), row by row; None without any."""
        self.cache = cache
        self.fed = len(fed), sum(map(len, fed))
        known = self._knowledge
        if table is not None and not known.log_probs and not known.guesses:
            self._log_probs = table
            return
        rows, at = dict(known.log_probs), 0
        for row, tokens in zip(self.unknown.tolist(), fed, strict=True):
            assert table is not None
            rows[row] = table[at]
            chain = tuple((token, table[at + i]) for i, token in enumerate(tokens) if i > 0)
            if chain:
                known.chains[row] = chain
            at += len(tokens)
        self._log_probs = torch.stack([rows[row] for row in range(len(self))]) if rows else cache.log_probs[:0]

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> SharedRows:
        self.log_probs  # noqa: B018  (what is pending must be in its slot first)
        parents, pending = np.asarray(parents, dtype=np.int64), np.asarray(tokens, dtype=np.int64)
        pool = self.engine.pool
        with pool.lock:
            self._consumed = True
            lease = pool.take(len(parents)) if self.lease is None else pool.branch(self.lease, parents)
            self.lease = None
        known = self._knowledge.after(parents, pending)
        return SharedRows(self.engine, self.prompt, self.cache, lease, self.length + 1, pending, known)

    def fork(self, rows: np.ndarray) -> SharedRows:
        self._check()
        rows = np.asarray(rows, dtype=np.int64)
        if self.cache is None:
            self.log_probs  # noqa: B018  (the prompt goes through the model once, before its copies part)
        pool = self.engine.pool
        with pool.lock:
            lease = pool.twins(self.slots[rows]) if self.length else None
        log_probs = self._log_probs
        if log_probs is not None:
            log_probs = log_probs[torch.as_tensor(rows, device=log_probs.device)]
        known = self._knowledge.of(rows)
        return SharedRows(
            self.engine, self.prompt, self.cache, lease, self.length, self.pending[rows], known, log_probs
        )

    def _check(self) -> None:
        if self._consumed:
            raise RuntimeError(
                "These rows were advanced: their slots belong to their children now. Fork them first to keep both."
            )


def waiting(rows: Sequence[SharedRows]) -> list[SharedRows]:
    """Those of some rows, each once, whose log probabilities are still to be computed."""
    return [r for r in dict.fromkeys(rows) if r.waiting]
