"""Orders in which every beginning is representative, and the name of data."""

from __future__ import annotations

from itertools import pairwise

import pytest

from experiments.tasks.sets import fingerprint, in_turn, spread


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 16, 257, 400])
def test_spread_is_a_permutation_whose_beginnings_are_even(n: int) -> None:
    order = spread(range(n))
    assert sorted(order) == list(range(n))
    assert order[:1] == list(range(n))[:1]
    # the first 2^k of them leave no gap wider than the next power of two over 2^k
    for k in range(1, n.bit_length() - 1):
        beginning = [*sorted(order[: 2**k]), n]
        gaps = [after - before for before, after in pairwise(beginning)]
        assert max(gaps) <= 2 * 2 ** (n - 1).bit_length() / 2**k


def test_spread_of_eight() -> None:
    assert spread("abcdefgh") == list("aecgbfdh")


def test_in_turn() -> None:
    assert in_turn([[1, 2, 3], [4], [], [5, None]]) == [1, 4, 5, 2, None, 3]
    assert in_turn([]) == []


def test_fingerprint() -> None:
    assert fingerprint([["a", 1]]) == fingerprint([("a", 1)])
    assert fingerprint("a") != fingerprint("b")
    assert len(fingerprint({})) == 10
