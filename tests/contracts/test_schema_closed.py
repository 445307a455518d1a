"""Schemas read closed: a value holds what is named for it, wherever that stands, and conditions mean what they say."""

from __future__ import annotations

from typing import Any

import pytest
from constraint_tools import BYTES

from smc.constraints import JSONSchema
from smc.errors import ConstraintError

SEVEN = {"$schema": "http://json-schema.org/draft-07/schema#"}
AB: dict[str, Any] = {"type": "object", "properties": {"a": {}, "b": {}}}
X: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
Z: dict[str, Any] = {"type": "object", "properties": {"z": {}}, "required": ["z"]}
MODEL = {
    "type": "object",
    "properties": {"m": {"$ref": "#/$defs/X"}, "o": {"anyOf": [{"$ref": "#/$defs/X"}, {"type": "null"}]}},
    "$defs": {"X": X},
}
TREE: dict[str, Any] = {"type": "object", "properties": {"n": {"$ref": "#"}}}
ENUM = {"anyOf": [{"$ref": "#/$defs/E"}, {"$ref": "#/$defs/X"}], "$defs": {"E": {"enum": ["s"]}, "X": X}}

EXACT: list[tuple[dict[str, Any], list[str], list[str]]] = [
    (AB, ['{"a":1}', "{}"], ['{"c":1}']),
    ({"type": "object", "properties": {}}, ["{}"], ['{"a":1}']),
    ({"type": "object", "required": ["a"]}, ['{"a":1,"b":2}'], ["{}"]),
    ({**AB, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, ['{"a":1}', '{"b":1}'], ["{}", '{"a":1,"c":1}']),
    ({**AB, "allOf": [{"required": ["a"]}]}, ['{"a":1}', '{"a":1,"b":2}'], ['{"b":1}', '{"a":1,"c":1}']),
    ({**AB, "not": {"required": ["a"]}}, ["{}", '{"b":1}'], ['{"a":null}', '{"c":1}']),
    ({"type": "object", "allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, ['{"a":1,"b":1}'], ['{"c":1}']),
    ({"type": "array", "allOf": [{"prefixItems": [{"type": "null"}]}]}, ["[]", "[null]"], ["[1]", "[null,null]"]),
    (MODEL, ['{"m":{"x":1},"o":null}', '{"o":{"x":1}}'], ['{"m":{"x":1,"y":1}}', '{"o":{"x":1,"y":1}}', '{"y":1}']),
    ({**SEVEN, **MODEL}, ['{"m":{"x":1}}'], ['{"m":{"x":1,"y":1}}', '{"o":{"x":1,"y":1}}', '{"y":1}']),
    (TREE, ['{"n":{"n":{}}}'], ['{"n":{"x":1}}', '{"n":{"n":{"x":1}}}']),
    ({**SEVEN, **TREE}, ['{"n":{"n":{}}}'], ['{"n":{"x":1}}', '{"n":{"n":{"x":1}}}']),
    (ENUM, ['"s"', '{"x":1}'], ['{"x":1,"y":1}', "1"]),
    ({"anyOf": [X, {"type": "array", "items": X}]}, ['{"x":1}', '[{"x":1}]'], ['{"x":1,"y":1}', '[{"x":1,"y":1}]']),
    ({**AB, "additionalProperties": {"type": "null"}}, ['{"c":null}'], ['{"c":1}']),
    ({**AB, "allOf": [{"additionalProperties": {"type": "integer"}}]}, ['{"c":1}'], ['{"c":null}']),
]  # fmt: skip


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize(("schema", "good", "bad"), EXACT)
def test_a_mask_follows_what_is_surely_named(
    schema: dict[str, Any], good: list[str], bad: list[str], engine: Any
) -> None:
    constraint = JSONSchema(schema, whitespace="compact", engine=engine, closed=True)
    compiled = constraint.compile(BYTES)
    for text in good:
        assert constraint.is_valid(text.encode()), text
        assert compiled.generates(text.encode()), text  # type: ignore[attr-defined]
    for text in bad:
        assert not constraint.is_valid(text.encode()), text
        assert not compiled.generates(text.encode()), text  # type: ignore[attr-defined]


def test_branches_name_what_holds_if_they_hold() -> None:
    either = {"anyOf": [X, Z]}
    constraint = JSONSchema(either, whitespace="compact", closed=True)
    compiled = constraint.compile(BYTES)
    for text in (b'{"x":1}', b'{"z":""}', b'{"x":1,"z":1}'):
        assert constraint.is_valid(text)
        assert compiled.generates(text)  # type: ignore[attr-defined]
    assert not constraint.is_valid(b'{"x":"","z":1}')  # only Z holds, and it does not name x
    assert not compiled.generates(b'{"x":1,"y":1}')  # type: ignore[attr-defined]
    assert "/unevaluatedProperties" in constraint.wider
    seven = JSONSchema({**SEVEN, **either}, whitespace="compact", closed=True)
    assert seven.is_valid(b'{"x":"","z":1}')  # draft 7 cannot say which branch holds
    assert not seven.is_valid(b'{"x":1,"y":1}')
    assert "/unevaluatedProperties" not in seven.wider


def test_conditions_are_read_as_written() -> None:
    choice = {
        "if": {"properties": {"a": {"const": 1}}},
        "then": {"properties": {"p": {}}},
        "else": {"properties": {"q": {}}},
    }
    constraint = JSONSchema({**AB, **choice}, closed=True)
    for text in (b'{"a":1,"p":1}', b'{"a":2,"q":1}', b'{"a":1,"b":1}'):
        assert constraint.is_valid(text)
    for text in (b'{"a":1,"q":1}', b'{"a":2,"p":1}', b'{"a":1,"r":1}'):
        assert not constraint.is_valid(text)
    contains = JSONSchema({"type": "array", "contains": {"properties": {"a": {}}, "required": ["a"]}}, closed=True)
    assert contains.is_valid(b'[{"a":1,"b":2}]')


@pytest.mark.parametrize("schema", [{"allOf": 3}, {"properties": [1]}, {"$ref": "http://elsewhere.example/x"}])
def test_a_schema_that_is_not_valid_is_refused_as_ever(schema: dict[str, Any]) -> None:
    with pytest.raises(ConstraintError) as as_written:
        JSONSchema(schema)
    with pytest.raises(ConstraintError) as read_closed:
        JSONSchema(schema, closed=True)
    assert str(read_closed.value) == str(as_written.value)
