"""Every method of the library is a config, and every config runs: on a table model, with potentials, within budgets."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf
from toy_study import METHODS, STRINGS, install, next_probs, settings

from experiments import twists
from experiments.budget import repeated
from experiments.calls import smc_sampler
from experiments.config import BudgetConfig, MethodConfig, identity, options
from experiments.errors import ExperimentError
from experiments.job import execute
from experiments.methods import ALGORITHMS, Call, Method, build_method
from experiments.provenance import Run
from experiments.report.commands import commands
from experiments.run import CONFIGS
from experiments.schemas import schemas
from experiments.store import read_records, run_id
from experiments.tasks import Instance
from smc import (
    EBNF,
    Checked,
    FiniteLanguage,
    Predicate,
    Proposal,
    TableModel,
    TextPotential,
    ToolCalls,
    baselines,
    fit_surrogate,
)
from smc.constraints.automaton import token_automaton
from smc.errors import OptionError, SMCError
from smc.result import Cost

NAMES = tuple(sorted(path.stem for path in (CONFIGS / "method").glob("*.yaml")))
MODEL = TableModel(vocab=["0", "1", "<eos>"], eos="<eos>", next_probs=next_probs)
PHI = {"000": 1.0, "100": 1.0, "101": 0.5, "110": 1.0, "111": 0.0}
LOG_PHI = {text: math.log(phi) if phi else -math.inf for text, phi in PHI.items()}
SOFT = TextPotential(lambda text: LOG_PHI.get(text, 0.0), log_bound=0.0)
HARD = Predicate(lambda text: text != "111")
BOOLEAN = ("ars", "cars", "rsft")  # methods that take no weights
CALL = Call(MODEL, FiniteLanguage(STRINGS), "00", "toy_00", 0, 8, (SOFT,))


@cache
def config(name: str, **changes: Any) -> MethodConfig:
    """A method's yaml, checked against its dataclass as Hydra does."""
    written = yaml.safe_load((CONFIGS / "method" / f"{name}.yaml").read_text())
    schema = re.fullmatch(r"/schema/(\w+)@_here_", written.pop("defaults")[0])
    assert schema is not None
    merged = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(schemas()[schema[1]]), written, changes))
    assert isinstance(merged, MethodConfig)
    return merged


@cache
def method(name: str, **changes: Any) -> Method:
    return build_method(config(name, **changes))


def call_of(name: str) -> Call:
    """What the toy task asks of a method, with a potential that it takes."""
    return replace(CALL, potentials=(HARD,)) if name in BOOLEAN else CALL


def record(made: Method, call: Call = CALL) -> dict[str, Any]:
    """What a method notes of a call, but for the seconds."""
    found = made.record(made.run(call), MODEL.vocabulary)
    found["cost"].pop("seconds")
    return found


# Configs


@pytest.mark.parametrize("name", NAMES)
def test_every_config_says_what_it_is_in_a_sentence(name: str) -> None:
    text = (CONFIGS / "method" / f"{name}.yaml").read_text()
    first, second = text.splitlines()[:2]
    assert first.startswith("# ")
    assert first.endswith(".")
    assert second.startswith("defaults: [/schema/")
    assert yaml.safe_load(text)["name"] == name


def test_every_method_of_the_library_is_a_config() -> None:
    methods = {name for name in baselines.__all__ if not name.endswith("_sampler")}
    assert methods <= set(ALGORITHMS)
    assert {config(name).algorithm for name in NAMES} == set(ALGORITHMS)


def test_a_sweep_over_powers_goes_from_the_posterior_to_search() -> None:
    powers = [options(config(name))["target_power"] for name in ("smc", "smc_power2", "smc_power4", "smc_power8")]
    assert powers == [1, 2, 4, 8]
    best = [record(method(name))["sequences"][0]["weight"] for name in ("smc_power2", "smc_power8")]
    assert best[0] < 1
    assert best[1] < 1


@pytest.mark.parametrize("name", NAMES)
def test_every_config_runs_and_takes_potentials(name: str) -> None:
    call = call_of(name)
    found = record(method(name), call)
    assert found["status"] == "complete"
    assert found["sequences"]
    assert {row["text"] for row in found["sequences"]} <= {t for t in STRINGS if PHI[t] > 0}
    for row in found["sequences"]:
        assert row["log_potential"] == pytest.approx(0.0 if name in BOOLEAN else LOG_PHI[row["text"]], abs=1e-15)
    assert found["cost"]["forward_rows"] > 0


