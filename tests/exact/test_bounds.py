"""Branch and bound: at every budget the bounds hold against rational arithmetic, and in the end they meet."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from toys import CRITIC, SECTION_7, TOYS, Toy, Wider, log_phi, words

from smc import Choice, Everything, FiniteLanguage, Intersection, Regex, TableModel, TextPotential
from smc.constraints.base import Constraint
from smc.errors import OptionError, SMCError
from smc.exact import CertifiedPosterior, ExactPosterior, branch_and_bound, enumerate_posterior

ALL = {**TOYS, "00000, 1xxxx at .9": SECTION_7["00000, 1xxxx at .9"]}
SLACK = 1e-12
NOTHING = -math.inf

Tokens = tuple[int, ...]


def potentials(toy: Toy) -> Sequence[TextPotential]:
    return [TextPotential(log_phi(toy), log_bound=math.log(max(toy.phi.values())))] if toy.phi else []


@cache
def model_of(name: str) -> TableModel:
    """One model a toy, so that its language compiles once."""
    return ALL[name].model


def bound(name: str, **options) -> CertifiedPosterior:
    toy = ALL[name]
    options = {"potentials": potentials(toy), "max_tokens": toy.max_tokens, **options}
    return branch_and_bound(model_of(name), toy.constraint, "", **options)


def enumerated(name: str, **options) -> ExactPosterior:
    toy = ALL[name]
    options = {"potentials": potentials(toy), "max_tokens": toy.max_tokens, **options}
    return enumerate_posterior(model_of(name), toy.constraint, "", **options)


def sequence_targets(toy: Toy, power: int) -> dict[Tokens, Fraction]:
    """p(y)^power phi(y) of every token sequence."""
    ids = {token: i for i, token in enumerate(toy.vocab)}
    targets = {
        tuple(ids[t] for t in tokens): p**power * toy.phi.get("".join(tokens), Fraction(1))
        for tokens, p in toy.sequences()
    }
    return {tokens: target for tokens, target in targets.items() if target}


def prefixes(name: str) -> int:
    """How many prefixes there are to visit."""
    return enumerated(name).cost.forward_rows


def assert_bounds(
    found: CertifiedPosterior, strings: Mapping[str, Fraction], sequences: Mapping[Tokens, Fraction]
) -> None:
    """Everything that the result promises holds for the exact targets of strings and of token sequences."""
    z = float(sum(strings.values()))
    assert math.exp(found.log_lower) <= z * (1 + SLACK)
    assert math.exp(found.log_upper) >= z * (1 - SLACK)
    assert math.exp(found.log_lower) + math.exp(found.log_open_mass) == pytest.approx(
        math.exp(found.log_upper), rel=SLACK
    )

    posterior, certificate = found.posterior(), found.total_variation_bound
    by_tokens = {s.tokens: float(w) for s, w in zip(found.sequences, found.weights, strict=True)}
    over_strings = sum(abs(posterior.get(s, 0.0) - float(t) / z) for s, t in strings.items()) / 2
    over_tokens = sum(abs(by_tokens.get(y, 0.0) - float(t) / z) for y, t in sequences.items()) / 2
    assert over_strings <= over_tokens + SLACK
    assert over_tokens <= certificate + SLACK
    if posterior:
        assert over_tokens == pytest.approx(1 - math.exp(found.log_lower) / z, abs=SLACK)

    bounds = found.bounds()
    assert bounds.keys() == posterior.keys()
    assert sum(posterior.values()) == pytest.approx(1 if posterior else 0, rel=SLACK)
    for string, target in strings.items():
        low, high = bounds.get(string, (0.0, certificate))
        assert low * (1 - SLACK) <= float(target) / z <= high * (1 + SLACK) + SLACK
        assert high <= 1

    sequence_bounds = found.sequence_bounds()
    for s in found.sequences:
        low, high = sequence_bounds[s.tokens]
        assert s.log_target == s.log_weight
        assert math.exp(s.log_target) == pytest.approx(float(sequences[s.tokens]), rel=SLACK)
        assert low * (1 - SLACK) <= float(sequences[s.tokens]) / z <= high * (1 + SLACK)
    unfound = [float(t) for tokens, t in sequences.items() if tokens not in sequence_bounds]
    assert max(unfound, default=0.0) <= math.exp(found.log_open_peak) * (1 + SLACK)
    assert sum(unfound) <= math.exp(found.log_open_mass) * (1 + SLACK)
    if found.best_is_certain:
        best = found.best()
        assert best is not None
        assert sequences[best.tokens] == max(sequences.values())


@pytest.mark.parametrize("options", [{}, {"batch_size": 1}, {"batch_size": 3}, {"max_held_rows": 1}])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("name", TOYS)
def test_bounds_hold_at_every_budget(name: str, power: int, options: dict) -> None:
    toy = ALL[name]
    strings, sequences = toy.targets(power), sequence_targets(toy, power)
    for rows in range(1, prefixes(name) + 2):
        found = bound(name, target_power=power, max_rows=rows, **options)
        assert found.cost.forward_rows <= rows
        assert found.cost.tokens == found.cost.masks == found.cost.forward_rows
        assert_bounds(found, strings, sequences)


@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("name", TOYS)
def test_bounds_tighten_until_they_meet(name: str, power: int, batch_size: int) -> None:
    needed = prefixes(name)
    runs = [bound(name, target_power=power, max_rows=rows, batch_size=batch_size) for rows in range(1, needed + 1)]
    for before, after in pairwise(runs):
        assert after.log_lower >= before.log_lower - SLACK
        assert after.log_upper <= before.log_upper + SLACK
        assert after.total_variation_bound <= before.total_variation_bound + SLACK
    assert [r.status for r in runs[:-1]] == ["incomplete"] * (needed - 1)
    assert not any(r.exact for r in runs[:-1])
    last = runs[-1]
    assert last.exact
    assert last.status == ("max_tokens" if name == "censored" else "complete")
    assert last.log_lower == last.log_upper
    assert last.log_open_peak == NOTHING
    assert last.total_variation_bound == 0
    assert last.best_is_certain
    assert last.cost.forward_rows == needed


@pytest.mark.parametrize("options", [{}, {"batch_size": 1}, {"batch_size": 3}])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("name", ALL)
def test_with_budget_enough_it_is_enumeration(name: str, power: int, options: dict) -> None:
    exact = enumerated(name, target_power=power)
    found = bound(name, target_power=power, **options)
    assert found.log_lower == pytest.approx(exact.log_evidence, rel=SLACK)
    assert found.log_censored_mass == pytest.approx(exact.log_censored_mass, rel=SLACK)
    assert found.log_rejected_mass == pytest.approx(exact.log_rejected_mass, rel=SLACK)
    mine, theirs = ({s.tokens: s for s in r.sequences} for r in (found, exact))
    assert mine.keys() == theirs.keys()
    for tokens, s in mine.items():
        assert s.log_prob == pytest.approx(theirs[tokens].log_prob, rel=SLACK, abs=SLACK)
        assert s.kept_path == pytest.approx(theirs[tokens].kept_path, rel=SLACK, abs=SLACK)
    best = found.best()
    assert best is not None
    assert best.log_target == found.sequences[0].log_target
    for string, p in exact.posterior().items():
        assert found.bounds()[string] == pytest.approx((p, p), rel=SLACK)
        assert found.posterior()[string] == pytest.approx(p, rel=SLACK)


def _uneven(prefix: tuple[str, ...]) -> Mapping[str, Fraction]:
    """Every prefix has other probabilities, so that a row mistaken for its neighbour shows."""
    mixed = sum(int(token) * 7**i for i, token in enumerate(prefix, 1)) + len(prefix)
    weights = {token: 1 + (mixed * (i + 2)) % 11 for i, token in enumerate(("0", "1", "2", "3", "<eos>"))}
    return {token: Fraction(w, sum(weights.values())) for token, w in weights.items()}


# half of the first letters end at once, so that their rows are let go
UNEVEN = Toy("uneven", ("0", "1", "2", "3", "<eos>"), ("<eos>",), _uneven, ("1", "3", *words("02", 3), "2231"), 4)


@pytest.mark.parametrize("language", [FiniteLanguage(UNEVEN.strings), Regex("1|3|[02]{3}|2231")])
@pytest.mark.parametrize("options", [{}, {"batch_size": 1}, {"batch_size": 3}, {"max_held_rows": 5}])
def test_rows_stay_with_their_prefixes(options: dict, language: Constraint) -> None:
    """Copying some rows, letting others go and taking over the last ones mixes up no prefix, whatever moves with it."""
    strings, sequences = UNEVEN.targets(), sequence_targets(UNEVEN, 1)
    for rows in (5, 9, 13, 100):
        found = branch_and_bound(UNEVEN.model, language, "", max_tokens=4, max_rows=rows, **options)
        assert_bounds(found, strings, sequences)
    if "max_held_rows" not in options:
        assert found.exact
        law = UNEVEN.local_masking()
        assert {s.text: math.exp(s.log_q) for s in found.sequences} == pytest.approx(
            {s: float(q) for s, q in law.items()}, rel=SLACK
        )


def test_another_tokenisation_may_hide_in_the_open_mass() -> None:
    """ "aa" is found as one token; as two it is still open, so its share of what was found is no upper bound."""
    after = {(): {"a": 0.2, "aa": 0.3, "b": 0.5}, ("a",): {"a": 1.0}}
    model = TableModel(["a", "aa", "b", "<eos>"], "<eos>", lambda prefix: after.get(prefix, {"<eos>": 1.0}))
    found = branch_and_bound(model, FiniteLanguage(["aa", "b"]), "", max_rows=3, batch_size=1)
    assert {s.text: s.tokens for s in found.sequences} == {"b": (2,), "aa": (1,)}
    assert found.posterior()["aa"] == pytest.approx(3 / 8, rel=SLACK)
    assert found.bounds()["aa"] == pytest.approx((3 / 10, 1 / 2), rel=SLACK)  # and it is 1/2
    assert found.bounds()["b"] == pytest.approx((5 / 10, 7 / 10), rel=SLACK)
    assert found.bounds(key=len) == {2: found.bounds()["aa"], 1: found.bounds()["b"]}
    assert found.sequence_bounds()[(1,)] == pytest.approx((3 / 10, 3 / 8), rel=SLACK)
    assert found.total_variation_bound == pytest.approx(2 / 10, rel=SLACK)
    assert math.exp(found.log_open_peak) == pytest.approx(2 / 10, rel=SLACK)


def test_the_infinite_language_closes_in_on_the_geometric_sum() -> None:
    """After n prefixes the n shortest words are known, and half of the last one's mass is open."""
    model = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"a": Fraction(1, 2), "<eos>": Fraction(1, 2)})
    for n in (1, 2, 10, 50):
        found = branch_and_bound(model, Regex("a*"), "", max_rows=n)
        assert found.status == "incomplete"
        assert math.exp(found.log_lower) == pytest.approx(1 - 2.0**-n, rel=SLACK)
        assert math.exp(found.log_upper) == pytest.approx(1, rel=SLACK)
        assert found.total_variation_bound == pytest.approx(2.0**-n, rel=SLACK)
        low, high = found.bounds()[""]
        assert low == pytest.approx(1 / 2, rel=SLACK)
        assert high == pytest.approx(1 / 2 + 2.0**-n, rel=SLACK)
    cut = branch_and_bound(model, Regex("a*"), "", max_tokens=5)
    assert cut.exact
    assert cut.status == "max_tokens"
    assert cut.cost.forward_rows == 6
    assert math.exp(cut.log_lower) == pytest.approx(1 - 2.0**-6, rel=SLACK)
    assert math.exp(cut.log_censored_mass) == pytest.approx(2.0**-6, rel=SLACK)


