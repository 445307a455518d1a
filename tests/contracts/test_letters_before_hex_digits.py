"""Letters outside ASCII before letters that are also hex digits: an escape like \\xf6e must not swallow them."""

from __future__ import annotations

import pytest
from constraint_tools import BYTES, allowed_ids, spell

from smc import EBNF, GBNF, Choice, JSONSchema, Regex
from smc.constraints.base import Constraint

ENGINES = ("xgrammar", "llguidance")
KEY = {
    "type": "object",
    "properties": {"Käfer": {"type": "integer"}},
    "required": ["Käfer"],
    "additionalProperties": False,
}


def constraints(engine: str) -> list[tuple[Constraint, str]]:
    return [
        (Choice(["größe", "fiancée"], engine=engine), "größe"),
        (Choice(["größe", "fiancée"], engine=engine), "fiancée"),
        (EBNF('root ::= "größe"', engine=engine), "größe"),
        (GBNF('root ::= [äö] "fb"', engine=engine), "öfb"),
        (Regex("größe|[äö]be", engine=engine), "größe"),
        (JSONSchema({"enum": ["Käfer", 1]}, engine=engine), '"Käfer"'),
        (JSONSchema(KEY, whitespace="compact", engine=engine), '{"Käfer":1}'),
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("index", range(len(constraints("xgrammar"))))
def test_the_masks_let_the_text_through(engine: str, index: int) -> None:
    constraint, text = constraints(engine)[index]
    compiled = constraint.compile(BYTES)
    data = text.encode()
    for position, byte in enumerate(data):
        assert byte in allowed_ids(spell(compiled.start(), data[:position]), BYTES), (text, position)
    assert 256 in allowed_ids(spell(compiled.start(), data), BYTES)