@pytest.mark.parametrize("name", ["smc", "smc_roulette", "smc_lookahead_bigram", "branch_and_bound", "exact"])
def test_where_all_strings_fit_the_posterior_is_exact(name: str) -> None:
    found = record(method(name))
    assert found["log_evidence"] == pytest.approx(math.log(sum(PHI.values()) / 8), abs=1e-12)
    weights = {row["text"]: row["weight"] for row in found["sequences"]}
    assert weights == pytest.approx({t: phi / sum(PHI.values()) for t, phi in PHI.items() if phi}, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_deterministic_methods_say_so(name: str) -> None:
    made = method(name)
    assert made.deterministic == (name in ("greedy_masking", "beam", "exact", "branch_and_bound"))
    if made.deterministic:
        assert record(made) == record(made, replace(CALL, seed=1, key="other"))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("smc", {"temperature": 1.5}, "branching=enumerate draws nothing"),
        ("smc", {"stop": "never"}, "stop='never' is not known"),
        ("smc_sample", {"temperature": 0.0}, "temperature must be a finite number above 0"),
        ("smc_top_p", {"top_p": 1.5}, "top_p must be a number in"),
        ("smc_sample", {"resampling": "best"}, "resampling='best' is not known"),
        ("smc_power2", {"target_power": -1.0}, "target_power must be a finite number above 0"),
        ("smc_lookahead_bigram", {"surrogate": "trigram"}, "kind='trigram' is not known"),
        ("smc_lookahead_bigram", {"n_samples": 0}, "n_samples must be a whole number of at least 1"),
        ("smc_lookahead_bigram", {"smoothing": 0.0}, "smoothing must be a finite number above 0"),
        ("smc_lookahead_hmm", {"n_states": 0}, "n_states must be a whole number of at least 1"),
        ("smc_lookahead_hmm", {"max_states": 0}, "max_states must be a whole number of at least 1"),
        ("smc_learned", {"replicates": 1}, "A twist learns from one run for the next"),
        ("branch_and_bound", {"target_power": 0.5}, "cannot bound target_power=0.5"),
        ("branch_and_bound", {"max_rows": 0}, "max_rows must be a whole number of at least 1"),
        ("exact", {"max_rows": 0}, "max_rows must be a whole number of at least 1"),
        ("mcmc_restart", {"proposal": "leap"}, "leap"),
        ("sample_rerank", {"n_particles": 0}, "n_particles must be a whole number of at least 1"),
    ],
)
def test_every_option_is_checked_before_a_model_is_there(name: str, changes: Mapping[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        build_method(config(name, **changes))


def test_an_algorithm_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ExperimentError, match="There is no algorithm 'magic'"):
        build_method(MethodConfig("m", "magic"))


def test_the_draws_of_sample_can_be_shaped() -> None:
    def proposal(name: str) -> Proposal:
        return smc_sampler(CALL, **options(config(name), "name", "algorithm")).branching.proposal

    assert proposal("smc_sample") == Proposal()
    assert proposal("smc_temperature") == Proposal(temperature=1.5)
    assert proposal("smc_top_p") == Proposal(top_p=0.95)


# Twists and bounds


@pytest.mark.parametrize("kind", ["unigram", "bigram", "hmm"])
def test_a_lookahead_is_charged_for_its_samples(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    fits: list[Cost] = []

    def noting(*args: Any, **kwargs: Any) -> Any:
        fits.append((fitted := fit_surrogate(*args, **kwargs)).cost)
        return fitted

    made = method(f"smc_lookahead_{kind}")
    monkeypatch.setattr(twists, "fit_surrogate", noting)
    found = record(made)
    plain = record(method("smc"))
    assert len(fits) == 1
    assert fits[0].forward_rows > 0
    assert found["cost"]["forward_rows"] == plain["cost"]["forward_rows"] + fits[0].forward_rows
    assert found["cost"]["masks"] == plain["cost"]["masks"] + fits[0].masks


def test_surrogates_of_two_calls_are_fitted_to_samples_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def noting(*args: Any, seed: int, **kwargs: Any) -> Any:
        seeds.append(seed)
        return fit_surrogate(*args, seed=seed, **kwargs)

    made = method("smc_lookahead_unigram")
    monkeypatch.setattr(twists, "fit_surrogate", noting)
    for call in (CALL, replace(CALL, key="toy_00#1"), replace(CALL, seed=1), CALL):
        made.run(call)
    assert len(set(seeds)) == 3
    assert seeds[0] == seeds[3]


def test_instances_with_one_constraint_share_its_automaton(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def noting(*args: Any) -> Any:
        made.append(args)
        return token_automaton(*args)

    monkeypatch.setattr(twists, "token_automaton", noting)
    model = TableModel(vocab=["0", "1", "<eos>"], eos="<eos>", next_probs=next_probs)
    lookahead = method("smc_lookahead_bigram")
    made.clear()  # of the trial
    for prompt in ("00", "01"):
        lookahead.run(replace(CALL, model=model, constraint=FiniteLanguage(STRINGS), prompt=prompt))
    assert len(made) == 1


@dataclass(frozen=True)
class Never:
    """A potential that declares no bound."""

    log_bound: float = math.inf


def instance(constraint: Any, *potentials: Any) -> Instance:
    return Instance("i7", "00", constraint, "", None, potentials)


def test_a_lookahead_refuses_constraints_without_an_automaton() -> None:
    lookahead = method("smc_lookahead_bigram", max_states=50)
    tools = ToolCalls([{"name": "f", "parameters": {"type": "object"}}])
    assert "Instance i7: A lookahead needs a token automaton, and a ToolCalls has none" in str(
        lookahead.refusal([instance(FiniteLanguage(STRINGS)), instance(tools)])
    )
    asked = Checked(lambda text: True, lambda text: True)
    assert "Checked has none" in str(lookahead.refusal([instance(asked)]))
    endless = instance(EBNF('root ::= "0" root | "1"'))
    assert lookahead.refusal([endless]) is None  # nobody can know without a vocabulary
    refusal = lookahead.refusal([endless], MODEL.vocabulary)
    assert refusal is not None
    assert "at most 50 states" in refusal
    assert "smc_learned" in refusal
    with pytest.raises(SMCError, match=r"toy_00.*at most 50 states"):
        list(lookahead.results([replace(CALL, constraint=endless.constraint)], None))
    assert method("smc_learned").refusal([instance(tools), endless], MODEL.vocabulary) is None


def test_branch_and_bound_refuses_potentials_without_a_bound() -> None:
    bounds = method("branch_and_bound")
    assert bounds.refusal([instance(CALL.constraint, SOFT)]) is None
    assert "Never declares none" in str(bounds.refusal([instance(CALL.constraint, SOFT, Never())]))
    assert "Never declares none" in str(method("rejection").refusal([instance(CALL.constraint, Never())]))


def test_only_methods_that_decide_membership_refuse_weights() -> None:
    soft, hard = instance(CALL.constraint, SOFT), instance(CALL.constraint, HARD)
    refusing = {name: refusal for name in NAMES if (refusal := method(name).refusal([hard, soft], MODEL.vocabulary))}
    assert sorted(refusing) == sorted(BOOLEAN)
    assert "CARS only decides whether a text belongs to the language" in refusing["cars"]


def test_a_learned_twist_counts_all_its_runs_and_forgets_between_calls() -> None:
    made = method("smc_learned")
    result = made.run(CALL)
    assert len(result.log_evidence_replicates) == 4
    assert result.cost.forward_rows > made.run(replace(CALL, seed=1)).cost.forward_rows / 2
    again = made.run(CALL)
    assert again.log_evidence_replicates == result.log_evidence_replicates
    # the last run knows the language and the model, where four particles without a twist cannot hold five strings
    exact = record(method("exact"), replace(CALL, potentials=()))["log_evidence"]
    last = [made.run(replace(CALL, seed=seed, potentials=())).log_evidence_replicates[-1] for seed in range(2)]
    assert last == pytest.approx([exact] * 2, abs=1e-9)


@pytest.mark.parametrize("max_rows", [1, 4, 6, 9])
def test_bounds_enclose_the_evidence(max_rows: int) -> None:
    exact = record(method("exact"))
    found = record(method("branch_and_bound", max_rows=max_rows, batch_size=1))
    bounds = found["bounds"]
    assert found["status"] == "incomplete"
    assert found["log_evidence"] is None
    assert bounds["log_evidence_lower"] <= exact["log_evidence"] <= bounds["log_evidence_upper"]
    assert bounds["total_variation"] > 0
    assert found["log_unexplored_mass"] > -math.inf
    assert (found["advice"] is not None) == (not found["sequences"])
    truth = {row["text"]: row["weight"] for row in exact["sequences"]}
    estimate = {row["text"]: row["weight"] for row in found["sequences"]}
    distance = sum(abs(truth[text] - estimate.get(text, 0.0)) for text in truth) / 2
    assert distance <= (bounds["total_variation"] if found["sequences"] else 1) + 1e-12


def test_bounds_that_meet_are_the_evidence() -> None:
    found = record(method("branch_and_bound"))
    assert found["bounds"]["log_evidence_lower"] == found["bounds"]["log_evidence_upper"] == found["log_evidence"]
    assert found["bounds"]["total_variation"] == 0
    assert found["bounds"]["best_is_certain"]
    assert found["n_particles"] is None
    assert found["weighted"]
    assert found["advice"] is None


# Budgets


def costing(rows: int, calls: list[str], deterministic: bool = False) -> Method:
    """A method that costs so many rows and a tenth of the seconds, and notes the keys that it ran under."""

    @dataclass(frozen=True)
    class Result:
        key: str
        cost: Cost

    def run(call: Call) -> Result:
        calls.append(call.key)
        return Result(call.key, Cost(forward_rows=rows, seconds=rows / 10))

    return Method(run, deterministic=deterministic)


@pytest.mark.parametrize(("rows", "repeats"), [(1, 1), (10, 1), (14, 1), (15, 2), (20, 2), (24, 2), (25, 3), (100, 10)])
def test_runs_repeat_until_another_would_overshoot_by_more_than_half(rows: int, repeats: int) -> None:
    for budget in ({"rows": rows}, {"seconds": rows / 10}):
        calls: list[str] = []
        results = repeated(costing(10, calls), **budget).run(CALL)
        assert [result.key for result in results] == calls == ["toy_00", *(f"toy_00#{r}" for r in range(1, repeats))]


def test_what_costs_nothing_or_draws_nothing_runs_once() -> None:
    calls: list[str] = []
    repeated(costing(0, calls), rows=100).run(CALL)
    repeated(costing(1, calls, deterministic=True), rows=100).run(CALL)
    assert len(calls) == 2


ONE_OF_EACH = tuple({config(name).algorithm: name for name in NAMES}.values())


@pytest.mark.parametrize("name", [name for name in ONE_OF_EACH if not method(name).deterministic])
def test_the_same_seed_gives_the_same_answer(name: str) -> None:
    made, call = method(name, n_particles=4), call_of(name)
    assert record(made, call) == record(made, call)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_method_keeps_to_a_budget(name: str) -> None:
    made = method(name)
    call = call_of(name)
    pooled = record(repeated(made, rows=40), call)
    rows, repeats = pooled["cost"]["forward_rows"], pooled["repeats"]
    assert repeats == 1 if made.deterministic else (repeats - 0.5) * rows / repeats <= max(40, rows / repeats)
    if repeats > 1:
        assert abs(rows - 40) <= 1.5 * rows / repeats
    else:
        assert rows == record(made, call)["cost"]["forward_rows"]
    assert sum(row["weight"] for row in pooled["sequences"]) == pytest.approx(1)


def test_pooled_evidence_is_the_mean_of_independent_runs() -> None:
    made = repeated(method("importance_resampling", n_particles=2), rows=60)
    results = made.run(CALL)
    evidences = [math.exp(result.log_evidence) for result in results]
    assert len(set(evidences)) > 2
    found = made.record(results, MODEL.vocabulary)
    assert math.exp(found["log_evidence"]) == pytest.approx(sum(evidences) / len(evidences), rel=1e-12)
    assert found["n_particles"] == 2 * len(results)


def test_the_best_of_several_runs_is_the_best_of_all() -> None:
    made = repeated(method("best_of_n", n_particles=1), rows=60)
    results = made.run(CALL)
    assert len({result.best().text for result in results if result.best()}) > 1
    found = made.record(results, MODEL.vocabulary)
    (row,) = found["sequences"]
    assert row["log_target"] == max(s.log_prob + s.log_potential for result in results for s in result.sequences)
    assert row["weight"] == 1
    assert found["repeats"] == len(results)


def test_without_a_budget_a_method_stays_as_it_is() -> None:
    made = method("smc")
    assert repeated(made) is made
    assert made.sampler is not None


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"rows": 0}, "budget.rows must be a whole number of at least 1"),
        ({"seconds": 0.0}, "budget.seconds must be a finite number above 0"),
        ({"seconds": math.inf}, "budget.seconds must be a finite number above 0"),
        ({"rows": 5, "seconds": 1.0}, "give one of the two"),
    ],
)
def test_bad_budgets_are_refused(budget: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        repeated(costing(1, []), **budget)


def test_a_budget_is_part_of_a_run_only_where_there_is_one(tmp_path: Path) -> None:
    def named(budget: BudgetConfig) -> str:
        return run_id(identity(settings(tmp_path, "smc", budget=budget)))

    assert "budget" not in identity(settings(tmp_path, "smc"))
    assert len({named(BudgetConfig()), named(BudgetConfig(rows=5)), named(BudgetConfig(seconds=5.0))}) == 3


def test_a_run_under_a_budget_is_judged_as_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch)
    folder = execute(settings(tmp_path, config("best_of_n", n_particles=1), budget=BudgetConfig(rows=40)))
    assert folder is not None
    records = read_records(folder)
    assert len(records) == 4
    for found in records:
        assert found["repeats"] > 1
        assert found["cost"]["forward_rows"] > 30
        assert found["scores"]["accuracy"] == found["scores"]["best_accuracy"] == found["sequences"][0]["correct"]


def test_commands_name_the_budget() -> None:
    values = {"task": {"name": "dates"}, "method": options(METHODS["smc"]), "model": {"name": "table"}, "seed": 0}
    runs = [Run("a", {**values, "budget": {"rows": 512, "seconds": None}}, {}, True)]
    assert "budget.rows=512" in commands(runs)[0]
    assert "seconds" not in commands(runs)[0]
