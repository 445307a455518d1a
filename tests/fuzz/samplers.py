"""Options of samplers on random table models, against exact enumeration by a walk of our own.

Tiny models: all draws are visited, and the evidence and the weight of each text must have the right mean to 1e-12. Larger ones, of widths
beside those at which something is padded: one run, of which everything that holds of any single run is checked.
"""

from __future__ import annotations

import dataclasses
import math
import random
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import strategies as st

from smc import (
    FiniteLanguage,
    Job,
    LearnedTwist,
    LookaheadTwist,
    Proposal,
    Regex,
    SMCSampler,
    TableModel,
    TextPotential,
    baselines,
)
from smc.draws import Draws
from smc.errors import SMCError
from smc.result import SMCResult
from smc.surrogates import Unigram
from smc.testing import expected_weights
from tests.fuzz.engines import printed
from tests.fuzz.fuzzer import Failure, Outcome

TOLERANCE = 1e-12
ROUNDING = 1e-15
"""Of an expectation: what the outcomes of an offset may weigh that exist by rounding alone, and are not visited."""
PATHS = 250
"""Most sequences of outcomes to visit; a case with more is left to the larger models."""

LETTERS = ("a", "b", "ab", "ba", "aa", "é")
STOPS = ("</s>", "<eot>")
WIDTHS = (8, 255, 256, 257, 512)

Prefix = tuple[str, ...]


@dataclass(frozen=True)
class World:
    """A model and a language, and what is true of them.

    Attributes:
        tokens, stops: the vocabulary. strings: the language. prompt: what stands before it.
        seed: of the probabilities; sharp: how far these lie apart; zeros: whether some tokens are impossible.
    """

    tokens: Prefix
    stops: Prefix
    strings: Prefix
    max_tokens: int
    seed: int
    sharp: bool
    zeros: bool
    scored: bool
    prompt: str

    @cached_property
    def model(self) -> TableModel:
        vocabulary = [*self.tokens[:1], *self.stops, *self.tokens[1:]]
        return TableModel(vocabulary, self.stops, self.next_probs)

    def next_probs(self, prefix: Prefix) -> Mapping[str, float]:
        chance = random.Random(f"{self.seed} {prefix}")
        weights = [chance.random() ** (6 if self.sharp else 1) + 1e-6 for _ in (*self.tokens, *self.stops)]
        if self.zeros:
            weights = [0.0 if chance.random() < 0.2 else weight for weight in weights]
        weights[-1] += 0.5 * sum(weights) + 1e-3  # stopping is never out of sight
        total = math.fsum(weights)
        return dict(zip((*self.tokens, *self.stops), (weight / total for weight in weights), strict=True))

    def phi(self, text: str) -> float:
        return random.Random(f"{self.seed} {text}").choice([0.0, 0.25, 1.0, 1.0, 3.0]) if self.scored else 1.0

    def potentials(self) -> list[TextPotential]:
        if not self.scored:
            return []
        return [
            TextPotential(
                lambda text: math.log(phi) if (phi := self.phi(text)) else -math.inf,
                prefix=lambda text: 0.3 * len(text),
            )
        ]

    def log_prob(self, prompt: Prefix, tokens: Prefix) -> float:
        """log p of tokens and the stop, after a prompt."""
        total = 0.0
        for at, token in enumerate(tokens):
            p = self.next_probs(prompt + tokens[:at])[token]
            total += math.log(p) if p else -math.inf
        stop = math.fsum(self.next_probs(prompt + tokens)[stop] for stop in self.stops)
        return total + (math.log(stop) if stop else -math.inf)

    def targets(self, power: float, healed: str) -> dict[str, float]:
        """The unnormalised target of each string, tokenisations merged."""
        prompt, found = self.kept_prompt(healed), dict[str, float]()
        for text in self.strings:
            for tokens in self.cuts(healed + text):
                if len(tokens) <= self.max_tokens:
                    mass = math.exp(power * self.log_prob(prompt, tokens)) * self.phi(text)
                    found[text] = found.get(text, 0.0) + mass
        return {text: mass for text, mass in found.items() if mass}

    def cuts(self, text: str) -> Iterator[Prefix]:
        """All ways to spell a text in tokens."""
        if not text:
            yield ()
        for token in self.tokens:
            if text.startswith(token):
                yield from ((token, *rest) for rest in self.cuts(text[len(token) :]))

    def kept_prompt(self, healed: str) -> Prefix:
        """The tokens of the prompt before what healing took back."""
        vocabulary = self.model.vocabulary
        tokens = tuple(vocabulary.tokens[i].decode() for i in self.model.encode(self.prompt))
        while healed:
            assert healed.endswith(tokens[-1]), (healed, tokens)
            healed, tokens = healed[: -len(tokens[-1])], tokens[:-1]
        return tokens


