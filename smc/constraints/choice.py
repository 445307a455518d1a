"""One of a list of strings, through a grammar engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import xgrammar as xgr

from smc.constraints.base import CompiledConstraint
from smc.constraints.caching import CompileOnce, text_of
from smc.constraints.llguidance_engine import ENGINE as LLGUIDANCE
from smc.constraints.llguidance_engine import compile_llguidance, engine_package
from smc.constraints.regex_grammar import literal
from smc.constraints.regex_tree import spelled, text_tree
from smc.constraints.xgrammar_engine import ENGINE, check_readable, compile_grammar
from smc.errors import ConstraintError, EmptyLanguageError, one_of, quoted
from smc.vocabulary import Vocabulary


@dataclass(frozen=True, init=False)
class Choice(CompileOnce):
    """One of `options`. Order and repetition do not matter. The validator is membership.

    Attributes:
        options: the strings.
        engine: "xgrammar" or "llguidance" (an optional package).

    Raises:
        EmptyLanguageError: no options.
        ConstraintError: an option that is not a string, or holds a lone surrogate (see FiniteLanguage).
        OptionError: an unknown engine.
    """

    options: tuple[str, ...]
    engine: str = field(default=ENGINE, kw_only=True)

    def __init__(self, options: Iterable[str], *, engine: str = ENGINE) -> None:
        if isinstance(options, str | bytes):
            raise ConstraintError(f"Choice takes a list of strings, not one string: write Choice([{quoted(options)}]).")
        distinct = {text_of("An option of a Choice", option, nul="allowed") for option in options}
        if not distinct:
            raise EmptyLanguageError("Choice has no options: give at least one string.")
        object.__setattr__(self, "options", tuple(sorted(distinct)))
        object.__setattr__(self, "engine", one_of("engine", engine, (ENGINE, LLGUIDANCE)))

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_ebnf("root ::= " + " | ".join(map(literal, self.options)))

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        members = frozenset(option.encode("utf-8") for option in self.options).__contains__
        named = f"The Choice of {quoted(list(self.options))}"
        if self.engine == LLGUIDANCE:
            notes = check_readable(vocabulary, named, self.grammar)
            return compile_llguidance(vocabulary, named, self._as_regex, members, notes=notes)
        return compile_grammar(vocabulary, named, self.grammar, members, located=False)

    def _as_regex(self) -> str:
        return str(
            engine_package().LLMatcher.grammar_from_regex(
                "|".join(spelled(text_tree(option)) for option in self.options)
            )
        )
