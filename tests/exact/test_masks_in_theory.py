"""Mask, then nucleus; a choice among what is left; an empty mask: each as the theory says, over every outcome of the draws."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from smc import Choice, FiniteLanguage, Proposal, SMCSampler, TableModel
from smc.constraints.base import Constraint, pack
from smc.constraints.caching import CompileOnce
from smc.testing import enumerate_draws
from smc.vocabulary import Vocabulary

PROBABILITIES = {"a": 0.50, "b": 0.30, "c": 0.12, "d": 0.05, "e": 0.03}
NUCLEUS = Proposal(top_p=0.9)


def next_probs(prefix: tuple[str, ...]) -> dict[str, float]:
    return PROBABILITIES if not prefix else {"</s>": 1.0}


MODEL = TableModel(vocab=[*PROBABILITIES, "</s>"], eos="</s>", next_probs=next_probs)


@pytest.mark.parametrize("constraint", [Choice(["d", "e"]), FiniteLanguage(["d", "e"])])
@pytest.mark.parametrize("n_particles", [1, 2])
@pytest.mark.parametrize("draws", ["systematic", "independent"])
def test_the_nucleus_is_taken_after_the_mask(constraint: Constraint, n_particles: int, draws: str) -> None:
    """.05 and .03 are all that is left: .9 of their mass takes both, though neither is in the model's own nucleus."""
    sampler = SMCSampler(
        MODEL, constraint, branching="sample", n_particles=n_particles, proposal=NUCLEUS, draws=draws, max_tokens=1
    )
    mass = {"d": 0.0, "e": 0.0}
    evidence = 0.0
    for probability, result in enumerate_draws(lambda source: sampler.run([], draws=source)):
        evidence += probability * math.exp(result.log_evidence or 0.0)
        for sequence in result.sequences:
            mass[sequence.text] += probability * math.exp(sequence.log_mass)
    assert evidence == pytest.approx(0.08, rel=1e-12)
    assert mass == pytest.approx({"d": 0.05, "e": 0.03}, rel=1e-12)


def test_the_reverse_order_keeps_none() -> None:
    """Nucleus, then mask: .50, .30 and .12 reach .9, and the mask deletes all three."""
    log_p = torch.log(torch.tensor([list(PROBABILITIES.values())], dtype=torch.float64))
    nucleus = NUCLEUS.shape(log_p).exp()[0].numpy()
    allowed = np.array([text in "de" for text in PROBABILITIES])
    assert nucleus[:3].sum() == pytest.approx(1)
    assert (nucleus * allowed).sum() == 0


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_a_choice_is_the_model_renormalised(branching: str) -> None:
    """One step, so local masking and the posterior agree: p over the options, divided by their sum."""
    result = SMCSampler(MODEL, Choice(["d", "e"]), branching=branching, n_particles=8, max_tokens=1).run([])
    assert result.log_evidence == pytest.approx(math.log(0.08), rel=1e-12)
    if branching == "enumerate":
        assert result.posterior() == pytest.approx({"d": 0.625, "e": 0.375}, rel=1e-12)
    for sequence in result.sequences:
        assert sequence.log_kept_mass == pytest.approx(math.log(0.08))
        assert sequence.log_q == pytest.approx(math.log(PROBABILITIES[sequence.text] / 0.08))


@dataclass(frozen=True)
class DeadAfter(CompileOnce):
    """Any first token, and after those in `dead` an empty mask."""

    dead: str

    @property
    def engine(self) -> str:
        return "test"

    def _compile(self, vocabulary: Vocabulary) -> _DeadAfter:
        return _DeadAfter(self, vocabulary, [None])

    def accepts(self, data: bytes) -> bool:
        return data.decode() not in self.dead


@dataclass(frozen=True)
class _DeadAfter:
    """Compiled and rows in one: the first token of each row."""

    language: DeadAfter
    vocabulary: Vocabulary
    first: list[str | None]

    def start(self) -> _DeadAfter:
        return self

    def accepts(self, data: bytes) -> bool:
        return self.language.accepts(data)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def allowed(self) -> torch.Tensor:
        stop = np.arange(len(self.vocabulary)) == self.vocabulary.stop_ids[0]
        rows = [~stop if first is None else stop & (first not in self.language.dead) for first in self.first]
        return pack(np.array(rows, dtype=bool).reshape(len(rows), len(self.vocabulary)))

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> _DeadAfter:
        return self._with([self.vocabulary.tokens[token].decode() for token in tokens])

    def fork(self, rows: np.ndarray) -> _DeadAfter:
        return self._with([self.first[row] for row in rows])

    def _with(self, first: list[str | None]) -> _DeadAfter:
        return _DeadAfter(self.language, self.vocabulary, first)


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize("n_particles", [1, 2])
def test_an_empty_mask_means_weight_zero(branching: str, n_particles: int) -> None:
    """Z is what does not die; the mass that does is reported as dead, and nothing is forced."""
    sampler = SMCSampler(MODEL, DeadAfter("ab"), branching=branching, n_particles=n_particles, max_tokens=2)
    evidence = dead = 0.0
    for probability, result in enumerate_draws(lambda source: sampler.run([], draws=source)):
        evidence += probability * math.exp(result.log_evidence or 0.0)
        dead += probability * math.exp(result.log_dead_mass)
        assert not {s.text for s in result.sequences} & set("ab")
    assert evidence == pytest.approx(0.20, rel=1e-12)
    assert dead == pytest.approx(0.80, rel=1e-12)


def test_nothing_but_empty_masks_is_a_status() -> None:
    result = SMCSampler(MODEL, DeadAfter("abcde"), n_particles=4, max_tokens=2).run([])
    assert (result.status, result.posterior(), result.log_evidence) == ("dead", {}, -math.inf)
    assert math.exp(result.log_dead_mass) == pytest.approx(1)
    assert result.advice is not None
