"""Making an input smaller that hypothesis cannot shrink, since it ends the process that tries it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any


def smallest(case: Any, fails: Callable[[Any], bool], seconds: float) -> Any:
    """The smallest input that still fails, as far as single steps of :func:`smaller` lead within the time."""
    end = time.monotonic() + seconds
    while True:
        for candidate in smaller(case):
            if time.monotonic() > end:
                return case
            if fails(candidate):
                case = candidate
                break
        else:
            return case


def smaller(case: Any) -> Iterator[Any]:
    """Inputs that are like this one with a part left out, or with a part in the place of the whole that it belongs to.

    Not all of them are inputs that the fuzzer knows; those just do not fail.
    """
    if isinstance(case, tuple | list):
        tagged = isinstance(case, tuple) and bool(case) and isinstance(case[0], str)
        if tagged:
            for part in case[1:]:
                yield from (inner for inner in _trees(part))
        for index in range(int(tagged), len(case)):
            yield case[:index] + case[index + 1 :]
        for index, part in enumerate(case):
            for less in smaller(part):
                yield case[:index] + type(case)([less]) + case[index + 1 :]
    elif isinstance(case, dict):
        for key, part in case.items():
            yield {other: value for other, value in case.items() if other != key}
            for less in smaller(part):
                yield case | {key: less}
    elif isinstance(case, str) and len(case) > 1:
        for index in range(len(case)):
            yield case[:index] + case[index + 1 :]


def _trees(part: Any) -> Iterator[Any]:
    """The tagged tuples in a part of a tagged tuple."""
    if isinstance(part, tuple) and part and isinstance(part[0], str):
        yield part
    elif isinstance(part, tuple):
        for inner in part:
            yield from _trees(inner)
