"""Texts that match a regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import regex  # type: ignore[import-untyped]
import xgrammar as xgr

from smc.constraints.base import CompiledConstraint
from smc.constraints.caching import CompileOnce, shortened, text_of
from smc.constraints.llguidance_engine import ENGINE as LLGUIDANCE
from smc.constraints.llguidance_engine import compile_llguidance, engine_package
from smc.constraints.nesting import readable
from smc.constraints.notes import LanguageNote
from smc.constraints.regex_rewrite import Respelled, respell
from smc.constraints.xgrammar_engine import ENGINE, check_readable, compile_grammar
from smc.errors import one_of
from smc.vocabulary import Vocabulary

MATCH_SECONDS = 1.0
"""How long the validator may match one text before the text counts as rejected."""


@dataclass(frozen=True)
class Regex(CompileOnce):
    """Texts that match `pattern` from beginning to end, as Python's ``re.fullmatch`` does.

    The pattern is respelled so that the engine reads it as Python does: ``.`` takes no newline, ``\\d``, ``\\w`` and ``\\s``
    are Unicode, ``(?P<name>..)`` is a group. What no engine can do, the mask lets through and the terminal validator (a full
    match by the `regex` package) refuses, which `notes` announce: lookaround, word boundaries, anchors inside the pattern,
    back-references, atomic groups and possessive repetitions. Inline flags are an error.

    A pattern that Python cannot read (``\\p{L}``, ``\\u{1F600}``) goes to the engine as it is; if the `regex` package cannot
    read it either, the engine's own acceptance is the validator.

    Attributes:
        pattern: in the dialect of Python's `re`, without flags.
        engine: "xgrammar" or "llguidance" (an optional package).

    Raises:
        ConstraintError: a pattern that is no text; on `compile`, one that cannot be read or is nested too deeply.
        OptionError: an unknown engine.
    """

    pattern: str
    engine: str = field(default=ENGINE, kw_only=True)

    def __post_init__(self) -> None:
        text_of("A regex", self.pattern)
        one_of("engine", self.engine, (ENGINE, LLGUIDANCE))

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """Where the mask lets more through than the pattern matches."""
        return self._respelled.notes if self._respelled else ()

    @property
    def _named(self) -> str:
        return f"The regex {shortened(self.pattern)!r}"

    @cached_property
    def _respelled(self) -> Respelled | None:
        return respell(self.pattern, self._named)

    @property
    def _for_engine(self) -> str:
        return self._respelled.engine if self._respelled else _two_digits(self.pattern)

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_regex(self._for_engine)

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        with readable(self._named):
            accepts = _full_match(self._respelled.validator if self._respelled else self.pattern)
        if self.engine == LLGUIDANCE:
            notes = check_readable(vocabulary, self._named, self.grammar)
            return compile_llguidance(
                vocabulary,
                self._named,
                lambda: str(engine_package().LLMatcher.grammar_from_regex(self._for_engine)),
                accepts,
                notes=notes,
            )
        return compile_grammar(vocabulary, self._named, self.grammar, accepts, located=False)


def _two_digits(pattern: str) -> str:
    """``\\x41`` spelled so that xgrammar does not take the hex digits that follow."""
    return re.sub(r"(\\\\)|\\x([0-9a-fA-F]{2})", lambda match: match[1] or f"\\u00{match[2]}", pattern)


def _full_match(pattern: str) -> Callable[[bytes], bool] | None:
    try:
        compiled = regex.compile(pattern)
    except regex.error:
        return None

    def accepts(data: bytes) -> bool:
        try:
            return compiled.fullmatch(data.decode("utf-8"), timeout=MATCH_SECONDS) is not None
        except (UnicodeDecodeError, TimeoutError):
            return False

    return accepts
