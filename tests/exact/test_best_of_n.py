"""Best-of-n and sample-rerank are functions of the samples of local masking."""

import math

import pytest
from toys import TOYS, Toy, log_phi

from smc import SMCResult, TextPotential
from smc.baselines.best_of_n import best_of_n, sample_rerank
from smc.baselines.local import local_masking
from smc.errors import OptionError


def samples(toy: Toy, **options) -> SMCResult:
    potentials = [TextPotential(log_phi(toy))] if toy.phi else []
    return local_masking(
        toy.model, toy.constraint, "", potentials=potentials, max_tokens=toy.max_tokens, n_particles=12, **options
    )


@pytest.mark.parametrize("name", TOYS)
def test_best_of_n_is_the_likeliest_sample(name: str) -> None:
    toy = TOYS[name]
    potentials = [TextPotential(log_phi(toy))] if toy.phi else []
    for power in (1, 2):
        for seed in range(3):
            drawn = samples(toy, seed=seed)
            result = best_of_n(
                toy.model,
                toy.constraint,
                "",
                potentials=potentials,
                max_tokens=toy.max_tokens,
                n_particles=12,
                target_power=power,
                seed=seed,
            )
            (best,) = result.sequences
            targets = {s.tokens: power * s.log_prob + s.log_potential for s in drawn.sequences}
            assert best.log_target == pytest.approx(max(targets.values()), rel=1e-12)
            assert best.log_target == pytest.approx(targets[best.tokens], rel=1e-12)
            assert result.posterior() == {best.text: 1.0}
            assert (result.method, result.weighted, result.log_evidence) == ("best_of_n", False, None)
            assert result.validity == pytest.approx(drawn.validity, rel=1e-12)
            assert result.status == drawn.status
            assert result.cost.forward_rows == drawn.cost.forward_rows


def test_power_changes_the_choice() -> None:
    """phi = 3 for "1" (p = 1/6) against "0" (p = 1/2, phi 1): equal at power 1; "00" has 2/3. At power 2, "0" wins."""
    toy = TOYS["critic"]
    options = dict(potentials=[TextPotential(log_phi(toy))], max_tokens=2, n_particles=200, seed=0)
    assert best_of_n(toy.model, toy.constraint, "", **options).posterior() == {"00": 1.0}
    assert best_of_n(toy.model, toy.constraint, "", target_power=2, **options).posterior() == {"0": 1.0}


def test_nothing_finished() -> None:
    toy = TOYS["000, 1xx"]
    result = best_of_n(toy.model, toy.constraint, "", max_tokens=1)
    assert result.sequences == ()
    assert result.status == "censored"
    assert result.log_censored_mass == pytest.approx(0)


@pytest.mark.parametrize("name", ["critic", "phi hits zero"])
def test_sample_rerank_weighs_by_phi_alone(name: str) -> None:
    toy = TOYS[name]
    drawn = samples(toy, seed=5)
    result = sample_rerank(
        toy.model,
        toy.constraint,
        "",
        potentials=[TextPotential(log_phi(toy))],
        max_tokens=toy.max_tokens,
        n_particles=12,
        seed=5,
    )
    mass = {s.text: s.count * float(toy.phi.get(s.text, 1)) for s in drawn.sequences}
    assert len(mass) > 1
    assert result.posterior() == pytest.approx({text: m / sum(mass.values()) for text, m in mass.items()}, rel=1e-12)
    assert (result.method, result.weighted, result.log_evidence) == ("sample_rerank", False, None)
    assert result.log_rejected_mass == drawn.log_rejected_mass
    heaviest = [s.log_mass for s in result.sequences]
    assert heaviest == sorted(heaviest, reverse=True)


def test_sample_rerank_without_potentials_is_local_masking() -> None:
    toy = TOYS["two spellings, two stops"]
    plain = sample_rerank(toy.model, toy.constraint, "", max_tokens=3, n_particles=12, seed=2)
    assert plain.sequences == samples(toy, seed=2).sequences
    assert math.isfinite(plain.ess)


def test_bad_options_are_named() -> None:
    toy = TOYS["critic"]
    with pytest.raises(OptionError, match="target_power"):
        best_of_n(toy.model, toy.constraint, "", max_tokens=2, target_power=0)
    with pytest.raises(OptionError, match="n_particles"):
        sample_rerank(toy.model, toy.constraint, "", max_tokens=2, n_particles=0)