def test_a_tiny_rest_is_not_lost_to_rounding() -> None:
    """What stays open beside a heavy child is summed, not found by subtraction."""
    tiny = Fraction(1, 10**20)
    after = {(): {"a": 1 - 3 * tiny, "b": 2 * tiny, "c": tiny}, ("a",): {"a": 1}, ("a", "a"): {"a": 1}}
    model = TableModel(["a", "b", "c", "<eos>"], "<eos>", lambda prefix: after.get(prefix, {"<eos>": 1}))
    for rows, rest in ((4, 3 * tiny), (5, tiny)):
        found = branch_and_bound(model, FiniteLanguage(["aaa", "b", "c"]), "", max_rows=rows, batch_size=1)
        assert math.exp(found.log_open_mass) == pytest.approx(float(rest), rel=SLACK, abs=0)
        assert found.total_variation_bound == pytest.approx(float(rest), rel=SLACK, abs=0)


class SinglePrecision(TableModel):
    """A table model that answers in float32, as neural models do."""

    def log_probs(self, prefix: Tokens) -> np.ndarray:
        return super().log_probs(prefix).astype(np.float32)


@pytest.mark.parametrize(("kind", "tolerance"), [(TableModel, SLACK), (SinglePrecision, 1e-6)])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_children_beyond_the_budget_stay_in_the_open_mass(rows: int, power: int, kind: type, tolerance: float) -> None:
    """Of 200 children a row, only as many are listed as can be visited; the open mass counts all of them."""
    width = 200
    total = width * (width + 1)
    p = {f"<{i}>": Fraction(i + 1, total) for i in range(width)}
    model = kind([*p, "<eos>"], "<eos>", lambda prefix: {**p, "<eos>": Fraction(1, 2)})
    found = branch_and_bound(model, Everything(), "", max_rows=rows, target_power=power, max_tokens=9)
    visited = [s.tokens for s in found.sequences]  # a prefix that was visited has stopped there
    assert len(visited) == rows
    mass = [math.prod((Fraction(t + 1, total) for t in tokens), start=Fraction(1)) ** power for tokens in visited]
    children = sum(q**power for q in p.values())
    exact = sum(mass) * children - sum(m for m, tokens in zip(mass, visited, strict=True) if tokens)
    assert math.exp(found.log_open_mass) == pytest.approx(float(exact), rel=tolerance)
    heaviest_unvisited = max(Fraction(t + 1, total) for t in range(width) if (t,) not in visited)
    assert math.exp(found.log_open_peak) == pytest.approx(float(heaviest_unvisited) ** power, rel=tolerance)


