"""Whether two queries returned the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from experiments.tasks.sql_database import Row

TOLERANCE = 1e-6
"""Within which numbers are equal, relative or absolute."""

_MOST_ORDERS = 1000  # orders of columns that are tried: there are more only where many columns hold the same values


def same_rows(first: Sequence[Row], second: Sequence[Row], *, ordered: bool) -> bool:
    """Whether two results hold equal rows: in the same order, or else each as often.

    The order of columns does not count, as in Zhong, Yu and Klein (EMNLP 2020): a question seldom states one.
    """
    if len(first) != len(second):
        return False
    if not first:
        return True
    if len(first[0]) != len(second[0]):
        return False
    if _equal(first, second, ordered=ordered):
        return True
    columns, others = _columns(first), _columns(second)
    fitting = [
        [place for place, column in enumerate(columns) if _equal(column, other, ordered=ordered)] for other in others
    ]
    if any(needed > len(places) for places, needed in Counter(map(tuple, fitting)).items()):
        return False  # more columns with these values than there are: no need to try
    return any(
        _equal([tuple(row[place] for place in order) for row in first], second, ordered=ordered)
        for order in islice(_orders(columns, fitting), _MOST_ORDERS)
    )


def same_row(first: Row, second: Row) -> bool:
    """Whether two rows hold equal values in the same places, numbers within `TOLERANCE`."""
    return len(first) == len(second) and all(map(_same, first, second))


def _columns(rows: Sequence[Row]) -> list[list[Row]]:
    """Each column as rows of one value."""
    return [[(row[place],) for row in rows] for place in range(len(rows[0]))]


def _orders(columns: Sequence[Sequence[Row]], fitting: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """The ways to choose another column from each list of places. Of columns that are equal throughout only one is tried."""
    if not fitting:
        yield ()
        return
    tried: list[Sequence[Row]] = []
    for place in fitting[0]:
        if columns[place] not in tried:
            tried.append(columns[place])
            left = [[other for other in places if other != place] for places in fitting[1:]]
            yield from ((place, *rest) for rest in _orders(columns, left))


def _equal(first: Sequence[Row], second: Sequence[Row], *, ordered: bool) -> bool:
    if ordered:
        return all(same_row(row, other) for row, other in zip(first, second, strict=True))
    # Equal values are paired off at once; what is left differs by rounding, or not at all.
    counts, others = Counter(first), Counter(second)
    left = list((others - counts).elements())
    for row in (counts - others).elements():
        match = next((index for index, other in enumerate(left) if same_row(row, other)), None)
        if match is None:
            return False
        del left[match]
    return True


def _same(first: object, second: object) -> bool:
    if isinstance(first, (int, float)) and isinstance(second, (int, float)):
        return math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return first == second
