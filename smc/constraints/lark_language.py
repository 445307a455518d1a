"""Texts that a Lark grammar parses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial

import xgrammar as xgr

from smc.constraints.base import CompiledConstraint
from smc.constraints.caching import CompileOnce, shortened, text_of
from smc.constraints.lark_grammar import Respelled, respell
from smc.constraints.lark_patterns import in_pythons_syntax, plain_patterns
from smc.constraints.lark_text import LEXERS, LarkSyntaxError, read
from smc.constraints.llguidance_engine import ENGINE as LLGUIDANCE
from smc.constraints.llguidance_engine import compile_llguidance
from smc.constraints.notes import LanguageNote
from smc.constraints.scannerless import to_lark
from smc.constraints.sources import text_or_file
from smc.constraints.undefined_rules import settle
from smc.constraints.xgrammar_engine import ENGINE, check_readable, compile_grammar, read_rules
from smc.errors import ConstraintError, one_of, true_or_false
from smc.vocabulary import Vocabulary


@dataclass(frozen=True)
class Lark(CompileOnce):
    """Texts that Lark's Earley parser reads, under a grammar in Lark's syntax that begins with ``start``.

    The `lark` package itself reads the grammar, with its templates, imports and priorities, and is the validator of finished
    texts; patterns are Python's, so ``\\w`` and ``\\d`` are Unicode, and ``\\p{L}`` besides. What it cannot parse within
    :data:`smc.constraints.lark_text.PARSE_SECONDS` (long texts of very ambiguous grammars) the engine's own matcher judges,
    and a warning says so. What the masks let through beyond the language `notes` announce: texts in which a terminal would
    have to take less than its longest match, and what of a pattern no automaton can do (lookahead, word boundaries,
    back-references).

    A text that `lark` cannot read goes to the engine as it is, for the engine's own additions: ``%json`` in both, ``&`` and
    ``~`` between terminals in llguidance. The engine's own acceptance is then the validator; xgrammar takes a terminal as any
    text that matches it, llguidance gives each the longest match.

    Special tokens named in a grammar (``<|im_end|>``) are never allowed by the mask.

    Attributes:
        text: the grammar; given as the path of a file, what that holds.
        engine: "xgrammar" or "llguidance" (an optional package). To llguidance each character is a terminal, so that a mask takes
            it milliseconds where many tokens are allowed.
        check: that of :class:`smc.constraints.EBNF`; of what only llguidance can read, as far as xgrammar can read it too.
        lexer: Lark's own option: "dynamic", its default, gives each terminal its longest match, so that
            ``start: /[a-z]+/ "x"`` has no text at all; "dynamic_complete" tries the shorter ones too. Keywords are not kept
            from being names by either.

    Raises:
        ConstraintError: on `compile`, a grammar that cannot be read or that Lark refuses, such as one with a terminal that may
            be empty; a rule that is not defined or can never be completed (the message names it).
        EmptyLanguageError: on `compile`, no text at all. OptionError: an unknown engine or lexer.
    """

    text: str
    engine: str = field(default=ENGINE, kw_only=True)
    check: bool = field(default=True, kw_only=True)
    lexer: str = field(default="dynamic", kw_only=True)

    def __post_init__(self) -> None:
        found = text_or_file("A Lark grammar", self.text, isinstance(self.text, str) and ":" in self.text)
        object.__setattr__(self, "text", text_of("A Lark grammar", found, nul="escaped"))
        one_of("engine", self.engine, (ENGINE, LLGUIDANCE))
        one_of("lexer", self.lexer, LEXERS)
        true_or_false("check", self.check)

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """Where the mask differs from Lark's parser, and what is left out for want of a rule that nobody defines.

        Raises:
            ConstraintError: a grammar that cannot be used.
        """
        respelled = self._respelled
        if respelled is None:
            if self.engine == LLGUIDANCE:
                return (_LONGEST_MATCH,)
            return (_XGRAMMAR_ALONE,) if _READ_OTHERWISE.search(self.text) else ()
        lost = respelled.missing or respelled.inlined
        return (*(self._settled(respelled)[1] if lost and not self.check else ()), *respelled.notes)

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        respelled = self._respelled
        if respelled is None:
            return xgr.Grammar.from_lark(plain_patterns(self.text, self._named), tokenizer_info=tokens)
        return self._settled(respelled)[0]

    @property
    def _named(self) -> str:
        return f"The Lark grammar {shortened(self.text)!r}"

    @property
    def _respelled(self) -> Respelled | None:
        """The grammar in xgrammar's dialect; None if `lark` cannot read it."""
        try:
            return _respell(self._readable, self.lexer)
        except LarkSyntaxError:
            return None

    @property
    def _readable(self) -> str:
        """The grammar for `lark`, whose patterns are those of Python's `re`."""
        return in_pythons_syntax(self.text, self._named)

    def _settled(self, respelled: Respelled) -> tuple[xgr.Grammar, tuple[LanguageNote, ...]]:
        inside = ", ".join(map(repr, respelled.inlined))
        if inside and self.check:
            raise ConstraintError(
                f"{self._named} names {inside} in terminals, which nobody defines: define it, or correct the name. What nobody "
                "defines has no text: with check=False the parts of terminals that need it are dropped, and a note says so."
            )
        grammar = xgr.Grammar.from_ebnf(respelled.ebnf)
        settled, notes = settle(grammar, respelled.missing, self._named, respelled.names, self.check)
        if inside:
            what = f"parts of terminals that need {inside}, which nobody defines"
            notes = (LanguageNote("narrower", f"terminal {inside}", "undefined", what), *notes)
        return settled, notes

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        respelled = self._respelled
        if respelled is None:
            return self._as_it_is(vocabulary)
        named, written, holds = self._named, respelled.names, read(self._readable, self.lexer).holds
        if self.engine == LLGUIDANCE:
            rules, notes = read_rules(vocabulary, named, self.grammar, located=False, written=written, check=self.check)
            return compile_llguidance(vocabulary, named, lambda: to_lark(rules, named), holds, notes=notes)
        return compile_grammar(vocabulary, named, self.grammar, holds, located=False, written=written, check=self.check)

    def _as_it_is(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """The grammar as the engine reads it."""
        named, written = self._named, _rule_names(self.text)
        try:
            if self.engine == LLGUIDANCE:
                notes = check_readable(vocabulary, named, self.grammar, written) if self.check else ()
                plain = partial(plain_patterns, self.text, named)
                return compile_llguidance(vocabulary, named, plain, located=True, notes=notes)
            return compile_grammar(vocabulary, named, self.grammar, written=written, check=self.check)
        except ConstraintError:
            if not _ADDITIONS.search(_QUOTED.sub("", self.text)):
                _respell(self._readable, self.lexer)  # raises what is wrong with it as Lark's syntax
            raise


@lru_cache(maxsize=256)
def _respell(text: str, lexer: str) -> Respelled:
    return respell(read(text, lexer), lexer)


_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|/(?!/)(?:[^/\\\n]|\\.)+/|//[^\n]*')
_ADDITIONS = re.compile(r"%(?:json|lark|regex|llguidance)|<[^\s<>]+>|@\w|&|~(?!\s*\d)")
"""What the engines add to Lark's syntax."""

_READ_OTHERWISE = re.compile("%ignore")
_XGRAMMAR_ALONE = LanguageNote(
    "narrower",
    "",
    "terminals",
    "only xgrammar can read this text: it has ignored text only after a terminal",
)

_LONGEST_MATCH = LanguageNote(
    "narrower",
    "",
    "terminals",
    "each terminal takes the longest match, so that texts which need a shorter one are left out",
)


def _rule_names(text: str) -> Mapping[str, str]:
    names = re.findall(r"^[?!]*([A-Za-z_][A-Za-z0-9_-]*)[^:\n]*:", text, re.MULTILINE)
    return {name: name for name in names} | {"root": "start"}
