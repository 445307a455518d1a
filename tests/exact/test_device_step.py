"""A step on a device: what is computed there equals float64 on the host, and the host waits for it once."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from smc import FiniteLanguage, SMCSampler, TableModel
from smc.blocks import Blocks
from smc.branching import Argmax, Enumerate, Sample, Weights
from smc.children import Children
from smc.constraints.base import pack
from smc.draws import RandomDraws, generator
from smc.errors import ModelError
from smc.host import counting_fetches, fetch, send
from smc.optimal import Candidates, optimal
from smc.population import EMPTY, Population
from smc.resampling import multinomial, systematic
from smc.vocabulary import Vocabulary

NOTHING = Weights.singles(np.empty(0))


def vocabulary(width: int, stops: tuple[int, ...] = (2, 5)) -> Vocabulary:
    return Vocabulary(tuple(b"%d" % i for i in range(width)), stops)


def population(rows: int, particles: int = 1) -> Population:
    rng = generator(rows, "population")
    count = np.full(rows, particles)
    return Population((EMPTY,) * rows, rng.normal(scale=3, size=rows), count, np.zeros(rows), int(count.sum()))


def scores(rows: int, width: int, dtype: torch.dtype, allowed: float) -> tuple[torch.Tensor, np.ndarray]:
    """[R, V] log probabilities of a peaked law, and [R, V] bool of what a mask allows."""
    rng = generator(width, f"scores {rows} {allowed}")
    log_probs = torch.log_softmax(torch.from_numpy(rng.normal(scale=4, size=(rows, width))), dim=1).to(dtype)
    return log_probs, rng.random((rows, width)) < allowed


METHODS: dict[str, tuple[Callable[[], Enumerate | Sample | Argmax], int]] = {
    "enumerate": (lambda: Enumerate(4, compete=False), 1),
    "enumerate, compete": (lambda: Enumerate(4, compete=True), 1),
    "sample, joint": (lambda: Sample(12, systematic, 0.5, joint=True, compete=False), 4),
    "sample, apart": (lambda: Sample(12, multinomial, 0.5, joint=False, compete=True), 4),
    "argmax": (Argmax, 1),
}


# ------------------------------------------------------------------------------------------------ a device in the test


class Elsewhere(torch.Tensor):
    """A tensor that says that it is on the device "meta", with its values in a tensor of the host."""

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> Elsewhere:
        return torch.Tensor._make_wrapper_subclass(
            cls, values.size(), strides=values.stride(), dtype=values.dtype, device="meta"
        )

    def __init__(self, values: torch.Tensor):
        self.values = values

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("outside Device")


class Device(TorchDispatchMode):
    """Computes on tensors that are :class:`Elsewhere`, and notes what of them comes to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.arrivals: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        flat: list = []
        tree_map(flat.append, (args, kwargs))
        there = any(isinstance(value, Elsewhere) for value in flat)
        target = kwargs.get("device")
        if func is torch.ops.aten._local_scalar_dense.default and there:
            self.arrivals.append("scalar")
        if target is not None:
            if there and target.type == "cpu":
                self.arrivals.append("copy")
            there = target.type == "meta"
            kwargs["device"] = torch.device("cpu")
        out = func(*tree_map(_inside, args), **tree_map(_inside, kwargs))
        if func._schema.name.endswith("_") and isinstance(args[0], Elsewhere):
            return args[0]
        return (
            tree_map(lambda value: Elsewhere(value) if isinstance(value, torch.Tensor) else value, out)
            if there
            else out
        )


def _inside(value: object) -> object:
    return value.values if isinstance(value, Elsewhere) else value


