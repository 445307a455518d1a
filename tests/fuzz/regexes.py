"""`Regex` against Python's `re`, and against the `regex` package where only that can read the pattern."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import regex
from hypothesis import strategies as st

from tests.fuzz.fuzzer import Outcome, Question
from tests.fuzz.patterns import ALPHABET, SIGNS, SUFFIXES, Dialect, spellings, texts, written

_FORMS = ["\\x{:02x}", "\\u{:04x}", "\\U{:08x}", "\\{:03o}", "\\N{{{name}}}"]
_SHORTHANDS = [rf"\{letter}" for letter in "dDwWsS"]
_CONTROLS = [rf"\{letter}" for letter in "afnrtv0"]
_ESCAPED = [f"\\{char}" for char in SIGNS + "\n\t\u00e9\u4e2d"]

PYTHON = Dialect(
    plain=[*spellings(ALPHABET.replace("\0", ""), _FORMS), *_SHORTHANDS * 4, *_CONTROLS, *_ESCAPED],
    outside=[".", ".", "^", "$", r"\b", r"\B", r"\A", r"\Z", r"\1", "(?P=n)", "(?#no)", "a-z"],
    inside=["-", r"\-", "a-z", "0-9", "&&", "--", "||", "~~", "[:alpha:]", "^", r"\b"],
    openings=[
        "(?:",
        "(",
        "(?:",
        "(",
        "(?P<n>",
        "(?=",
        "(?!",
        "(?<=",
        "(?<!",
        "(?>",
        "(?i:",
        "(?s:",
        "(?a:",
        "(?x:",
        "(?m:",
    ],
    suffixes=[*SUFFIXES, "*+", "{1,2}+"],
)

# The `regex` package has members in ``[^\p{L}\P{L}]``.
_MISREAD = re.compile(r"\[\^[^]]*\\[pP][^]]*\\[pPdDwWsS]")

# To `re` these are the letters between the colons, and it warns that this will not stay so; to us they are what `regex` has.
_POSIX = re.compile(r"\[:\^?\w+:\]")

# Of which `re` knows nothing. Tables differ from one version of Unicode to the next, but not for the characters of the alphabet.
_NAMES = [
    "L",
    "Lu",
    "Ll",
    "Nd",
    "N",
    "P",
    "Zs",
    "S",
    "Sc",
    "Alphabetic",
    "Greek",
    "Latin",
    "IsGreek",
    "Script=Latin",
    "Han",
    "Uppercase",
    "Letter",
    "Any",
    "ASCII",
    "^L",
    "Lm",
    "M",
    "Mn",
    "Cc",
    "Co",
]
_PROPERTIES = [rf"\{letter}{{{name}}}" for name in _NAMES for letter in "pP"] + [r"\pL", r"\PL", r"\pN"]

BEYOND = Dialect(
    plain=["a", "1", "\u00e9", *_PROPERTIES, r"\d"],  # not \w and \s, which are not the same to `re` and `regex`
    outside=[
        ".",
        r"\z",
        r"\h",
        r"\R",
        r"\X",
        r"\e",
        r"\K",
        r"\G",
        r"\Q",
        r"\y",
        r"\m",
        r"\M",
        r"\u{61}",
        r"\x{61}",
        "[[:alpha:]]",
    ],
    inside=["-", "_", "[:alpha:]", "[:^digit:]", r"\h", r"\x{61}"],
    openings=["(?:", "(", "(?<n>", "(?|", "(?i:", "(?P<n>"],
    suffixes=SUFFIXES,
)


@dataclass(frozen=True)
class Regexes:
    """Patterns of one dialect."""

    name: str
    about: str
    dialect: Dialect

    def missing(self) -> str | None:
        return None

    def cases(self) -> st.SearchStrategy[Any]:
        return st.tuples(self.dialect.trees(), st.sampled_from(["xgrammar", "llguidance"]))

    def examine(self, case: Any) -> Outcome:
        tree, engine = case
        pattern = written(tree)
        matches = oracle(pattern)
        if matches is None or _MISREAD.search(pattern):
            return "invalid"
        said = {text: matches(text) for text in texts(tree)}
        members, others = ([text for text, member in said.items() if member is wanted] for wanted in (True, False))
        return Question(f"Regex({pattern!r}, engine={engine!r})", members, others).ask()


def oracle(pattern: str) -> Callable[[str], bool] | None:
    """Whether a text matches from beginning to end; None if nobody can read the pattern."""
    if not _POSIX.search(pattern):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled = re.compile(pattern)
            return lambda text: compiled.fullmatch(text) is not None
        except (re.error, OverflowError, RecursionError):
            pass
    try:
        second = regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError):
        return None
    return lambda text: second.fullmatch(text) is not None


REGEX = Regexes("regex", "character classes and patterns against Python's re", PYTHON)
PROPERTIES = Regexes("property", "Unicode properties and what else only the regex package reads, against it", BEYOND)
