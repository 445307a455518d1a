"""JSON read piece by piece: what closes when, which prefixes are refused, and that no beginning of a valid text is."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest
from constraint_tools import BYTES, allowed_ids, spell
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smc import FiniteLanguage, JSONSchema
from smc.constraints.json_prefix import PrefixChecker, prefix_checker
from smc.constraints.json_reader import START, Closed, Reading, advance, finish
from smc.constraints.json_validator import read_json, schema_validator
from smc.constraints.refusals import refused, refuses
from smc.constraints.validated import validated
from smc.testing import check_constraint


def examples(count: int) -> settings:
    return settings(max_examples=count, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


def read(text: bytes, size: int = 1) -> tuple[Reading, list[Closed]]:
    reading, closed = START, []
    for at in range(0, len(text), size):
        reading, more = advance(reading, text[at : at + size])
        closed += more
    return reading, closed


def first_refused(checker: PrefixChecker, text: str | bytes, size: int = 1) -> str | None:
    """The shortest prefix (in pieces of `size` bytes) that is refused."""
    data, reading = text.encode() if isinstance(text, str) else text, checker.start()
    for at in range(0, len(data), size):
        after = checker.advance(reading, data[at : at + size])
        if after is None:
            return data[: at + size].decode(errors="replace")
        reading = after
    return None


def checking(schema: Any, needed: Any = None) -> PrefixChecker:
    return PrefixChecker(schema_validator(schema), needed)


# ------------------------------------------------------------------------------------------------------- the reader


def test_what_a_text_closes_and_where() -> None:
    text = b'{"a": [1, -2.5e3 ,true,{"x":"q\\"u\\\\e\\u00e9"}],"b" :{},"c":[], "d": null } '
    inner = {"x": 'q"u\\eé'}
    expected = [
        ((), "a", True),
        (("a", 0), 1, False),
        (("a", 1), -2500.0, False),
        (("a", 2), True, False),
        (("a", 3), "x", True),
        (("a", 3, "x"), 'q"u\\eé', False),
        (("a", 3), inner, False),
        (("a",), [1, -2500.0, True, inner], False),
        ((), "b", True),
        (("b",), {}, False),
        ((), "c", True),
        (("c",), [], False),
        ((), "d", True),
        (("d",), None, False),
        ((), json.loads(text), False),
    ]
    for size in range(1, len(text) + 1):
        assert [(c.path, c.value, c.is_name) for c in read(text, size)[1]] == expected


@pytest.mark.parametrize(
    ("text", "closes"),
    [
        ("[12", []),
        ("[12,", [12]),
        ("[12 ", [12]),
        ("[1e", []),
        ("[true", [True]),
        ("[tru", []),
        ('["a\\', []),
        ('["a\\"', []),
        ('["a\\""', ['a"']),
        ('["\\\\"', ["\\"]),
        ("12", []),
    ],
)
def test_a_value_closes_with_its_last_byte_and_a_number_with_what_follows(text: str, closes: list) -> None:
    for size in (1, 2, len(text)):
        reading, closed = read(text.encode(), size)
        assert [event.value for event in closed] == closes
        assert not reading.broken


def test_a_number_at_the_root_closes_at_the_end() -> None:
    assert [event.value for event in finish(read(b" 12")[0])[1]] == [12]
    assert finish(read(b"[12]")[0]) == (read(b"[12]")[0], ())
    for broken in (b"", b"-", b"[12", b'"a', b"1.", b"01", b"tru"):
        assert finish(read(broken)[0])[0].broken


@pytest.mark.parametrize(
    "text",
    [
        "[1.2.3,",
        "[01,",
        "[-]",
        "[1,]",
        "[,",
        "{,",
        '{"a" 1',
        '{"a":1,}',
        "{1",
        "[1}",
        '{"a":1]',
        "]",
        "1 2",
        "{} x",
        "NaN",
        "-Infinity,",
        "[I",
        "[nul,",
        "[truex",
        "'a'",
        "﻿1",
        '["\\x"',
        '["\n"',
        '["\\ud800"',
        '{"a":1,"a"',
        '{"a":1,"\\u0061"',
    ],
)
def test_what_no_reader_takes_is_broken_at_its_last_byte(text: str) -> None:
    reading, _ = read(text.encode()[:-1])
    assert not reading.broken or text[0] in "'﻿N-"
    assert read(text.encode())[0].broken
    assert read(text.encode(), len(text.encode()))[0].broken


def test_bytes_that_are_no_text_are_broken() -> None:
    assert read(b'"\xc3(')[0] != read(b'"\xc3(')[1]
    assert read(b'"\xc3("')[0].broken
    assert read(b'"\xed\xa0\x80"')[0].broken


def test_short_texts_agree_with_the_reader_of_whole_texts() -> None:
    """Brute force: a text is readable if and only if it is read to its end, and then no beginning of it was broken."""
    signs = [b"[", b"]", b"{", b"}", b'"', b",", b":", b"1"]
    more = [*signs, b"-", b".", b" ", b"\\", b"null"]
    for alphabet, length in (*((more, length) for length in range(5)), (signs, 5)):
        for symbols in product(alphabet, repeat=length):
            text = b"".join(symbols)
            try:
                value, readable = read_json(text), True
            except ValueError:
                value, readable = None, False
            reading, closed = read(text, 3)
            after, last = finish(reading)
            assert (not after.broken) == readable, text
            if readable:
                assert (*closed, *last)[-1].value == value, text


# ------------------------------------------------------------------------------------------------------- refusals

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/even"}, "maxItems": 4},
        "b": {"not": {"const": 3}},
        "d": {"anyOf": [{"multipleOf": 5}, {"type": "string"}]},
        "p": {"prefixItems": [{"multipleOf": 3}], "items": {"pattern": "^x"}},
    },
    "patternProperties": {"^n": {"multipleOf": 0.5}},
    "additionalProperties": {"type": "string"},
    "propertyNames": {"maxLength": 3},
    "maxProperties": 3,
    "$defs": {"even": {"allOf": [{"multipleOf": 2}, {"maximum": 10}]}},
}


@pytest.mark.parametrize(
    ("text", "refused_at"),
    [
        ('{"a":[2,4,2],"b":1}', '{"a":[2,4,2]'),
        ('{"a":[2,4.0,4],"b":1}', '{"a":[2,4.0,4]'),
        ('{"a":[2,3,5]}', '{"a":[2,3,'),
        ('{"a":[2, 12 ]}', '{"a":[2, 12 '),
        ('{"a":[2,4,6,8,10]}', '{"a":[2,4,6,8,10]'),
        ('{"b":3}', '{"b":3}'),
        ('{"b":3.0 }', '{"b":3.0 '),
        ('{"c":3}', '{"c":3}'),
        ('{"cccc":3}', '{"cccc"'),
        ('{"d":7}', '{"d":7}'),
        ('{"n":0.3}', '{"n":0.3}'),
        ('{"p":[3,"y"]}', '{"p":[3,"y"'),
        ('{"p":[4,"x"]}', '{"p":[4,'),
        ('{"a":[],"a":[]}', '{"a":[],"a"'),
        ('{"b":"\\ud800"}', '{"b":"\\ud800"'),
        ('{"a":[2],"b":4,"c":"","e":""}', '{"a":[2],"b":4,"c":"","e":""'),
        ("[1]", "[1]"),
        ('{"a":[2,4,10],"b":4,"c":"x"}', None),
        ('{"d":"z","p":[3,"xx",1],"n1":1.5}', None),
    ],
)
def test_a_prefix_is_refused_where_the_value_closes(text: str, refused_at: str | None) -> None:
    checker = checking(SCHEMA)
    assert first_refused(checker, text) == refused_at
    if refused_at is not None:
        assert first_refused(checker, text, len(text)) == text


def test_true_and_one_are_two_items() -> None:
    checker = checking({"uniqueItems": True})
    assert first_refused(checker, '[1,true,0,false,"1",[1],[true],{"a":1},{"a":true},null]') is None
    assert first_refused(checker, '[{"a":1,"b":2},{"b":2,"a":1.0}]') == '[{"a":1,"b":2},{"b":2,"a":1.0}'


def test_only_what_is_needed_is_asked() -> None:
    assert prefix_checker(schema_validator(SCHEMA), []) is None
    assert prefix_checker(schema_validator(SCHEMA)) is not None
    even = checking(SCHEMA, ["/$defs/even/allOf/0"])
    assert first_refused(even, '{"a":[2,3,5]}') == '{"a":[2,3,'
    assert first_refused(even, '{"a":[2,12,2],"b":3,"c":3}') is None
    keyword = checking(SCHEMA, ["/properties/a/uniqueItems"])
    assert first_refused(keyword, '{"a":[2,4,2],"b":3}') == '{"a":[2,4,2]'
    assert first_refused(keyword, '{"b":3}') is None
    behind_not = checking(SCHEMA, ["/properties/b/not"])
    assert first_refused(behind_not, '{"b":3}') == '{"b":3}'
    behind_any_of = checking(SCHEMA, ["/properties/d/anyOf/0"])
    assert first_refused(behind_any_of, '{"d":7}') == '{"d":7}'
    assert first_refused(behind_any_of, '{"a":[2,3,5],"b":3}') is None
    assert first_refused(behind_any_of, '{"b":3,"b"') == '{"b":3,"b"'  # whatever is needed, the text is strict JSON


def test_what_stands_behind_an_alternative_and_a_reference_is_asked_in_time() -> None:
    schema = {
        "properties": {"x": {"anyOf": [{"$ref": "#/$defs/o"}, {"type": "null"}]}, "y": {"$ref": "#/$defs/o"}},
        "$defs": {"o": {"properties": {"k": {"type": "array", "uniqueItems": True}}}},
    }
    checker = checking(schema, ["/$defs/o/properties/k"])
    assert first_refused(checker, '{"x":{"k":[1,1]}}') == '{"x":{"k":[1,1]}'
    assert first_refused(checker, '{"y":{"k":[1,1]}}') == '{"y":{"k":[1,1'[:-1] + "1]"
    assert first_refused(checker, '{"x":null,"y":{"k":[1]}}') is None


def test_what_cannot_be_followed_is_asked_about() -> None:
    inner = {"$id": "https://x.test/in", "$defs": {"o": {"not": {"multipleOf": 2}}}, "$ref": "#/$defs/o"}
    schema = {"items": {"$ref": "https://x.test/in"}, "$defs": {"in": inner}}
    checker = checking(schema, ["/$defs/in/$defs/o/not"])
    assert first_refused(checker, "[1,2,3]") == "[1,2,"
    dynamic = {"items": {"$dynamicRef": "#o"}, "$defs": {"o": {"$dynamicAnchor": "o", "not": {"multipleOf": 2}}}}
    assert first_refused(checking(dynamic, ["/$defs/o/not"]), "[1,2,3]") == "[1,2,"


def test_references_of_every_kind_are_followed_or_left_alone() -> None:
    odd = {"not": {"multipleOf": 2}}
    for schema in (
        {"items": {"$ref": "#/deep/er"}, "deep": {"er": odd}},
        {"items": {"$ref": "#/$defs/a~1b%25"}, "$defs": {"a/b%": odd}},
        {"items": {"$ref": "#odd"}, "$defs": {"o": {"$anchor": "odd", **odd}}},
        {"$id": "https://x.test/s", "items": {"$ref": "https://x.test/s#/$defs/o"}, "$defs": {"o": odd}},
        {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": odd}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [True], "additionalItems": odd},
    ):
        assert first_refused(checking(schema), "[1,2,3]") == "[1,2,", schema
        assert first_refused(checking(schema), "[1,3,1]") is None, schema
    # a resource of its own: its references mean something else, so it is judged as a part of what it stands in
    own = {"items": {"$id": "https://x.test/in", "$ref": "#/$defs/o", "$defs": {"o": odd}}, "$defs": {"o": {}}}
    assert first_refused(checking(own), "[1,2,3]") == "[1,2,3]"
    tree = {"properties": {"next": {"$ref": "#"}, "v": {"$ref": "#/$defs/o"}}, "$defs": {"o": odd}}
    assert first_refused(checking(tree), '{"next":{"next":{"v":2},"v":1}}') == '{"next":{"next":{"v":2}'


def test_nothing_counts_beside_a_reference_in_old_drafts() -> None:
    beside = {"properties": {"a": {"$ref": "#/definitions/s", "not": {"const": "x"}}}, "definitions": {"s": {}}}
    assert first_refused(checking(beside), '{"a":"x"}') == '{"a":"x"'
    assert (
        first_refused(checking({"$schema": "http://json-schema.org/draft-07/schema#", **beside}), '{"a":"x"}') is None
    )


def test_verdicts_that_depend_on_what_comes_are_left_to_the_end() -> None:
    for schema in (
        {"required": ["b"]},
        {"contains": {"const": 9}},
        {"minItems": 3},
        {"if": {"required": ["k"]}, "then": {"properties": {"a": {"const": 2}}}},
        {"anyOf": [{"properties": {"a": {"const": 2}}}, {"required": ["z"]}]},
        {"oneOf": [{"properties": {"a": {"const": 2}}}, {"required": ["z"]}]},
        {"dependentSchemas": {"z": {"properties": {"a": {"const": 2}}}}},
        {"unevaluatedProperties": {"const": 2}, "anyOf": [{"properties": {"a": {}}}, True]},
    ):
        assert first_refused(checking(schema), '{"a":1,') is None, schema
        assert first_refused(checking(schema), "[1,") is None, schema


# --------------------------------------------------------------------------------------------------- soundness

_scalars = st.sampled_from([0, 1, 2, 3, -1, 1.5, True, False, None, "", "a", "ab", 'q"\\', "é"])
_keys = st.sampled_from(["a", "b", "c", 'k"', "é"])
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4), max_leaves=8
)


def _schemas() -> st.SearchStrategy[Any]:
    leaf = st.sampled_from(
        [
            True,
            {"type": "integer"},
            {"type": ["string", "null"]},
            {"not": {"const": 1}},
            {"multipleOf": 2},
            {"enum": [1, "a", None]},
            {"maxLength": 1},
            {"pattern": "^a"},
            {"uniqueItems": True},
            {"maxItems": 2},
            {"maxProperties": 1},
            {"contains": {"const": 1}},
            {"propertyNames": {"maxLength": 1}},
            {"required": ["a"]},
            {"$ref": "#/$defs/r"},
        ]
    )

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        objects = st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(_keys, inner, max_size=2),
                "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c"]), inner, max_size=1),
                "additionalProperties": inner,
                "items": inner,
                "prefixItems": st.lists(inner, min_size=1, max_size=2),
                "uniqueItems": st.booleans(),
                "allOf": st.lists(inner, min_size=1, max_size=2),
                "anyOf": st.lists(inner, min_size=1, max_size=2),
                "oneOf": st.lists(inner, min_size=1, max_size=2),
                "if": inner,
                "then": inner,
                "dependentSchemas": st.dictionaries(_keys, inner, max_size=1),
                "unevaluatedItems": inner,
            },
        )
        return objects

    return st.recursive(leaf, larger, max_leaves=6)


@st.composite
def _spelled(draw: st.DrawFn, value: Any) -> str:
    """One of the many ways to write a value."""
    blank = draw(st.sampled_from(["", " ", "\n\t"]))
    if isinstance(value, list):
        parts = [draw(_spelled(item)) for item in value]
        return f"[{blank}{(blank + ',').join(parts)}{blank}]{blank}"
    if isinstance(value, dict):
        parts = [f"{blank}{draw(_spelled(key))}:{draw(_spelled(item))}" for key, item in value.items()]
        return f"{{{','.join(parts)}{blank}}}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    return json.dumps(value)


@examples(200)
@given(st.data(), _schemas(), _schemas())
def test_no_beginning_of_a_valid_text_is_refused(data: st.DataObject, schema: Any, shared: Any) -> None:
    schema = {"allOf": [schema], "$defs": {"r": _without_references(shared)}}
    validator = schema_validator(schema)
    value = data.draw(_values)
    text = data.draw(_spelled(value)).encode()
    size = data.draw(st.integers(1, 3))
    refused_at = first_refused(PrefixChecker(validator), text, size)
    if validator.is_valid(value):
        assert refused_at is None
    elif text.rstrip()[-1:] in b']}"el':
        assert refused_at is not None  # at the latest when the root closes


def _without_references(schema: Any) -> Any:
    return json.loads(json.dumps(schema).replace('"$ref": "#/$defs/r"', '"type": "string"'))


REAL = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]{1,4}$"},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c", "d"]}, "uniqueItems": True, "maxItems": 3},
        "size": {"type": "integer", "minimum": 0, "maximum": 50, "not": {"const": 7}},
        "kind": {
            "oneOf": [{"const": "x"}, {"type": "object", "properties": {"n": {"multipleOf": 3}}, "required": ["n"]}]
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}


_documents = st.fixed_dictionaries(
    {"name": st.text("abcz", min_size=1, max_size=4)},
    optional={
        "tags": st.lists(st.sampled_from("abcd"), unique=True, max_size=3),
        "size": st.integers(0, 50).filter(lambda size: size != 7),
        "kind": st.just("x")
        | st.fixed_dictionaries({"n": st.integers(-3, 3).map(lambda n: 3 * n)}, optional={"m": _values}),
    },
)


@examples(60)
@given(_documents, st.data())
def test_documents_made_for_a_schema_pass(value: Any, data: st.DataObject) -> None:
    assert schema_validator(REAL).is_valid(value)
    assert first_refused(checking(REAL), data.draw(_spelled(value))) is None


# ------------------------------------------------------------------------------------------- as rows of a constraint


def rows_of(schema: Any, needed: Any = None):
    compiled = JSONSchema(schema, whitespace="compact").compile(BYTES)
    return validated(compiled, BYTES, prefix_checker(schema_validator(schema), needed))


def test_nothing_to_check_costs_nothing() -> None:
    compiled = FiniteLanguage(["a"]).compile(BYTES)
    assert validated(compiled, BYTES, None) is compiled
    assert not refused(compiled.start()).any()
    assert not refuses(compiled.start(), np.array([0, 0]), np.array([97, 98])).any()


def test_refused_rows_have_no_mask_and_the_others_their_own() -> None:
    language = {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True}
    compiled = validated(
        FiniteLanguage(["[1,1]", "[1,2]", "[2]"]).compile(BYTES), BYTES, PrefixChecker(schema_validator(language))
    )
    rows = spell(compiled.start(), "[1,")
    parents, tokens = np.array([0, 0]), np.array([ord("1"), ord("2")])
    rows = rows.advance(parents, tokens)
    assert not refused(rows).any()  # the number is still open
    ends = np.array([0, 1]), np.array([ord("]"), ord("]")])
    assert refuses(rows, *ends).tolist() == [True, False]
    both = rows.fork(np.array([1, 0, 1])).advance(np.array([0, 1, 2]), np.array([ord("]")] * 3))
    assert refused(both).tolist() == [False, True, False]
    assert [bool(allowed_ids(both, BYTES, row)) for row in range(3)] == [True, False, True]
    rows = rows.advance(*ends)
    assert refused(rows).tolist() == [True, False]
    assert allowed_ids(rows, BYTES, 0) == set()
    assert allowed_ids(rows, BYTES, 1) == set(BYTES.stop_ids)
    assert compiled.accepts(b"[1,1]")  # the terminal validator is the inner one's
    assert compiled.generates(b"[2]")


def test_the_contract_of_constraints_is_kept() -> None:
    schema = {"type": "array", "items": {"enum": [1, 12]}, "uniqueItems": True, "maxItems": 3}
    check_constraint(rows_of(schema), BYTES, depth=7, width=4)
