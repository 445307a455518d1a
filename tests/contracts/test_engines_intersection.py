"""Intersections of constraints of any engines: masks AND, and a dead end weighs zero. Against sums done by hand."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from smc import SMCSampler, TableModel
from smc.constraints import EBNF, Checked, Choice, Constraint, FiniteLanguage, Intersection, Lark, Regex
from smc.exact import enumerate_posterior
from smc.result import log_total

ODDS = {"a": Fraction(3, 10), "b": Fraction(1, 5), "ab": Fraction(1, 5), "ba": Fraction(1, 10), "<eos>": Fraction(1, 5)}
TOKENS = [token for token in ODDS if token != "<eos>"]
LONGEST = 5


def model() -> TableModel:
    return TableModel(list(ODDS), "<eos>", lambda prefix: {token: float(p) for token, p in ODDS.items()})


def texts(longest: int = LONGEST) -> list[str]:
    return ["".join(letters) for length in range(longest + 1) for letters in itertools.product("ab", repeat=length)]


def targets(members: set[str]) -> dict[str, Fraction]:
    """p of each member: the sum over its tokenisations."""
    found: dict[str, Fraction] = dict.fromkeys(members, Fraction(0))

    def walk(text: str, p: Fraction) -> None:
        if text in members:
            found[text] += p * ODDS["<eos>"]
        for token in TOKENS:
            if any(member.startswith(text + token) for member in members):
                walk(text + token, p * ODDS[token])

    walk("", Fraction(1))
    return found


EVEN = "(aa|bb|ab|ba)*"
CASES: list[tuple[str, list[Constraint], set[str]]] = [
    (
        "xgrammar and llguidance",
        [Regex("a[ab]{0,4}"), Regex(EVEN, engine="llguidance")],
        {text for text in texts() if text.startswith("a") and len(text) % 2 == 0},
    ),
    (
        "grammar, grammar and list",
        [
            EBNF('root ::= "a" root "b" | "ab"'),
            Lark('start: ("a" | "b")+', engine="llguidance"),
            FiniteLanguage(["ab", "aabb", "ba"]),
        ],
        {"ab", "aabb"},
    ),
    (
        "choice and a predicate",
        [
            Choice(["a", "ab", "abb", "bab"], engine="llguidance"),
            Checked(lambda text: True, lambda text: "bb" not in text),
        ],
        {"a", "ab", "bab"},
    ),
    (
        "one that dies late",  # both go on from "ab", in ways that never meet
        [Regex("a|abaa", engine="llguidance"), Regex("a|abbb|abba")],
        {"a"},
    ),
]


@pytest.mark.parametrize(("parts", "members"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_posterior_is_that_of_the_common_texts(parts: list[Constraint], members: set[str]) -> None:
    exact = targets(members)
    z = sum(exact.values())
    for order in (parts, parts[::-1]):
        found = enumerate_posterior(model(), Intersection(*order), "", max_tokens=LONGEST)
        assert math.exp(found.log_evidence) == pytest.approx(float(z), rel=1e-12)
        posterior = found.posterior()
        assert posterior == pytest.approx({text: float(p / z) for text, p in exact.items()}, rel=1e-12)
    run = SMCSampler(model(), Intersection(*parts), n_particles=64, max_tokens=LONGEST, stop_fraction=0).run("")
    assert run.log_evidence == pytest.approx(math.log(z), rel=1e-12)
    assert run.posterior() == pytest.approx(posterior, rel=1e-12)


def test_dead_ends_are_counted_and_weigh_nothing() -> None:
    """Of "ab.." all is lost: after "ab" (two ways to spell it) the one wants "a" and the other "b"; and after "aba", which
    the token "ba" spells on its way, nothing is left either."""
    run = SMCSampler(model(), Intersection(*CASES[3][1]), n_particles=64, max_tokens=LONGEST, stop_fraction=0).run("")
    two_ways = ODDS["ab"] + ODDS["a"] * ODDS["b"]
    assert np.exp(log_total(run.sequences)) == pytest.approx(float(ODDS["a"] * ODDS["<eos>"]), rel=1e-12)
    assert math.exp(run.log_dead_mass) == pytest.approx(float(two_ways), rel=1e-12)
    assert run.log_censored_mass == -math.inf
    estimates = [
        SMCSampler(
            model(), Intersection(*CASES[3][1]), n_particles=200, branching="sample", max_tokens=LONGEST, seed=seed
        ).run("")
        for seed in range(4)
    ]
    mean = np.mean([math.exp(estimate.log_evidence or 0.0) for estimate in estimates])
    assert mean == pytest.approx(float(ODDS["a"] * ODDS["<eos>"]), rel=0.2)
