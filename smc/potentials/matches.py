"""The condition that a regular expression of the `regex` package matches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import regex  # type: ignore[import-untyped]

from smc.errors import OptionError, one_of, quoted, within
from smc.potentials.text import TextCondition

# The constructs for which a refused partial match means that no continuation can match. Each either reads one
# character or says nothing of the characters ahead. Left out: \b, \B and negative lookaheads (they judge the end of a
# prefix as if the text ended there), possessive and atomic groups, fuzzy and reverse matching, recursion, conditionals.
_PLAIN = regex.compile(
    r"""
    (?: \(\? [ism]+ \) )?                          # flags for the whole pattern
    (?: [^\\\[\](){}*+?]                           # a literal, a dot, an alternative, an anchor
      | \\ (?: [dDwWsSntrfvx] | [^\w] | [pP]\{[\w\ =]+\} )
      | \[ \^? \]? (?: [^\]\\\[] | \\[^\n] | \[:\^?\w+:\] )* \]
      | \( (?: (?!\?) | \?: | \?P?<[A-Za-z_]\w*> )
      | \)
      | (?: [*+?] | \{\d*,?\d*\} ) \?? (?!\+)      # a quantifier, perhaps lazy
    )*
    """,
    regex.VERBOSE,
)


@dataclass(frozen=True)
class Matches(TextCondition):
    """phi is 1 where a pattern matches the finished text, and 0 where it does not.

    Takes what grammar engines refuse (lookaround, backreferences, ``\\p{L}``, word boundaries). Under "full" a prefix
    is refused as soon as nothing that begins like it can match; for patterns with constructs for which that cannot be
    told (see the source) only finished texts are judged, as under "search", where every prefix has a future.

    Attributes:
        pattern: in the syntax of the `regex` package.
        where: "full" (the whole text) or "search" (anywhere in it).
        seconds: a match that takes longer is a failure (:mod:`smc.potentials.failures`).
        memo: see :class:`smc.potentials.TextBased`.

    Raises:
        OptionError: a pattern that cannot be compiled.
    """

    pattern: str
    where: Literal["full", "search"] = "full"
    seconds: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("where", self.where, ["full", "search"])
        within("seconds", self.seconds, 0, np.inf, without_low=True)
        if not isinstance(self.pattern, str):
            raise OptionError(f"Matches takes a pattern as a string, not {quoted(self.pattern)}.")
        try:
            self._compiled  # noqa: B018
        except regex.error as error:
            raise OptionError(f"Matches cannot compile {quoted(self.pattern)}: {error}.") from error
        except RecursionError:
            raise OptionError("Matches cannot compile its pattern: it is nested too deeply.") from None

    @cached_property
    def _compiled(self) -> regex.Pattern[str]:
        return regex.compile(self.pattern)

    def holds(self, text: str) -> bool:
        match = self._compiled.fullmatch if self.where == "full" else self._compiled.search
        return match(text, timeout=self.seconds) is not None

    def viable(self, text: str) -> bool:
        return self._compiled.fullmatch(text, partial=True, timeout=self.seconds) is not None

    @cached_property
    def judges_prefixes(self) -> bool:
        return self.where == "full" and _PLAIN.fullmatch(self.pattern) is not None
