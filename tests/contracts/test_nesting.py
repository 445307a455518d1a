"""What is nested too deeply is refused in words, wherever the stack ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from constraint_tools import BYTES

from smc.constraints import EBNF, GBNF, JSONSchema, Lark, Regex, StructuralTag, ToolCalls
from smc.errors import ConstraintError, OptionError, SMCError
from smc.potentials import Matches

ENGINES = ["xgrammar", "llguidance"]


def brackets(depth: int, inside: str = "a") -> str:
    return "(" * depth + inside + ")" * depth


def schema(depth: int, wrap: Callable[[Any], Any]) -> Any:
    inner: Any = {"type": "string"}
    for _ in range(depth):
        inner = wrap(inner)
    return inner


SHAPES: dict[str, Callable[[Any], Any]] = {
    "items": lambda inner: {"items": inner},
    "properties": lambda inner: {"type": "object", "properties": {"a": inner}},
    "anyOf": lambda inner: {"anyOf": [inner, {"type": "null"}]},
    "not": lambda inner: {"not": inner},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pattern", [brackets(400), brackets(3000), r"\p{L}" + brackets(400)])
def test_patterns(pattern: str, engine: str) -> None:
    with pytest.raises(ConstraintError, match=r"The regex '.*' is nested too deeply"):
        Regex(pattern, engine=engine).compile(BYTES)


@pytest.mark.parametrize("engine", ENGINES)
def test_patterns_in_schemas(engine: str) -> None:
    for written in ({"type": "string", "pattern": brackets(500)}, {"patternProperties": {brackets(500): {}}}):
        with pytest.raises(ConstraintError, match="nested too deeply"):
            JSONSchema(written, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", list(SHAPES))
def test_schemas(shape: str, engine: str) -> None:
    """Read, or refused in words: never a raw error, at any depth on the way."""
    outcomes = []
    for depth in (5, 20, 40, 60, 80, 100, 500, 3000):
        try:
            constraint = JSONSchema(schema(depth, SHAPES[shape]), engine=engine)
            constraint.compile(BYTES)
            constraint.audit()
            outcomes.append("read")
        except SMCError as error:
            outcomes.append("refused" if "nested too deeply" in str(error) else str(error))
    assert (outcomes[0], outcomes[1], outcomes[-1]) == ("read", "read", "refused")
    assert {*outcomes} == {"read", "refused"}
    assert outcomes == sorted(outcomes)


def test_a_pattern_that_judges_texts_and_a_structural_tag() -> None:
    with pytest.raises(OptionError, match="nested too deeply"):
        Matches(brackets(400))
    with pytest.raises(ConstraintError, match="structural tag is nested too deeply"):
        StructuralTag({"type": "structural_tag", "format": schema(3000, SHAPES["items"])})


def test_the_text_of_a_schema_and_the_parameters_of_a_tool() -> None:
    text = '{"items":' * 100_000 + "{}" + "}" * 100_000
    with pytest.raises(ConstraintError, match="nested too deeply"):
        JSONSchema(text)
    with pytest.raises(ConstraintError, match=r"of the tool 'f': .* nested too deeply"):
        ToolCalls([{"name": "f", "parameters": {"properties": {"a": schema(3000, SHAPES["items"])}}}])


@pytest.mark.parametrize("depth", [100, 900, 20_000])
@pytest.mark.parametrize("engine", ENGINES)
def test_grammars(depth: int, engine: str) -> None:
    """The engines have limits of their own; within them the language is right."""
    outcomes = []
    for make, start in ((EBNF, "root ::= "), (GBNF, "root ::= "), (Lark, "start: ")):
        try:
            compiled = make(start + brackets(depth, '"a"'), engine=engine).compile(BYTES)
            outcomes.append([compiled.accepts(text) for text in (b"", b"a")])
        except ConstraintError as error:
            outcomes.append(re.search("[Nn]est|too deep", str(error)) is not None or str(error))
    assert all(outcome in ([False, True], True) for outcome in outcomes)
    if depth == 100:  # of Lark, llguidance takes fewer
        assert outcomes[:2] == [[False, True], [False, True]]


def test_ordinary_depths_are_read() -> None:
    assert Regex(brackets(50)).compile(BYTES).accepts(b"a")
    assert JSONSchema(schema(20, SHAPES["items"])).is_valid(json.dumps(schema(0, dict)).encode())
