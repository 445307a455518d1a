"""Each row of the table is true of its engine: an instance shows what is let through or left out; what has no row is exact."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from constraint_tools import BYTES

from smc.constraints import JSONSchema, schema_normal
from smc.constraints.schema_table import ROWS, Row, row

ENGINES = ("xgrammar", "llguidance")


@dataclass(frozen=True)
class Example:
    """A schema in which a row applies at the pointer `at`, and a text that shows it."""

    keyword: str
    case: str
    schema: dict[str, Any]
    text: str
    at: str = ""
    engines: tuple[str, ...] = ENGINES


def choices(keyword: str) -> dict[str, Any]:
    """Three choices of seven each: more combinations than are written out."""
    listed = [[{"const": f"{i}"} for i in range(k, k + 7)] for k in (0, 7)]
    return {"allOf": [{keyword: listed[0]}, {keyword: [{"maxLength": n} for n in range(1, 8)]}, {keyword: listed[1]}]}


NULL = {"type": "null"}
NAMES = [f"k{i}" for i in range(50)]
UNFOLLOWED = {
    "lookaround": ("^(?=b)", "a"),
    "backreference": (r"^(a|b)\1$", "ab"),
    "boundary": (r"\bb\b", "abc"),
    "anchor": ("(^a)+", "b"),
}


def examples() -> Iterator[Example]:
    def patterns(case: str, pattern: str, text: str, engines: tuple[str, ...] = ENGINES) -> Iterator[Example]:
        yield Example("pattern", case, {"type": "string", "pattern": pattern}, f'"{text}"', "", engines)
        keys = {"type": "object", "patternProperties": {pattern: NULL}, "additionalProperties": False}
        yield Example("patternProperties", case, keys, f'{{"{text}":null}}', "", engines)

    overlap = {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]}
    yield Example("oneOf", "", overlap, "3")
    yield Example("not", "", {"type": "string", "not": {"const": "a"}}, '"a"')
    yield Example("if", "", {"type": "integer", "if": {"minimum": 5}, "then": {"multipleOf": 2}}, "7")
    yield Example("uniqueItems", "", {"type": "array", "uniqueItems": True}, "[1,1]")
    yield Example("contains", "", {"type": "array", "contains": NULL}, "[]")
    yield Example("unevaluatedItems", "", {"type": "array", "prefixItems": [True], "unevaluatedItems": False}, "[1,2]")
    yield Example(
        "unevaluatedProperties",
        "",
        {"type": "object", "properties": {"a": True}, "unevaluatedProperties": False},
        '{"b":1}',
    )
    yield Example("propertyNames", "", {"type": "object", "propertyNames": {"maxLength": 1}}, '{"ab":1}')
    both = {"^a": NULL, "b$": {"type": "string"}}
    yield Example(
        "patternProperties",
        "overlap",
        {"type": "object", "patternProperties": both, "additionalProperties": False},
        '{"ab":null}',
    )
    apart = [
        {"patternProperties": {"^a": True}, "additionalProperties": NULL},
        {"patternProperties": {"^b": {"type": "string"}}},
    ]
    yield Example("patternProperties", "conjunction", {"type": "object", "allOf": apart}, '{"b":"x"}', "/allOf/0")
    for keyword in ("anyOf", "oneOf"):
        yield Example(keyword, "size", choices(keyword), '"6"', "/allOf/2")
    many = [f"k{i}" for i in range(10)]
    needed = {name: ["x"] for name in many}
    required = {name: {"required": ["x"]} for name in many}
    last = f'{{"{many[-1]}":1}}'
    yield Example("dependentRequired", "size", {"type": "object", "dependentRequired": needed}, last)
    yield Example("dependentSchemas", "size", {"type": "object", "dependentSchemas": required}, last)
    seven = "http://json-schema.org/draft-07/schema#"
    yield Example("dependencies", "size", {"$schema": seven, "type": "object", "dependencies": needed}, last)
    yield Example("$ref", "size", {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": NULL}}, "[1]")
    for case, (pattern, text) in UNFOLLOWED.items():
        yield from patterns(case, pattern, text)
    yield from patterns("spelling", "^a$", "\\u0061")
    yield Example("format", "wider", {"type": "string", "format": "time"}, '"12:00:60Z"')
    yield Example("format", "spelling", {"type": "string", "format": "date"}, '"2024-01-0\\u0031"')
    yield Example("properties", "duplicates", {"type": "object"}, '{"x":1,"x":1}')
    yield Example("properties", "order", {"type": "object", "properties": {"a": True, "b": True}}, '{"b":1,"a":1}')
    yield Example("required", "order", {"type": "object", "required": ["a", "b"]}, '{"b":1,"a":1}')
    yield Example("type", "integer", {"type": "integer"}, "1.0")
    yield Example("enum", "spelling", {"enum": ["a", "b"]}, '"\\u0061"')
    yield Example("const", "spelling", {"const": 1}, "1.0")
    for keyword, text in (
        ("minimum", "1e1"),
        ("exclusiveMinimum", "1e1"),
        ("maximum", "1e0"),
        ("exclusiveMaximum", "1e0"),
    ):
        yield Example(keyword, "exponent", {"type": "number", keyword: 5}, text)
    yield Example("multipleOf", "decimal", {"type": "number", "multipleOf": 0.1}, "1e0")
    ours, theirs = ENGINES[:1], ENGINES[1:]
    yield Example("multipleOf", "decimal", {"type": "number", "multipleOf": 0.1}, "1.50", "", theirs)
    yield Example("multipleOf", "decimal", {"type": "number", "multipleOf": 0.25}, "1.5", "", theirs)
    yield Example("multipleOf", "integer", {"type": "number", "multipleOf": 2}, "2.0", "", ours)
    yield Example("multipleOf", "", {"type": "integer", "multipleOf": 7}, "8", "", ours)
    yield Example("multipleOf", "", {"type": "integer", "multipleOf": 0.123456789}, "1", "", theirs)
    yield Example(
        "pattern",
        "several",
        {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "b$"}]},
        '"a"',
        "/allOf/1",
        ours,
    )
    yield Example("format", "several", {"type": "string", "format": "date", "pattern": "^2"}, '"1999-01-01"', "", ours)
    yield from patterns("count", "^(?:ab|c){1,100}$", "c" * 101, ours)
    yield Example("minLength", "", {"type": "string", "minLength": 50}, '"\\n"', "", ours)
    yield Example("maxLength", "", {"type": "string", "maxLength": 50}, f'"\\n{"a" * 60}"', "", ours)
    named = {"type": "object", "properties": dict.fromkeys(NAMES, True)}
    yield Example("minProperties", "size", {**named, "minProperties": 45}, "{}", "", ours)
    members = ",".join(f'"{name}":1' for name in NAMES)
    yield Example("maxProperties", "size", {**named, "maxProperties": 45}, f"{{{members}}}", "", ours)
    long = {"type": "object", "properties": {"x" * 120: NULL, "y": True}, "additionalProperties": True}
    yield Example("additionalProperties", "size", long, f'{{"y":1,"{"x" * 120}":1}}', "", ours)
    for keyword in ("minimum", "exclusiveMinimum"):
        yield Example(keyword, "size", {"type": "number", keyword: 1e20}, "5", "", theirs)
        maximum = keyword.replace("Min", "Max").replace("min", "max")
        yield Example(maximum, "size", {"type": "integer", maximum: -1e20}, "5", "", theirs)
    yield Example("type", "string", {"type": "string"}, '"\\u0061"', "", theirs)
    yield Example("type", "controls", {"type": "string", "pattern": "^[^@-a]$"}, r'"\\"', "", theirs)
    keys = {"patternProperties": {'^[^"]$': NULL}, "additionalProperties": False}
    yield Example("patternProperties", "controls", {"type": "object", **keys}, r'{"\"":null}', "", theirs)
    yield Example("const", "size", {"const": 1234567890123456789}, "1234567890123456768", "", theirs)
    yield Example("enum", "size", {"enum": [None, [2**53 + 1]]}, "[2]", "", theirs)
    optional = {"type": "object", "properties": {"a": True}}
    yield Example("minProperties", "optional", {**optional, "minProperties": 1}, "{}", "", theirs)
    yield Example("maxProperties", "optional", {**optional, "maxProperties": 1}, '{"a":1,"b":1}', "", theirs)


EXAMPLES = list(examples())


def test_every_row_has_an_example() -> None:
    shown = {row(engine, e.keyword, e.case) for e in EXAMPLES for engine in e.engines}
    assert shown == set(ROWS)


@pytest.mark.parametrize(
    ("example", "engine"),
    [pytest.param(e, engine, id=f"{e.keyword}-{e.case}-{engine}") for e in EXAMPLES for engine in e.engines],
)
def test_rows_are_true(example: Example, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if (example.keyword, example.case) == ("$ref", "size"):
        monkeypatch.setattr(schema_normal, "MAX_NODES", 1)
    constraint = JSONSchema(example.schema, whitespace="compact", engine=engine)
    expected: Row = row(engine, example.keyword, example.case)
    entries = [
        entry
        for entry in constraint.audit()
        if (entry.at, entry.keyword, entry.what) == (example.at, example.keyword, expected.what)
    ]
    assert [(entry.effect, entry.scope) for entry in entries] == [(expected.effect, expected.scope)]
    assert any(note.at == example.at and note.what == expected.what for note in constraint.notes)
    text = example.text.encode()
    generates = constraint.compile(BYTES).generates(text)  # type: ignore[attr-defined]
    assert constraint.is_valid(text) == (expected.effect == "narrower")
    assert generates == (expected.effect == "wider")


EXACT: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"type": "null"}, ["null"], ["0", "false", '""']),
    ({"type": "boolean"}, ["true", "false"], ["null", "1"]),
    ({"type": "number"}, ["0", "-0", "1.50", "1e5", "-2E-3", "1e+7"], ["01", "+1", ".5", '"1"', "NaN"]),
    ({"type": "integer"}, ["0", "-7", "123456789012345678901"], ["1.5", "01", "true"]),
    ({"type": "string"}, ['""', '"a"', '"\\""', '"\\n"', '"\u00e9\U0001f600"'], ['"\\ud800"', '"\n"', "1"]),
    ({"type": ["string", "null"]}, ['"a"', "null"], ["1", "[]"]),
    ({"type": "integer", "minimum": -12, "exclusiveMaximum": 105}, ["-12", "-1", "0", "9", "99", "104"], ["-13", "105", "1000"]),
    ({"type": "number", "minimum": 0.5, "maximum": 12.25}, ["0.5", "0.50", "12.25", "7", "1.0000001"], ["0.49", "12.2501", "13", "-1"]),
    ({"type": "number", "exclusiveMinimum": 0}, ["0.1", "12"], ["0", "0.00", "-1"]),
    ({"type": "string", "minLength": 1, "maxLength": 3}, ['"a"', '"\u00e9\u00e9\u00e9"', '"\\"\\n"'], ['""', '"abcd"']),
    ({"type": "string", "pattern": "b"}, ['"b"', '"abc"', '"\\"b"'], ['"a"', '""']),
    ({"type": "string", "pattern": '^["\\\\\\n]$'}, ['"\\""', '"\\\\"', '"\\n"'], ['"a"', '"""', '""']),
    ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, ['"a"', '"abc"'], ['""', '"abcd"', '"A"']),
    ({"type": "string", "pattern": "^.$"}, ['"a"', '"\\t"'], ['"\\n"', '"\\r"', '"\u2028"']),
    ({"type": "string", "format": "date"}, ['"2024-02-29"', '"1999-12-31"'], ['"2023-02-29"', '"2023-02-30"', '"0000-01-01"']),
    ({"type": "string", "format": "ipv4"}, ['"1.2.3.255"'], ['"1.2.3"', '"1.2.3.256"', '"01.2.3.4"']),
    ({"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"123e4567"']),
    ({"type": "string", "format": "no-such-format"}, ['"a"', '""'], ["1"]),
    ({"enum": [1, "a", None, [1, {"x": "y"}]]}, ["1", '"a"', "null", '[1,{"x":"y"}]'], ["2", '"b"', "[1]"]),
    ({"const": {"a": 1}}, ['{"a":1}'], ["{}", '{"a":2}']),
    ({"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2}, ["[null]", "[null,null]"], ["[]", "[1]", "[null,null,null]"]),
    ({"type": "array"}, ["[]", '[1,"a",[]]'], ["{}"]),
    ({"type": "array", "prefixItems": [NULL, {"type": "string"}], "items": False}, ["[]", "[null]", '[null,"a"]'], ['[null,"a",1]', "[1]"]),
    ({"type": "array", "prefixItems": [NULL], "minItems": 2, "items": {"type": "boolean"}}, ["[null,true]"], ["[null]", "[null,null]"]),
    ({"type": "object", "required": ["a"]}, ['{"a":1}', '{"a":null,"b":2}'], ["{}", '{"b":1}']),
    ({"type": "object", "properties": {"a": NULL}, "additionalProperties": False}, ["{}", '{"a":null}'], ['{"a":1}', '{"b":1}']),
    ({"type": "object", "additionalProperties": NULL}, ["{}", '{"x":null}'], ['{"x":1}']),
    ({"type": "object", "properties": {"a": NULL}, "additionalProperties": {"type": "string"}}, ['{"a":null,"ab":""}'], ['{"a":""}', '{"b":null}']),
    ({"type": "object", "patternProperties": {"^a": NULL}, "additionalProperties": False}, ['{"ab":null}', "{}"], ['{"b":null}', '{"a":1}']),
    ({"type": "object", "minProperties": 1, "maxProperties": 2}, ['{"a":1}', '{"a":1,"b":2}'], ["{}", '{"a":1,"b":2,"c":3}']),
    ({"type": "object", "propertyNames": {"enum": ["a"]}}, ["{}", '{"a":1}'], ['{"b":1}']),
    ({"type": "object", "dependentRequired": {"a": ["b"]}}, ["{}", '{"b":1}', '{"a":1,"b":1}'], ['{"a":1}']),
    ({"type": "object", "dependentSchemas": {"a": {"required": ["b"]}}}, ["{}", '{"b":1}', '{"a":1,"b":1}'], ['{"a":1}']),
    ({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"required": ["a"], "properties": {"a": {"minimum": 2}}}]}, ['{"a":2}'], ["{}", '{"a":1}', '{"a":"x"}']),
    ({"anyOf": [{"type": "null"}, {"type": "string"}], "maxLength": 1}, ["null", '"a"'], ["1", '"ab"']),
    ({"oneOf": [{"type": "null"}, {"type": "string"}]}, ["null", '"a"'], ["1"]),
    ({"oneOf": [{"properties": {"k": {"const": c}}, "required": ["k"], "type": "object"} for c in "ab"]}, ['{"k":"a"}', '{"k":"b"}'], ["{}", '{"k":"c"}']),
    ({"not": {"type": ["string", "object"]}}, ["1", "[]"], ['"a"', "{}"]),
    ({"type": "object", "not": {"required": ["a"]}}, ["{}", '{"b":1}'], ['{"a":1}']),
    ({"$ref": "#/$defs/n", "maximum": 3, "$defs": {"n": {"type": "integer"}}}, ["3", "-5"], ["4", '"a"']),
    ({"type": "array", "items": {"$ref": "#"}}, ["[]", "[[],[[]]]"], ["[1]"]),
    ({"properties": {"a": NULL}}, ["1", '"x"', '{"a":null}'], ['{"a":1}']),
]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("schema", "valid", "invalid"), EXACT, ids=lambda value: json.dumps(value)[:60])
def test_what_has_no_row_is_exact(schema: dict[str, Any], valid: list[str], invalid: list[str], engine: str) -> None:
    constraint = JSONSchema(schema, whitespace="compact", engine=engine)
    wider = [note for note in constraint.notes if note.effect == "wider" and "twice" not in note.what]
    lost = [note for note in constraint.notes if note.effect == "narrower" and note.scope == "values"]
    assert not wider
    assert not lost
    compiled = constraint.compile(BYTES)
    for text in valid:
        assert constraint.is_valid(text.encode()), text
        assert compiled.generates(text.encode()), text  # type: ignore[attr-defined]
    for text in invalid:
        assert not constraint.is_valid(text.encode()), text
        assert not compiled.generates(text.encode()), text  # type: ignore[attr-defined]
