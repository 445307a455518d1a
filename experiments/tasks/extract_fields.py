"""How much of a JSON value is right, counted in its leaves: the fields that hold a string, a number, true, false or null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment


def field_score(answer: Any, gold: Any) -> float:
    """F1 over leaves: twice those that are right, as a share of the leaves of the answer and of the gold together.

    With as many leaves as the gold has, that is the share of right fields; fields that are missing or too many lower it.
    A leaf is right if it stands in the same place and says the same (`same_leaf`). The elements of two lists are paired
    so that as many leaves as possible are right, whatever their order.
    """
    leaves = count_leaves(answer) + count_leaves(gold)
    return 2 * right_leaves(answer, gold) / leaves if leaves else float(answer == gold)


def count_leaves(value: Any) -> int:
    """How many leaves a value holds, however deep it is nested."""
    leaves, pending = 0, [value]
    while pending:
        part = pending.pop()
        if isinstance(part, (dict, list)):
            pending += part.values() if isinstance(part, dict) else part
        else:
            leaves += 1
    return leaves


def right_leaves(answer: Any, gold: Any) -> int:
    """How many leaves of two values agree."""
    if isinstance(answer, dict) and isinstance(gold, dict):
        return sum(right_leaves(answer[name], gold[name]) for name in answer.keys() & gold.keys())
    if isinstance(answer, list) and isinstance(gold, list):
        return _best_pairs(answer, gold)
    return int(not isinstance(answer, (dict, list)) and not isinstance(gold, (dict, list)) and same_leaf(answer, gold))


def same_leaf(answer: Any, gold: Any) -> bool:
    """Whether two leaves say the same: strings apart from case and blanks at the ends, numbers by value, 1 is not true."""
    if isinstance(answer, str) and isinstance(gold, str):
        return answer.strip().casefold() == gold.strip().casefold()
    return isinstance(answer, bool) == isinstance(gold, bool) and bool(answer == gold)


def _best_pairs(answer: Sequence[Any], gold: Sequence[Any]) -> int:
    """The most leaves that agree when each element is paired with at most one of the other list."""
    right = np.array([[right_leaves(one, other) for other in gold] for one in answer], dtype=int)
    return int(right[linear_sum_assignment(right, maximize=True)].sum()) if right.size else 0
