"""The order of a task's instances and the name of its data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

T = TypeVar("T")
_GONE = object()


def fingerprint(data: Any) -> str:
    """Ten hexadecimal digits that change with the data (anything that JSON can write): the revision of a set of our own."""
    return hashlib.sha256(json.dumps(data, ensure_ascii=False).encode()).hexdigest()[:10]


def in_turn(groups: Iterable[Sequence[T]]) -> list[T]:
    """The first of each group, then the second of each, and so on: so that a small `limit` meets every group."""
    return [item for layer in zip_longest(*groups, fillvalue=_GONE) for item in layer if item is not _GONE]  # type: ignore[misc]


def spread(items: Sequence[T]) -> list[T]:
    """The items so that every beginning of the list is spread evenly over the whole: first, middle, quarters, eighths.

    Neighbours in a set of data are often alike; this is the order of van der Corput's sequence.
    """
    return [items[place] for place in _bit_reversed(len(items))]


def _bit_reversed(n: int) -> Iterator[int]:
    """The numbers below n by their binary digits read backwards."""
    width = max(n - 1, 0).bit_length()
    for number in range(1 << width):
        place = int(format(number, f"0{width}b")[::-1], 2) if width else 0
        if place < n:
            yield place