@pytest.mark.parametrize("shaped", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_a_step_comes_to_the_host_once(name: str, shaped: bool) -> None:
    """Whatever waits for the device goes through :func:`fetch`, and the results are those of the host."""
    method, particles = METHODS[name]
    log_probs, allowed = scores(3, 300, torch.float32, 0.5)
    words, mask = vocabulary(300), pack(allowed)
    pool = Weights.singles(np.array([-1.0])) if "compete" in name else NOTHING

    def step(scores: torch.Tensor):
        children = Children.of(scores, mask, words).powered(2.0 if shaped else 1.0)
        offspring = method().branch(children, None, population(3, particles), pool, RandomDraws(generator(3)))
        return offspring, children.plain.log_kept, children.plain.log_stop

    here = step(log_probs)
    with Device() as mode, counting_fetches() as fetches:
        there = step(Elsewhere(log_probs))
    assert fetches.count == 1
    assert mode.arrivals == ["copy"]
    for a, b in ((here[0].parents, there[0].parents), (here[0].tokens, there[0].tokens)):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(here[0].live.log_weight, there[0].live.log_weight)
    np.testing.assert_array_equal(here[0].log_prob, there[0].log_prob)
    np.testing.assert_array_equal(here[1], there[1])


def test_the_device_of_the_test_notices_what_leaves_it() -> None:
    with Device() as mode:
        there = Elsewhere(torch.ones(2))
        assert float(there.sum()) == 2.0
        assert bool((there > 0).all())
        assert (there + 1).cpu().tolist() == [2.0, 2.0]
    assert mode.arrivals == ["scalar", "scalar", "copy"]


# ----------------------------------------------------------------------------------------------------------- whole steps


class FarModel(TableModel):
    """A table model whose log probabilities are elsewhere."""

    def start(self, prompt):
        return FarRows(super().start(prompt))


class FarRows:
    def __init__(self, rows):
        self._rows = rows

    @property
    def log_probs(self) -> torch.Tensor:
        return Elsewhere(self._rows.log_probs)

    def __len__(self) -> int:
        return len(self._rows)

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> FarRows:
        return FarRows(self._rows.advance(parents, tokens))


def next_probs(prefix: tuple[str, ...]) -> dict[str, float]:
    ones = prefix.count("1")
    return {"0": 0.5 / (1 + ones), "1": 0.9 - 0.5 / (1 + ones), "<eos>": 0.07, "<end>": 0.03}


LANGUAGE = FiniteLanguage(["0", "01", "0110", "1", "10", "1101", "11101", "000", "0010"])


@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize(
    "options",
    [
        dict(branching="enumerate"),
        dict(branching="enumerate", finished="compete"),
        dict(branching="sample", ess_threshold=1.0),
        dict(branching="sample", ess_threshold=1.0, draws="independent", resampling="multinomial"),
        dict(branching="sample", ess_threshold=0.0, finished="compete"),
    ],
    ids=str,
)
def test_every_step_of_a_run_waits_once(options: dict, power: float) -> None:
    here, there = (
        SMCSampler(
            kind(["0", "1", "<eos>", "<end>"], ["<eos>", "<end>"], next_probs),
            LANGUAGE,
            n_particles=3,
            max_tokens=5,
            target_power=power,
            **options,
        )
        for kind in (TableModel, FarModel)
    )
    expected = here.run("")
    with Device() as mode, counting_fetches() as fetches:
        result = there.run("")
    assert fetches.count == len(mode.arrivals) == result.cost.passes > 2
    assert result.log_evidence == expected.log_evidence
    assert result.sequences == expected.sequences
    if options.get("ess_threshold") == power == 1.0:
        assert any(row.resampled for row in result.trace)


# ------------------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize("allowed", [0.98, 0.001])
@pytest.mark.parametrize("width", [50_000, 1_024, 7])
def test_sums_agree_with_float64(width: int, allowed: float) -> None:
    """float32 tables are summed in float32 within a block of 256 and in float64 from there: within 1e-6 of a row's mass."""
    log_probs, mask = scores(4, width, torch.float64, allowed)
    mask[:, 5] = True
    for dtype, tolerance in ((torch.float64, 1e-13), (torch.float32, 1e-6)):
        table = log_probs.to(dtype)
        children = Children.of(table, pack(mask), vocabulary(width))
        exact = torch.where(torch.from_numpy(mask), table.double(), -torch.inf)  # of the rounded log probabilities
        np.testing.assert_allclose(children.log_kept, torch.logsumexp(exact, dim=1).numpy(), atol=tolerance)
        np.testing.assert_allclose(children.log_stop, torch.logsumexp(exact[:, [2, 5]], dim=1).numpy(), atol=1e-15)
        assert (children.log_token[:, [2, 5]] == -torch.inf).all()
        exact[:, [2, 5]] = -torch.inf
        assert torch.equal(children.log_token.double(), exact)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("k", [1, 16, 300])
def test_optimal_resampling_of_a_large_table_agrees_with_sorting(k: int, dtype: torch.dtype) -> None:
    """The sure ones, the threshold and the points, against a float64 computation that sorts all candidates."""
    table, mask = scores(5, 3_000, dtype, 0.7)
    table[torch.from_numpy(~mask)] = -torch.inf
    shift = torch.linspace(-3, 2, 5, dtype=torch.float64)
    others = torch.tensor([-0.3, -9.0, -torch.inf], dtype=torch.float64)
    mass = torch.cat([(table.double() + shift[:, None]).flatten(), others]).exp().numpy()

    order = np.argsort(-mass, kind="stable")
    tail = np.cumsum(mass[order][::-1])[::-1]
    n_sure = next(j for j in range(k) if mass[order[j]] <= tail[j] / (k - j))
    threshold = tail[n_sure] / (k - n_sure)

    kept = optimal(Candidates(Blocks.of(table), shift, others), k, RandomDraws(generator(k)))
    number = np.concatenate([kept.rows * 3_000 + kept.columns, 15_000 + kept.others])
    log_mass = np.concatenate([kept.log_mass, kept.log_mass_others])
    assert len(number) == k
    assert set(order[:n_sure]) <= set(number)
    np.testing.assert_allclose(
        np.exp(log_mass), np.maximum(mass[number], threshold), rtol=2e-6 if dtype == torch.float32 else 1e-12
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_shares_of_a_row_find_the_tokens_that_a_cumulative_sum_has_there(dtype: torch.dtype) -> None:
    table, mask = scores(3, 50_000, dtype, 0.01)
    table[torch.from_numpy(~mask)] = -torch.inf
    ends = torch.exp(table.double()).cumsum(dim=1)
    ends /= ends[:, -1:]
    rows, shares = np.repeat(np.arange(3), 200), generator(0).random(600)
    found = Blocks.of(table).pick(*send(rows, shares, device=torch.device("cpu"))).numpy()
    assert mask[rows, found].all()
    edges = torch.cat([torch.zeros(3, 1, dtype=torch.float64), ends], dim=1).numpy()
    slack = 1e-12 if dtype == torch.float64 else 1e-6
    assert (edges[rows, found] - slack <= shares).all()
    assert (shares <= edges[rows, found + 1] + slack).all()


def test_a_tail_that_underflows_in_float32_is_drawn_in_proportion() -> None:
    """A child of mass one and, in its block and beside it, a tail below e^-700, of which two places go to two tenths."""
    table = torch.full((2, 600), -torch.inf)
    table[0, 3] = 0.0
    tail = torch.cat([torch.arange(10, 20), torch.arange(500, 510)])
    table[0, tail] = -750.0
    candidates = Candidates(Blocks.of(table), torch.zeros(2, dtype=torch.float64), torch.empty(0, dtype=torch.float64))
    chosen = np.zeros(600)
    for seed in range(50):
        kept = optimal(candidates, 3, RandomDraws(generator(seed)))
        assert kept.log_mass[0] == 0.0
        np.testing.assert_allclose(kept.log_mass[1:], -750 + math.log(10), rtol=1e-12)
        chosen[kept.columns] += 1
    assert chosen[3] == 50
    assert chosen[tail].sum() == 100
    # equally spaced points: one in each half of the tail, every time
    assert chosen[10:20].sum() == chosen[500:510].sum() == 50


def test_rows_do_not_change_each_other() -> None:
    """The numbers of a row are the same to the last bit, whatever shares the batch."""
    log_probs, allowed = scores(9, 1_000, torch.float64, 0.6)
    together = Children.of(log_probs, pack(allowed), vocabulary(1_000))
    shares = generator(2).random(9)
    columns = together.blocks.pick(*send(np.arange(9), shares, device=torch.device("cpu")))
    for row in range(9):
        alone = Children.of(log_probs[row : row + 1], pack(allowed[row : row + 1]), vocabulary(1_000))
        assert alone.log_kept == together.log_kept[row]
        assert alone.log_stop == together.log_stop[row]
        at = send(np.zeros(1, dtype=np.int64), shares[row : row + 1], device=torch.device("cpu"))
        assert alone.blocks.pick(*at) == columns[row]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("allowed", [1.0, 0.0])
def test_a_model_that_returns_nan_is_named(name: str, allowed: float) -> None:
    method, particles = METHODS[name]
    log_probs, _ = scores(3, 300, torch.float32, 0.5)
    log_probs[1] = torch.nan
    children = Children.of(log_probs, pack(np.full((3, 300), allowed == 1.0)), vocabulary(300))
    with pytest.raises(ModelError, match="NaN"):
        method().branch(children, None, population(3, particles), NOTHING, RandomDraws(generator(0)))


@pytest.mark.parametrize("name", METHODS)
def test_rows_without_children_die(name: str) -> None:
    method, particles = METHODS[name]
    log_probs, allowed = scores(3, 300, torch.float32, 0.5)
    allowed[1] = False
    children = Children.of(log_probs, pack(allowed), vocabulary(300))
    offspring = method().branch(children, None, population(3, particles), NOTHING, RandomDraws(generator(0)))
    assert offspring.dead == particles
    assert 1 not in offspring.parents
    assert 1 not in offspring.stop_parents


def test_what_travels_arrives() -> None:
    rng = generator(1)
    arrays = [rng.integers(-9, 9, size=(2, 3)), rng.normal(size=4), np.empty(0), np.array(2**53 + 1)]
    with Device():
        tensors = send(*arrays, device=torch.device("meta"))
        back = fetch(*tensors, tensors[1] > 0, tensors[1].float())
    for array, arrived in zip(arrays, back, strict=False):
        assert arrived.dtype == array.dtype
        np.testing.assert_array_equal(arrived, array)
    np.testing.assert_array_equal(back[4], (arrays[1] > 0).astype(np.int64))
    np.testing.assert_array_equal(back[5], arrays[1].astype(np.float32))
