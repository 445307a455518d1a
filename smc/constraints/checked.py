"""A language that can only be asked about: a predicate on prefixes, with no grammar behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from smc.constraints.base import pack
from smc.constraints.caching import CompiledOnce, CompileOnce
from smc.errors import ConstraintError, EmptyLanguageError
from smc.potentials.failures import Failure, excerpt
from smc.vocabulary import Vocabulary, to_text


@dataclass(frozen=True)
class Checked(CompileOnce):
    """The texts that pass `complete`, reached through prefixes that pass `prefix`.

    For parsers, linters and other programs that can judge one text and cannot list what may follow it. Methods that ask
    about few tokens (:func:`smc.baselines.awrs_smc`) suit it; any other method works too, but a mask asks about the whole
    vocabulary, one call a token.

    Attributes:
        prefix: whether some text of the language begins so. It may be too kind (such a prefix dies later), never too
            strict: what it refuses is lost. It sees strings; a token that ends inside a character arrives by
            surrogateescape.
        complete: whether a text is in the language.

    Raises:
        ConstraintError: not two functions; on `compile` and in a run, one that fails on a text (the message shows it).
        EmptyLanguageError: on `compile`, `prefix` refuses the empty text.
    """

    prefix: Callable[[str], bool]
    complete: Callable[[str], bool]

    def __post_init__(self) -> None:
        if not callable(self.prefix) or not callable(self.complete):
            raise ConstraintError("Checked takes two functions from a text to True or False: prefix and complete.")

    @property
    def engine(self) -> str:
        return "checks"

    def _compile(self, vocabulary: Vocabulary) -> CompiledChecked:
        if not asked(self, "prefix", ""):
            raise EmptyLanguageError(
                "The `prefix` function of Checked refuses the empty text, so no text can be in the language. It must "
                "return True for every beginning of a text."
            )
        return CompiledChecked(self, vocabulary)


def asked(language: Checked, question: Literal["prefix", "complete"], text: str) -> bool:
    """What one of the two functions says of a text.

    Raises:
        ConstraintError: it fails.
    """
    try:
        return bool(getattr(language, question)(text))
    except Exception as error:
        raise ConstraintError(
            f"The `{question}` function of Checked {Failure.of(error).reason}, for the text {excerpt(text)}. Correct it: it must "
            "return True or False for every text."
        ) from error


class CompiledChecked(CompiledOnce):
    """The predicates for one vocabulary."""

    def __init__(self, language: Checked, vocabulary: Vocabulary) -> None:
        self._language, self._vocabulary = language, vocabulary
        self._stops = frozenset(vocabulary.stop_ids)
        self.width = len(vocabulary)
        self.checks_per_mask = int(vocabulary.spelling.sum()) + 1

    def start(self) -> CheckedRows:
        """One row: the empty prefix."""
        return CheckedRows(self, (b"",))

    def accepts(self, data: bytes) -> bool:
        """Whether `complete` accepts `data`."""
        return asked(self._language, "complete", to_text(data))

    def may_follow(self, text: bytes, token: int) -> bool:
        """Whether `token` may come after `text`; special tokens never."""
        if token in self._stops:
            return self.accepts(text)
        if not self._vocabulary.spelling[token]:
            return False
        return asked(self._language, "prefix", to_text(text + self._vocabulary.tokens[token]))

    def mask(self, text: bytes) -> np.ndarray:
        """[V] bool, by asking about every token."""
        stop = self.accepts(text)
        follows = [
            stop if token in self._stops else self.may_follow(text, token) for token in range(len(self._vocabulary))
        ]
        return np.array(follows, dtype=bool)

    def spell(self, token: int) -> bytes:
        """The bytes of a token."""
        return self._vocabulary.tokens[token]


class CheckedRows:
    """R texts."""

    def __init__(self, compiled: CompiledChecked, texts: tuple[bytes, ...]) -> None:
        self._compiled, self._texts = compiled, texts

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def checks_per_mask(self) -> int:
        """A mask asks about every token that spells something, and once whether the text is complete."""
        return self._compiled.checks_per_mask

    def check(self, row: int, token: int) -> bool:
        """Whether `token` may come next."""
        return self._compiled.may_follow(self._texts[row], token)

    @property
    def allowed(self) -> torch.Tensor:
        """Packed mask [R, ceil(V / 32)] int32; asks about every token of every row."""
        width = self._compiled.width
        masks = [self._compiled.mask(text) for text in self._texts]
        return pack(np.array(masks, dtype=bool).reshape(len(masks), width))

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> CheckedRows:
        """New row i is old row ``parents[i]`` extended by ``tokens[i]``."""
        steps = zip(np.asarray(parents).tolist(), np.asarray(tokens).tolist(), strict=True)
        return CheckedRows(
            self._compiled, tuple(self._texts[parent] + self._compiled.spell(token) for parent, token in steps)
        )

    def fork(self, rows: np.ndarray) -> CheckedRows:
        """An independent copy of the given rows."""
        return CheckedRows(self._compiled, tuple(self._texts[row] for row in np.asarray(rows).tolist()))