def test_heaviest_first() -> None:
    found = bound("00000, 1xxxx at .9", max_rows=6, batch_size=1)
    assert [s.text for s in found.sequences] == ["00000"]
    assert found.best_is_certain


def test_a_batch_takes_what_is_nearly_as_heavy() -> None:
    """Two heavy siblings share a pass; one that is e^-3 as heavy waits."""
    first = {"a": Fraction(49, 100), "b": Fraction(49, 100), "c": Fraction(2, 100)}
    model = TableModel(["a", "b", "c", "<eos>"], "<eos>", lambda prefix: {"<eos>": Fraction(1)} if prefix else first)
    language = FiniteLanguage(["a", "b", "c"])
    passes = {size: branch_and_bound(model, language, "", batch_size=size).cost.passes for size in (1, 2, 16)}
    assert passes == {1: 4, 2: 3, 16: 3}
    assert branch_and_bound(model, language, "", max_held_rows=1).cost.passes == 4


def test_the_budget_is_kept_when_the_search_comes_back_to_an_earlier_expansion() -> None:
    """ "b" and "c" were listed beside "a" when three more visits were left; "aa" then takes one of these."""
    after = {(): {"a": 0.9, "b": 0.05, "c": 0.05}, ("a",): {"a": 1.0}}
    model = TableModel(["a", "b", "c", "<eos>"], "<eos>", lambda prefix: after.get(prefix, {"<eos>": 1.0}))
    language = FiniteLanguage(["aa", "b", "c"])
    assert branch_and_bound(model, language, "", max_rows=4).cost.forward_rows == 4
    assert branch_and_bound(model, language, "", max_rows=5).exact


