"""Shapes, strides and widths that no other test happens to have: results depend on none of them.

A vocabulary is a multiple of the block of 256 columns, one more, one less, or that of a real model, 49,152; a population
has one row or many; a table of log masses is a slice of a wider one, transposed or spread from one row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
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
    baselines,
    fit_surrogate,
)
from smc.blocks import Blocks
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
@pytest.mark.parametrize("width", [255, 256, 257])
def test_categorical_draws_from_tables_of_any_strides(strided, width: int) -> None:
    weights = torch.exp(table(4, width))
    rows, share = torch.arange(4).repeat_interleave(50), shares(50).repeat(4)
    assert torch.equal(columns_at(strided(weights), rows, share), columns_at(weights, rows, share))


# --------------------------------------------------------------------------------------------------------- whole runs

LENGTH = 3
STRINGS = ("000", "001", *("1" + rest for rest in ("00", "01", "10", "11")))
LANGUAGE = FiniteLanguage(STRINGS)


def spread(width: int, aside: float = 0.0) -> TableModel:
    """One law over a vocabulary of any width: two letters and the stop at its ends, and between them nothing but names.

    Args:
        aside: how much probability the names share. No text of the language has one of them.
    """
    names = [f"<{i}>" for i in range(width - 3)]
    beside = {name: aside / len(names) for name in names} if aside else {}

    def next_probs(prefix: tuple[str, ...]) -> dict[str, float]:
        p = 0.3 + len(prefix) / 13  # no two texts are equally likely
        law = {"<eos>": 1.0} if len(prefix) == LENGTH else {"0": p, "1": 1 - p}
        return {token: (1 - aside) * p for token, p in law.items()} | beside

    return TableModel(["0", *names, "1", "<eos>"], "<eos>", next_probs)


Run = Callable[[TableModel, int], Any]


def smc(**options: Any) -> Run:
    def run(model: TableModel, n: int) -> SMCResult:
        made = {name: make() for name, make in options.items() if name == "twist"}
        return SMCSampler(model, LANGUAGE, **{**options, **made, "n_particles": n, "max_tokens": 4}).run("")

    return run


def method(function: Callable[..., Any], **options: Any) -> Run:
    return lambda model, n: function(model, LANGUAGE, "", n_particles=n, max_tokens=4, **options)


MASKED: dict[str, Run] = {
    "enumerate": smc(),
    "enumerate, compete": smc(finished="compete"),
    "enumerate, power 2": smc(target_power=2.0),
    "enumerate, roulette": smc(stop="roulette", stop_fraction=0.3),
    "enumerate, learned twist": smc(twist=LearnedTwist, replicates=3),
    "enumerate, compete, learned twist": smc(twist=LearnedTwist, replicates=3, finished="compete"),
    "enumerate, potential": smc(potentials=[Predicate(lambda text: text != "111")]),
    **{
        f"sample, {scheme}": smc(branching="sample", resampling=scheme, ess_threshold=1.0)
        for scheme in ("systematic", "multinomial", "stratified", "residual", "ssp", "killing")
    },
    "sample, independent": smc(branching="sample", draws="independent"),
    "sample, compete": smc(branching="sample", finished="compete", ess_threshold=1.0),
    "sample, power 1/2": smc(branching="sample", target_power=0.5),
    "sample, temperature": smc(branching="sample", proposal=Proposal(temperature=1.5)),
    "sample, top_k": smc(branching="sample", proposal=Proposal(top_k=1)),
    "sample, top_k beyond the vocabulary": smc(branching="sample", proposal=Proposal(top_k=10**6)),
    "sample, top_p": smc(branching="sample", proposal=Proposal(top_p=0.9)),
    "sample, all of them": smc(branching="sample", proposal=Proposal(2.0, 2, 0.9), twist=LearnedTwist, replicates=3),
    "sample, learned twist": smc(branching="sample", twist=LearnedTwist, replicates=3),
    "sample, independent, learned twist": smc(
        branching="sample", draws="independent", resampling="multinomial", twist=LearnedTwist, replicates=3
    ),
    "greedy masking": lambda model, n: baselines.greedy_masking(model, LANGUAGE, "", max_tokens=4),
    "local masking": method(baselines.local_masking),
    "importance resampling": method(baselines.importance_resampling),
    "importance resampling, power 2": method(baselines.importance_resampling, target_power=2.0),
    "best of n": method(baselines.best_of_n),
    "sample-rerank": method(baselines.sample_rerank),
    "beam": method(baselines.beam),
    "asap": method(baselines.asap),
    "asap in rounds": method(baselines.asap, batch_size=3),
    "grammar SMC": method(baselines.grammar_smc),
    "steering": method(baselines.smc_steering),
    "steering, retire": method(baselines.smc_steering, finished="retire"),
    **{f"MCMC, {p}": method(baselines.mcmc, n_steps=4, proposal=p) for p in ("restart", "uniform", "priority")},
    "PIMH": method(baselines.pimh, n_iterations=4),
    "PIMH, sample": method(baselines.pimh, n_iterations=4, branching="sample"),
    "particle Gibbs": lambda model, n: method(baselines.particle_gibbs, n_iterations=4)(model, n + 1),
    "particle Gibbs, sample": lambda model, n: method(
        baselines.particle_gibbs, n_iterations=4, branching="sample", draws="independent", resampling="killing"
    )(model, n + 1),
    "exact": lambda model, n: enumerate_posterior(model, LANGUAGE, "", max_tokens=4, batch_size=n),
    "branch and bound": lambda model, n: branch_and_bound(model, LANGUAGE, "", max_tokens=4, batch_size=n),
}

UNMASKED: dict[str, Run] = {
    "unconstrained": method(baselines.unconstrained),
    "rejection": method(baselines.rejection, max_draws=30),
    "ars": method(baselines.ars, max_draws=30),
    "ars in rounds": method(baselines.ars, max_draws=30, batch_size=5),
    "rsft": method(baselines.rsft, max_draws=30),
    "cars": method(baselines.cars, max_draws=30),
    "AWRS": method(baselines.awrs_smc),
    "AWRS, compete": method(baselines.awrs_smc, finished="compete", resampling="multinomial", ess_threshold=1.0),
}

NARROW = {aside: spread(4, aside) for aside in (0.0, 0.2)}
on_a_narrow_one = cache(lambda run, aside, n_particles: run(NARROW[aside], n_particles))
WIDE = {(width, aside): spread(width, aside) for width in WIDTHS for aside in NARROW}


def seen(result: Any) -> dict[str, Any]:
    """What a result says of the world, whatever its kind."""
    names = ("log_evidence", "log_censored_mass", "log_rejected_mass", "log_dead_mass", "ess", "log_lower", "log_upper")
    return {"status": result.status, "rows": result.cost.forward_rows, "passes": result.cost.passes} | {
        name: getattr(result, name) for name in names if hasattr(result, name)
    }


@pytest.mark.parametrize(("n_particles", "width"), [*((5, width) for width in WIDTHS), (1, 256), (1, 49_152)])
@pytest.mark.parametrize(
    ("run", "aside"),
    [
        *(pytest.param(run, 0.2, id=name) for name, run in MASKED.items()),
        *(pytest.param(run, 0.0, id=name) for name, run in UNMASKED.items()),
    ],
)
def test_a_run_on_a_wide_vocabulary_is_that_on_a_narrow_one(
    run: Run, aside: float, width: int, n_particles: int
) -> None:
    """To the last draw: a share of the mass picks the same event, however many columns without any lie between."""
    expected, result = on_a_narrow_one(run, aside, n_particles), run(WIDE[width, aside], n_particles)
    assert result.posterior() == pytest.approx(expected.posterior(), rel=1e-9)
    for name, value in seen(expected).items():
        if isinstance(value, float) and not math.isfinite(value):
            assert repr(seen(result)[name]) == repr(value), name
        else:
            assert seen(result)[name] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), name


@pytest.mark.parametrize("kind", ["unigram", "bigram", "hmm"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_a_lookahead_on_any_width(kind: str, width: int, branching: str) -> None:
    """A surrogate is smoothed over the whole vocabulary, so that draws depend on its width; the exact answer does not."""
    model = WIDE[width, 0.2]
    hidden = {"n_states": 2, "iterations": 3} if kind == "hmm" else {}
    surrogate = fit_surrogate(kind, model, LANGUAGE, [""], n_samples=20, max_tokens=4, **hidden).surrogate
    exact = enumerate_posterior(NARROW[0.2], LANGUAGE, "", max_tokens=4)
    for n_particles in (1, 20) if width > 256 else (20,):
        sampler = SMCSampler(
            model, LANGUAGE, n_particles=n_particles, branching=branching, twist=LookaheadTwist(surrogate), max_tokens=4
        )
        result = sampler.run("")
        assert result.status == "complete"
        for sequence in result.sequences:
            (same,) = (s for s in exact.sequences if s.text == sequence.text)
            assert sequence.log_target == pytest.approx(same.log_target, abs=1e-9)
        if branching == "enumerate" and n_particles == 20:
            assert result.log_evidence == pytest.approx(exact.log_evidence, abs=1e-9)


# ------------------------------------------------------------------------------------- what a model or a twist gives


class Given(TableModel):
    """A table model whose rows give what a function makes of their log probabilities."""

    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor], width: int = 256):
        wide = spread(width)
        super().__init__([t.decode() for t in wide.vocabulary.tokens], "<eos>", wide._next_probs)
        self._change = change

    def start(self, prompt):
        return GivenRows(super().start(prompt), self._change)


class GivenRows:
    def __init__(self, rows, change):
        self._rows, self._change = rows, change

    def __len__(self):
        return len(self._rows)

    @property
    def log_probs(self):
        return self._change(self._rows.log_probs)

    def advance(self, parents, tokens):
        return GivenRows(self._rows.advance(parents, tokens), self._change)

    def fork(self, rows):
        return GivenRows(self._rows.fork(rows), self._change)


@pytest.mark.parametrize("strides", ["transposed", "every second column"])
@pytest.mark.parametrize("run", [*MASKED.values(), *UNMASKED.values()], ids=[*MASKED, *UNMASKED])
def test_log_probs_may_lie_in_memory_in_any_way(run: Run, strides: str) -> None:
    given, plain = run(Given(STRIDES[strides]), 5), on_a_narrow_one(run, 0.0, 5)
    assert given.posterior() == pytest.approx(plain.posterior(), rel=1e-9)


@pytest.mark.parametrize("run", [*MASKED.values(), *UNMASKED.values()], ids=[*MASKED, *UNMASKED])
def test_log_probs_in_single_precision(run: Run) -> None:
    given, plain = run(Given(lambda table: table.float()), 5), on_a_narrow_one(run, 0.0, 5)
    assert given.posterior() == pytest.approx(plain.posterior(), rel=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.half(), "log_probs in float16, whose rounding"),
        (lambda table: table.bfloat16(), "in bfloat16"),
        (lambda table: table[0], r"shape \(256,\) where 1 rows and 256 tokens make \(1, 256\)"),
        (lambda table: table[:, :-1], r"of shape \(1, 255\)"),
        (lambda table: torch.cat([table, table], dim=1), r"shape \(1, 512\)"),
        (lambda table: torch.cat([table, table]), r"shape \(2, 256\)"),
        (lambda table: torch.full_like(table, math.nan), "NaN, or plus infinity"),
        (lambda table: torch.full_like(table, math.inf), "all minus infinity"),
    ],
)
@pytest.mark.parametrize("run", [MASKED["enumerate"], MASKED["sample, systematic"], UNMASKED["AWRS"], MASKED["beam"]])
def test_log_probs_that_are_none_are_said_to_be(run: Run, change, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        run(Given(change), 5)


class Looks(LearnedTwist):
    """A twist that gives what a function makes of the guess of another."""

    def __init__(self, change: Callable[[Lookahead], Lookahead]):
        super().__init__()
        self._change = change

    def start(self, context):
        rows = super().start(context)
        look = rows.look
        rows.look = lambda children: self._change(look(children))
        return rows


@pytest.mark.parametrize(
    "change",
    [
        lambda guess: replace(guess, log_token=guess.log_token[:, :-1]),
        lambda guess: replace(guess, log_token=guess.log_token[0]),
        lambda guess: replace(guess, log_stop=np.zeros(2)),
        lambda guess: replace(guess, log_stop=np.float64(0)),
    ],
)
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_a_twist_of_another_shape_is_refused(branching: str, change: Callable[[Lookahead], Lookahead]) -> None:
    sampler = SMCSampler(NARROW[0.0], LANGUAGE, branching=branching, twist=Looks(change), max_tokens=4)
    with pytest.raises(SMCError, match=r"For 1 rows and 4 tokens they must be \(1, 4\) and \(1,\)"):
        sampler.run("")
