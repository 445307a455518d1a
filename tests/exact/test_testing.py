"""The oracles and contract checks themselves: they pass what is right and name what is broken."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from toys import TOYS

from smc import Choice, Regex, SMCSampler, TableModel, baselines
from smc.constraints.base import pack
from smc.errors import OptionError
from smc.testing import check_constraint, check_model, expectation, expected_weights
from smc.vocabulary import Vocabulary

VOCABULARY = Vocabulary((b"a", b"b", b"ab", b"<x>", b"", b"<eos>", b"<end>"), (5, 6), frozenset({3, 5, 6}))


def test_expectation_of_a_die() -> None:
    die = torch.full((1, 6), 1 / 6, dtype=torch.float64)
    assert expectation(
        lambda draws: draws.categorical(die, np.zeros(2, dtype=int)).sum() + 2, lambda v: v
    ) == pytest.approx(7, rel=1e-12)


def test_expected_weights_of_a_run() -> None:
    toy = TOYS["two spellings, two stops"]
    sampler = SMCSampler(toy.model, toy.constraint, n_particles=2, max_tokens=3, stop_fraction=0)

    def run(draws):
        *_, last = sampler.steps("", draws=draws)
        return sampler.result(last)

    total, evidence, weight = expected_weights(run)
    assert total == pytest.approx(1, rel=1e-12)
    assert evidence == pytest.approx(float(sum(toy.targets().values())), rel=1e-12)
    assert weight == pytest.approx({text: float(v) for text, v in toy.targets().items()}, rel=1e-12)
    assert expectation(run, lambda r: math.exp(r.log_evidence)) == pytest.approx(evidence, rel=1e-12)
    with pytest.raises(RuntimeError, match="More than 1"):
        expectation(run, lambda r: 0.0, limit=1)


def test_expected_weights_needs_an_evidence() -> None:
    toy = TOYS["000, 1xx"]
    greedy = baselines.greedy_masking(toy.model, toy.constraint, "", max_tokens=3)
    with pytest.raises(OptionError, match="greedy_masking"):
        expected_weights(lambda draws: greedy)


# ---------------------------------------------------------------------- constraints


@pytest.mark.parametrize("constraint", [Choice(["a", "ab", "bb"]), Regex("(a|ab)*b?")])
def test_good_constraints_pass(constraint) -> None:
    check_constraint(constraint.compile(VOCABULARY), VOCABULARY)


@dataclass
class Toggle:
    """A constraint and its rows: "a" or "b" after an even number of tokens, "ab" or the end after an odd one.

    `broken` names the promise that it breaks.
    """

    broken: str = ""
    lengths: tuple[int, ...] | list[int] = (0,)

    def start(self) -> "Toggle":
        return Toggle(self.broken, [0])

    def accepts(self, data: bytes) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def allowed(self) -> torch.Tensor:
        bits = np.zeros((len(self), len(VOCABULARY) + 1), dtype=bool)
        for row, length in enumerate(self.lengths):
            bits[row, [2, 5, 6] if length % 2 else [0, 1]] = True
        if self.broken == "special":
            bits[:, 3] = True
        if self.broken == "stops":
            bits[:, 6] = False
        if self.broken == "beyond":
            bits[:, -1] = True
        if self.broken == "batch" and len(self) > 1:
            bits[0, 0] = True
        return pack(bits).long() if self.broken == "dtype" else pack(bits)

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> "Toggle":
        lengths = [self.lengths[parent] + 1 for parent in parents]
        if self.broken == "alias":
            self.lengths[:] = lengths
        return Toggle(self.broken, [*lengths, 0] if self.broken == "count" else lengths)

    def fork(self, rows: np.ndarray) -> "Toggle":
        return Toggle(self.broken, self.lengths if self.broken == "alias" else [self.lengths[row] for row in rows])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("special", "allows token 3"),
        ("stops", "only some of the stop tokens"),
        ("beyond", "beyond the vocabulary"),
        ("dtype", "int64, not packed int32"),
        ("batch", "in a batch and alone"),
        ("count", "3 rows for 2 parents"),
        ("alias", "changed the original"),
    ],
)
def test_broken_constraints_are_named(broken: str, message: str) -> None:
    check_constraint(Toggle(), VOCABULARY)
    with pytest.raises(AssertionError, match=message):
        check_constraint(Toggle(broken), VOCABULARY)


# ---------------------------------------------------------------------- models


def test_good_models_pass() -> None:
    for toy in TOYS.values():
        check_model(toy.model, (), tolerance=1e-12)


class Shared(TableModel):
    """Its rows can be broken on purpose."""

    def __init__(self, broken: str):
        super().__init__(["a", "b", "<eos>"], "<eos>", lambda p: {"a": 0.5, "b": 0.25, "<eos>": 0.25})
        self.broken = broken

    def start(self, prompt):
        return SharedRows(self.broken, [tuple(prompt)])


@dataclass
class SharedRows:
    """Log probabilities that depend on how often "a" was said; "hidden" remembers what it has shown."""

    broken: str
    prefixes: list[tuple[int, ...]]
    shown: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.prefixes)

    @property
    def log_probs(self) -> torch.Tensor:
        if self.shown is None or self.broken != "hidden":
            p = torch.tensor([[1.0 + prefix.count(0), 1.0, 1.0] for prefix in self.prefixes], dtype=torch.float64)
            self.shown = p.log() if self.broken == "norm" else (p / p.sum(1, keepdim=True)).log()
        return self.shown

    def advance(self, parents, tokens):
        if self.broken == "order":
            parents = np.sort(parents)
        moved = [(*self.prefixes[parent], int(token)) for parent, token in zip(parents, tokens, strict=True)]
        if self.broken in ("alias", "hidden"):
            self.prefixes[:] = moved[: len(self.prefixes)]
        return SharedRows(self.broken, moved)

    def fork(self, rows):
        shared = self.broken in ("alias", "hidden")
        return SharedRows(self.broken, self.prefixes if shared else [self.prefixes[row] for row in rows])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("norm", "not to log 1"),
        ("order", "in a batch and alone"),
        ("alias", "changed the original"),
        ("hidden", "a fork and its original differ"),
    ],
)
def test_broken_models_are_named(broken: str, message: str) -> None:
    check_model(Shared(""), (), tolerance=1e-12)
    with pytest.raises(AssertionError, match=message):
        check_model(Shared(broken), (), tolerance=1e-12)
