"""Where engines are known to enforce another language than the schema's: the right answer of mask and validator together."""

from __future__ import annotations

import json
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


SPELLINGS = {
    ("escapes beside maxLength", '"\\u00e9a"'),
    ("lone surrogates", '"\\ud83d\\ude00"'),
    ("exponents from zero up", "1e400"),
    ("exponents from zero up", "1.5E-9"),
    ("multipleOf on numbers", "-1.10"),
}
"""What llguidance does not write, and announces: another spelling of a value that it does write."""


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize(("name", "schema", "good", "bad"), TRAPS, ids=[trap[0] for trap in TRAPS])
def test_traps(name: str, schema: dict[str, Any], good: list[str], bad: list[str], engine: Any) -> None:
    constraint = JSONSchema(schema, whitespace="compact", engine=engine)
    compiled = constraint.compile(BYTES)
    for text in good:
        data = text.encode()
        announced = engine == "llguidance" and (name, text) in SPELLINGS
        assert compiled.generates(data) != announced, text  # type: ignore[attr-defined]
        assert compiled.accepts(data), text
    for text in bad:
        data = text.encode()
        assert not (compiled.generates(data) and compiled.accepts(data)), text  # type: ignore[attr-defined]
    refuse_narrowing(constraint)  # no value is lost, only spellings


