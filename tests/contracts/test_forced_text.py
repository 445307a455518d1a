"""Forced text is what all continuations of a prefix begin with, found by writing them all down."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

import numpy as np
import pytest
from constraint_tools import BYTES, STOPS, allowed_ids, spell, step, walks

from smc import EBNF, Choice, FiniteLanguage, Intersection, JSONSchema, Lark, Regex
from smc.constraints import Checked, Constraint, ConstraintRows
from smc.constraints.base import ForetellingRows
from smc.constraints.finite import FiniteRows
from smc.constraints.foretelling import AHEAD, Foretold, agreed, beginning
from smc.constraints.llguidance_engine import LLGuidanceRows
from smc.constraints.xgrammar_engine import XGrammarRows

ENGINES = ("xgrammar", "llguidance")

# each with texts enough to see what its prefixes force
REGEXES = {
    "(left|right)-hand side: [xy]; done": [
        f"{a}-hand side: {b}; done" for a, b in itertools.product(("left", "right"), "xy")
    ],
    "ab|abc": ["ab", "abc"],  # nothing is forced where a text may end
    "cat(s and dogs)?": ["cat", "cats and dogs"],
    "x(é|è)y": ["xéy", "xèy"],  # the two have their first byte in common, but no character
    "é1|é2": ["é1", "é2"],
    "(ab){2,3}!": ["abab!", "ababab!"],
    "a{3}": ["aaa"],
}
WORDS = ["foobar", "foobaz", "foo", "quux", "été", "étang", "ètre", "é"]


def forced(rows: object, row: int = 0) -> str:
    assert isinstance(rows, ForetellingRows)
    return rows.forced_text(row)


def common(members: Iterable[bytes], prefix: bytes) -> str:
    """The longest text that all members beginning with a prefix go on with."""
    rests = [member[len(prefix) :] for member in members if member.startswith(prefix)]
    same = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*rests, strict=False))
    return beginning(bytes(column[0] for column in same))


def by_masks(rows: ConstraintRows) -> str:
    """What the masks of single bytes leave no choice about."""
    rows, text = rows.fork(np.array([0])), b""
    while len(text) <= AHEAD:
        allowed = allowed_ids(rows, BYTES)
        first = {BYTES.tokens[token][0] for token in allowed if BYTES.spelling[token]}
        if len(first) != 1 or allowed & set(STOPS):
            break
        text += bytes(first)
        rows = step(rows, *first)
    return beginning(text)


def seen(constraint: Constraint, members: list[bytes]) -> dict[bytes, tuple[str, str]]:
    """What is told and what is meant after every beginning of the members, cut into single bytes and into longer tokens."""
    compiled = constraint.compile(BYTES)
    found = {}
    for member in members:
        for end in range(len(member) + 1):
            found[member[:end]] = forced(spell(compiled.start(), member[:end])), common(members, member[:end])
    for tokens in walks(compiled, BYTES, 2):
        prefix = BYTES.spell(tokens)
        assert forced(step(compiled.start(), *tokens)) == found[prefix][0]
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pattern", REGEXES)
def test_regexes(pattern: str, engine: str) -> None:
    members = [text.encode() for text in REGEXES[pattern]]
    assert all(re.fullmatch(pattern, text) for text in REGEXES[pattern])
    for prefix, (told, meant) in seen(Regex(pattern, engine=engine), members).items():
        assert told == meant, prefix


@pytest.mark.parametrize("words", [WORDS, ["only one"], [b"\xff\x00a", b"\xff\x00b"], [""]])
def test_lists_of_strings(words: list[str | bytes]) -> None:
    language = FiniteLanguage(words)
    assert isinstance(language.compile(BYTES).start(), FiniteRows)
    for prefix, (told, meant) in seen(language, list(language.members)).items():
        assert told == meant, prefix


@pytest.mark.parametrize("engine", ENGINES)
def test_choices(engine: str) -> None:
    for prefix, (told, meant) in seen(Choice(WORDS, engine=engine), [word.encode() for word in WORDS]).items():
        assert told == meant, prefix


SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["anna", "annika"]}, "weights": {"type": "array", "items": {"type": "integer"}}},
    "required": ["name", "weights"],
    "additionalProperties": False,
}
ENDLESS = {
    "ebnf": EBNF('root ::= "a" root "ccc" | "b"'),
    "lark": Lark('start: "a" start "ccc" | "b"', engine="llguidance"),
    "ab+c, xgrammar": Regex("xab+cd", engine="xgrammar"),
    "ab+c, llguidance": Regex("xab+cd", engine="llguidance"),
    "schema, xgrammar": JSONSchema(SCHEMA, whitespace="compact", engine="xgrammar"),
    "schema, llguidance": JSONSchema(SCHEMA, whitespace="compact", engine="llguidance"),
    "schema with a prefix check": JSONSchema({**SCHEMA, "minProperties": 2}, engine="xgrammar"),
}


@pytest.mark.parametrize("constraint", ENDLESS.values(), ids=list(ENDLESS))
def test_languages_without_end(constraint: Constraint) -> None:
    """On random walks through the masks, rows that remember what was foretold to their parents among them."""
    rng, compiled, told = np.random.default_rng(0), constraint.compile(BYTES), 0
    for _ in range(3):
        rows = compiled.start()
        for _ in range(25):
            text = forced(rows)
            told += len(text) > 1
            assert text == by_masks(rows)
            assert forced(rows.fork(np.array([0, 0])), 1) == text
            tokens = sorted(allowed_ids(rows, BYTES) - set(STOPS))
            if not tokens:
                break
            rows = step(rows, int(rng.choice(tokens)))
    assert told > 3


@pytest.mark.parametrize("engine", ENGINES)
def test_intersections(engine: str) -> None:
    names = Regex("(left|right) hand: [xy]", engine=engine)
    both = Intersection(names, FiniteLanguage(["left hand: x", "left hand: y", "up"]))
    rows = both.compile(BYTES).start()
    # neither side alone leaves no choice at the beginning; both do later, and one goes on where the other stops
    assert forced(rows) == ""
    assert forced(spell(rows, "l")) == "eft hand: "
    rows = Intersection(Regex("ab(cd)?", engine=engine), FiniteLanguage(["abcd"])).compile(BYTES).start()
    assert forced(rows) == "abcd"
    dead = Intersection(Regex("ab", engine=engine), FiniteLanguage(["ac"])).compile(BYTES).start()
    assert forced(dead) == ""
    asked = Intersection(Regex("a(bc|bd)", engine=engine), Checked(lambda text: True, lambda text: True))
    assert forced(asked.compile(BYTES).start()) == "ab"
    nothing = Intersection(*[Checked(lambda text: True, lambda text: True)] * 2).compile(BYTES).start()
    assert forced(nothing) == ""


def test_texts_of_several_parts() -> None:
    assert agreed([""]) == ""
    assert agreed(["ab", "", "abc"]) == "abc"
    assert agreed(["abx", "abc", "a"]) == ""


def test_beginnings_are_whole_characters() -> None:
    assert beginning(b"") == ""
    assert beginning("aé".encode()[:2]) == "a"
    assert beginning("é".encode()[1:] + b"b") == ""
    assert beginning("\U0001f600".encode() * 100) == "\U0001f600" * AHEAD
    assert beginning(b"x" * 100) == "x" * AHEAD


def test_what_is_left_of_a_foretold_text() -> None:
    begun = Foretold(b"abcd").after(b"ab")
    assert begun == Foretold(b"abcd", 2)
    assert begun.text == "cd"
    assert begun.after(b"cd") is None  # what comes behind it has never been asked for
    assert begun.after(b"cde") is None
    assert begun.after(b"d") is None


@pytest.mark.parametrize(
    "constraint",
    [
        EBNF(f'root ::= "{"xy" * 6000}z"'),
        Lark(f'start: "{"xy" * 6000}z"', engine="llguidance"),
        FiniteLanguage(["xy" * 6000 + "z"]),
    ],
    ids=["ebnf", "lark", "finite"],
)
def test_long_texts_are_asked_for_once(constraint: Constraint, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for kind in (XGrammarRows, LLGuidanceRows):
        forced_by_engine = kind._forced
        monkeypatch.setattr(
            kind, "_forced", lambda self, matcher, ask=forced_by_engine: asked.append(1) or ask(self, matcher)
        )
    rows = constraint.compile(BYTES).start()
    for _ in range(200):
        assert forced(rows) == "xy" * (AHEAD // 2)
        rows = spell(rows, "xy")
    assert len(asked) <= 1


def test_asking_changes_no_mask() -> None:
    """Of a text that is forced without end the engine writes down a million characters, and moves on by as many."""
    rows = Lark('start: "b" | "c" loop\nloop: "a" loop', engine="llguidance", check=False).compile(BYTES).start()
    rows = spell(rows, "c")
    twin = rows.fork(np.array([0]))
    assert forced(rows) == "a" * AHEAD
    assert allowed_ids(rows, BYTES) == allowed_ids(twin, BYTES)
    rows, twin = spell(rows, "a"), spell(twin, "a")
    assert forced(rows) == "a" * AHEAD
    assert allowed_ids(rows, BYTES) == allowed_ids(twin, BYTES)
