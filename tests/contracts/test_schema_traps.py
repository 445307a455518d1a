"""Where engines are known to enforce another language than the schema's: the right answer of mask and validator together."""

from __future__ import annotations

from typing import Any

import pytest
from constraint_tools import BYTES

from smc.constraints import JSONSchema
from smc.constraints.notes import refuse_narrowing
from smc.errors import EmptyLanguageError

TRAPS: list[tuple[str, dict[str, Any] | bool, list[str], list[str]]] = [
    ("undeclared required key", {"type": "object", "required": ["a"]}, ['{"a":1}'], ["{}", '{"b":1}']),
    ("pattern is a search", {"type": "string", "pattern": "b"}, ['"abc"', '"b"'], ['"ac"', '""']),
    ("pattern of a quote", {"type": "string", "pattern": '^"$'}, ['"\\""'], ['"""', '"a"', '"\\"\\""']),
    ("pattern and length", {"type": "string", "pattern": r"^[\x20-\x7E]+$", "maxLength": 8}, ['"12345678"', '"\\"\\\\"'], ['"123456789"', '""', '"\\n"']),
    (
        "allOf of two objects",
        {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"a": {"minimum": 3}, "b": {"type": "null"}}}]},
        ['{"a":3}', '{"a":4,"b":null}'],
        ['{"a":2}', '{"a":"x"}', "{}", '{"a":3,"b":1}', "1"],
    ),
    ("long fractions in a range", {"type": "number", "minimum": 0, "exclusiveMaximum": 1}, ["0.123456789012", "0", "0.0"], ["1", "1.0", "-0.1"]),
    ("exponents from zero up", {"type": "number", "minimum": 0}, ["1e400", "1.5E-9", "0"], ["-1", "-1e-9"]),
    ("short e-mail domain", {"type": "string", "format": "email"}, ['"a@b.c"', '"a.b@c"'], ['"a"', '"@b"', '"a@"', '"a b@c"']),
    ("duplicate keys", {"type": "object", "additionalProperties": {"type": "integer"}}, ['{"a":1,"b":1}'], ['{"a":1,"a":2}', '{"a":"x"}']),
    ("lone surrogates", {"type": "string"}, ['"\\ud83d\\ude00"'], ['"\\ud83d"', '"\\ude00\\ud83d"', '"\\udc00"']),
    (
        "declared key that a pattern matches",
        {"type": "object", "properties": {"ab": {"type": "integer"}}, "patternProperties": {"^a": {"minimum": 3}}, "required": ["ab"]},
        ['{"ab":3}', '{"ab":3,"ac":"x"}'],
        ['{"ab":2}', '{"ab":"x"}', '{"ab":3,"ac":2}'],
    ),
    ("oneOf with overlap", {"oneOf": [{"type": "integer", "maximum": 5}, {"type": "integer", "minimum": 3}]}, ["2", "6"], ["4", '"a"']),
    ("oneOf with overlap of a type", {"oneOf": [{"type": "integer"}, {"type": "number"}]}, ["1.5"], ["1"]),
    ("uniqueItems", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, ["[1,2]", "[]"], ["[1,1]", "[1,2,1]"]),
    ("multipleOf on numbers", {"type": "number", "multipleOf": 0.1}, ["0.3", "-1.10", "2"], ["0.25", "0.01"]),
    ("multipleOf in a range", {"type": "integer", "minimum": 1, "multipleOf": 5}, ["5", "100"], ["0", "7"]),
    ("unions without a type", {"properties": {"a": {"type": "null"}}}, ["1", "[]", '{"a":null}'], ['{"a":1}']),
    ("neighbours of a reference", {"$ref": "#/$defs/s", "maxLength": 2, "$defs": {"s": {"type": "string"}}}, ['"ab"'], ['"abc"', "1"]),
    ("neighbours of enum", {"enum": [1, "a", "abc"], "type": "string", "maxLength": 2}, ['"a"'], ["1", '"abc"']),
    ("neighbours of anyOf", {"anyOf": [{"type": "string"}, {"type": "integer"}], "maximum": 3}, ['"a"', "3"], ["4"]),
    ("open objects and arrays", {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [{"type": "null"}]}}}, ['{"a":[null,1],"b":2}'], ['{"a":[1]}']),
    ("a branch that is false", {"anyOf": [False, {"type": "null"}]}, ["null"], ["1"]),
    ("a property that is false", {"type": "object", "properties": {"a": False}}, ["{}", '{"b":1}'], ['{"a":1}']),
    ("escapes beside maxLength", {"type": "string", "maxLength": 2}, ['"\\"\\n"', '"\\u00e9a"'], ['"\\"\\n\\t"']),
    ("if, then, else", {"if": {"type": "integer"}, "then": {"minimum": 3}, "else": {"type": "null"}}, ["3", "null"], ["2", '"a"']),
    ("contains", {"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5}}, ["[1,5]"], ["[1]", "[]"]),
    ("the 30th of February", {"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2024-02-30"', '"2023-02-29"']),
    ("lookahead", {"type": "string", "pattern": "^(?!a)"}, ['"b"'], ['"ab"']),
    ("minus zero", {"type": "integer"}, ["-0", "0"], ["-00"]),
    (
        "recursion with neighbours",
        {"type": "object", "properties": {"n": {"$ref": "#", "required": ["n"]}}, "additionalProperties": False},
        ["{}"],
        ['{"n":{}}'],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "good", "bad"), [trap[1:] for trap in TRAPS], ids=[trap[0] for trap in TRAPS])
def test_traps(schema: dict[str, Any], good: list[str], bad: list[str]) -> None:
    constraint = JSONSchema(schema, whitespace="compact")
    compiled = constraint.compile(BYTES)
    for text in good:
        data = text.encode()
        assert compiled.generates(data), text  # type: ignore[attr-defined]
        assert compiled.accepts(data), text
    for text in bad:
        data = text.encode()
        assert not (compiled.generates(data) and compiled.accepts(data)), text  # type: ignore[attr-defined]
    refuse_narrowing(constraint)  # no value is lost, only spellings


def test_exponents_beside_bounds_are_announced_at_the_bound() -> None:
    narrowed = [
        n for n in JSONSchema({"type": "object", "properties": {"a/b": {"maximum": 5}}}).notes if n.keyword == "maximum"
    ]
    assert [(n.at, n.effect, n.scope) for n in narrowed] == [("/properties/a~1b", "narrower", "spelling")]


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (False, "at its root, the schema `false` cannot accept any value"),
        ({"anyOf": [False, {"type": "string", "minLength": 3, "maxLength": 1}]}, "at /anyOf/1, minLength 3 is greater"),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "at /required, the required property 'a'"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "at /allOf/1/type"),
        (
            {"type": "array", "items": {"type": "integer", "minimum": 2, "maximum": 1}, "minItems": 1},
            "at /items, minimum",
        ),
        ({"enum": ["a"], "type": "integer"}, "at /enum"),
    ],
)
def test_an_empty_schema_names_the_place(schema: dict[str, Any] | bool, place: str) -> None:
    with pytest.raises(EmptyLanguageError, match=place):
        JSONSchema(schema).compile(BYTES)