def _world(case: Any) -> World:
    chance = random.Random(f"world {case['world']}")
    width = case["width"]
    tokens = tuple(chance.sample(LETTERS, min(width, len(LETTERS)))) + tuple(
        f"{i:03x}" for i in range(width - len(LETTERS) - case["stops"])
    )
    if "a" not in tokens:
        tokens = ("a", *tokens[1:])
    length = case["max_tokens"]
    strings = dict.fromkeys(
        "".join(chance.choices(tokens, k=chance.randint(0, length + 1))) for _ in range(case["strings"])
    )
    return World(
        tokens,
        STOPS[: case["stops"]],
        tuple(strings),
        length,
        case["world"],
        case["sharp"],
        case["zeros"],
        case["scored"],
        case["prompt"] if all(char in "".join(tokens) for char in case["prompt"]) else "a",
    )


def _sampler(case: Any, world: World) -> SMCSampler:
    options = dict(case["options"])
    if "temperature" in options or "top_k" in options or "top_p" in options:
        options["proposal"] = Proposal(
            **{key: options.pop(key) for key in ("temperature", "top_k", "top_p") if key in options}
        )
    twist = options.pop("twist", None)
    if twist == "lookahead":
        chance = np.random.default_rng(world.seed)
        options["twist"] = LookaheadTwist(Unigram(chance.dirichlet(np.ones(len(world.model.vocabulary) + 1))))
    elif twist == "learned":
        options["twist"] = LearnedTwist()
    language = FiniteLanguage(world.strings) if case["engine"] == "finite" else _regex(world, case["engine"])
    common = dict(max_tokens=world.max_tokens, potentials=world.potentials())
    method = options.pop("method", "sampler")
    if method == "sampler":
        return SMCSampler(world.model, language, **common, **options)
    make = getattr(baselines, f"{method}_sampler")
    made: SMCSampler = make(world.model, language, **common, **options)
    return made


def _regex(world: World, engine: str) -> Regex:
    return Regex("|".join(f"(?:{string})" for string in world.strings), engine=engine)


