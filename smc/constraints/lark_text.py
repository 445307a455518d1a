"""Lark grammars as the `lark` package reads them, which also judges finished texts.

`lark` expands templates, imports, repetitions and priorities; what is left are plain rules over terminals, and of each
terminal a pattern for Python's `re`.
"""

from __future__ import annotations

import logging
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import lark
import regex  # type: ignore[import-untyped]

from smc.constraints.caching import shortened
from smc.constraints.nesting import too_deep
from smc.errors import ConstraintError

LEXERS = ("dynamic", "dynamic_complete")

PARSE_SECONDS = 10.0
"""How long `lark` may parse one finished text before the engine's own matcher is asked instead."""

NO_TEXT = r"/[^\s\S]/"
"""What a rule or terminal that nobody defines stands for: no character at all."""


class LarkSyntaxError(ConstraintError):
    """Text that `lark` cannot read as a grammar, though an engine with additions of its own to the syntax might."""


@dataclass(frozen=True, eq=False)
class LarkGrammar:
    """A grammar that was read.

    Attributes:
        parser: rules, terminals, and the parser of the language.
        missing: rules and terminals that are named and not defined, or declared and without a pattern.
    """

    parser: lark.Lark
    missing: tuple[str, ...]

    def holds(self, data: bytes) -> bool | None:
        """Whether `lark` parses a text; None if that takes longer than PARSE_SECONDS."""
        try:
            self.parser.parse(_Watched(data.decode("utf-8"), PARSE_SECONDS))
        except UnicodeDecodeError:
            return False
        except lark.exceptions.UnexpectedInput:
            return False
        except RuntimeError as error:
            if "multiple start symbol" not in str(error):
                raise
            # parsed in two ways that the parser does not merge: with an ignored text at the end and without
        except TimeoutError:
            logging.getLogger("smc").warning(
                "lark did not parse a text of %d bytes within %g s: the engine's own matcher judges it instead. An ambiguous "
                "grammar makes this slow.",
                len(data),
                PARSE_SECONDS,
            )
            return None
        return True


class _Watched(str):
    """A text that is read character by character until its time is up. (The parser cannot be interrupted otherwise.)"""

    _seconds: float

    def __new__(cls, text: str, seconds: float) -> _Watched:
        watched = super().__new__(cls, text)
        watched._seconds = seconds
        return watched

    def __iter__(self) -> Iterator[str]:
        end = time.monotonic() + self._seconds
        for char in super().__iter__():
            if time.monotonic() > end:
                raise TimeoutError
            yield char


@lru_cache(maxsize=256)
def read(text: str, lexer: str) -> LarkGrammar:
    """A grammar that begins with ``start``.

    Raises:
        LarkSyntaxError: text that is no grammar to `lark`.
        ConstraintError: a grammar that `lark` refuses for another reason.
    """
    missing: list[str] = []
    while True:
        added = "".join(f"\n{line}" for line in missing)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of patterns that later versions of Python may read otherwise
                parser = lark.Lark(text + added, parser="earley", lexer=lexer, ambiguity="forest")
        except lark.exceptions.GrammarError as error:
            name = _missing_name(error)
            if name is None or any(name in line for line in missing):
                raise _explained(text, error) from None
            missing.append(f"{name}: {NO_TEXT}")
            continue
        except RecursionError:
            raise too_deep(_named(text)) from None
        except (lark.exceptions.LarkError, re.error, regex.error, OSError, ValueError, AssertionError) as error:
            raise _explained(text, error) from None
        declared = _without_pattern(parser)
        if not declared:
            return LarkGrammar(parser, tuple(re.split("[ :]", line.removeprefix("%override "))[0] for line in missing))
        missing += [f"%override {name}: {NO_TEXT}" for name in declared]


def _without_pattern(parser: lark.Lark) -> list[str]:
    """Terminals that are used and have no pattern: declared ones."""
    known = {terminal.name for terminal in parser.terminals}
    used = {symbol.name for rule in parser.rules for symbol in rule.expansion if symbol.is_term}
    return sorted((used | set(parser.ignore_tokens)) - known)


_USED = re.compile(r"^(?:Rule|Terminal) '(\w+)' used but not defined|^Terminal used but not defined: (\w+)$")


def _missing_name(error: Exception) -> str | None:
    found = _USED.match(str(error))
    return (found[1] or found[2]) if found else None


def _named(text: str) -> str:
    return f"The Lark grammar {shortened(text)!r}"


def _explained(text: str, error: Exception) -> ConstraintError:
    """What `lark` says, in one sentence, with what to do."""
    named, said = _named(text), str(error)
    reason = " ".join(said.split("\n")[0].split()).rstrip(" .:")
    if isinstance(error, lark.exceptions.GrammarError) and isinstance(
        error.__context__, lark.exceptions.UnexpectedInput
    ):
        place = re.sub(r" in <string>$", "", reason)
        return LarkSyntaxError(f"{named} cannot be read: {place[:1].lower()}{place[1:]}{_hint(text)}.")
    if isinstance(error, OSError):
        return ConstraintError(
            f"{named} imports {error.filename}, which is not there: import from the grammars that come with lark (common, unicode, "
            "python, lark), or write the rules out."
        )
    if "zero-width" in said:
        name = _terminal(error)
        return ConstraintError(
            f"{named} has a terminal that may be empty ({name}), which Lark refuses: let the terminal match at least one "
            "character (+ for *) and make it optional in the rules that use it."
        )
    if "undefined rule: NonTerminal('start')" in said:
        return ConstraintError(f"{named} has no rule `start`, with which it must begin.")
    if isinstance(error, re.error | regex.error):
        at = shortened(str(error.pattern))
        return ConstraintError(f"{named} has a pattern that Python's `re` cannot read, {at!r}: {reason}. Correct it.")
    if not reason:
        reason = "Lark stops at it without a word, as it does at a declared terminal (%declare) inside another one"
    return ConstraintError(f"{named} cannot be used: {reason}. Correct it.")


def _terminal(error: Exception) -> str:
    terminal: Any = error.args[0][1] if isinstance(error.args[0], tuple) else error.args[-1]
    pattern = f"/{terminal.pattern.value}/"
    return pattern if terminal.name.startswith("__") else f"{terminal.name}: {pattern}"


def _hint(text: str) -> str:
    if re.search(r"^\s*\w+\s*::=", text, re.MULTILINE):
        return " (Lark writes `name: ...`; for `name ::= ...` use EBNF or GBNF)"
    if re.search(r"(?:^|[\s(|:])'[^'\n]*'", text):
        return " (texts stand in double quotes)"
    return ""
