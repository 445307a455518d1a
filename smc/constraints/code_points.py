"""Sets of characters as sorted ranges of code points, without the surrogates, which no UTF-8 text holds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

Ranges = tuple[tuple[int, int], ...]
"""Disjoint inclusive ranges in ascending order."""

SURROGATES = (0xD800, 0xDFFF)
LAST = 0x10FFFF


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The union of ranges in any order, less the surrogates."""
    result: list[tuple[int, int]] = []
    for low, high in sorted(part for whole in ranges for part in _around_surrogates(*whole)):
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
def shorthand(letter: str) -> Ranges:
    """What ``\\d``, ``\\w``, ``\\s`` and their capitals match in Python's `re`."""
    if letter.isupper():
        return complement(shorthand(letter.lower()))
    matches = re.compile(f"\\{letter}").match
    return merged((code, code) for code in range(LAST + 1) if matches(chr(code)))


def _around_surrogates(low: int, high: int) -> Iterable[tuple[int, int]]:
    parts = ((low, min(high, SURROGATES[0] - 1)), (max(low, SURROGATES[1] + 1), high))
    return (part for part in parts if part[0] <= part[1])
