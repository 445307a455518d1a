"""Where a uniform number falls: the columns of a law, and what may never be drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from smc.branching import Sample, Weights
from smc.children import Children
from smc.constraints.base import pack
from smc.draws import RandomDraws, columns_at, generator
from smc.law import Law
from smc.population import EMPTY, Population
from smc.resampling import systematic
from smc.vocabulary import Vocabulary

ALMOST_ONE = 1 - 2.0**-53
"""The largest offset that a generator can give."""


def table(rows: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """[R, C] weights over many orders of magnitude, most of them zero."""
    rng = generator(width, "weights")
    weights = np.exp(rng.normal(scale=5, size=(rows, width))) * (rng.random((rows, width)) < 0.1)
    weights[:, width // 2] = 1.0
    return torch.from_numpy(weights).to(dtype)


@pytest.mark.parametrize("width", [1, 3, 256, 257, 20_001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_columns_are_those_of_the_cumulative_weights(width: int, dtype: torch.dtype) -> None:
    weights = table(3, width, dtype)
    rows = np.repeat(np.arange(3), 100)
    shares = np.concatenate([generator(1).random(297), [0.0, ALMOST_ONE, 1.0]])
    found = columns_at(weights, torch.from_numpy(rows), torch.from_numpy(shares)).numpy()
    assert (weights.numpy()[rows, found] > 0).all()
    ends = weights.double().cumsum(dim=1).numpy()
    edges = np.pad(ends / ends[:, -1:], ((0, 0), (1, 0)))
    assert (edges[rows, found] <= shares + 1e-12).all()
    assert (shares <= edges[rows, found + 1] + 1e-12).all()


def test_a_draw_depends_on_its_own_row_and_number_alone() -> None:
    weights = table(5, 20_001, torch.float32)
    rows = np.repeat(np.arange(5), 8)
    together = RandomDraws(generator(3)).categorical(weights, rows)
    apart = RandomDraws(generator(3))
    assert [int(apart.categorical(weights[row : row + 1], np.zeros(1, dtype=np.int64))[0]) for row in rows] == list(
        together
    )


def test_drawing_makes_no_logarithms_or_exponentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take many times as long as adding up, and weights are no logarithms."""

    def refuse(*args: object) -> None:
        raise AssertionError("a pass over the table that drawing does not need")

    for name in ("log", "exp", "exp2_", "exp_", "exp2"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    monkeypatch.setattr(torch, "exp", refuse)
    RandomDraws(generator(0)).categorical(table(1, 1000, torch.float64), np.zeros(4, dtype=np.int64))


def test_no_share_reaches_a_stop_that_is_forbidden() -> None:
    forbidden = torch.tensor([[0.0, -1.0, -torch.inf, -torch.inf]], dtype=torch.float64)
    shares = torch.tensor([0.0, ALMOST_ONE, 1.0], dtype=torch.float64)
    rows = torch.zeros(3, dtype=torch.int64)
    assert Law.of(forbidden).pick(rows, shares).tolist() == [0, 1, 1]
    assert Law.of(forbidden.index_fill(1, torch.tensor([3]), 0.0)).pick(rows, shares).tolist() == [0, 3, 3]
    only_stop = torch.tensor([[-torch.inf, -torch.inf, -torch.inf, -2.0]], dtype=torch.float64)
    assert Law.of(only_stop).pick(rows, shares).tolist() == [3, 3, 3]


def test_systematic_particles_never_stop_where_they_may_not() -> None:
    class Last(RandomDraws):
        def offsets(self, n: int, cumulative: object) -> np.ndarray:
            return np.full(n, ALMOST_ONE)

    vocabulary = Vocabulary((b"a", b"b", b"<eos>"), (2,))
    log_probs = torch.log(torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64))
    children = Children.of(log_probs, pack(np.array([[True, True, False]])), vocabulary)
    population = Population((EMPTY,), np.zeros(1), np.array([3]), np.zeros(1), 3)
    method = Sample(3, systematic, 0.5, joint=True, compete=False)
    offspring = method.branch(children, None, population, Weights.singles(np.empty(0)), Last(generator(0)))
    assert len(offspring.stop_parents) == 0
    assert int(offspring.live.count.sum()) == 3
