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
from smc.errors import shortened as shortened
from smc.portable import Portable
from smc.vocabulary import Vocabulary

MAX_COMPILED = 512
"""Compiled constraints kept for each vocabulary; the least recently used goes first."""

T = TypeVar("T")


def per_vocabulary(vocabulary: Vocabulary, name: str, make: Callable[[Vocabulary], T]) -> T:
    """The value of ``make(vocabulary)``, made once for each vocabulary and kept as long as the vocabulary lives."""
    if name not in vocabulary.made:
        vocabulary.made[name] = make(vocabulary)
    made: T = vocabulary.made[name]
    return made


class CompiledOnce:
    """A compiled constraint, which travels as its recipe: it is compiled again, once, where it arrives.

    What an engine has made lies outside of Python, and is bound to one vocabulary object.
    """

    _recipe: tuple[CompileOnce, Vocabulary] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._recipe is None:
            raise TypeError(
                f"This {type(self).__name__} is part of a compiled constraint and cannot be sent or copied by itself: send the "
                "constraint, and compile that where it arrives."
            )
        return _compiled_again, self._recipe


def _compiled_again(constraint: CompileOnce, vocabulary: Vocabulary) -> CompiledConstraint:
    return constraint.compile(vocabulary)


class CompileOnce(Portable, ABC):
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
            compiled = self._compile(vocabulary)
            if isinstance(compiled, CompiledOnce):
                object.__setattr__(compiled, "_recipe", (self, vocabulary))  # some are frozen
            cache[self] = compiled
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
