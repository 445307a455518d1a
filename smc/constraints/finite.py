"""An explicit list of strings, for any tokenizer, without a grammar engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from smc.constraints.base import mask_words, pack
from smc.constraints.caching import CompiledOnce, CompileOnce, per_vocabulary
from smc.constraints.first_word import first_word_note
from smc.constraints.foretelling import AHEAD_BYTES, beginning
from smc.errors import ConstraintError, EmptyLanguageError, quoted
from smc.vocabulary import Vocabulary, to_bytes

ROOT = 0


@dataclass(frozen=True, init=False)
class FiniteLanguage(CompileOnce):
    """Exactly the given strings (or byte strings), each in every tokenisation that the vocabulary has for it.

    Strings that the vocabulary cannot spell are left out of the mask. Order and repetition do not matter.

    Raises:
        EmptyLanguageError: no strings at all; on `compile`, none that the vocabulary can spell.
        ConstraintError: a member that is neither a string nor bytes.
    """

    members: tuple[bytes, ...]

    def __init__(self, members: Iterable[str | bytes]) -> None:
        if isinstance(members, str | bytes):
            raise ConstraintError(
                f"FiniteLanguage takes a list of strings, not one: write FiniteLanguage([{quoted(members)}])."
            )
        distinct = {_as_bytes(member) for member in members}
        if not distinct:
            raise EmptyLanguageError("FiniteLanguage has no members: give at least one string.")
        object.__setattr__(self, "members", tuple(sorted(distinct)))

    @property
    def engine(self) -> str:
        return "finite"

    def _compile(self, vocabulary: Vocabulary) -> CompiledFiniteLanguage:
        return CompiledFiniteLanguage(self, vocabulary)


class CompiledFiniteLanguage(CompiledOnce):
    """A graph over the byte trie of the members: node to node by token, dead ends pruned."""

    def __init__(self, language: FiniteLanguage, vocabulary: Vocabulary) -> None:
        self._members = frozenset(language.members)
        self._width = len(vocabulary)
        self._words = mask_words(vocabulary)
        self._stop_ids = list(vocabulary.stop_ids)
        self._masks: dict[int, np.ndarray] = {}
        trie = _Trie(language.members)
        alphabet = per_vocabulary(vocabulary, "byte trie", _Alphabet)
        # Children have larger numbers than their parents, so that going backwards meets every target before its sources.
        self._member = trie.member
        self._only = trie.only
        self._moves: list[dict[int, int]] = [{} for _ in trie.children]
        completable = list(trie.member)
        for node in reversed(range(len(trie.children))):
            self._moves[node] = {
                token: target for token, target in trie.tokens_from(node, alphabet) if completable[target]
            }
            completable[node] = completable[node] or bool(self._moves[node])
        if not completable[ROOT]:
            raise EmptyLanguageError(
                f"The vocabulary cannot spell any member of FiniteLanguage({quoted(list(language.members))}): "
                "check their characters against the tokenizer."
            )

        self.notes = first_word_note(vocabulary, self.mask(ROOT))

    def start(self) -> FiniteRows:
        """One row: the empty prefix."""
        return FiniteRows(self, [ROOT])

    def accepts(self, data: bytes) -> bool:
        """Whether `data` is one of the members."""
        return data in self._members

    def move(self, node: int, token: int) -> int:
        """The node after `token`; RuntimeError if the mask does not allow it (a bug in the caller)."""
        try:
            return self._moves[node][token]
        except KeyError:
            state = "complete" if self._member[node] else "incomplete"
            raise RuntimeError(
                f"No member goes on with token {token} after a prefix that is {state} (trie node {node}): "
                "only tokens that `allowed` permits may be given to `advance`, and stop tokens never."
            ) from None

    def mask(self, node: int) -> np.ndarray:
        """[W] int32: the packed mask of a node, made on its first visit."""
        if node not in self._masks:
            allowed = np.zeros((1, self._width), dtype=bool)
            allowed[0, list(self._moves[node])] = True
            if self._member[node]:
                allowed[0, self._stop_ids] = True
            self._masks[node] = pack(allowed)[0].numpy()
        return self._masks[node]

    def forced(self, node: int) -> bytes:
        """What all members that go through a node have in common after it, AHEAD_BYTES at most."""
        common = bytearray()
        while (byte := self._only[node]) is not None and len(common) < AHEAD_BYTES:
            common.append(byte)
            node += 1  # where an only child is numbered
        return bytes(common)

    def masks(self, nodes: list[int]) -> torch.Tensor:
        """[R, W] int32: the packed masks of nodes."""
        if not nodes:
            return torch.zeros((0, self._words), dtype=torch.int32)
        return torch.from_numpy(np.stack([self.mask(node) for node in nodes]))


class FiniteRows:
    """R nodes of the graph."""

    def __init__(self, compiled: CompiledFiniteLanguage, nodes: list[int]) -> None:
        self._compiled = compiled
        self._nodes = nodes

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def allowed(self) -> torch.Tensor:
        """Packed mask [R, ceil(V / 32)] int32."""
        return self._compiled.masks(self._nodes)

    def forced_text(self, row: int) -> str:
        """What every continuation of a row begins with, AHEAD characters of it at most."""
        return beginning(self._compiled.forced(self._nodes[row]))

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> FiniteRows:
        """New row i is old row ``parents[i]`` extended by ``tokens[i]``."""
        steps = zip(np.asarray(parents).tolist(), np.asarray(tokens).tolist(), strict=True)
        return FiniteRows(self._compiled, [self._compiled.move(self._nodes[parent], token) for parent, token in steps])

    def fork(self, rows: np.ndarray) -> FiniteRows:
        """An independent copy of the given rows."""
        return FiniteRows(self._compiled, [self._nodes[row] for row in np.asarray(rows).tolist()])


class _Alphabet:
    """A vocabulary's byte trie: the ids that spell each byte string, and the byte strings that begin one."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.ids: dict[bytes, list[int]] = {}
        for token in np.flatnonzero(vocabulary.spelling).tolist():
            self.ids.setdefault(vocabulary.tokens[token], []).append(token)
        self.prefixes = {spelled[:end] for spelled in self.ids for end in range(1, len(spelled) + 1)}


