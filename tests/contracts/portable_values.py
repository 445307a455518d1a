"""An example of every public value, made of functions that another process can import, and what it does when it is used."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from constraint_tools import BYTES
from test_models_huggingface import byte_tokenizer, tiny

import smc
from smc import constraints, diagnostics, models, surrogates
from smc.bounds import CertifiedPosterior, branch_and_bound
from smc.constraints import CompiledConstraint, Constraint
from smc.constraints.automaton import TokenAutomaton, token_automaton
from smc.constraints.prefixed import Prefixed
from smc.exact import ExactPosterior, enumerate_posterior
from smc.potentials import Potential
from smc.trie import TrieStore
from smc.twists import Twist
from smc.vocabulary import Vocabulary

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "multipleOf": 3}, "tag": {"type": "string", "pattern": "^[a-c]+$"}},
    "required": ["n"],
    "additionalProperties": False,
}
TOOLS = [{"name": "get", "parameters": SCHEMA}, {"name": "stop"}]
EBNF_TEXT = 'root ::= "a" root | "b"'
LARK_TEXT = 'start: "a" /[bc]+/ "d"?'
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<a"],
        "tags": [{"type": "tag", "begin": "<a>", "content": {"type": "regex", "pattern": "[0-9]+"}, "end": "</a>"}],
    },
}
PROMPT = ""


def next_probs(prefix: tuple[str, ...]) -> Mapping[str, float]:
    """A model of bits that prefers what came last."""
    again = 0.5 if prefix and prefix[-1] == "1" else 0.3
    return {"0": 0.7 - again, "1": again, "<eos>": 0.3}


def table() -> models.TableModel:
    return models.TableModel(["0", "1", "<eos>"], "<eos>", next_probs)


def bits() -> constraints.FiniteLanguage:
    return constraints.FiniteLanguage(["00", "01", "10", "110", "0"])


def few_zeros(text: str) -> bool:
    return text.count("0") < 3


def favours_ones(text: str) -> float:
    return -0.5 * text.count("0")


def add(state: int, piece: str) -> int:
    return state + piece.count("1")


def as_score(state: int) -> float:
    return -float(state)


def small_molecule(molecule: Any) -> float:
    return -0.1 * molecule.GetNumAtoms()


def at_every_zero(text: str) -> bool:
    return text.endswith("0")


def sampler(**options: Any) -> smc.SMCSampler:
    return smc.SMCSampler(table(), bits(), n_particles=3, max_tokens=4, **options)


def _fitted(kind: str) -> surrogates.Surrogate:
    states = {"n_states": 2} if kind == "hmm" else {}
    return surrogates.fit_surrogate(kind, table(), bits(), [PROMPT], n_samples=8, max_tokens=4, **states).surrogate


def _automaton() -> TokenAutomaton:
    model, language = table(), bits()
    return token_automaton(language, language.compile(model.vocabulary), model.vocabulary)


def _result() -> smc.SMCResult:
    return sampler(branching="sample", replicates=2).run(PROMPT)


def _rescored() -> smc.Rescored:
    return smc.rescore(_result(), table(), bits(), PROMPT)


def _store() -> TrieStore:
    store = TrieStore()
    smc.baselines.cars(table(), bits(), PROMPT, n_particles=3, max_tokens=4, store=store)
    return store


EXAMPLES: dict[type, Callable[[], Any]] = {
    # constraints
    constraints.Checked: lambda: constraints.Checked(few_zeros, few_zeros),
    constraints.Choice: lambda: constraints.Choice(["cat", "cot", "é"]),
    constraints.EBNF: lambda: constraints.EBNF(EBNF_TEXT),
    constraints.Everything: lambda: constraints.Everything(constraints.Regex("[ab]+")),
    constraints.FiniteLanguage: lambda: constraints.FiniteLanguage(["aa", "ab", "cat"]),
    constraints.GBNF: lambda: constraints.GBNF(EBNF_TEXT),
    constraints.Intersection: lambda: constraints.Intersection(
        constraints.Regex("[a-c]+t?"), constraints.Choice(["cat"])
    ),
    constraints.JSONSchema: lambda: constraints.JSONSchema(SCHEMA),
    constraints.Lark: lambda: constraints.Lark(LARK_TEXT),
    constraints.Reasoning: lambda: constraints.Reasoning(constraints.JSONSchema(SCHEMA), begin="", max_chars=2),
    constraints.Regex: lambda: constraints.Regex(r"(?=a)\w{1,3}"),
    constraints.StructuralTag: lambda: constraints.StructuralTag(TAG),
    constraints.Template: lambda: constraints.Template(
        "a", constraints.Free(until=";"), constraints.Regex("[ab]"), constraints.JSONSchema(SCHEMA)
    ),
    constraints.ToolCalls: lambda: constraints.ToolCalls(TOOLS, required=True),
    Prefixed: lambda: Prefixed("a", constraints.Regex("[ab]+")),
    # potentials
    smc.AtBoundaries: lambda: smc.AtBoundaries(smc.TextPotential(favours_ones, favours_ones), at_every_zero),
    smc.CanonicalTokens: lambda: smc.CanonicalTokens(byte_tokenizer()),
    smc.Guarded: lambda: smc.Guarded(smc.TextPotential(favours_ones)),
    smc.InProcesses: lambda: smc.InProcesses(smc.Predicate(few_zeros), workers=1, seconds=30.0),
    smc.Incremental: lambda: smc.Incremental(0, add, as_score, as_score),
    smc.Matches: lambda: smc.Matches("1*0?1*"),
    smc.ModelCritic: lambda: smc.ModelCritic(table(), PROMPT),
    smc.MoleculeScore: lambda: smc.MoleculeScore(small_molecule),
    smc.ParsesSQL: lambda: smc.ParsesSQL("sqlite"),
    smc.Predicate: lambda: smc.Predicate(few_zeros, few_zeros),
    smc.SmilesPrefix: smc.SmilesPrefix,
    smc.TextPotential: lambda: smc.TextPotential(favours_ones, favours_ones),
    smc.ValidMolecule: smc.ValidMolecule,
    smc.Validates: lambda: smc.Validates(int),
    # twists
    smc.LearnedTwist: smc.LearnedTwist,
    smc.LookaheadTwist: lambda: smc.LookaheadTwist(_fitted("unigram")),
    # what runs, and what comes of it
    smc.HFModel: lambda: tiny("llama"),
    smc.MemoModel: lambda: models.MemoModel(table()),
    smc.TableModel: table,
    smc.SMCSampler: lambda: sampler(potentials=(smc.Predicate(few_zeros),), twist=smc.LearnedTwist()),
    smc.SMCResult: _result,
    smc.Rescored: _rescored,
    ExactPosterior: lambda: enumerate_posterior(table(), bits(), PROMPT, max_tokens=4),
    CertifiedPosterior: lambda: branch_and_bound(table(), bits(), PROMPT, max_tokens=4),
    diagnostics.Diagnostics: lambda: diagnostics.summary(_result()),
    diagnostics.Genealogy: lambda: diagnostics.genealogy(_result()),
    diagnostics.Distance: lambda: diagnostics.distance(_result().posterior(), {"0": 0.5, "00": 0.5}),
    diagnostics.Floor: lambda: diagnostics.floor({"0": 0.5, "00": 0.5}, 4),
    diagnostics.Estimate: lambda: diagnostics.Estimate(0.5, 0.1),
    # parts of these
    constraints.Free: lambda: constraints.Free(until="\n"),
    constraints.Language: lambda: constraints.notes.language_of(constraints.JSONSchema(SCHEMA)),
    constraints.LanguageNote: lambda: constraints.JSONSchema(SCHEMA).notes[0],
    constraints.ToolCall: lambda: constraints.ToolCall("get", {"n": 3}),
    smc.Job: lambda: smc.Job(PROMPT, constraint=constraints.JSONSchema(SCHEMA), key="a"),
    smc.Progress: lambda: smc.Progress("cars", 1, "draws"),
    smc.Proposal: lambda: smc.Proposal(temperature=2.0),
    surrogates.Unigram: lambda: _fitted("unigram"),
    surrogates.Bigram: lambda: _fitted("bigram"),
    surrogates.HMM: lambda: _fitted("hmm"),
    TokenAutomaton: _automaton,
    TrieStore: _store,
    Vocabulary: lambda: Vocabulary(BYTES.tokens, BYTES.stop_ids, BYTES.special_ids),
}


def behaviour(value: Any) -> Any:
    """What a value does when it is used, as something that can be compared."""
    if isinstance(value, Constraint):
        audit = value.audit() if isinstance(value, constraints.JSONSchema) else ()
        return constraints.notes.language_of(value), audit, _walk(value.compile(BYTES))
    if isinstance(value, models.LanguageModel):
        rows = value.start(value.encode([0, 1])).advance(np.array([0, 0]), np.array([1, 0]))
        return value.vocabulary.tokens, rows.log_probs.tolist()
    if isinstance(value, Potential):
        return _values(value)
    if isinstance(value, Twist):
        return sampler(twist=value).run(PROMPT, key="twisted").posterior()
    if isinstance(value, smc.SMCSampler):
        return value.run(PROMPT).posterior(), value.run(PROMPT).trace
    if isinstance(value, smc.SMCResult | ExactPosterior | CertifiedPosterior):
        return repr(value), value.posterior(), value.best()
    if isinstance(value, surrogates.Surrogate):
        memory = value.after(value.begin(), np.array([1]))
        return len(value), memory.tolist(), value.future(_automaton(), 3, 1.0).log_psi(0, value.begin(), 2).tolist()
    if isinstance(value, TokenAutomaton):
        return [array.tolist() for array in (value.accepting, value.source, value.token, value.target, value.distance)]
    if isinstance(value, TrieStore):
        return [_nodes(trie.root) for trie in value._tries.values()]
    if isinstance(value, Vocabulary):
        return value.tokens, value.stop_ids, value.special_ids, value.spelling.tolist()
    return repr(value)


def _walk(compiled: CompiledConstraint) -> list[Any]:
    """Masks along a random walk, and what the validator says of its texts."""
    rng, rows, text, seen = np.random.default_rng(5), compiled.start(), b"", []
    for _ in range(12):
        allowed = constraints.unpack(rows.allowed, len(BYTES))[0].numpy()
        seen += [np.flatnonzero(allowed).tolist(), compiled.accepts(text)]
        tokens = np.flatnonzero(allowed & BYTES.spelling)
        if not len(tokens):
            break
        token = int(rng.choice(tokens))
        rows, text = rows.advance(np.array([0]), np.array([token])), text + BYTES.tokens[token]
    return seen


def _values(potential: Potential) -> list[float]:
    """Running values and final ones of some texts of bits."""
    vocabulary = table().vocabulary if not isinstance(potential, smc.CanonicalTokens) else tiny("llama").vocabulary
    rows, seen = potential.start(vocabulary), []
    for token in (0, 1, 0, 1, 0):
        rows = rows.advance(np.array([0]), np.array([token]))
        seen += [float(rows.log_prefix[0]), float(rows.log_complete(np.array([0]))[0])]
    return [value if math.isfinite(value) else None for value in seen]


def _nodes(node: Any) -> list[Any]:
    return [
        node.log_p,
        None if node.log_mass is None else node.log_mass.tolist(),
        [(column, _nodes(child)) for column, child in sorted(node.children.items())],
    ]
