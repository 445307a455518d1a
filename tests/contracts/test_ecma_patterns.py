"""Patterns of JSON Schema: what ECMA-262 has is read, for mask and validator; what it has not is refused."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from constraint_tools import BYTES

from smc import JSONSchema
from smc.constraints.json_patterns import found
from smc.errors import ConstraintError, EmptyLanguageError

ENGINES = ["xgrammar", "llguidance"]
ATOMS = [r"\n", '"', r"\\", r"\x0b", "a", r'[\n"]', "[^a]", ".", r"[\\]", r"\t", r"\p{L}", r"[^\p{L}]", r"[\-a]"]
COUNTS = ["", "", "?", "*", "+", "{2}", "{1,2}", "{0,1}", "{2,}", "??"]
TEXTS = ["".join(text) for n in range(4) for text in itertools.product('\n"\\\x0baé', repeat=n)] + ["aaaaa", "a-"]


def random_pattern(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return rng.choice(ATOMS) + rng.choice(COUNTS)
    if kind < 0.7:
        return random_pattern(rng, depth - 1) + random_pattern(rng, depth - 1)
    if kind < 0.85:
        return f"(?:{random_pattern(rng, depth - 1)}){rng.choice(COUNTS)}"
    return f"({random_pattern(rng, depth - 1)}|{random_pattern(rng, depth - 1)}){rng.choice(COUNTS)}"


def with_pattern(pattern: str, key: bool = False) -> dict[str, object]:
    if key:
        return {"type": "object", "patternProperties": {pattern: {"type": "null"}}, "additionalProperties": False}
    return {"type": "string", "pattern": pattern}


def spelled(text: str, key: bool = False) -> bytes:
    string = json.dumps(text, ensure_ascii=False)
    return (f"{{{string}:null}}" if key else string).encode()


@pytest.mark.parametrize("key", [False, True], ids=["pattern", "patternProperties"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^a\n?b$", ["ab", "a\nb"], ["a", "a\\b"]),
        (r'^a"{2}$', ['a""'], ['a"', "a"]),
        (r"^[\\]{0,2}a$", ["a", "\\\\a"], ["\\\\\\a"]),
        (r"^\x0b+$", ["\x0b\x0b"], ["b", ""]),
        (r"^[\p{L}_-]+$", ["Zoé-_"], ["L{", "1"]),
        (r"^\P{Lu}\p{Script=Greek}$", ["aα"], ["Aα", "aa"]),
        (r"^[.\-_]$", ["-", ".", "_"], ["A"]),
        (r"^[\w-.]$", ["-", "a"], ["/"]),
        ("^[^]$", ["a", "\n"], ["", "ab"]),
    ],
)
def test_patterns_mean_what_they_say(engine: str, key: bool, pattern: str, good: list[str], bad: list[str]) -> None:
    constraint = JSONSchema(with_pattern(pattern, key), engine=engine, whitespace="compact")
    compiled = constraint.compile(BYTES)
    for text in good + bad:
        assert compiled.accepts(spelled(text, key)) == (text in good), text
        assert compiled.generates(spelled(text, key)) == (text in good), text  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ENGINES)
def test_random_patterns_with_characters_that_json_escapes(engine: str) -> None:
    rng, exact = random.Random(14), 0
    for _ in range(60):
        pattern = f"^(?:{random_pattern(rng, 2)})$"
        constraint = JSONSchema(with_pattern(pattern), engine=engine, whitespace="compact")
        try:
            compiled = constraint.compile(BYTES)
        except EmptyLanguageError:
            continue
        if any(note.effect == "wider" for note in constraint.notes):
            continue
        exact += 1
        for text in TEXTS:
            let_through = compiled.generates(spelled(text))  # type: ignore[attr-defined]
            assert let_through == found(pattern, text), (pattern, text)
    assert exact > 40


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?P<n>a)", r"uses \(\?P at character 0"),
        ("a(?#c)", r"uses \(\?# at character 1"),
        ("(?i)a", r"uses \(\?i at character 0"),
        ("(?i:a)", r"uses \(\?i at character 0"),
        ("(?>a)", r"uses \(\?> at character 0"),
        ("(a)(?(1)b|c)", r"uses \(\?\( at character 3"),
        ("a++", r"repeats nothing with \+ at character 2"),
        ("^+[a-z]$", r"repeats an assertion with \+ at character 1"),
        (r"a\b*", r"repeats an assertion with \* at character 3"),
        ("(?<=a)*b", "repeats an assertion"),
        ("{2}a", r"repeats nothing with \{2\} at character 0"),
        (r"\Aa\Z", r"uses \\A at character 0: ECMA-262 does not have it"),
        (r"\p{Greek}", r"Unicode property 'Greek' .* \\p\{Script=Greek\}"),
        (r"\pL", "without a property in braces"),
        (r"(a)\2", "refers to group 2, which it does not have"),
        (r"[\p{L}-z]", "which the flag u brings, and a hyphen beside a set, which it forbids"),
        (r"\01", r"uses \\0 at character 0"),
        ("[z-a]", "range z-a at character 1"),
    ],
)
def test_what_no_engine_of_ecma_reads_is_refused(pattern: str, message: str) -> None:
    for key in (False, True):
        with pytest.raises(ConstraintError, match=message):
            JSONSchema(with_pattern(pattern, key))


def test_a_group_that_matched_nothing_is_nothing_when_referred_to() -> None:
    assert found(r"^(?:(a)|b)\1$", "b")
    assert found(r"^\1(a)$", "a")
    assert not found(r"^(?:(a)|b)\1$", "a")