EMPTY: list[dict[str, Any]] = [
    {"type": "integer", "minimum": 0.2, "maximum": 0.8},
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4},
    {"type": "integer", "minimum": 1, "maximum": 4, "multipleOf": 5},
    {"type": "integer", "exclusiveMinimum": -5, "exclusiveMaximum": 0, "multipleOf": 5},
    {"type": "number", "minimum": 0.6, "maximum": 0.9, "multipleOf": 0.5},
    {"type": "string", "pattern": "^a$", "minLength": 3},
    {"type": "string", "pattern": "^abc", "maxLength": 2},
    {"type": "string", "format": "date", "maxLength": 4},
    {"type": "string", "pattern": "^a$", "format": "date"},
    {"type": "string", "pattern": r"^[\ud800]$"},
    {"type": "string", "pattern": r"\ud800"},
]


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("schema", EMPTY, ids=json.dumps)
def test_a_part_without_values_is_left_out_and_not_the_whole(schema: dict[str, Any], engine: Any) -> None:
    with pytest.raises(EmptyLanguageError, match="cannot accept any value"):
        JSONSchema(schema, engine=engine).compile(BYTES)
    values = ["0", "3", "-0", "5", "0.7", '""', '"a"', '"abc"', '"2024-01-01"']
    union = JSONSchema({"anyOf": [schema, {"type": "null"}]}, whitespace="compact", engine=engine)
    optional = JSONSchema({"type": "object", "properties": {"a": schema}}, whitespace="compact", engine=engine)
    assert not union.wider
    assert union.compile(BYTES).generates(b"null")  # type: ignore[attr-defined]
    assert optional.compile(BYTES).generates(b"{}")  # type: ignore[attr-defined]
    assert optional.compile(BYTES).generates(b'{"b":1}')  # type: ignore[attr-defined]
    for text in values:
        assert not union.compile(BYTES).generates(text.encode())  # type: ignore[attr-defined]
        assert not optional.compile(BYTES).generates(f'{{"a":{text}}}'.encode())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "more", [{"allOf": [{"pattern": "^a$"}, {"pattern": "^b$"}]}, {"pattern": "^[a-]*$", "format": "date"}]
)
def test_patterns_that_exclude_one_another_leave_llguidance_the_rest(more: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", **more}}}
    compiled = JSONSchema(schema, whitespace="compact", engine="llguidance").compile(BYTES)
    assert compiled.generates(b'{"b":1}')  # type: ignore[attr-defined]
    assert not compiled.generates(b'{"a":"a"}')  # type: ignore[attr-defined]
    with pytest.raises(EmptyLanguageError):
        JSONSchema({"type": "string", **more}, engine="llguidance").compile(BYTES)


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize(
    ("bounds", "kept", "left_out"),
    [
        ({"minimum": 0.5, "maximum": 1.5}, [1], [0, 2]),
        ({"exclusiveMinimum": 2, "exclusiveMaximum": 4}, [3], [2, 4]),
        ({"minimum": -0.5, "maximum": 0.5}, [0], [-1, 1]),
        ({"minimum": -10, "exclusiveMaximum": -5, "multipleOf": 5}, [-10], [-5, 0]),
        ({"minimum": 4.5, "maximum": 5.5, "multipleOf": 2.5}, [5], [4, 6]),
    ],
)
def test_one_whole_number_is_enough(bounds: dict[str, Any], kept: list[int], left_out: list[int], engine: Any) -> None:
    compiled = JSONSchema({"type": "integer", **bounds}, engine=engine).compile(BYTES)
    assert all(compiled.generates(b"%d" % value) for value in kept)  # type: ignore[attr-defined]
    assert not any(compiled.generates(b"%d" % value) for value in left_out)  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize(
    ("schema", "value", "keyword"),
    [
        ({"allOf": [{"properties": {"a": {}}}], "const": {"a": 1}, "unevaluatedProperties": False}, b'{"a":1}', "unevaluatedProperties"),
        ({"allOf": [{"prefixItems": [True]}], "enum": [[1]], "unevaluatedItems": False}, b"[1]", "unevaluatedItems"),
    ],
)  # fmt: skip
def test_a_listed_value_is_kept_where_a_branch_evaluates_it(
    schema: dict[str, Any], value: bytes, keyword: str, engine: Any
) -> None:
    constraint = JSONSchema({"anyOf": [schema, {"type": "null"}]}, whitespace="compact", engine=engine)
    assert constraint.is_valid(value)
    assert constraint.compile(BYTES).generates(value)  # type: ignore[attr-defined]
    assert constraint.wider == [f"/anyOf/0/{keyword}"]


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
def test_lone_surrogates_in_a_pattern_are_no_characters(engine: Any) -> None:
    for pattern, good, bad in (
        (r"^(?:a|[\ud800])$", '"a"', '""'),
        (r"^[^\ud800-\udbff]$", '"\u00e9"', '""'),
        (r"^a[\ud800]*$", '"a"', '"aa"'),
        (r"^[\ud800-\uffff]$", '"\uffee"', '"a"'),
        (r"^\ud83d\ude00$", '"\U0001f600"', '""'),
    ):
        constraint = JSONSchema({"type": "string", "pattern": pattern}, engine=engine)
        compiled = constraint.compile(BYTES)
        assert not constraint.wider
        assert compiled.generates(good.encode()), pattern  # type: ignore[attr-defined]
        assert constraint.is_valid(good.encode()), pattern
        assert not compiled.generates(bad.encode()), pattern  # type: ignore[attr-defined]
        assert not compiled.generates(b'"\xed\xa0\x80"'), pattern  # type: ignore[attr-defined]
    keys = {"type": "object", "patternProperties": {r"[\ud800]": True}, "additionalProperties": False}
    compiled = JSONSchema(keys, whitespace="compact", engine=engine).compile(BYTES)
    assert compiled.generates(b"{}")  # type: ignore[attr-defined]
    assert not compiled.generates(b'{"a":1}')  # type: ignore[attr-defined]


INNER = {"patternProperties": {"[^a]": {"type": "null"}}}


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"type": "object", "properties": {"n": {"$ref": "#"}}, "patternProperties": {"^n": {"$ref": "#"}}},
            ['{"n":{"n":{}}}', '{"nn":{"n":{}}}', '{"b":1}', "{}"],
            ['{"n":1}', '{"n":{"n":1}}'],
        ),
        (
            {"properties": {"ab": {"patternProperties": {"^a": True}}}, "patternProperties": {"[^a]": INNER}},
            ['{"ab":{"a":1}}', '{"ab":{"b":null}}', '{"b":{"b":null}}', '{"aa":1}'],
            [],
        ),
    ],
)
def test_declared_keys_that_patterns_match_too(
    schema: dict[str, Any], good: list[str], bad: list[str], engine: Any
) -> None:
    constraint = JSONSchema(schema, whitespace="compact", engine=engine)
    compiled = constraint.compile(BYTES)
    for text in good:
        assert constraint.is_valid(text.encode()), text
        assert compiled.generates(text.encode()), text  # type: ignore[attr-defined]
    for text in bad:
        assert not compiled.generates(text.encode()), text  # type: ignore[attr-defined]
    assert any(pointer.endswith("patternProperties") for pointer in constraint.wider)


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


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("schema", [{"dependentRequired": {"": []}}, {"dependentSchemas": {"": {"required": ["a"]}}}])
def test_a_key_without_letters_may_be_depended_on(schema: dict, engine: str) -> None:
    compiled = JSONSchema(schema, engine=engine).compile(BYTES)
    assert compiled.accepts(b"{}")
    assert compiled.accepts(b'{"":1}') == ("dependentRequired" in schema)
