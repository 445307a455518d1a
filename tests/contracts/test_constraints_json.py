"""JSON Schema: the three layouts, the strict validator, and what the mask lets through that it does not."""

from __future__ import annotations

import json
import time
from typing import Any, Literal

import numpy as np
import pydantic
import pytest
from constraint_tools import BYTES, STOPS, allowed_ids, spell

from smc.constraints import JSONSchema
from smc.constraints.json_schema import Whitespace
from smc.constraints.json_validator import read_json
from smc.constraints.xgrammar_engine import XGrammarConstraint

ENGINES: tuple[Literal["xgrammar", "llguidance"], ...] = ("xgrammar", "llguidance")

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["x", "tags"],
    "additionalProperties": False,
}


def writes(constraint: JSONSchema, text: str | bytes) -> bool:
    """Whether the masks lead through `text` and allow a stop after it."""
    rows = constraint.compile(BYTES).start()
    for byte in text.encode() if isinstance(text, str) else text:
        if byte not in allowed_ids(rows, BYTES):
            return False
        rows = rows.advance(np.array([0]), np.array([byte]))
    return set(STOPS) <= allowed_ids(rows, BYTES)


@pytest.mark.parametrize(
    ("text", "layouts"),
    [
        ('{"x":1,"tags":["a","b"]}', {"compact", "bounded", "free"}),
        ('{"x": 1, "tags": ["a", "b"]}', {"bounded", "free"}),
        ('{\n "x":1 , "tags":[ ] }', {"bounded", "free"}),
        ('{   "x":1,"tags":[]}', {"free"}),
        ('{"x":1,"tags":[' + "\n" * 50 + '"a"]}', {"free"}),
        (' {"x":1,"tags":[]}', set()),
        ('{"tags":[],"x":1}', set()),  # the engine writes properties in declared order
    ],
)
def test_whitespace_layouts(text: str, layouts: set[str]) -> None:
    written = {
        layout for layout in ("compact", "bounded", "free") if writes(JSONSchema(POINT, whitespace=layout), text)
    }
    assert written == layouts
    assert JSONSchema(POINT).is_valid(text.encode())


@pytest.mark.parametrize(
    "data",
    [
        b'{"x":1,"x":2}',
        b'{"x":1}}',
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        b'{"\\udc00":1}',
        b'"\xff"',
        b'"a\nb"',
        b"",
        b"'a'",
        b"[" * 100_000,
        b"\xef\xbb\xbf1",
        b"01",
    ],
)
def test_the_reader_is_strict(data: bytes) -> None:
    assert not JSONSchema(True).compile(BYTES).accepts(data)


@pytest.mark.parametrize(
    "data", [b'"\\ud83d\\ude00"', '"\u00e9\U0001f600"'.encode(), b"  [1, 2.5e3]\n", b'{"a":{"a":1}}', b"1e999"]
)
def test_the_reader_takes_json(data: bytes) -> None:
    assert JSONSchema(True).compile(BYTES).accepts(data)
    read_json(data)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1,2]", "[1,1]"),
        ({"type": "string", "not": {"const": "a"}}, '"b"', '"a"'),
        ({"type": "string", "format": "date"}, '"2024-02-29"', '"2023-02-30"'),
        ({"type": "string", "format": "ipv4"}, '"1.2.3.4"', '"1.2.3"'),
        ({"type": "number", "multipleOf": 0.01}, "19.99", "19.995"),
        ({"type": "integer", "multipleOf": 7}, "49", "50"),
        ({"type": "string", "pattern": "^a+$"}, '"aa"', '"ab"'),
        # in draft 7, what stands beside a reference is ignored
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$ref": "#/definitions/n",
                "maximum": 1,
                "definitions": {"n": {"type": "integer"}},
            },
            "5",
            '"a"',
        ),
        ({"$ref": "#/$defs/n", "maximum": 1, "$defs": {"n": {"type": "integer"}}}, "1", "5"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}}, "null", "1"),
        (POINT, '{"x":1,"tags":[]}', '{"x":1}'),
    ],
)
def test_the_validator_is_the_schema(schema: dict[str, Any], good: str, bad: str) -> None:
    compiled = JSONSchema(schema).compile(BYTES)
    assert compiled.accepts(good.encode())
    assert not compiled.accepts(bad.encode())


