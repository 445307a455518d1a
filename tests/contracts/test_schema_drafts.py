"""Schemas with keywords of other drafts than their own, and keywords that nothing checks: read as they mean, and said."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import jsonschema
import pytest
from constraint_tools import BYTES

from smc.constraints import JSONSchema
from smc.errors import ConstraintError

FOUR, SIX, SEVEN = (f"http://json-schema.org/draft-0{number}/schema#" for number in (4, 6, 7))
NINETEEN, TWENTY = (f"https://json-schema.org/draft/{name}/schema" for name in ("2019-09", "2020-12"))
ENGINES = ("xgrammar", "llguidance")
NULL = {"type": "null"}

BORROWED: list[tuple[str, dict[str, Any], str, list[str], list[str]]] = [
    (FOUR, {"const": "a"}, "const", ['"a"'], ['"b"', "1"]),
    (FOUR, {"type": "array", "contains": True}, "contains", ["[1]"], ["[]"]),
    (FOUR, {"type": "integer", "exclusiveMinimum": 3}, "exclusiveMinimum", ["4"], ["3"]),
    (FOUR, {"type": "object", "propertyNames": {"enum": ["a"]}}, "propertyNames", ['{"a":1}'], ['{"b":1}']),
    (SEVEN, {"type": "object", "dependentRequired": {"a": ["b"]}}, "dependentRequired", ['{"b":1}'], ['{"a":1}']),
    (SEVEN, {"type": "array", "prefixItems": [NULL], "items": False}, "prefixItems", ["[null]"], ["[1]", "[null,1]"]),
    (SEVEN, {"type": "array", "contains": True, "minContains": 2}, "minContains", ["[1,2]"], ["[1]"]),
    (NINETEEN, {"type": "array", "prefixItems": [NULL]}, "prefixItems", ["[null,1]"], ["[1]"]),
    (TWENTY, {"type": "array", "items": [NULL], "additionalItems": False}, "items", ["[null]"], ["[1]", "[null,1]"]),
    (TWENTY, {"type": "integer", "minimum": 3, "exclusiveMinimum": True}, "exclusiveMinimum", ["4"], ["3"]),
    (TWENTY, {"type": "object", "dependencies": {"a": ["b"]}}, "dependencies", ['{"b":1}'], ['{"a":1}']),
    ("", {"type": "integer", "maximum": 3, "exclusiveMaximum": True}, "exclusiveMaximum", ["2"], ["3"]),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("draft", "schema", "keyword", "good", "bad"), BORROWED, ids=lambda part: str(part)[-40:])
def test_a_keyword_of_another_draft_is_read_as_it_means_there(
    draft: str, schema: dict[str, Any], keyword: str, good: list[str], bad: list[str], engine: Any
) -> None:
    constraint = JSONSchema({**({"$schema": draft} if draft else {}), **schema}, whitespace="compact", engine=engine)
    compiled = constraint.compile(BYTES)
    for text in good:
        assert constraint.is_valid(text.encode()), text
        assert compiled.generates(text.encode()), text  # type: ignore[attr-defined]
    for text in bad:
        assert not constraint.is_valid(text.encode()), text
        assert not compiled.generates(text.encode()), text  # type: ignore[attr-defined]
    (entry, *_) = [entry for entry in constraint.audit() if entry.keyword == keyword]
    assert entry.effect != "unchecked"
    assert "read as draft" in entry.what or entry.effect != "exact"


def test_definitions_stand_under_either_word_in_every_draft() -> None:
    for draft in (FOUR, SEVEN, TWENTY):
        for word in ("$defs", "definitions"):
            schema = JSONSchema({"$schema": draft, "$ref": f"#/{word}/a", word: {"a": NULL}})
            assert schema.is_valid(b"null")
            assert not schema.is_valid(b"1")


@pytest.mark.parametrize(
    "schema",
    [
        {"id": {"type": "string"}, "type": "null"},
        {"type": "null", "definitions": {"group": {"id": {"type": "string"}}}},
        {"$ref": "#/definitions/group/id", "definitions": {"group": {"id": NULL}}},
    ],
)
def test_a_property_called_id_names_no_schema(schema: dict[str, Any]) -> None:
    constraint = JSONSchema({"$schema": FOUR, **schema})
    assert constraint.compile(BYTES).accepts(b"null")
    assert not constraint.is_valid(b"1")


@pytest.mark.parametrize(
    ("schema", "match"),
    [
        ({"$schema": TWENTY, "items": [{"$dynamicRef": "#"}]}, r"read as draft 2019-09, which has no \$dynamicRef"),
        ({"$schema": TWENTY, "items": {"$recursiveRef": "#"}}, r"2019-09/schema.* at its root"),
        ({"$schema": NINETEEN, "items": {"$dynamicRef": "#"}}, r"2020-12/schema.* at its root"),
        ({"items": [NULL], "prefixItems": [NULL]}, "no draft has both"),
        ({"$schema": FOUR, "required": []}, "draft 2020-12 allows this"),
        ({"$schema": FOUR, "additionalProperties": {"not": True}}, "draft 2020-12 allows this"),
        ({"$schema": SEVEN, "$ref": "#a", "definitions": {"b": {"$anchor": "a"}}}, r"does not read \$anchor"),
        ({"$schema": {"a": 1}}, r"/\$schema.*is not a string"),
        ({"$id": {"a": 1}}, r"/\$id"),
    ],
)
def test_what_its_draft_cannot_read_is_refused_with_that_reason(schema: dict[str, Any], match: str) -> None:
    with pytest.raises(ConstraintError, match=match):
        JSONSchema(schema)


UNCHECKED: list[tuple[dict[str, Any], str, str, str]] = [
    ({"type": "string", "format": "datetime"}, "", "format", "'date-time' may be meant"),
    ({"type": "string", "format": "e-mail"}, "", "format", "'email' may be meant"),
    ({"type": "string", "format": "no such thing at all"}, "", "format", "no draft has"),
    ({"$schema": SEVEN, "items": {"format": "uuid"}}, "/items", "format", "draft 7 does not have"),
    ({"$schema": FOUR, "format": "date"}, "", "format", "draft 4 does not have"),
    ({"$schema": SEVEN, "$ref": "#/$defs/a", "maxLength": 2, "$defs": {"a": {}}}, "", "maxLength", "beside \\$ref"),
    ({"then": NULL}, "", "then", "without if"),
    ({"else": NULL}, "", "else", "without if"),
    ({"if": NULL}, "", "if", "without then or else"),
    ({"minContains": 2}, "", "minContains", "without contains"),
    ({"additionalItems": NULL}, "", "additionalItems", "without a list"),
    ({"exclusiveMinimum": True}, "", "exclusiveMinimum", "without minimum"),
    ({"$schema": "http://example.org/mine", "type": "null"}, "", "$schema", "names no draft"),
]


@pytest.mark.parametrize(("schema", "at", "keyword", "what"), UNCHECKED, ids=lambda part: str(part)[:40])
def test_what_nothing_checks_is_not_called_exact(schema: dict[str, Any], at: str, keyword: str, what: str) -> None:
    constraint = JSONSchema(schema)
    (entry,) = [entry for entry in constraint.audit() if (entry.at, entry.keyword) == (at, keyword)]
    assert entry.effect == "unchecked"
    with pytest.raises(AssertionError, match=what):
        raise AssertionError(entry.what)
    assert any((note.effect, note.at, note.keyword) == ("unchecked", at, keyword) for note in constraint.notes)
    assert f"{at}/{keyword}" not in constraint.wider


def test_a_draft_is_known_by_either_scheme() -> None:
    secure = JSONSchema({"$schema": FOUR.replace("http:", "https:"), "maximum": 3, "exclusiveMaximum": True})
    assert not secure.is_valid(b"3")
    assert all(entry.effect == "exact" for entry in secure.audit() if entry.keyword == "$schema")


RECURSIVE = {
    "$schema": TWENTY,
    "type": "object",
    "properties": {"n": {"$ref": "#"}, "price": {"multipleOf": 0.01}, "code": {"pattern": "^\\d$"}},
}


def test_the_root_keeps_its_keywords_where_a_reference_comes_back_to_it() -> None:
    for text in ('{"price":19.99}', '{"code":"1"}'):
        assert JSONSchema(RECURSIVE).is_valid(f'{{"n":{text}}}'.encode()), text
    assert not JSONSchema(RECURSIVE).is_valid('{"n":{"code":"\u0661"}}'.encode())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_relative_reference_beside_a_nested_name(engine: Any) -> None:
    inner = {"$id": "int/", "$ref": "./int.json", "$defs": {"i": {"$id": "int.json", "type": "integer"}}}
    schema = {"$schema": TWENTY, "$id": "http://example.org/ref/", "$ref": "int/", "$defs": {"a": inner}}
    compiled = JSONSchema(schema, engine=engine).compile(BYTES)
    assert compiled.generates(b"1")  # type: ignore[attr-defined]
    assert not compiled.generates(b'"a"')  # type: ignore[attr-defined]


TREE = {
    "$schema": TWENTY,
    "$id": "http://example.org/strict",
    "$dynamicAnchor": "node",
    "$ref": "tree",
    "unevaluatedProperties": False,
    "$defs": {
        "tree": {
            "$id": "http://example.org/tree",
            "$dynamicAnchor": "node",
            "type": "object",
            "properties": {
                "data": {"type": "integer"},
                "children": {"type": "array", "items": {"$dynamicRef": "#node"}},
            },
        }
    },
}


@pytest.mark.parametrize("engine", ENGINES)
def test_dynamic_references_lead_to_the_outermost_anchor(engine: Any) -> None:
    constraint = JSONSchema(TREE, whitespace="compact", engine=engine)
    assert not [note for note in constraint.notes if note.keyword == "$dynamicRef"]
    compiled = constraint.compile(BYTES)
    assert compiled.generates(b'{"children":[{"data":1}]}')  # type: ignore[attr-defined]
    assert not compiled.generates(b'{"children":[{"data":"a"}]}')  # type: ignore[attr-defined]
    assert not compiled.generates(b'{"children":[1]}')  # type: ignore[attr-defined]
    assert not constraint.is_valid(b'{"children":[{"daat":1}]}')


META = [jsonschema.Draft202012Validator, jsonschema.Draft201909Validator, jsonschema.Draft7Validator]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("draft", META, ids=lambda draft: draft.__name__)
def test_the_metaschemas_are_schemas_like_others(draft: Any, engine: Any) -> None:
    constraint = JSONSchema(draft.META_SCHEMA, whitespace="compact", engine=engine)
    compiled = constraint.compile(BYTES)
    for text in ("true", '{"type":"string"}', '{"properties":{"a":{"items":{"maxLength":1}}}}'):
        assert constraint.is_valid(text.encode()), text
        assert compiled.generates(text.encode()), text  # type: ignore[attr-defined]
    for text in ("1", '{"type":"word"}', '{"properties":{"a":{"not":3}}}', '{"maxLength":-1}'):
        assert not constraint.is_valid(text.encode()), text
    assert not compiled.generates(b"1")  # type: ignore[attr-defined]
    nested = b'{"properties":{"a":{"properties":{"b":1}}}}'
    assert not constraint.is_valid(nested)
    assert not compiled.generates(nested) or "/additionalProperties" in constraint.wider  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bound", [9007199254740993.0, 1e20, 1e23, 1.5e300])
@pytest.mark.parametrize("keyword", ["maximum", "exclusiveMaximum", "minimum"])
def test_large_bounds_are_the_decimals_that_they_are_written_as(keyword: str, bound: float, engine: Any) -> None:
    constraint = JSONSchema({"type": "integer", keyword: bound}, engine=engine)
    compiled = constraint.compile(BYTES)
    edge = int(Fraction(json.dumps(bound)))
    sign = -1 if keyword == "minimum" else 1
    for value in (edge - 2 * sign, edge - sign, edge, edge + sign, int(bound), int(bound) + 1, int(bound) - 1):
        inside = value < edge if keyword == "exclusiveMaximum" else value * sign <= edge * sign
        assert constraint.is_valid(b"%d" % value) == inside
        generated = compiled.generates(b"%d" % value)  # type: ignore[attr-defined]
        assert generated == inside or (generated and f"/{keyword}" in constraint.wider)


def test_a_schema_as_text_keeps_the_digits_of_its_bounds() -> None:
    constraint = JSONSchema('{"type":"integer","minimum":9007199254740993.0}')
    assert not constraint.is_valid(b"9007199254740992")
    assert constraint.is_valid(b"9007199254740993")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", ["0.09999999999999999999999", "0.1", "0.10000000000000000000001", "1e-400"])
def test_numbers_are_compared_as_they_are_written(text: str, engine: Any) -> None:
    constraint = JSONSchema({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.1}, engine=engine)
    assert constraint.is_valid(text.encode()) == (text in ("0.09999999999999999999999", "1e-400"))
    generated = constraint.compile(BYTES).generates(text.encode())  # type: ignore[attr-defined]
    assert generated == constraint.is_valid(text.encode()) or "e" in text


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("schema", "lengths"),
    [
        ({"contains": False}, []),
        ({"allOf": [{"contains": False}]}, []),
        ({"contains": False, "minContains": 0}, [0, 1, 2, 3]),
        ({"allOf": [{"contains": True}, {"maxItems": 2}]}, [1, 2]),
        ({"contains": {}, "minContains": 2, "maxContains": 2}, [2]),
        ({"contains": NULL, "minContains": 0}, [0, 1, 2, 3]),
    ],
    ids=json.dumps,
)
def test_contains_is_exact_where_it_counts_items_alone(schema: dict[str, Any], lengths: list[int], engine: Any) -> None:
    either = JSONSchema({"anyOf": [{"type": "array", **schema}, NULL]}, whitespace="compact", engine=engine)
    assert not [note for note in either.notes if note.keyword == "contains"]
    compiled = either.compile(BYTES)
    for length in range(4):
        text = json.dumps([1] * length, separators=(",", ":")).encode()
        assert either.is_valid(text) == (length in lengths)
        assert compiled.generates(text) == (length in lengths)  # type: ignore[attr-defined]


def test_true_items_leave_nothing_to_say() -> None:
    for draft in (SIX, SEVEN, NINETEEN):
        schema = JSONSchema({"$schema": draft, "items": True, "additionalItems": False, "unevaluatedItems": False})
        assert schema.is_valid(b"[1]")
