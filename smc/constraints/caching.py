"""Compile once: what a vocabulary has already been asked to make.

The cache lives on the vocabulary. A global table, even a weak-keyed one, would keep vocabularies alive for ever,
because what it holds (compilers, byte tables) may refer back to its key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from smc.constraints.base import CompiledConstraint
from smc.errors import ConstraintError, EmptyLanguageError
from smc.vocabulary import Vocabulary

MAX_COMPILED = 512
"""Compiled constraints kept for each vocabulary; the least recently used goes first."""

T = TypeVar("T")


def per_vocabulary(vocabulary: Vocabulary, name: str, make: Callable[[Vocabulary], T]) -> T:
    """The value of ``make(vocabulary)``, made once for each vocabulary and kept as long as the vocabulary lives."""
    store: dict[str, Any] = vars(vocabulary).setdefault("_made", {})
    if name not in store:
        store[name] = make(vocabulary)
    made: T = store[name]
    return made


class CompileOnce(ABC):
    """A constraint (a hashable value) whose `compile` is cached for each (constraint, vocabulary)."""

    @property
    @abstractmethod
    def engine(self) -> str:
        """Which engine enforces the mask."""

    @abstractmethod
    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Meet a tokenizer, uncached."""

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Meet a tokenizer. Equal constraints compile once for each vocabulary.

        Raises:
            ConstraintError: the constraint cannot be parsed or compiled (the message says what to do).
            EmptyLanguageError: no sequence of tokens satisfies it.
        """
        if not vocabulary.stop_ids:
            raise EmptyLanguageError(
                "The vocabulary has no stop token, so no sequence can ever end: "
                "name at least one in the generation config or the tokenizer (eos_token)."
            )
        cache: OrderedDict[CompileOnce, CompiledConstraint] = per_vocabulary(
            vocabulary, "compiled", lambda _: OrderedDict()
        )
        if self not in cache:
            cache[self] = self._compile(vocabulary)
            if len(cache) > MAX_COMPILED:
                cache.popitem(last=False)
        cache.move_to_end(self)
        return cache[self]


def text_of(kind: str, value: object, *, nul: Literal["refused", "allowed", "escaped"] = "refused") -> str:
    """`value` if it is text that an engine can read.

    Args:
        kind: names it in errors.
        nul: whether the character NUL, at which an engine would end it, is refused or allowed, or may be written as an escape.

    Raises:
        ConstraintError: not a string, or one with characters that no engine can read.
    """
    if not isinstance(value, str):
        raise ConstraintError(f"{kind} must be a string, not {type(value).__name__}.")
    if "\0" in value and nul != "allowed":
        instead = r"write the escape \u0000 in its place" if nul == "escaped" else "Regex and Choice can hold one"
        raise ConstraintError(f"{kind} holds a NUL character at position {value.index(chr(0))}: {instead}.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConstraintError(
            f"{kind} holds a lone surrogate at position {error.start}, which no UTF-8 text can hold: remove it."
        ) from None
    return value


def shortened(text: str, width: int = 80) -> str:
    """`text` on one line, cut for an error message."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 3] + "..."