def test_what_the_mask_lets_through_is_refused_where_it_closes() -> None:
    unique = JSONSchema({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, whitespace="compact")
    compiled = unique.compile(BYTES)
    assert compiled.generates(b"[1,1]")  # type: ignore[attr-defined]
    assert not compiled.accepts(b"[1,1]")
    assert not writes(unique, "[1,1]")
    assert allowed_ids(spell(compiled.start(), "[1,1"), BYTES)
    assert not allowed_ids(spell(compiled.start(), "[1,1]"), BYTES)


def test_no_prefix_is_read_where_the_mask_is_exact() -> None:
    compiled = JSONSchema({"type": "array", "items": {"type": "integer"}}).compile(BYTES)
    assert isinstance(compiled, XGrammarConstraint)


def test_a_slow_pattern_cannot_hang_the_validator() -> None:
    schema = JSONSchema({"type": "string", "pattern": "^(a|a)*b?c$"})
    began = time.perf_counter()
    assert not schema.is_valid(json.dumps("a" * 60).encode())
    assert time.perf_counter() - began < 10


def test_deep_data_is_rejected_not_a_crash() -> None:
    tree = JSONSchema({"type": "array", "items": {"$ref": "#"}})
    assert tree.is_valid(b"[[],[[]]]")
    assert not tree.is_valid(b"[" * 5000 + b"]" * 5000)


def test_pydantic_models() -> None:
    class Reading(pydantic.BaseModel):
        sensor: str
        level: int = pydantic.Field(ge=0, le=9)

    constraint = JSONSchema(Reading, whitespace="compact")
    assert constraint == JSONSchema(Reading.model_json_schema(), whitespace="compact")
    assert writes(constraint, '{"sensor":"a","level":3}')
    compiled = constraint.compile(BYTES)
    assert compiled.accepts(b'{"sensor": "a", "level": 3}')
    assert not compiled.accepts(b'{"sensor": "a", "level": 12}')


def test_values_are_hashable_and_keep_the_order_of_properties() -> None:
    forwards = JSONSchema(
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}, whitespace="compact"
    )
    backwards = JSONSchema(
        {"type": "object", "properties": {"b": {}, "a": {}}, "required": ["a", "b"]}, whitespace="compact"
    )
    assert forwards != backwards
    assert len({forwards, backwards, JSONSchema(forwards.text, whitespace="compact")}) == 2
    assert forwards.schema == json.loads(forwards.text)
    assert writes(forwards, '{"a":1,"b":2}')
    assert writes(backwards, '{"b":2,"a":1}')


def test_strings_take_escapes_and_utf8() -> None:
    compiled = JSONSchema({"type": "string"}, whitespace="compact").compile(BYTES)
    rows = spell(compiled.start(), '"\\u00e9\u00e9\\"')
    assert not allowed_ids(rows, BYTES) & set(STOPS)
    assert allowed_ids(spell(rows, '"'), BYTES) == set(STOPS)


@pytest.mark.parametrize("layout", ["compact", "bounded", "free"])
def test_both_engines_lay_out_json_alike(layout: Whitespace) -> None:
    texts = ('{"x":1,"tags":[]}', '{ "x": 1 , "tags": [ "a" ] }', '{   "x":1,"tags":[]}', ' {"x":1,"tags":[]}')
    ours, theirs = (JSONSchema(POINT, whitespace=layout, engine=engine).compile(BYTES) for engine in ENGINES)
    for text in texts:
        assert ours.generates(text.encode()) == theirs.generates(text.encode()), text  # type: ignore[attr-defined]
