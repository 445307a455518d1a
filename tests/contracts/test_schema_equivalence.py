"""Rewriting a schema keeps its language: on generated schemas and instances, against the validator of the schema as written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import jsonschema
import pytest
from constraint_tools import BYTES
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

from smc.constraints import JSONSchema
from smc.errors import ConstraintError, EmptyLanguageError

QUICK = settings(
    max_examples=120,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

KEYS = st.sampled_from(["a", "b", "ab", "c"])
LEAVES: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "string", "maxLength": 2},
    {"type": "string", "minLength": 1, "pattern": "^a"},
    {"type": "string", "pattern": "b$", "maxLength": 3},
    {"type": "integer"},
    {"type": "integer", "minimum": -3, "maximum": 12},
    {"type": "integer", "minimum": 0.2, "maximum": 0.8},
    {"type": "integer", "exclusiveMinimum": -0.5, "maximum": 1.5},
    {"type": "integer", "minimum": 1, "maximum": 4, "multipleOf": 5},
    {"type": "string", "pattern": "^ab$", "minLength": 3},
    {"type": "number", "exclusiveMinimum": 0.5},
    {"minimum": 1, "maximum": 2.5},
    {"type": ["integer", "null"], "multipleOf": 2},
    {"type": "number", "multipleOf": 0.5},
    {"type": "boolean"},
    {"type": "null"},
    {"enum": ["a", 1, None, {"a": 1}, [1]]},
    {"const": "b"},
    {"maxLength": 1},
    {},
]


def values() -> st.SearchStrategy[Any]:
    """Small values, of kinds that the schemas speak of."""
    scalars: st.SearchStrategy[Any] = st.one_of(
        st.sampled_from(
            [None, True, False, "", "a", "b", "ab", "ac", 'b"\n', "abb", 0, 1, 2, -3, 12, 13, 1.5, 2.5, 1e-7]
        ),
        st.integers(-20, 20),
        st.text('ab"\\\n\u00e9', max_size=4),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
        max_leaves=6,
    )


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One schema out of others: objects, arrays, and every way to combine."""
    below = st.one_of(inner, st.booleans())
    some = st.lists(inner, min_size=1, max_size=3)
    objects = st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "properties": st.dictionaries(KEYS, below, max_size=3),
            "required": st.lists(KEYS, unique=True, max_size=2),
            "additionalProperties": below,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b", "^c$"]), below, max_size=2),
            "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(1, 3),
            "propertyNames": st.sampled_from([{"maxLength": 1}, {"enum": ["a", "c"]}, {"pattern": "^[ab]"}]),
            "dependentRequired": st.dictionaries(KEYS, st.lists(KEYS, unique=True, max_size=1), max_size=1),
            "dependentSchemas": st.dictionaries(KEYS, inner, max_size=1),
            "unevaluatedProperties": st.one_of(st.just(False), inner),
        },
    )
    arrays = st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("array"),
            "prefixItems": st.lists(below, min_size=1, max_size=2),
            "items": below,
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 3),
            "uniqueItems": st.booleans(),
            "contains": inner,
            "unevaluatedItems": st.one_of(st.just(False), inner),
        },
    )
    combinations = st.fixed_dictionaries(
        {},
        optional={
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
            "not": st.one_of(inner, st.sampled_from([{"type": "string"}, {"type": "integer"}, {"required": ["a"]}])),
            "if": inner,
            "then": inner,
            "else": inner,
            "$ref": st.just("#/$defs/shared"),
            "enum": st.lists(values(), min_size=1, max_size=4, unique_by=json.dumps),
        },
    )
    return st.one_of(
        objects, arrays, st.builds(lambda a, b, c: {**a, **b, **c}, objects, arrays, combinations), combinations
    )


SCHEMAS = st.recursive(st.sampled_from(LEAVES), combined, max_leaves=6)
"""Recursive through ``#/$defs/shared``."""


