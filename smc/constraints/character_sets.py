"""Sets of characters by name, and sets of letters in either case: tables of Python's own regex packages, read off once.

A table is made by one search of the text of all characters (some tens of milliseconds) and kept.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cache

import regex  # type: ignore[import-untyped]

from smc.constraints.code_points import Ranges, every_character, merged, runs, shorthand

__all__ = ["either_case", "posix_class", "shorthand", "unicode_property"]


@cache
def unicode_property(name: str, ignore_case: bool = False, ascii_only: bool = False) -> Ranges | None:
    r"""What ``\p{name}`` matches in the `regex` package; None if it knows no such property."""
    return _named(rf"\p{{{name}}}+", ignore_case, ascii_only)


@cache
def posix_class(name: str, ignore_case: bool = False, ascii_only: bool = False) -> Ranges | None:
    """What ``[[:name:]]`` matches in the `regex` package; None if it knows no such class."""
    return _named(f"[[:{name}:]]+", ignore_case, ascii_only)


def _named(pattern: str, ignore_case: bool, ascii_only: bool) -> Ranges | None:
    flags = (regex.IGNORECASE if ignore_case else 0) | (regex.ASCII if ascii_only else 0)
    try:
        return runs(regex.compile(pattern, flags).finditer)
    except regex.error:
        return None


def either_case(ranges: Ranges, ascii_only: bool = False) -> Ranges:
    """`ranges` and what Python's `re` takes for one of them if case does not matter."""
    letters = _letters_with_cases()
    inside = (
        letters[at]
        for low, high in ranges
        for at in range(bisect_left(letters, chr(low)), bisect_right(letters, chr(high)))
    )
    return merged([*ranges, *((other, other) for letter in inside for other in _cases(letter, ascii_only))])


@cache
def _letters_with_cases() -> str:
    """In order."""
    return "".join(regex.findall(r"\p{Changes_When_Casemapped}", every_character()))


@cache
def _cases(letter: str, ascii_only: bool) -> tuple[int, ...]:
    """The characters that `re` takes for a letter if case does not matter."""
    flags = re.IGNORECASE | (re.ASCII if ascii_only else 0)
    return tuple(map(ord, re.findall(re.escape(letter), _letters_with_cases(), flags)))
