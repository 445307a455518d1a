"""One of a list of strings, through xgrammar."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import xgrammar as xgr

from smc.constraints.base import CompiledConstraint
from smc.constraints.caching import CompileOnce, shortened, text_of
from smc.constraints.xgrammar_engine import ENGINE, compile_grammar
from smc.errors import ConstraintError, EmptyLanguageError
from smc.vocabulary import Vocabulary


@dataclass(frozen=True, init=False)
class Choice(CompileOnce):
    """One of `options`. Order and repetition do not matter. The validator is membership.

    Raises:
        EmptyLanguageError: no options.
        ConstraintError: an option that is not a string, or holds a NUL or a lone surrogate (see FiniteLanguage).
    """

    options: tuple[str, ...]

    def __init__(self, options: Iterable[str]) -> None:
        if isinstance(options, str | bytes):
            raise ConstraintError(f"Choice takes a list of strings, not one string: write Choice([{options!r}]).")
        distinct = {text_of("An option of a Choice", option) for option in options}
        if not distinct:
            raise EmptyLanguageError("Choice has no options: give at least one string.")
        object.__setattr__(self, "options", tuple(sorted(distinct)))

    @property
    def engine(self) -> str:
        return ENGINE

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_ebnf("root ::= " + " | ".join(map(_literal, self.options)))

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        members = frozenset(option.encode("utf-8") for option in self.options)
        return compile_grammar(
            vocabulary,
            f"The Choice of {shortened(repr(list(self.options)))}",
            self.grammar,
            members.__contains__,
            located=False,
        )


def _literal(text: str) -> str:
    # Eight-digit escapes are the only ones that end by themselves, whatever follows.
    plain = {chr(code) for code in range(32, 127)} - {'"', "\\"}
    return '"' + "".join(char if char in plain else f"\\U{ord(char):08x}" for char in text) + '"'
