"""With each kind of potential the posterior is p(y) phi(y) / Z: all draws are enumerated with their probabilities.

The values of phi are listed by hand, so that no potential is its own reference.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Annotated

import pytest
from pydantic import Field
from toys import Prefix, Toy

from smc import SMCResult, SMCSampler
from smc.draws import Draws
from smc.exact import enumerate_posterior
from smc.potentials import (
    Guarded,
    Incremental,
    Matches,
    MoleculeScore,
    ParsesSQL,
    Potential,
    Predicate,
    SmilesPrefix,
    TextPotential,
    Validates,
    ValidMolecule,
)
from smc.testing import expected_weights

TOLERANCE = 1e-12


def uneven(*tokens: str) -> Callable[[Prefix], Mapping[str, Fraction]]:
    """Token i has weight i + 1; stopping gets likelier."""

    def next_probs(prefix: Prefix) -> Mapping[str, Fraction]:
        stop = Fraction(1 + min(len(prefix), 3), 5)
        total = len(tokens) * (len(tokens) + 1) // 2
        return {"<eos>": stop, **{t: (1 - stop) * Fraction(i + 1, total) for i, t in enumerate(tokens)}}

    return next_probs


def toy(name: str, tokens: tuple[str, ...], phi: Mapping[str, Fraction | int]) -> Toy:
    """The language is what phi names, zeros included."""
    exact = {text: Fraction(value) for text, value in phi.items()}
    return Toy(name, (*tokens, "<eos>"), ("<eos>",), uneven(*tokens), tuple(phi), 3, exact)


def breaks_on_b(text: str) -> float:
    if "b" in text:
        raise RuntimeError("no b, please")
    return math.log(3) if text == "aa" else 0.0


def halves(count: int, piece: str) -> int:
    return count + piece.count("a")


CASES: dict[str, tuple[Toy, Potential]] = {
    "predicate": (
        toy("even", ("a", "b", "aa"), {"": 1, "a": 0, "aa": 1, "ab": 1, "b": 0, "aba": 0}),
        Predicate(lambda text: len(text) % 2 == 0, prefix=lambda text: not text.startswith("aba")),
    ),
    "matches": (
        toy("ends in b", ("a", "b", "ab"), {"a": 0, "b": 1, "ab": 1, "ba": 0, "abb": 1, "aa": 0}),
        Matches("a?b+"),
    ),
    "matches anywhere": (
        toy("has an a", ("a", "b", "ab"), {"a": 1, "b": 0, "ab": 1, "bb": 0}),
        Matches("a", where="search"),
    ),
    "validates": (
        toy("small number", ("1", "7", "x", "12"), {"1": 0, "7": 1, "x": 0, "12": 1, "71": 0, "17": 1}),
        Validates(Annotated[int, Field(ge=5, le=20)]),
    ),
    "incremental": (
        toy(
            "half for each a",
            ("a", "b", "ab"),
            {"": 1, "a": Fraction(1, 2), "aa": Fraction(1, 4), "ba": Fraction(1, 2)},
        ),
        Incremental(
            0, halves, complete=lambda n: -n * math.log(2), prefix=lambda n: 0.3 * n - 0.1, reads="text", log_bound=0.0
        ),
    ),
    "sql": (
        toy(
            "sql",
            ("select 1", "(", ")", "+2"),
            {"select 1": 1, "select 1)": 0, "(select 1)": 1, "select 1+2": 1, ")": 0},
        ),
        ParsesSQL("sqlite"),
    ),
    "smiles": (
        toy("smiles", ("C", "c1", "=", "O"), {"C": 1, "C=O": 1, "c1": 0, "CO": 1, "O=O": 1, "C=": 0, "": 0}),
        SmilesPrefix(),
    ),
    "molecule": (
        toy("molecule", ("C", "(", "F", "=F"), {"C": 1, "CF": 1, "F=F": 0, "C(": 0, "F": 1, "": 0}),
        ValidMolecule(),
    ),
    "molecule score": (
        toy("atoms", ("C", "(", "F", "=F"), {"C": 1, "CF": 2, "F=F": 0, "CCF": 3, "": 0}),
        MoleculeScore(lambda molecule: math.log(molecule.GetNumAtoms()), log_bound=math.log(10)),
    ),
    "guarded: failures weigh nothing, and on prefixes say nothing": (
        toy("no b", ("a", "b", "aa"), {"a": 1, "aa": 3, "b": 0, "ab": 0, "aaa": 1}),
        Guarded(TextPotential(breaks_on_b, prefix=breaks_on_b)),
    ),
    "guarded: a prefix that fails may go on": (
        toy("all", ("a", "b", "aa"), {"a": 1, "aa": 1, "b": 1, "ab": 1, "aba": 1}),
        Guarded(TextPotential(lambda text: 0.0, prefix=breaks_on_b)),
    ),
}


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize("name", CASES)
def test_proper_weighting(name: str, branching: str, k: int) -> None:
    """E[exp(log_evidence)] = Z and the expected weight of each string is p(y) phi(y)."""
    toy, potential = CASES[name]
    sampler = SMCSampler(
        toy.model,
        toy.constraint,
        n_particles=k,
        branching=branching,
        potentials=[potential],
        max_tokens=toy.max_tokens,
        stop_fraction=0.0,
    )

    def run(draws: Draws) -> SMCResult:
        *_, last = sampler.steps("", draws=draws)
        return sampler.result(last)

    targets = toy.targets()
    total, evidence, weight = expected_weights(run)
    assert total == pytest.approx(1, rel=TOLERANCE)
    assert evidence == pytest.approx(float(sum(targets.values())), rel=TOLERANCE)
    assert weight.keys() == targets.keys()
    for text, target in targets.items():
        assert weight[text] == pytest.approx(float(target), rel=TOLERANCE), text


@pytest.mark.parametrize("name", CASES)
def test_exhaustive_enumeration_agrees(name: str) -> None:
    toy, potential = CASES[name]
    found = enumerate_posterior(toy.model, toy.constraint, "", potentials=[potential], max_tokens=toy.max_tokens)
    assert math.exp(found.log_evidence) == pytest.approx(float(sum(toy.targets().values())), rel=TOLERANCE)


def test_a_validator_says_what_a_reader_reads() -> None:
    potential = Validates(dict[str, int], read=lambda text: json.loads(text.replace("'", '"')))
    assert potential.holds("{'a': 1}")
    assert not potential.holds("{'a': 'x'}")
    assert not potential.holds("{'a'")