def test_closed_closes_what_the_schema_leaves_open_for_the_validator_too() -> None:
    tool = {
        "type": "object",
        "properties": {
            "a": {"type": "array", "prefixItems": [True]},
            "b": {"additionalProperties": True, "properties": {}},
        },
    }
    opened, closed = JSONSchema(tool, whitespace="compact"), JSONSchema(tool, whitespace="compact", closed=True)
    assert opened != closed
    for data in (b'{"a":[1,2]}', b'{"c":1}'):
        assert opened.is_valid(data)
        assert opened.compile(BYTES).generates(data)
        assert not closed.is_valid(data)
        assert not closed.compile(BYTES).generates(data)
    kept = b'{"a":[1],"b":{"x":1}}'
    assert closed.is_valid(kept)
    assert closed.compile(BYTES).generates(kept)


def test_drafts() -> None:
    seven = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "null"}, {"$ref": "#/definitions/s"}],
        "additionalItems": False,
        "definitions": {"s": {"$id": "#s", "type": "string"}},
    }
    compiled = JSONSchema(seven, whitespace="compact").compile(BYTES)
    assert compiled.generates(b'[null,"a"]')
    assert not compiled.generates(b'["a"]')
    assert not compiled.generates(b'[null,"a",1]')
    anchored = {"$ref": "#s", "$defs": {"x": {"$anchor": "s", "type": "string", "maxLength": 1}}}
    compiled = JSONSchema(anchored, whitespace="compact").compile(BYTES)
    assert compiled.generates(b'"a"')
    assert not compiled.generates(b'"ab"')