class _Trie:
    """The byte trie of the members; node 0 is the empty prefix."""

    def __init__(self, members: Iterable[bytes]) -> None:
        self.children: list[dict[int, int]] = [{}]
        self.member: list[bool] = [False]
        for member in members:
            node = ROOT
            for byte in member:
                if byte not in self.children[node]:
                    self.children[node][byte] = len(self.children)
                    self.children.append({})
                    self.member.append(False)
                node = self.children[node][byte]
            self.member[node] = True

    @property
    def only(self) -> list[int | None]:
        """The one byte that can follow each node, None where there is a choice. A node's first child is numbered next to it
        unless a member ends there."""
        return [
            next(iter(children)) if len(children) == 1 and not ends else None
            for children, ends in zip(self.children, self.member, strict=True)
        ]

    def tokens_from(self, node: int, alphabet: _Alphabet) -> list[tuple[int, int]]:
        """(token, target) for every token along some path from `node`: both tries walked together."""
        found: list[tuple[int, int]] = []
        open_paths = [(node, b"")]
        while open_paths:
            here, spelled = open_paths.pop()
            found += [(token, here) for token in alphabet.ids.get(spelled, ())]
            for byte, child in self.children[here].items():
                longer = spelled + bytes([byte])
                if longer in alphabet.prefixes:
                    open_paths.append((child, longer))
        return found


def _as_bytes(member: object) -> bytes:
    if isinstance(member, str):
        try:
            return to_bytes(member)
        except UnicodeEncodeError:
            raise ConstraintError(
                f"The member {quoted(member)} of a FiniteLanguage holds a lone surrogate: give its bytes instead."
            ) from None
    if isinstance(member, bytes):
        return member
    raise ConstraintError(f"A member of a FiniteLanguage is a string or bytes, not {type(member).__name__}.")