def whole(schema: Any, shared: Any) -> Any:
    """A schema with its definition, which refers to itself."""
    return {**schema, "$defs": {"shared": {"anyOf": [shared, {"type": "array", "items": {"$ref": "#/$defs/shared"}}]}}}


def spelled(value: Any) -> Iterator[str]:
    """The value's compact texts, one for each order of the keys of its objects."""
    if isinstance(value, dict):
        for order in permutations(value.items()):
            for texts in product(*(list(spelled(below)) for _, below in order)):
                pairs = zip(order, texts, strict=True)
                yield "{" + ",".join(f"{json.dumps(key)}:{text}" for (key, _), text in pairs) + "}"
    elif isinstance(value, list):
        for texts in product(*(list(spelled(below)) for below in value)):
            yield f"[{','.join(texts)}]"
    else:
        yield json.dumps(value, ensure_ascii=False)


def wider(schema: JSONSchema) -> bool:
    return any(note.effect == "wider" and "twice" not in note.what for note in schema.notes)


@QUICK
@given(SCHEMAS, SCHEMAS, st.lists(values(), min_size=8, max_size=8), st.data())
def test_rewriting_keeps_the_language(schema: Any, shared: Any, others: list[Any], data: st.DataObject) -> None:
    written = read(whole(schema, shared))
    before, after = written._validator, jsonschema.Draft202012Validator(written.rewritten)
    normal_is_wider = bool(written._graph.findings)
    for value in others:
        try:
            was, now = before.is_valid(value), after.is_valid(value)
        except RecursionError:
            return  # a definition that is nothing but itself: JSON Schema gives it no meaning
        assert now or not was, (value, written.rewritten)
        assert was == now or normal_is_wider, (value, written.rewritten, written._graph.findings)


@QUICK
@given(SCHEMAS, SCHEMAS, st.lists(values(), min_size=8, max_size=8))
def test_the_grammar_is_the_schema(schema: Any, shared: Any, others: list[Any]) -> None:
    written = read(whole(schema, shared), whitespace="compact")
    try:
        compiled = written.compile(BYTES)
    except EmptyLanguageError:
        compiled = None
    exact = not wider(written)
    for value in others:
        texts = [text.encode() for text in spelled(value)]
        valid = written.is_valid(texts[0])
        if exact or valid or compiled is None:
            generated = compiled is not None and any(map(compiled.generates, texts))
            assert not generated or valid, (value, written.notes)
            assert generated or not valid or _exponent(texts[0]), (value, written.notes, written._enforced[0])


def read(schema: Any, **options: Any) -> JSONSchema:
    """The constraint; a definition that refers to itself without going into a value, which is refused, does not count."""
    try:
        return JSONSchema(schema, **options)
    except ConstraintError as error:
        assume("without entering a value" not in str(error))
        raise


def _exponent(text: bytes) -> bool:
    return b"e-" in text


PLAIN: list[dict[str, Any]] = [
    {"type": "array", "items": {"type": "number"}, "maxItems": 3},
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "null"}, {"type": "string", "maxLength": 3}],
        "minItems": 1,
    },
    {"anyOf": [{"type": "string", "minLength": 2}, {"type": "array", "items": {"enum": [1, "a", None]}}]},
    {"type": "string", "pattern": "^[a-z]{2}-[0-9]+$"},
    {"type": "string", "format": "date"},
    {"type": "integer", "minimum": 5, "maximum": 1000},
    {"type": "number", "minimum": -0.25, "exclusiveMaximum": 10},
]
"""Without objects, which hypothesis-jsonschema cannot draw with every version of hypothesis."""


@pytest.mark.parametrize("schema", PLAIN, ids=json.dumps)
@settings(QUICK, max_examples=15)
@given(st.data())
def test_instances_of_a_schema_can_be_written(schema: dict[str, Any], data: st.DataObject) -> None:
    value = data.draw(from_schema(schema))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    written = JSONSchema(schema, whitespace="compact")
    assume("e-" not in text and "e+" not in text)
    assert written.compile(BYTES).generates(text.encode()), text  # type: ignore[attr-defined]
