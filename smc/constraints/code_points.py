"""Sets of characters as sorted ranges of code points, without the surrogates, which no UTF-8 text holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from typing import Protocol

Ranges = tuple[tuple[int, int], ...]
"""Disjoint inclusive ranges in ascending order."""

SURROGATES = (0xD800, 0xDFFF)
LAST = 0x10FFFF


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The union of ranges in any order, less the surrogates."""
    return union(part for whole in ranges for part in _around_surrogates(*whole))


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges in order, overlapping and touching ones merged."""
    result: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def complement(ranges: Ranges) -> Ranges:
    """Every character that is not in `ranges`."""
    gaps, begin = [], 0
    for low, high in ranges:
        gaps.append((begin, low - 1))
        begin = high + 1
    gaps.append((begin, LAST))
    return merged(gaps)


def size(ranges: Ranges) -> int:
    """How many characters there are in `ranges`."""
    return sum(high - low + 1 for low, high in ranges)


@cache
def shorthand(letter: str, ascii_only: bool = False) -> Ranges:
    """What ``\\d``, ``\\w``, ``\\s`` and their capitals match in Python's `re`, by its tables or in ASCII alone."""
    if letter.isupper():
        return complement(shorthand(letter.lower(), ascii_only))
    return runs(re.compile(f"\\{letter}+", re.ASCII if ascii_only else re.UNICODE).finditer)


def runs(find: Callable[[str], Iterable[Match]]) -> Ranges:
    """The ranges that a search for runs of characters (``\\w+``) finds in the text of all characters, in order."""
    spans = (match.span() for match in find(every_character()))
    return merged((_code(begin), _code(end - 1)) for begin, end in spans)


class Match(Protocol):
    """What both regex packages return of a search."""

    def span(self) -> tuple[int, int]:
        """Where it begins and ends."""
        ...


@cache
def every_character() -> str:
    """The text of all characters, in order."""
    return "".join(map(chr, chain(range(SURROGATES[0]), range(SURROGATES[1] + 1, LAST + 1))))


def _code(index: int) -> int:
    """The code point at a place of the text of all characters."""
    return index if index < SURROGATES[0] else index + SURROGATES[1] + 1 - SURROGATES[0]


def _around_surrogates(low: int, high: int) -> Iterable[tuple[int, int]]:
    parts = ((low, min(high, SURROGATES[0] - 1)), (max(low, SURROGATES[1] + 1), high))
    return (part for part in parts if part[0] <= part[1])
