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
from smc.constraints.python_regex import FLAGS
from smc.constraints.regex_grammar import grammar_text
from smc.constraints.regex_rewrite import Respelled, respell
from smc.constraints.regex_tree import spelled
from smc.constraints.xgrammar_engine import ENGINE, check_readable, compile_grammar
from smc.errors import ConstraintError, one_of
from smc.vocabulary import Vocabulary

MATCH_SECONDS = 1.0
"""How long the validator may match one text before the text counts as rejected."""


@dataclass(frozen=True, init=False)
class Regex(CompileOnce):
    """Texts that match `pattern` from beginning to end, as Python's ``re.fullmatch`` does.

    The pattern is a string in the dialect of Python's `re`, or one that `re` or `regex` has compiled, with the flags of that.
    Flags may also stand in it: ``(?i)``, ``(?s)``, ``(?m)``, ``(?x)``, ``(?a)`` at its beginning, ``(?i:..)`` and ``(?-i:..)``
    around a part. Beyond `re`, it may use Unicode properties (``\\p{L}``, ``[\\P{Lu}\\p{Script=Greek}]``), ``[[:alpha:]]``,
    ``(?<name>..)``, ``\\u{1F600}``, ``\\x{e9}`` and ``\\z``; properties are those of the `regex` package.

    No engine sees the pattern: it is read here, every set of characters is written out, and the engines get what they read
    alike. What no engine can do, the mask lets through and the terminal validator (a full match by the `regex` package)
    refuses, which `notes` announce: lookaround, word boundaries, anchors inside the pattern, back-references, conditions,
    atomic groups and possessive repetitions. Whatever is not understood is an error.

    Attributes:
        pattern: the regex.
        flags: those that it was compiled with, as letters out of "aimsx".
        engine: "xgrammar" or "llguidance" (an optional package).

    Raises:
        ConstraintError: a pattern that is no text (bytes), or compiled with flags that are not understood; on `compile`, one
            that cannot be read or is nested too deeply.
        OptionError: an unknown engine.
    """

    pattern: str
    flags: str = field(default="", kw_only=True)
    engine: str = field(default=ENGINE, kw_only=True)

    def __init__(self, pattern: str | re.Pattern[str] | regex.Pattern[str], *, engine: str = ENGINE) -> None:
        text, flags = (pattern, "") if isinstance(pattern, str) else _compiled(pattern)
        object.__setattr__(self, "pattern", text_of("A regex", text, nul="allowed"))
        object.__setattr__(self, "flags", flags)
        object.__setattr__(self, "engine", one_of("engine", engine, (ENGINE, LLGUIDANCE)))

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """Where the mask lets more through than the pattern matches."""
        return self._respelled.notes

    @property
    def _named(self) -> str:
        return f"The regex {shortened(self.pattern)!r}"

    @cached_property
    def _respelled(self) -> Respelled:
        with readable(self._named):
            return respell(self.pattern, self._named, frozenset(self.flags))

    @property
    def spelled(self) -> str:
        """What the mask follows, as a pattern that Rust's engines read as Python does."""
        with readable(self._named):
            return spelled(self._respelled.tree)

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_ebnf(grammar_text(self._respelled.tree))

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        accepts = _full_match(self._respelled.validator)
        if self.engine == LLGUIDANCE:
            notes = check_readable(vocabulary, self._named, self.grammar)
            return compile_llguidance(
                vocabulary,
                self._named,
                lambda: str(engine_package().LLMatcher.grammar_from_regex(self.spelled)),
                accepts,
                notes=notes,
            )
        return compile_grammar(vocabulary, self._named, self.grammar, accepts, located=False)


def _compiled(pattern: object) -> tuple[str, str]:
    """The text of a compiled pattern, and its flags as letters.

    Raises:
        ConstraintError: not one of text, or one with flags that are not understood.
    """
    if not isinstance(pattern, re.Pattern | regex.Pattern):
        raise ConstraintError(f"A regex must be a string or a compiled pattern, not {type(pattern).__name__}.")
    text, flags = pattern.pattern, int(pattern.flags)
    if not isinstance(text, str):
        raise ConstraintError(f"The regex {shortened(repr(text))} is of bytes: compile it from a string.")
    letters = "".join(letter for letter, flag in FLAGS.items() if flags & flag)
    known = sum(FLAGS.values()) | re.UNICODE | re.DEBUG
    known |= 0 if isinstance(pattern, re.Pattern) else regex.VERSION0
    if flags & ~known:
        raise ConstraintError(
            f"The regex {shortened(text)!r} was compiled with flags that are not understood here ({flags & ~known:#x}): use "
            "IGNORECASE, MULTILINE, DOTALL, VERBOSE and ASCII, or write what the others do into the pattern."
        )
    return text, letters


def _full_match(pattern: str) -> Callable[[bytes], bool]:
    compiled = regex.compile(pattern)

    def accepts(data: bytes) -> bool:
        try:
            return compiled.fullmatch(data.decode("utf-8"), timeout=MATCH_SECONDS) is not None
        except (UnicodeDecodeError, TimeoutError):
            return False

    return accepts