def test_tolerance_ends_the_search() -> None:
    model = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"a": Fraction(1, 2), "<eos>": Fraction(1, 2)})
    found = branch_and_bound(model, Regex("a*"), "", tolerance=2.0**-7)
    assert found.status == "early_stop"
    assert found.cost.forward_rows == 7
    assert found.total_variation_bound == pytest.approx(2.0**-7, rel=SLACK)
    assert not found.exact


def test_a_running_value_of_zero_closes_a_prefix() -> None:
    """The closed prefix costs no forward row, and its mass is no longer open."""
    no_ones = TextPotential(
        lambda text: NOTHING if "1" in text else 0.0, lambda text: NOTHING if "1" in text else 0.0, log_bound=0.0
    )
    found = bound("000, 1xx", potentials=[no_ones])
    assert found.status == "complete"
    assert found.posterior() == {"000": 1.0}
    assert math.exp(found.log_upper) == pytest.approx(1 / 8, rel=SLACK)
    assert found.cost.forward_rows == 4
    nothing = bound("000, 1xx", potentials=[TextPotential(lambda text: NOTHING, lambda text: NOTHING, log_bound=0.0)])
    assert nothing.status == "rejected"
    assert nothing.cost.forward_rows == 0
    assert nothing.log_upper == NOTHING


def test_running_values_do_not_change_the_bounds() -> None:
    opinion = TextPotential(log_phi(CRITIC), prefix=lambda text: 0.7 * len(text), log_bound=math.log(3))
    for rows in (1, 2, 3):
        plain, steered = bound("critic", max_rows=rows), bound("critic", max_rows=rows, potentials=[opinion])
        assert (steered.log_lower, steered.log_upper) == (plain.log_lower, plain.log_upper)


