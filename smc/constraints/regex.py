"""Texts that match a regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import regex  # type: ignore[import-untyped]
import xgrammar as xgr

from smc.constraints.base import CompiledConstraint
from smc.constraints.caching import CompileOnce, shortened, text_of
from smc.constraints.xgrammar_engine import ENGINE, compile_grammar
from smc.errors import ConstraintError
from smc.vocabulary import Vocabulary

MATCH_SECONDS = 1.0
"""How long the validator may match one text before the text counts as rejected."""


@dataclass(frozen=True)
class Regex(CompileOnce):
    """Texts that match `pattern` from beginning to end.

    The mask is xgrammar's; the terminal validator is a full match by the `regex` package in its mode compatible with
    Python's `re`. They differ here, and what the mask lets through but Python does not match is rejected and counted:

    - ``.`` and negated classes: the engine's ``.`` takes a newline, Python's does not;
    - the engine's ``\\d`` and ``\\w`` are ASCII (narrower than Python's), ``\\s`` is Unicode;
    - ``^`` and ``$`` inside a pattern are ignored by the engine and never match in Python;
    - a NUL (``\\x00``) outside a range of a class is dropped by the engine.

    Word boundaries, lookaround, backreferences, ``\\p{..}``, inline flags and ``(?P<name>..)`` are errors of the engine;
    ``(?:..)`` and ``(?<name>..)`` are not. Where Python cannot read a pattern that the engine can, the engine's own
    acceptance is the validator.
    """

    pattern: str

    def __post_init__(self) -> None:
        text_of("A regex", self.pattern)

    @property
    def engine(self) -> str:
        return ENGINE

    @property
    def _named(self) -> str:
        return f"The regex {shortened(self.pattern)!r}"

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_regex(_for_engine(self.pattern, self._named))

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return compile_grammar(
            vocabulary,
            self._named,
            self.grammar,
            _full_match(self.pattern),
            located=False,
        )


def _for_engine(pattern: str, what: str) -> str:
    """The pattern with escapes that xgrammar reads in another way than Python spelled so that they agree."""

    def respell(match: re.Match[str]) -> str:
        escape = match[0]
        if escape[1] == "x":  # xgrammar takes as many hex digits as follow, Python exactly two
            return f"\\u00{escape[2:]}" if len(escape) == 4 else escape
        if escape[1] in "AZ":  # xgrammar would match the letter
            raise ConstraintError(f"{what} uses {escape}: leave it out, a regex always matches the whole text here.")
        return escape

    return re.sub(r"\\(?:x[0-9a-fA-F]{2}|.)", respell, pattern, flags=re.DOTALL)


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
