"""The regular expressions inside a Lark grammar that an engine reads by itself, respelled before it does."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

from smc.constraints.caching import shortened
from smc.constraints.nesting import readable
from smc.constraints.python_regex import FLAGS
from smc.constraints.regex_rewrite import respell
from smc.constraints.regex_tree import spelled
from smc.errors import ConstraintError

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*") | (?P<comment>//[^\n]*) | (?P<special><[^<>\s"]*>)
      | /(?P<regex>(?:[^/\\]|\\.)+)/(?P<flags>[imslux]*)""",
    re.VERBOSE | re.DOTALL,
)


def plain_patterns(text: str, what: str) -> str:
    """The grammar with each ``/regex/flags`` in syntax that both engines read as Python does, and without flags.

    Args:
        text: a Lark grammar.
        what: names it in errors.

    Raises:
        ConstraintError: a regex that is not understood, or that needs more than an automaton.
    """

    def plain(match: re.Match[str]) -> str:
        if not match["regex"]:
            return match[0]
        # xgrammar's \x takes all the hex digits that follow
        return (
            "/" + re.sub(r"\\x([0-9a-f]{2})", r"\\u{\1}", _respelled(match, what)) + "/" + "\n" * match[0].count("\n")
        )

    return _TOKEN.sub(plain, text)


@lru_cache(maxsize=256)
def in_pythons_syntax(text: str, what: str) -> str:
    """The grammar with those regexes respelled that Python's `re` cannot read, such as ``\\p{L}``, so that `lark` can.

    Raises:
        ConstraintError: a regex that is not understood, or that needs more than an automaton.
    """

    def readable(match: re.Match[str]) -> str:
        if match["regex"]:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of what later versions of Python may read otherwise
                    re.compile(match["regex"].replace(r"\/", "/"))
            except (re.error, OverflowError, RecursionError):
                return f"/{_respelled(match, what)}/"
        return match[0]

    return _TOKEN.sub(readable, text)


def _respelled(match: re.Match[str], what: str) -> str:
    """A regex without flags in the syntax that Python and Rust share."""
    before = match.string[: match.start()]
    line, column = before.count("\n") + 1, match.start() - before.rfind("\n")
    named = f"{what} cannot be used: line {line}, column {column}: the regex {shortened(match[0])!r}"
    if "l" in match["flags"]:
        raise ConstraintError(f"{named} has the flag l (LOCALE), which is for bytes: leave it out.")
    with readable(named):
        respelled = respell(match["regex"].replace(r"\/", "/"), named, frozenset(match["flags"]) & FLAGS.keys())
        if respelled.notes:
            note = respelled.notes[0]
            raise ConstraintError(
                f"{named} uses {note.keyword} at {note.at}, which no engine can follow in a grammar. Write it without."
            )
        return spelled(respelled.tree)
