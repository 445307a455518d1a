"""What has no effect, means something else than it says, or stands in another's place is refused in a sentence."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from toys import SECTION_7

import smc
from smc import (
    EBNF,
    GBNF,
    Choice,
    FiniteLanguage,
    Incremental,
    JSONSchema,
    Lark,
    LookaheadTwist,
    ModelCritic,
    MoleculeScore,
    Proposal,
    Reasoning,
    Regex,
    SMCSampler,
    TextPotential,
    ToolCalls,
    baselines,
    diagnostics,
    fit_surrogate,
    rescore,
)
from smc.baselines.steering import Steering
from smc.branching import Enumerate, Sample
from smc.errors import OptionError, quoted
from smc.exact import branch_and_bound, enumerate_posterior
from smc.resampling import multinomial
from smc.result import combine
from smc.scoring import score

TOY = SECTION_7["000, 1xx"]
MODEL, LANGUAGE = TOY.model, TOY.constraint


def sampler(**options: Any) -> SMCSampler:
    return SMCSampler(MODEL, LANGUAGE, max_tokens=3, **options)


# ---------------------------------------------------------------------------------------------- options without effect


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ess_threshold": 0.5}, r"ess_threshold=0\.5 has no effect here\. branching='enumerate'"),
        ({"draws": "systematic"}, "draws='systematic' has no effect"),
        ({"draws": "independent", "ess_threshold": 1.0}, r"ess_threshold=1\.0 and draws='independent' have no effect"),
        ({"resampling": "multinomial"}, "resampling='multinomial' belongs to branching='sample'"),
        ({"proposal": Proposal(top_k=3)}, "proposal shapes what branching='sample' draws"),
        ({"stop": "roulette", "stop_fraction": 0}, "stop_fraction=0 never ends a run"),
        (
            {"branching": Enumerate(16, False), "finished": "retire"},
            "finished='retire' has no effect.*Enumerate object",
        ),
        ({"branching": Enumerate(16, False), "ess_threshold": 0.5}, "brings its own options"),
        ({"branching": Steering(16, 3, True), "draws": "systematic"}, "Steering object brings its own"),
    ],
)
def test_options_that_a_sampler_would_ignore(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        sampler(**options)


def test_what_is_left_out_takes_its_default() -> None:
    assert sampler().branching == Enumerate(16, compete=False)
    made = sampler(branching="sample").branching
    assert isinstance(made, Sample)
    assert (made.ess_threshold, made.joint, made.compete) == (0.5, True, False)


@pytest.mark.parametrize("method", [baselines.pimh, baselines.particle_gibbs])
def test_options_that_a_chain_would_ignore(method: Callable[..., Any]) -> None:
    for options in ({"ess_threshold": 0.5}, {"draws": "independent"}):
        with pytest.raises(OptionError, match="has no effect here"):
            method(MODEL, LANGUAGE, "", max_tokens=3, n_particles=2, n_iterations=1, **options)
        method(MODEL, LANGUAGE, "", max_tokens=3, n_particles=2, n_iterations=1, branching="sample", **options)


def test_a_boundary_without_critics() -> None:
    with pytest.raises(OptionError, match=r"boundary=.* has no effect here.*give potentials"):
        baselines.grammar_smc(MODEL, LANGUAGE, "", max_tokens=3, boundary=str.isspace)


@pytest.mark.parametrize("kind", ["unigram", "bigram"])
def test_hidden_states_of_what_has_none(kind: str) -> None:
    with pytest.raises(OptionError, match=f"n_states=4 and iterations=2 have no effect here. A {kind} has no hidden"):
        fit_surrogate(kind, MODEL, LANGUAGE, [""], max_tokens=3, n_states=4, iterations=2)


def test_steps_go_over_the_replicate_that_is_chosen() -> None:
    made = sampler(n_particles=2, branching="sample", replicates=3)
    with pytest.raises(OptionError, match="replicates=3: choose one of them by replicate=0 to 2"):
        made.steps("")
    with pytest.raises(OptionError, match="replicate must be a whole number"):
        made.steps("", replicate=-1)
    results = []
    for replicate in range(3):
        *_, last = made.steps("", replicate=replicate)
        results.append(made.result(last))
    assert combine(results).log_evidence == made.run("").log_evidence
    *_, first = sampler(n_particles=2, branching="sample").steps("")
    assert made.result(first).log_evidence == results[0].log_evidence


# ------------------------------------------------------------------------------------------------- yes-or-no options

YES_OR_NO: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("SMCSampler", "strict_language"): lambda value: sampler(strict_language=value),
    ("SMCSampler", "token_healing"): lambda value: sampler(token_healing=value),
    ("EBNF", "check"): lambda value: EBNF('root ::= "a"', check=value),
    ("GBNF", "check"): lambda value: GBNF('root ::= "a"', check=value),
    ("Lark", "check"): lambda value: Lark('start: "a"', check=value),
    ("JSONSchema", "closed"): lambda value: JSONSchema({}, closed=value),
    ("Reasoning", "required"): lambda value: Reasoning(Choice(["a"]), required=value),
    ("ToolCalls", "required"): lambda value: ToolCalls([{"name": "f"}], required=value),
    ("ToolCalls", "several"): lambda value: ToolCalls([{"name": "f"}], several=value),
    ("ToolCalls", "closed"): lambda value: ToolCalls([{"name": "f"}], closed=value),
    ("TextPotential", "boolean"): lambda value: TextPotential(len, boolean=value),
    ("Incremental", "boolean"): lambda value: Incremental("", str.__add__, len, boolean=value),
    ("ModelCritic", "count_stop"): lambda value: ModelCritic(MODEL, "", count_stop=value),
    ("Validates", "strict"): lambda value: smc.Validates(int, strict=value),
    ("Steering", "compete"): lambda value: Steering(2, 3, value),
    ("Enumerate", "compete"): lambda value: Enumerate(2, value),
    ("Sample", "joint"): lambda value: Sample(2, multinomial, 0.5, value, False),
    ("Sample", "compete"): lambda value: Sample(2, multinomial, 0.5, True, value),
    ("Sample", "proper"): lambda value: Sample(2, multinomial, 0.5, True, False, proper=value),
}

ELSEWHERE = {("HFModel", "cuda_graphs")}  # needs a model of its own: tests/contracts/test_replay.py
RESULTS = {"SMCResult", "Diagnostics", "Genealogy"}  # whose fields nobody gives


@pytest.mark.parametrize(("owner", "option"), YES_OR_NO)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no", "not 'no': write {}=False"),
        ("False", "not 'False': write {}=False"),
        ("yes", "not 'yes': write {}=True"),
        (1, "not 1: write {}=True"),
        (0, "not 0: write {}=False"),
        ([], r"not \[\]"),
        ("maybe", "not 'maybe'"),
    ],
)
def test_only_true_and_false_are_yes_and_no(owner: str, option: str, value: Any, message: str) -> None:
    with pytest.raises(OptionError, match=f"{option} must be True or False, {message.format(option)}"):
        YES_OR_NO[owner, option](value)


@pytest.mark.parametrize(("owner", "option"), YES_OR_NO)
def test_true_and_false_are_taken(owner: str, option: str) -> None:
    for value in (True, False, np.True_, np.False_):
        YES_OR_NO[owner, option](value)


def test_no_yes_or_no_option_is_forgotten() -> None:
    named = {name: getattr(smc, name) for name in smc.__all__}
    for module in (baselines, diagnostics):
        named |= {name: getattr(module, name) for name in module.__all__}
    named |= {f.__name__: f for f in (enumerate_posterior, branch_and_bound, score, Steering, Enumerate, Sample)}
    found = {
        (name, parameter.name)
        for name, value in named.items()
        if name not in RESULTS
        for function in [value, *(getattr(value, each, None) for each in ("load", "from_pretrained", "run", "steps"))]
        if inspect.isfunction(function) or (inspect.isclass(function) and not issubclass(function, Exception))
        for parameter in inspect.signature(function).parameters.values()
        if parameter.annotation in ("bool", "bool | None", bool) or isinstance(parameter.default, bool)
    }
    assert found == set(YES_OR_NO) | ELSEWHERE


# ------------------------------------------------------------------------------------------------ the nearest spelling


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"branching": "enumarate"}, "branching='enumarate' is not known: did you mean 'enumerate'"),
        ({"branching": "Sample"}, "did you mean 'sample'"),
        ({"branching": "sample", "resampling": "sistematic"}, "did you mean 'systematic'"),
        ({"branching": "sample", "draws": "independant"}, "did you mean 'independent'"),
        ({"finished": "retired"}, "did you mean 'retire'"),
        ({"stop": "rulette"}, "did you mean 'roulette'"),
        ({"finished": "xyz"}, "is not known: choose one of 'retire', 'compete'"),
        ({"finished": ["retire"]}, r"finished=\['retire'\] is not known"),
        ({"finished": np.zeros(2)}, r"finished=array\(\[0\., 0\.\]\) is not known"),
        ({"resampling": ""}, "resampling='' is not known"),
    ],
)
def test_the_nearest_spelling_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        sampler(**options)


@pytest.mark.parametrize("value", [10**400, -(10**400), math.nan, "a", True, None])
def test_numbers_that_are_none(value: Any) -> None:
    with pytest.raises(OptionError, match="target_power must be a finite number above 0"):
        sampler(target_power=value)


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: TextPotential(len, **options),
        lambda **options: Incremental("", str.__add__, len, **options),
        lambda **options: MoleculeScore(len, **options),
    ],
)
def test_bounds_that_are_no_log_values(make: Callable[..., Any]) -> None:
    for log_bound in (math.nan, -math.inf, "0", None, True):
        with pytest.raises(OptionError, match="log_bound must be a log value"):
            make(log_bound=log_bound)


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: TextPotential(len, **options),
        lambda **options: Incremental("", str.__add__, len, **options),
    ],
)
def test_a_bound_that_a_boolean_potential_would_ignore(make: Callable[..., Any]) -> None:
    with pytest.raises(OptionError, match=r"leave out log_bound=2\.0"):
        make(log_bound=2.0, boolean=True)
    assert make(log_bound=0.0, boolean=True).log_bound == make(boolean=True).log_bound == 0


# ------------------------------------------------------------------------------------------ what stands in its place

RESULT = sampler(n_particles=2).run("")
EXACT = enumerate_posterior(MODEL, LANGUAGE, "", max_tokens=3)
BOUNDS = branch_and_bound(MODEL, LANGUAGE, "", max_tokens=3)
NO_RESULT = [EXACT, BOUNDS, MODEL, [RESULT], None, RESULT.posterior(), smc.SMCResult]


@pytest.mark.parametrize("value", NO_RESULT, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "function",
    [
        diagnostics.summary,
        diagnostics.log_evidence_error,
        diagnostics.single_run_variance,
        diagnostics.genealogy,
        diagnostics.ess_path,
        lambda value: diagnostics.kl_of_local_masking(value, 0.0),
        lambda value: rescore(value, MODEL, LANGUAGE, ""),
    ],
    ids=["summary", "error", "variance", "genealogy", "path", "kl", "rescore"],
)
def test_what_is_no_result_of_a_run(function: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(OptionError, match="takes an SMCResult, which is what a run returns, not "):
        function(value)


def test_an_exact_answer_has_nothing_to_diagnose() -> None:
    with pytest.raises(
        OptionError, match=r"summary takes an SMCResult.*not ExactPosterior\. Exact answers have no sampling"
    ):
        diagnostics.summary(EXACT)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [EXACT, MODEL, None], ids=lambda value: type(value).__name__)
def test_weights_that_are_none(value: Any) -> None:
    with pytest.raises(OptionError, match=r"pareto_k takes an SMCResult.*Or give it an array of log weights"):
        diagnostics.pareto_k(value)


def test_swapped_arguments() -> None:
    with pytest.raises(
        OptionError, match=r"rescore takes an SMCResult.*The order is rescore\(result, model, constraint"
    ):
        rescore(MODEL, RESULT, LANGUAGE, "")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"The model is a FiniteLanguage.*The order is model, constraint, prompt"):
        rescore(RESULT, LANGUAGE, MODEL, "")  # type: ignore[arg-type]
    for function in (score, enumerate_posterior, branch_and_bound, baselines.cars, baselines.beam, baselines.mcmc):
        further = ([],) if function is score else ()
        for swapped, message in (
            ((LANGUAGE, MODEL, ""), "The model is a FiniteLanguage"),
            (("", MODEL, LANGUAGE), "The model is a str"),
            ((MODEL, "", LANGUAGE), "The constraint is a str"),
        ):
            with pytest.raises(OptionError, match=f"{message}.*The order is model, constraint, prompt"):
                function(*swapped, *further)  # type: ignore[operator]


@pytest.mark.parametrize("sequence", ["00", RESULT.sequences[0], 5, [0.5], None])
def test_sequences_that_are_no_token_ids(sequence: Any) -> None:
    with pytest.raises(OptionError, match=r"sequences must be lists of token ids, such as \[s\.tokens for s in"):
        score(MODEL, LANGUAGE, "", [sequence])
    assert score(MODEL, LANGUAGE, "", [np.array([0, 0, 0])]) == score(MODEL, LANGUAGE, "", [[0, 0, 0]])


@pytest.mark.parametrize("value", [RESULT, EXACT, None, [0.5, 0.5]], ids=lambda value: type(value).__name__)
def test_distributions_that_are_none(value: Any) -> None:
    law = RESULT.posterior()
    for function in (diagnostics.total_variation, diagnostics.kl_divergence, diagnostics.distance):
        for arguments in ((value, law), (law, value)):
            with pytest.raises(
                OptionError, match=r"must give each text its probability, as result\.posterior\(\) does"
            ):
                function(*arguments)
    for function in (diagnostics.floor, diagnostics.simulated_floor):
        with pytest.raises(OptionError, match="exact must give each text its probability"):
            function(value, 10)


def test_a_key_that_is_no_function() -> None:
    with pytest.raises(OptionError, match="key must be a function of a text, not 'label'"):
        RESULT.posterior("label")  # type: ignore[call-overload]


# ----------------------------------------------------------------------------------------------- long values, shortened


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("short", "'short'"),
        ("a\nb", "'a\\nb'"),
        (b"a", "b'a'"),
        ("x" * 80, repr("x" * 80)),
        ("x" * 81, repr("x" * 77 + "...")),
        (b"x" * 81, repr(b"x" * 77 + b"...")),
        ([1, 2], "[1, 2]"),
        (list(range(1000)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21..."),
        (np.eye(2), "array([[1., 0.], [0., 1.]])"),
        (Unspeakable(), "a Unspeakable (whose repr fails)"),
    ],
)
def test_values_are_quoted_on_a_line_of_some_length(value: Any, expected: str) -> None:
    assert quoted(value) == expected


LONG = "z" * 5000
FITTED = fit_surrogate("unigram", MODEL, LANGUAGE, [""], max_tokens=3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: LookaheadTwist(FITTED),
        lambda: sampler(branching=LONG),
        lambda: sampler(n_particles=LONG),
        lambda: sampler(target_power=[0] * 5000),
        lambda: sampler(potentials=LONG),
        lambda: sampler(proposal=FITTED),
        lambda: sampler(twist=FITTED),
        lambda: sampler(seed=LONG),
        lambda: sampler(strict_language=LONG),
        lambda: sampler(draws=LONG),
        lambda: sampler().run("", key=[LONG]),
        lambda: sampler().run(LONG),
        lambda: fit_surrogate("unigram", MODEL, LANGUAGE, LONG),
        lambda: fit_surrogate(LONG, MODEL, LANGUAGE, [""]),
        lambda: baselines.cars(MODEL, LANGUAGE, "", potentials=[TextPotential(Spoken(LONG))]),
        lambda: baselines.rejection(MODEL, LANGUAGE, "", potentials=[TextPotential(Spoken(LONG))]),
        lambda: branch_and_bound(MODEL, LANGUAGE, "", potentials=[TextPotential(Spoken(LONG))]),
        lambda: score(MODEL, LANGUAGE, "", [LONG]),
        lambda: score(MODEL, LANGUAGE, "", [range(5000)]),
        lambda: TextPotential(LONG),
        lambda: TextPotential(len, log_bound=LONG),
        lambda: ModelCritic(LONG, ""),
        lambda: smc.Guarded(LONG),
        lambda: smc.InProcesses(LONG),
        lambda: smc.Matches([LONG]),
        lambda: smc.Matches("(" + LONG),
        lambda: smc.Validates(LONG),
        lambda: smc.ParsesSQL(LONG),
        lambda: smc.HFModel.load(LONG),
        lambda: smc.HFModel.load("smollm2-135m", device=LONG),
        lambda: smc.TableModel(["a"], LONG, lambda prefix: {}),
        lambda: SMCSampler(smc.TableModel(["a", "e"], "e", lambda prefix: LONG), Regex("a")).run(""),
        lambda: SMCSampler(smc.TableModel(["a", "e"], "e", lambda prefix: {LONG: 1}), Regex("a")).run(""),
        lambda: Choice(LONG),
        lambda: FiniteLanguage(LONG),
        lambda: FiniteLanguage([LONG + "\udc80"]).compile(MODEL.vocabulary),
        lambda: smc.Intersection(LONG, LONG),
        lambda: smc.Everything(LONG),
        lambda: Regex("a", engine=LONG),
        lambda: JSONSchema({"$ref": "#/$defs/" + LONG}),
        lambda: JSONSchema({"pattern": "(" + LONG}),
        lambda: JSONSchema({"pattern": "[" + LONG}),
        lambda: ToolCalls([LONG]),
        lambda: ToolCalls([{"name": LONG}, {"name": LONG}]),
        lambda: ToolCalls([{"name": "f", "parameters": LONG}]),
        lambda: ToolCalls([{"name": "f"}], begin=LONG),
        lambda: ToolCalls([{"name": "f"}], keys=LONG),
        lambda: smc.Template(list(range(5000))),
        lambda: smc.Reasoning(LONG),
        lambda: diagnostics.summary(LONG),
    ],
)
def test_no_error_repeats_a_long_value(call: Callable[[], Any]) -> None:
    with pytest.raises(smc.SMCError) as caught:
        call()
    assert len(str(caught.value)) < 700, str(caught.value)


class Spoken:
    """A function with a long name."""

    def __init__(self, name: str):
        self._name = name

    def __call__(self, text: str) -> float:
        return 0.0

    def __repr__(self) -> str:
        return self._name
