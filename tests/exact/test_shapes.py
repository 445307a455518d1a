"""Shapes, strides and widths that no other test happens to have: results depend on none of them.

A vocabulary is a multiple of the block of 256 columns, one more, one less, or that of a real model, 49,152; a population
has one row or many; a table of log masses is a slice of a wider one, transposed or spread from one row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from smc import (
    FiniteLanguage,
    LearnedTwist,
    LookaheadTwist,
    Predicate,
    Proposal,
    SMCResult,
    SMCSampler,
    TableModel,
    TextPotential,
    baselines,
    fit_surrogate,
)
from smc.blocks import BLOCK, Blocks
from smc.children import Children
from smc.draws import RandomDraws, columns_at
from smc.errors import ModelError, SMCError
from smc.exact import branch_and_bound, enumerate_posterior
from smc.law import Law
from smc.optimal import Candidates, optimal
from smc.twists import Lookahead

WIDTHS = [255, 256, 257, 512, 49_152]
SIZES = [(n_rows, width) for width in (1, *WIDTHS) for n_rows in (1, 2, 37) if n_rows * width < 10**6]

# ------------------------------------------------------------------------------------------------------------- tables

STRIDES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "columns of a wider table": lambda t: torch.cat([t, t[:, :1]], dim=1)[:, :-1],
    "columns after another": lambda t: torch.cat([t[:, :1], t], dim=1)[:, 1:],
    "transposed": lambda t: t.T.contiguous().T,
    "every second row": lambda t: t.repeat_interleave(2, dim=0)[::2],
    "every second column": lambda t: t.repeat_interleave(2, dim=1)[:, ::2],
}


def table(n_rows: int, width: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """[R, C] log masses, some of them minus infinity, of very different sizes."""
    generator = torch.Generator().manual_seed(1000 * n_rows + width)
    log_mass = 5 * torch.randn(n_rows, width, generator=generator, dtype=torch.float64)
    log_mass[torch.rand(n_rows, width, generator=generator) < 0.3] = -torch.inf
    log_mass[:, width // 2] = 0.0  # no row without mass
    return log_mass.to(dtype)


def shares(n: int) -> torch.Tensor:
    return torch.linspace(0, 1, n + 1, dtype=torch.float64)[:-1]


@pytest.mark.parametrize("strided", STRIDES.values(), ids=STRIDES)
@pytest.mark.parametrize(("n_rows", "width"), SIZES)
def test_blocks_of_any_strides(strided, n_rows: int, width: int) -> None:
    plain = table(n_rows, width)
    expected, blocks = Blocks.of(plain), Blocks.of(strided(plain))
    rows = torch.arange(n_rows).repeat_interleave(50)
    picked = expected.pick(rows, shares(50).repeat(n_rows))
    assert torch.equal(blocks.top, expected.top)
    # sums are taken in the order in which the numbers lie
    torch.testing.assert_close(blocks.log_total, torch.logsumexp(plain, dim=1), rtol=1e-12, atol=1e-12)
    assert (blocks.pick(rows, shares(50).repeat(n_rows)) == picked).float().mean() > 0.99
    np.testing.assert_allclose(blocks.ends(torch.arange(n_rows)), expected.ends(torch.arange(n_rows)), rtol=1e-12)
    # by a sum over the whole row, which knows nothing of blocks
    ends = torch.exp(plain - plain.amax(dim=1, keepdim=True)).cumsum(dim=1)[rows]
    points = shares(50).repeat(n_rows)[:, None] * ends[:, -1:]
    by_row = torch.searchsorted(ends, points, right=True)[:, 0]
    assert (picked == by_row).float().mean() > 0.999


@pytest.mark.parametrize("strided", STRIDES.values(), ids=STRIDES)
@pytest.mark.parametrize(("n_rows", "width"), SIZES)
def test_blocks_replaced_under_any_strides(strided, n_rows: int, width: int) -> None:
    blocks = Blocks.of(strided(table(n_rows, width)))
    n_blocks, size = blocks.entries.shape[1:]
    which = torch.tensor([0, n_rows * n_blocks - 1][: 1 + (n_rows * n_blocks > 1)])
    entries = torch.full((len(which), size), -1.0, dtype=torch.float64)
    replaced = blocks.replaced(which, entries)
    whole = blocks.entries.clone()
    whole[which // n_blocks, which % n_blocks] = entries
    torch.testing.assert_close(replaced.log_total, torch.logsumexp(whole.flatten(1), dim=1), rtol=1e-12, atol=1e-12)
    assert torch.equal(replaced.block(which), entries)


@pytest.mark.parametrize(("n_rows", "width"), SIZES)
def test_a_law_of_a_table_with_the_stop_as_its_last_column(n_rows: int, width: int) -> None:
    log_mass = table(n_rows, width + 1)
    law = Law.of(log_mass)
    rows = torch.arange(n_rows).repeat_interleave(50)
    column = law.pick(rows, shares(50).repeat(n_rows))
    normalised = log_mass - torch.logsumexp(log_mass, dim=1, keepdim=True)
    assert (normalised[rows, column] > -torch.inf).all()
    torch.testing.assert_close(law.log_mass_at(rows, column), normalised[rows, column], rtol=1e-10, atol=1e-10)
    for row in range(n_rows):
        np.testing.assert_allclose(law.ends(row), torch.exp(normalised[row]).cumsum(dim=0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("strided", STRIDES.values(), ids=STRIDES)
@pytest.mark.parametrize(("n_rows", "width"), [size for size in SIZES if 1 < size[1] < 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_optimal_resampling_of_tables_of_any_strides(strided, n_rows: int, width: int, dtype: torch.dtype) -> None:
    plain = table(n_rows, width, dtype)
    shift, others = torch.linspace(-1, 1, n_rows, dtype=torch.float64), torch.tensor([0.5], dtype=torch.float64)
    for k in (1, 40):
        kept = [
            optimal(Candidates(Blocks.of(entries), shift, others), k, RandomDraws(np.random.default_rng(k)))
            for entries in (plain, strided(plain))
        ]
        for name in ("rows", "columns", "log_mass", "others", "log_mass_others"):
            # float32 blocks are summed in float32, in the order in which the numbers lie
            precise = 1e-12 if dtype == torch.float64 else 1e-6
            np.testing.assert_allclose(getattr(kept[0], name), getattr(kept[1], name), rtol=precise, atol=precise)
        assert len(kept[0].rows) + len(kept[0].others) <= k


@pytest.mark.parametrize("width", [1, 255, 256, 257])
def test_tables_without_rows(width: int) -> None:
    blocks = Blocks.of(torch.empty(0, width, dtype=torch.float64))
    assert blocks.log_total.shape == blocks.top.amax(dim=1).shape == (0,)
    assert blocks.pick(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.float64)).shape == (0,)


@pytest.mark.parametrize("strided", STRIDES.values(), ids=STRIDES)
@pytest.mark.parametrize("width", [255, 256, 257, 512])
def test_categorical_draws_from_tables_of_any_strides(strided, width: int) -> None:
    weights = torch.exp(table(4, width))
    rows, share = torch.arange(4).repeat_interleave(50), shares(50).repeat(4)
    assert torch.equal(columns_at(strided(weights), rows, share), columns_at(weights, rows, share))