def test_rejected_mass_is_no_part_of_the_bounds() -> None:
    """The mask allows b and the validator does not: repaired, and counted."""
    model = TableModel(["a", "b", "<eos>"], "<eos>", lambda prefix: {"a": 0.5, "b": 0.25, "<eos>": 0.25})
    found = branch_and_bound(model, Wider(FiniteLanguage(["a", "b"]), frozenset("a")), "", max_tokens=3)
    assert found.posterior() == {"a": 1.0}
    assert math.exp(found.log_upper) == pytest.approx(1 / 8, rel=SLACK)
    assert math.exp(found.log_rejected_mass) == pytest.approx(1 / 16, rel=SLACK)


def test_nothing_to_find_is_a_status() -> None:
    model = TableModel(["0", "1", "<eos>"], "<eos>", lambda prefix: {"0": 0.25, "1": 0.25, "<eos>": 0.5})
    dead = branch_and_bound(model, Intersection(FiniteLanguage(["00"]), FiniteLanguage(["01"])), "", max_tokens=4)
    censored = branch_and_bound(model, FiniteLanguage(["000"]), "", max_tokens=2)
    late = branch_and_bound(model, FiniteLanguage(["000"]), "", max_rows=2)
    assert [r.status for r in (dead, censored, late)] == ["dead", "censored", "incomplete"]
    never = TextPotential(lambda text: NOTHING, log_bound=0.0)
    assert branch_and_bound(model, FiniteLanguage(["0"]), "", potentials=[never]).status == "rejected"
    assert math.exp(censored.log_censored_mass) == pytest.approx(1 / 64, rel=SLACK)
    assert (dead.total_variation_bound, censored.total_variation_bound, late.total_variation_bound) == (0, 0, 1)
    for found in (dead, censored, late):
        assert found.log_lower == NOTHING
        assert found.posterior() == found.bounds() == found.sequence_bounds() == {}
        assert found.best() is None
        assert not found.best_is_certain
    assert math.exp(late.log_upper) == pytest.approx(1 / 16, rel=SLACK)


def test_what_is_let_go_stays_open() -> None:
    """With room for one row, only the heaviest expansion is followed; the rest stays in the upper bound for good."""
    name = "two spellings, two stops"
    found = bound(name, max_held_rows=1)
    assert found.status == "incomplete"
    assert 0 < found.cost.forward_rows < prefixes(name)
    assert_bounds(found, ALL[name].targets(), sequence_targets(ALL[name], 1))


def test_what_gives_no_bound_is_refused() -> None:
    with pytest.raises(OptionError, match=r"target_power=0.5.*at least 1"):
        bound("critic", target_power=0.5)
    with pytest.raises(OptionError, match=r"log_bound of TextPotential.*inf\. Declare"):
        bound("critic", potentials=[TextPotential(log_phi(CRITIC))])
    with pytest.raises(SMCError, match=r"log_bound promises at most 0, .*Raise log_bound"):
        bound("critic", potentials=[TextPotential(log_phi(CRITIC), log_bound=0.0)])
    for option in ("max_rows", "batch_size", "max_held_rows", "max_tokens"):
        with pytest.raises(OptionError, match=f"{option} must be"):
            bound("critic", **{option: 0})
    with pytest.raises(OptionError, match="tolerance must be"):
        bound("critic", tolerance=-0.1)


def test_the_prompt_counts_as_tokens() -> None:
    toy = SECTION_7["000, 1xx"]
    model = TableModel(toy.vocab, toy.stops, lambda prefix: toy.next_probs(prefix[2:]))
    found = branch_and_bound(model, toy.constraint, "01", max_tokens=3)
    assert found.cost.tokens == found.cost.forward_rows + 1


@pytest.mark.model
def test_state_of_a_real_model_moves_with_the_search(smollm2) -> None:
    """Small batches copy, compact and take over key-value caches; every log probability is that of enumeration."""
    language = Choice(["Rom", "Ulm"])
    prompt = "A city: "
    exact = enumerate_posterior(smollm2, language, prompt, max_tokens=3)
    found = branch_and_bound(smollm2, language, prompt, max_tokens=3, batch_size=3)
    assert found.exact
    assert found.cost.forward_rows == exact.cost.forward_rows > found.cost.passes
    theirs = {s.tokens: s.log_prob for s in exact.sequences}
    assert {s.tokens: s.log_prob for s in found.sequences} == pytest.approx(theirs, abs=1e-3)
