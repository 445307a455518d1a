"""Conditions written as Python predicates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smc.errors import function_of
from smc.potentials.text import TextCondition


@dataclass(frozen=True)
class Predicate(TextCondition):
    """A yes or no about the text: phi is 1 where `complete` says True and 0 where it says False.

    Attributes:
        complete: whether a finished text is good.
        prefix: whether some continuation of a prefix (itself included) may yet be good. It must say True if in doubt: a
            False ends the prefix for good. None for no opinion.
        memo: see :class:`smc.potentials.TextBased`.

    Anything other than True or False is a failure, so that a forgotten ``return`` does not refuse everything in
    silence.

    Raises:
        OptionError: something in place of a function that is none.
    """

    complete: Callable[[str], bool]
    prefix: Callable[[str], bool] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        function_of("complete", self.complete, "a text")
        if self.prefix is not None:
            function_of("prefix", self.prefix, "a text")

    def holds(self, text: str) -> bool:
        return self.complete(text)

    def viable(self, text: str) -> bool:
        return True if self.prefix is None else self.prefix(text)

    @property
    def judges_prefixes(self) -> bool:
        return self.prefix is not None
