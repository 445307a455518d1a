"""Grammar SMC with critics, and critics that are asked at boundaries alone."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from toys import TOYS, Toy, log_phi

from smc import FiniteLanguage, SMCSampler, TableModel, TextPotential
from smc.baselines.grammar_smc import grammar_smc
from smc.boundaries import AtBoundaries
from smc.testing import expected_weights

TOLERANCE = 1e-12


def always(text: str) -> bool:
    return True


def even(text: str) -> bool:
    return len(text) % 2 == 0


def critics(toy: Toy) -> list[TextPotential]:
    """Running values that differ from prefix to prefix, and from the final ones."""
    return [TextPotential(log_phi(toy), prefix=lambda text: math.sin(3.0 * len(text)) + 0.3 * text.count("a"))]


@pytest.mark.parametrize(
    ("name", "boundary"),
    [(name, even) for name in TOYS if name not in ("two spellings, two stops", "censored")]
    + [("phi hits zero", None), ("critic", None)],
)
def test_properly_weighted(name: str, boundary: Callable[[str], bool] | None) -> None:
    toy = TOYS[name]
    total, evidence, weight = expected_weights(
        lambda draws: grammar_smc(
            toy.model,
            toy.constraint,
            "",
            n_particles=2,
            potentials=critics(toy),
            boundary=boundary,
            max_tokens=toy.max_tokens,
            draws=draws,
        )
    )
    targets = toy.targets()
    assert total == pytest.approx(1, rel=TOLERANCE)
    assert evidence == pytest.approx(float(sum(targets.values())), rel=TOLERANCE)
    assert weight == pytest.approx({text: float(target) for text, target in targets.items()}, rel=TOLERANCE)


def test_powers() -> None:
    toy = TOYS["phi hits zero"]
    _, evidence, weight = expected_weights(
        lambda draws: grammar_smc(
            toy.model,
            toy.constraint,
            "",
            n_particles=2,
            potentials=critics(toy),
            ess_threshold=1.0,
            target_power=2,
            max_tokens=toy.max_tokens,
            draws=draws,
        )
    )
    targets = {text: float(target) for text, target in toy.targets(2).items()}
    assert evidence == pytest.approx(sum(targets.values()), rel=TOLERANCE)
    assert weight == pytest.approx(targets, rel=TOLERANCE)


def test_it_is_what_its_paper_says() -> None:
    """The sampler's own options give the same run, and the threshold is theirs: other ones give other evidence."""
    toy = TOYS["two spellings, two stops"]
    common = dict(n_particles=6, potentials=critics(toy), max_tokens=3, seed=1)
    published = dict(branching="sample", resampling="multinomial", draws="independent", finished="compete")
    evidence = []
    for options in (dict(), dict(ess_threshold=0.6), dict(ess_threshold=0.0)):
        result = grammar_smc(toy.model, toy.constraint, "", **common, **options)
        threshold = options.get("ess_threshold", 0.9)
        sampler = SMCSampler(toy.model, toy.constraint, **common, **published, ess_threshold=threshold, stop_fraction=0)
        assert result.method == "grammar_smc"
        assert result.sequences == sampler.run("").sequences
        evidence.append(result.log_evidence)
    assert len(set(evidence)) == 3


LINES = FiniteLanguage(["ab;cd;", "ab;dc;", "ba;cd;", "ba;dc;"])


def lines_model() -> TableModel:
    tokens = ["a", "b", "c", "d", ";"]
    return TableModel([*tokens, "<eos>"], "<eos>", lambda prefix: {"<eos>": 0.1, **dict.fromkeys(tokens, 0.18)})


class Counted:
    """A critic that notes what it was asked."""

    def __init__(self) -> None:
        self.prefixes: list[str] = []
        self.completes: list[str] = []

    def potential(self) -> TextPotential:
        return TextPotential(self._complete, prefix=self._prefix)

    def _prefix(self, text: str) -> float:
        self.prefixes.append(text)
        return -0.5 * text.count("ba")

    def _complete(self, text: str) -> float:
        self.completes.append(text)
        return -1.0 * text.count("ba")


def test_a_critic_is_asked_at_boundaries_alone() -> None:
    """After a ";" and never in between: 2 and 4 prefixes of the four sequences, and once for each finished one."""
    every, rare = Counted(), Counted()
    options = dict(n_particles=64, max_tokens=6, seed=0)
    grammar_smc(lines_model(), LINES, "", potentials=[every.potential()], **options)
    grammar_smc(
        lines_model(), LINES, "", potentials=[rare.potential()], boundary=lambda text: text.endswith(";"), **options
    )
    assert set(rare.prefixes) == {"ab;", "ba;", *LINES_TEXTS}
    assert len(rare.prefixes) == 6
    assert sorted(rare.completes) == sorted(LINES_TEXTS)
    assert len(every.prefixes) == 1 + 2 + 2 + 2 + 4 + 4 + 4


LINES_TEXTS = ["ab;cd;", "ab;dc;", "ba;cd;", "ba;dc;"]


def test_the_last_value_is_carried_in_between() -> None:
    """Two rows, "abcda" and "ba;d;": 1 before the first boundary, the value at the last one after it; forks agree."""
    model = lines_model()
    asked: list[str] = []

    def length(text: str) -> float:
        asked.append(text)
        return -float(len(text))

    potential = AtBoundaries(TextPotential(lambda text: 7.0, prefix=length), lambda text: text.endswith(";"))
    ids = {token: i for i, token in enumerate(["a", "b", "c", "d", ";"])}
    rows = potential.start(model.vocabulary)
    assert rows.log_prefix.tolist() == [0.0]
    seen = []
    for step in ("ab", "ba", "c;", "dd", "a;"):
        parents = np.array([0, 0]) if len(rows) == 1 else np.array([0, 1])
        rows = rows.advance(parents, np.array([ids[token] for token in step]))
        seen.append(rows.log_prefix.tolist())
    assert seen == [[0, 0], [0, 0], [0, -3], [0, -3], [0, -5]]
    assert asked == ["ba;", "ba;d;"]
    assert rows.fork(np.array([1, 1, 0])).log_prefix.tolist() == [-5, -5, 0]
    assert rows.log_complete(np.array([1, 0])).tolist() == [7, 7]
    assert len(rows) == 2


def test_the_empty_prefix_may_be_a_boundary() -> None:
    model = lines_model()
    opinion = TextPotential(lambda text: 0.0, prefix=lambda text: -2.0, log_bound=1.5)
    potential = AtBoundaries(opinion, always)
    assert potential.start(model.vocabulary).log_prefix.tolist() == [-2.0]
    assert potential.log_bound == 1.5


def test_a_critic_that_gives_up_at_a_boundary_ends_the_prefix() -> None:
    toy = TOYS["000, 1xx"]
    never_1 = TextPotential(
        lambda text: -math.inf if text.startswith("1") else 0.0,
        prefix=lambda text: -math.inf if text.startswith("1") else 0.0,
    )
    result = grammar_smc(
        toy.model,
        toy.constraint,
        "",
        n_particles=30,
        potentials=[never_1],
        boundary=lambda t: len(t) == 2,
        max_tokens=3,
    )
    assert result.posterior() == {"000": 1.0}
    # the empty prefix; both first bits; 00, 10 and 11; 000 alone
    assert result.cost.forward_rows == 1 + 2 + 1 + 1
