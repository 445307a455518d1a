"""A schema is read through before it is used: what is wrong with it is said in words, with the place."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smc.constraints import JSONSchema
from smc.constraints.json_drafts import draft_of, reading
from smc.constraints.json_formats import format_checker
from smc.constraints.json_validator import schema_validator
from smc.errors import ConstraintError

DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}


def draft(number: int, schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": DRAFTS[number], **schema}


def deep(target: Any) -> dict[str, Any]:
    """A schema that refers to where no keyword leads."""
    return {"$ref": "#/deep/er", "deep": {"er": target}}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"$ref": "#/$defs/x"}, r"refers to '#/\$defs/x' at /\$ref, which it does not contain: define it"),
        ({"$ref": "other.json"}, r"refers to 'other.json' at /\$ref.*never fetched"),
        ({"items": {"$dynamicRef": "#nope"}}, r"refers to '#nope' at /items/\$dynamicRef"),
        (deep({"$ref": "#/nope"}), r"refers to '#/nope' at /deep/er/\$ref"),
        ({"$ref": "#/required", "required": ["a"]}, r"'#/required' at /\$ref, where no schema stands"),
        ({"$ref": "#/x", "x": 3}, r"'#/x' at /\$ref, where no schema stands"),
        ({"$ref": "#/x/y", "x": 3}, r"'#/x/y' at /\$ref, which it does not contain"),
        ({"$ref": "#/allOf/one", "allOf": [{}]}, r"'#/allOf/one' at /\$ref, which it does not contain"),
        (draft(4, {"properties": {"a": {"$ref": 3}}}), r"invalid at /properties/a/\$ref: 3 is not a string"),
    ],
)
def test_references_lead_to_a_schema(schema: Any, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        JSONSchema(schema)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"pattern": "["}, r"invalid at /deep/er/pattern\. The pattern '\['"),
        ({"type": "foo"}, r"invalid at /deep/er/type: 'foo'"),
        ({"properties": {"a/b": {"required": [1]}}}, r"invalid at /deep/er/properties/a~1b/required/0: 1 is not"),
        ({"allOf": [{}, 3]}, r"invalid at /deep/er/allOf/1: 3 is not"),
    ],
)
def test_what_a_reference_leads_to_is_checked_wherever_it_stands(target: Any, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        JSONSchema(deep(target))
    JSONSchema({"deep": {"er": target}})  # without the reference it says nothing


def test_references_that_are_fine() -> None:
    for schema, valid, invalid in (
        (deep({"type": "null"}), None, 1),
        ({"items": {"$ref": "#/$defs/t"}, "$defs": {"t": False}}, [], [1]),
        ({"$ref": DRAFTS[7]}, {"type": "null"}, {"type": "foo"}),
        ({"$dynamicRef": "#n", "$defs": {"n": {"$dynamicAnchor": "n", "type": "null"}}}, None, 1),
        (
            {
                "$id": "https://x.test/a",
                "$ref": "b",
                "$defs": {"b": {"$id": "b", "$ref": "#/$defs/c", "$defs": {"c": {"type": "null"}}}},
            },
            None,
            1,
        ),
    ):
        validator = schema_validator(schema)
        assert validator.is_valid(valid), schema
        assert not validator.is_valid(invalid), schema


A = {"$ref": "#/$defs/a"}


@pytest.mark.parametrize(
    ("schema", "way"),
    [
        ({"$ref": "#"}, "its root to its root"),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "its root to /anyOf/0 to its root"),
        ({"oneOf": [{"type": "null"}, {"$ref": "#"}]}, "its root to /oneOf/1 to its root"),
        ({"not": {"$ref": "#"}}, "its root to /not to its root"),
        ({"if": True, "then": {"$ref": "#"}}, "its root to /then to its root"),
        ({"dependentSchemas": {"a/b": {"$ref": "#"}}}, "its root to /dependentSchemas/a~1b to its root"),
        (draft(7, {"dependencies": {"a": {"$ref": "#"}}}), "its root to /dependencies/a to its root"),
        ({"$dynamicAnchor": "n", "anyOf": [{"$dynamicRef": "#n"}]}, "its root to /anyOf/0 to its root"),
        (draft(2019, {"anyOf": [{"$recursiveRef": "#"}]}), "its root to /anyOf/0 to its root"),
        (
            {"items": A, "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": A}},
            "/$defs/a to /$defs/a/allOf/0 to /$defs/b to /$defs/a",
        ),
    ],
)
def test_a_reference_back_to_the_same_value_is_refused(schema: Any, way: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        JSONSchema(schema)
    assert f"refers to itself without entering a value, from {way}: " in str(caught.value)


def test_recursion_through_a_value_is_fine() -> None:
    for schema in (
        {"type": "array", "items": {"$ref": "#"}},
        {"anyOf": [{"type": "null"}, {"properties": {"a": {"$ref": "#"}}}]},
        {"propertyNames": {"$ref": "#"}},
        {"then": {"$ref": "#"}},  # says nothing without an if
        {"type": "null", "$defs": {"a": A}},  # nothing leads there
        draft(7, {"$ref": "#/definitions/a", "allOf": [{"$ref": "#"}], "definitions": {"a": {}}}),
    ):
        assert JSONSchema(schema).is_valid(b"null") is ("array" not in str(schema))


def test_drafts_before_the_fourth_are_refused_by_name() -> None:
    for number in (1, 2, 3):
        name = f"http://json-schema.org/draft-0{number}/schema#"
        with pytest.raises(ConstraintError, match=rf"written for {name}.*Use draft 4 or later"):
            JSONSchema({"$schema": name, "properties": {"a": {"type": "any", "required": True}}})


def test_bounds_of_the_fourth_draft_are_excluded_by_a_word() -> None:
    schema = JSONSchema(draft(4, {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 3}))
    assert [n for n in range(6) if schema.is_valid(str(n).encode())] == [2, 3]
    again = jsonschema.Draft202012Validator(schema.rewritten)
    assert [n for n in range(6) if again.is_valid(n)] == [2, 3]
    included = JSONSchema(draft(4, {"type": "integer", "maximum": 3, "exclusiveMaximum": False}))
    assert included.is_valid(b"3")
    assert not included.is_valid(b"4")
    with pytest.raises(ConstraintError, match="exclusiveMinimum"):
        JSONSchema(draft(4, {"exclusiveMinimum": "1"}))


def test_annotations_refuse_nothing() -> None:
    JSONSchema({"items": {"examples": "3.15", "title": 3}})


BROKEN = st.sampled_from([3, None, "a", [], [3], {}, True, {"type": "foo"}, {"required": "a"}, {"minLength": -1}])
KEYWORDS = [
    "items",
    "allOf",
    "anyOf",
    "properties",
    "not",
    "if",
    "then",
    "dependencies",
    "definitions",
    "$defs",
    "enum",
]
KEYWORDS += [
    "additionalProperties",
    "contains",
    "prefixItems",
    "propertyNames",
    "patternProperties",
    "required",
    "type",
]
KEYWORDS += ["minimum", "pattern", "additionalItems", "dependentSchemas", "contentSchema", "unevaluatedItems"]


def without_borrowed(part: Any, own: Any) -> Any:
    """A schema without the keywords, in the form that they have, of other drafts than its own."""
    if isinstance(part, list):
        return [without_borrowed(item, own) for item in part]
    if not isinstance(part, dict):
        return part
    return {k: without_borrowed(v, own) for k, v in part.items() if reading(k, v, own) in (own, None)}


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    st.recursive(
        BROKEN,
        lambda inner: st.dictionaries(st.sampled_from(KEYWORDS), inner | st.lists(inner, max_size=2), max_size=3),
        max_leaves=5,
    ),
    st.sampled_from(list(DRAFTS)),
)
def test_the_metaschema_agrees(part: Any, number: int) -> None:
    """Each subschema by itself gives the verdict of the package on the whole."""
    if not isinstance(part, dict):
        part = {"items": part}
    schema = draft(number, without_borrowed(part, draft_of(draft(number, {}))))
    validator = jsonschema.validators.validator_for(schema)
    try:
        validator.check_schema(schema, format_checker(validator))
    except jsonschema.SchemaError:
        with pytest.raises(ConstraintError):
            schema_validator(schema)
    else:
        schema_validator(schema)


def test_what_nests_or_counts_too_far_is_invalid_and_no_error() -> None:
    schema = JSONSchema(
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "array", "items": A}, {"type": "integer"}]}}}
    )
    assert schema.is_valid(b"[" * 50 + b"]" * 50)
    assert not schema.is_valid(b"[" * 3000 + b"]" * 3000)
    assert schema.is_valid(b"1" * 4300)
    assert not schema.is_valid(b"1" * 4301)
