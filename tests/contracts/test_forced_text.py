"""Forced text is what all continuations of a prefix begin with, found by writing them all down."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable

import numpy as np
import pytest
from constraint_tools import BYTES, spell, step, walks

from smc import EBNF, Choice, FiniteLanguage, Intersection, JSONSchema, Lark, Regex
from smc.constraints import Checked, Constraint
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
    "ab+c": [f"a{'b' * n}c" for n in range(1, 12)],
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
    return beginning(os.path.commonprefix(rests))


def seen(constraint: Constraint, members: list[bytes]) -> dict[bytes, tuple[str, str]]:
    """What is told and what is meant after every beginning of the members, cut into single bytes and into longer tokens."""
    compiled = constraint.compile(BYTES)
    found = {}
    for member in members:
        for end in range(len(member) + 1):
            found[member[:end]] = forced(spell(compiled.start(), member[:end])), common(members, member[:end])
    depth = 3
    for tokens in walks(compiled, BYTES, depth):
        prefix = BYTES.spell(tokens)
        assert forced(step(compiled.start(), *tokens)) == found[prefix][0]
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pattern", REGEXES)
def test_regexes(pattern: str, engine: str) -> None:
    members = [text.encode() for text in REGEXES[pattern]]
    assert all(re.fullmatch(pattern, text) for text in REGEXES[pattern])
    for prefix, (told, meant) in seen(Regex(pattern, engine=engine), members).items():
        print(prefix, repr(told), repr(meant))
        assert told == meant, prefix