class Samplers:
    """Every way to branch, resample, finish, propose and steer, and the methods that are samplers underneath."""

    name = "sampler"
    about = "options of samplers on table models against exact enumeration"

    def missing(self) -> str | None:
        return None

    def cases(self) -> st.SearchStrategy[Any]:
        world = {
            "world": st.integers(0, 10_000),
            "stops": st.sampled_from([1, 2]),
            "strings": st.integers(1, 5),
            "sharp": st.booleans(),
            "zeros": st.booleans(),
            "scored": st.booleans(),
            "prompt": st.sampled_from(["", "a", "ab", "aab"]),
            "engine": st.sampled_from(["finite", "finite", "xgrammar", "llguidance"]),
            "options": st.one_of(_smc_options(), _enumerate_options(), _baseline_options()),
        }
        tiny = st.fixed_dictionaries(
            {"width": st.sampled_from([2, 3]), "max_tokens": st.sampled_from([1, 2, 3]), **world}
        )
        large = st.fixed_dictionaries(
            {"width": st.sampled_from(WIDTHS), "max_tokens": st.sampled_from([1, 2, 3, 5]), **world}
        )
        return st.one_of(tiny, large)

    def examine(self, case: Any) -> Outcome:
        test = f"from tests.fuzz.samplers import SAMPLERS\n\n\ndef test_it() -> None:\n    SAMPLERS.examine({case!r})\n"
        with printed() as prints, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                world = _world(case)
                wrong = _of_all_draws(case, world) if case["width"] < min(WIDTHS) else _of_one_run(case, world)
            except SMCError:
                return "refused"
            except RuntimeError as error:
                if "sequences of outcomes" in str(error):
                    return "invalid"
                wrong = f"{type(error).__name__}: {error}"
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            wrong = wrong or (f"prints {prints().strip()[:200]}" if prints() else None)
        if wrong:
            options = case["options"]
            raise Failure(
                f"{options.get('method', 'sampler')}: {wrong.split(':')[0]}", f"{wrong[:400]} with {case}", test
            )
        return "agreed"


def _of_all_draws(case: Any, world: World) -> str | None:
    """What is wrong with the means over all outcomes."""
    options, healed = case["options"], [""]
    lossless = not {"top_k", "top_p"} & options.keys()

    def make() -> SMCSampler:
        made = _sampler(
            case | {"options": {"stop_fraction": 0.0, **options}} if "method" not in options else case, world
        )
        if options.get("twist") == "learned":
            made.run(world.prompt, key="what it learns from")
        return made

    one = make()

    def run(draws: Draws) -> SMCResult:
        sampler = make() if options.get("twist") == "learned" else one
        result = sampler.run(world.prompt, draws=draws)
        healed[0] = result.healed
        return result

    total, evidence, weights = expected_weights(run, PATHS)
    exact = world.targets(options.get("target_power", 1.0), healed[0])
    z = math.fsum(exact.values())
    if not math.isclose(total, 1, rel_tol=TOLERANCE):
        return f"the probabilities of all outcomes sum: to {total!r}"
    if evidence > z * (1 + TOLERANCE) or (lossless and not math.isclose(evidence, z, rel_tol=TOLERANCE)):
        return f"E[exp(log_evidence)] is not Z: {evidence!r} and {z!r}"
    for text in exact.keys() | weights.keys():
        weight, target = weights.get(text, 0.0), exact.get(text, 0.0)
        near = math.isclose(weight, target, rel_tol=TOLERANCE, abs_tol=ROUNDING)
        if weight > target * (1 + TOLERANCE) + ROUNDING or (lossless and not near):
            return f"a text's expected weight is not its target: {text!r} has {weight!r} and not {target!r}"
    return None


