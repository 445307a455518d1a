"""Whether two queries returned the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from experiments.tasks.sql_database import Row

TOLERANCE = 1e-6
"""Within which numbers are equal, relative or absolute."""


def same_rows(first: Sequence[Row], second: Sequence[Row], *, ordered: bool) -> bool:
    """Whether two results hold equal rows: in the same order, or else each as often. The order of columns counts."""
    if len(first) != len(second):
        return False
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


def same_row(first: Row, second: Row) -> bool:
    """Whether two rows hold equal values, numbers within `TOLERANCE`."""
    return len(first) == len(second) and all(map(_same, first, second))


def _same(first: object, second: object) -> bool:
    if isinstance(first, (int, float)) and isinstance(second, (int, float)):
        return math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return first == second