def _of_one_run(case: Any, world: World) -> str | None:
    """What is wrong with a single run: everything that must hold of any."""
    sampler = _sampler(case, world)
    options = case["options"]
    power = options.get("target_power", 1.0)
    result = sampler.run(world.prompt, key="one")
    prompt, exact = world.kept_prompt(result.healed), world.targets(power, result.healed)
    z = math.fsum(exact.values())
    for sequence in result.sequences:
        tokens = tuple(world.model.vocabulary.tokens[token].decode() for token in sequence.tokens)
        log_prob = world.log_prob(prompt, tokens)
        if "".join(tokens) != result.healed + sequence.text:
            return f"tokens do not spell the text: {tokens} {sequence.text!r}"
        if sequence.text not in world.strings:
            return f"a text is not in the language: {sequence.text!r}"
        if not math.isclose(sequence.log_prob, log_prob, rel_tol=1e-9, abs_tol=1e-9):
            return f"log_prob is not that of the model: {sequence.log_prob} and {log_prob}"
        target = power * log_prob + math.log(world.phi(sequence.text) or math.nan)
        if not math.isclose(sequence.log_target, target, rel_tol=1e-9, abs_tol=1e-9):
            return f"log_target is not the target: {sequence.log_target} and {target}"
        if not sequence.log_kept_mass <= 1e-9:
            return f"log_kept_mass is above zero: {sequence.log_kept_mass}"
    posterior = result.posterior()
    if posterior and not math.isclose(math.fsum(posterior.values()), 1, rel_tol=1e-9):
        return f"the posterior does not sum to 1: {posterior}"
    if result.certified_mass > z * (1 + 1e-9):
        return f"certified_mass is above Z: {result.certified_mass} and {z}"
    everything = (
        options.get("branching", "enumerate") == "enumerate"
        and "method" not in options
        and options["n_particles"] >= 64
    )
    if everything and result.log_evidence is not None:
        missing = z - math.exp(result.log_evidence)
        if not -1e-9 * z <= missing <= math.exp(result.log_unexplored_mass) + 1e-9 * z:
            return f"enumeration with room for all is not exact: {math.exp(result.log_evidence)} and {z}"
    if options.get("twist") == "learned":
        return None  # what it draws depends on the runs before
    again = _sampler(case, world).run(world.prompt, key="one")
    if _bits(again) != _bits(result):
        return "the same seed gives another answer: run twice"
    together = _sampler(case, world).run_many([Job(world.prompt, key="other"), Job(world.prompt, key="one")])
    if _bits(together[1]) != _bits(result):
        return "the same job gives another answer: in a batch"
    return None


def _bits(result: SMCResult) -> Any:
    return (
        [(s.tokens, s.log_weight, s.count, s.log_prob) for s in result.sequences],
        result.log_evidence,
        dataclasses.astuple(result.cost)[:2],
    )


def _optional(**choices: list[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the options, each with one of its values."""
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in choices.items()})


def _smc_options() -> st.SearchStrategy[Any]:
    return st.builds(
        lambda particles, rest: {"branching": "sample", "n_particles": particles, **rest},
        st.sampled_from([1, 2, 2, 3, 5]),
        _optional(
            resampling=["systematic", "multinomial", "stratified", "residual", "ssp", "killing"],
            ess_threshold=[1.0, 0.9, 0.5, 0.0],
            draws=["systematic", "independent"],
            finished=["retire", "compete"],
            target_power=[1.0, 2.0, 0.5, 3],
            temperature=[1.5, 0.5, 3.0],
            top_k=[1, 2, 300],
            top_p=[0.5, 0.9, 1.0],
            twist=["lookahead", "learned"],
            stop=["roulette", "bound"],
            replicates=[1, 2],
            token_healing=[True],
        ),
    )


def _enumerate_options() -> st.SearchStrategy[Any]:
    return st.builds(
        lambda particles, rest: {"branching": "enumerate", "n_particles": particles, **rest},
        st.sampled_from([1, 2, 3, 5, 64]),
        _optional(
            finished=["retire", "compete"],
            target_power=[1.0, 2.0, 0.5, 3],
            twist=["lookahead", "learned"],
            stop=["roulette", "bound"],
            replicates=[1, 2],
            token_healing=[True],
        ),
    )


def _baseline_options() -> st.SearchStrategy[Any]:

    def method(name: str, **choices: list[Any]) -> st.SearchStrategy[Any]:
        particles = st.sampled_from([1, 2, 2, 3])
        return st.builds(lambda n, rest: {"method": name, "n_particles": n, **rest}, particles, _optional(**choices))

    resampling, finished, power = ["systematic", "multinomial"], ["retire", "compete"], [1.0, 2.0]
    return st.one_of(
        method("smc_steering", beam_factor=[1, 2, 3], finished=finished, target_power=power, twist=["lookahead"]),
        method("grammar_smc", ess_threshold=[0.0, 0.9, 1.0], target_power=power, twist=["lookahead"]),
        method("awrs_smc", n_accepted=[2, 3], resampling=resampling, finished=finished),
        method("importance_resampling", target_power=power),
    )


SAMPLERS = Samplers()
