"""Schemas against the `jsonschema` package: what it says of values that fit the schema, nearly fit, or have nothing to do with it."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Container, Iterator
from itertools import islice, permutations, product
from typing import Any

import jsonschema
from hypothesis import strategies as st

from tests.fuzz.fuzzer import Outcome, Question

DRAFTS = {
    "2020-12": (jsonschema.Draft202012Validator, "https://json-schema.org/draft/2020-12/schema"),
    "2019-09": (jsonschema.Draft201909Validator, "https://json-schema.org/draft/2019-09/schema"),
    "7": (jsonschema.Draft7Validator, "http://json-schema.org/draft-07/schema#"),
    "6": (jsonschema.Draft6Validator, "http://json-schema.org/draft-06/schema#"),
    "4": (jsonschema.Draft4Validator, "http://json-schema.org/draft-04/schema#"),
}

KEYS = ["a", "b", "ab", "c", "", 'q"', "é"]
# Patterns that ECMA-262 and Python read alike on these values.
PATTERNS = ["^a", "b$", "^[ab]*$", "a|é", "^.{1,2}$", "^(ab)+$", "[^a]", "^$", '["\\\\]', "^a\\n?b$", "^[.\\-_]$"]
NUMBERS = [0, 1, 2, 3, -1, 10, 0.5, 1.5, -2.5, 0.1, 100, 1e-3, 9007199254740993, 1.0, 12.0]
TYPES = ["string", "integer", "number", "boolean", "null", "object", "array"]


def _values() -> st.SearchStrategy[Any]:
    scalars = st.one_of(
        st.sampled_from(
            [None, True, False, "", "a", "b", "ab", "abab", "é", 'q"', "\n", "a\nb", "-", "\\", "😀😀", "\x7f"]
        ),
        st.sampled_from(NUMBERS),
        st.integers(-12, 12),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)),
        max_leaves=4,
    )


def _optional(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A few of the keywords."""
    chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: keywords[name] for name in names}))


def _schemas() -> st.SearchStrategy[Any]:
    numbers, small, key = st.sampled_from(NUMBERS), st.integers(0, 3), st.sampled_from(KEYS)
    leaf = st.one_of(
        st.sampled_from(TYPES).map(lambda kind: {"type": kind}),
        st.builds(
            lambda rest: {"type": "string", **rest},
            _optional(minLength=small, maxLength=small, pattern=st.sampled_from(PATTERNS)),
        ),
        st.builds(
            lambda kind, rest: {"type": kind, **rest},
            st.sampled_from(["integer", "number"]),
            _optional(minimum=small, maximum=small, multipleOf=st.sampled_from([1, 2, 0.5, 0.1, 5, 1.5])),
        ),
        st.builds(
            lambda kind, rest: {"type": kind, **rest},
            st.sampled_from(["integer", "number"]),
            _optional(exclusiveMinimum=numbers, exclusiveMaximum=numbers, maximum=numbers, minimum=numbers),
        ),
        st.lists(_values(), min_size=1, max_size=3).map(lambda values: {"enum": values}),
        _values().map(lambda value: {"const": value}),
        st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True).map(lambda kinds: {"type": kinds}),
        st.just({"$ref": "#/$defs/shared"}),
        st.booleans(),
        st.just({}),
    )

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        members = st.dictionaries(key, inner, max_size=3)
        some = st.lists(inner, min_size=1, max_size=2)
        keys = st.lists(key, unique=True, max_size=2)
        objects = _optional(
            type=st.just("object"),
            properties=members,
            required=keys,
            additionalProperties=inner,
            patternProperties=st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=2),
            minProperties=small,
            maxProperties=small,
            propertyNames=st.sampled_from([{"maxLength": 1}, {"enum": ["a", "c"]}, {"pattern": "^[ab]"}, False]),
            dependentRequired=st.dictionaries(key, keys, max_size=1),
            dependentSchemas=st.dictionaries(key, inner, max_size=1),
            dependencies=st.dictionaries(key, st.one_of(keys, inner), max_size=1),
            unevaluatedProperties=inner,
        )
        closed = st.builds(
            lambda properties, required: {
                "type": "object",
                "properties": properties,
                "required": [name for name in required if name in properties],
                "additionalProperties": False,
            },
            members,
            keys,
        )
        arrays = _optional(
            type=st.just("array"),
            prefixItems=some,
            items=st.one_of(inner, some),
            additionalItems=inner,
            minItems=small,
            maxItems=small,
            uniqueItems=st.booleans(),
            contains=inner,
            minContains=small,
            maxContains=small,
            unevaluatedItems=inner,
        )
        ways = _optional(
            allOf=some,
            anyOf=some,
            oneOf=some,
            **{"not": inner, "if": inner, "then": inner, "else": inner, "$ref": st.just("#/$defs/shared")},
        )
        both = st.builds(_joined, st.one_of(objects, arrays, closed, leaf), ways)
        return st.one_of(closed, objects, arrays, ways, both)

    return st.recursive(leaf, larger, max_leaves=5)


def _joined(one: Any, other: Any) -> Any:
    return {**one, **other} if isinstance(one, dict) and isinstance(other, dict) else one


class Schemas:
    """Schemas of every draft, with a definition that may refer to itself."""

    name = "schema"
    about = "JSON Schemas against the jsonschema package"

    def missing(self) -> str | None:
        return None

    def cases(self) -> st.SearchStrategy[Any]:
        return st.fixed_dictionaries(
            {
                "schema": _schemas(),
                "shared": st.one_of(st.just({"type": "null"}), _schemas()),
                "values": st.lists(_values(), max_size=4),
                "draft": st.sampled_from(["2020-12", "2020-12", "7", "2019-09", "6", "4"]),
                "whitespace": st.sampled_from(["compact", "bounded"]),
                "engine": st.sampled_from(["xgrammar", "llguidance"]),
            }
        )

    def examine(self, case: Any) -> Outcome:
        schema = whole(case)
        validator, _ = DRAFTS[case["draft"]]
        try:
            validator.check_schema(schema)
            members, others = [], []
            for value in {_text(value): value for value in (*case["values"], *_near(schema))}.values():
                (members if validator(schema).is_valid(value) else others).append(spelled(value))
        except (jsonschema.SchemaError, RecursionError):
            return "invalid"
        whole_text = next((texts[0] for texts in members if texts[0][-1] in '"]}'), None)
        if whole_text is not None:
            others.append((whole_text[:-1],))  # whose last quote or bracket is missing
        options = f"whitespace={case['whitespace']!r}, engine={case['engine']!r}"
        return Question(f"JSONSchema({schema!r}, {options})", members, others).ask()


def whole(case: Any) -> Any:
    """The schema of a case, with its draft and its definition."""
    if not isinstance(case["schema"], dict):
        return case["schema"]
    known = DRAFTS[case["draft"]][0].VALIDATORS.keys()
    case = {**case, "schema": _of_draft(case["schema"], known), "shared": _of_draft(case["shared"], known)}
    named = {} if case["draft"] == "2020-12" else {"$schema": DRAFTS[case["draft"]][1]}
    shared = {"$defs": {"shared": case["shared"]}} if "$ref" in _text(case["schema"]) else {}
    return {**named, **case["schema"], **shared}


_NEWER = frozenset(
    [
        "const",
        "contains",
        "propertyNames",
        "if",
        "then",
        "else",
        "prefixItems",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "unevaluatedProperties",
        "unevaluatedItems",
        "additionalItems",
        "minContains",
        "maxContains",
    ]
)


def _of_draft(schema: Any, known: Container[str]) -> Any:
    """A schema without keywords that its draft does not have: `jsonschema` ignores them there, and we read them as they are meant."""
    if isinstance(schema, list):
        return [_of_draft(part, known) for part in schema]
    if not isinstance(schema, dict):
        return schema
    gone = _NEWER - ({"then", "else"} if "if" in known else frozenset())
    return {key: _of_draft(part, known) for key, part in schema.items() if key not in gone or key in known}


def spelled(value: Any) -> tuple[str, ...]:
    """The value's compact texts, one for each order of the keys of its objects; and one with all optional escapes."""
    compact = [*islice(_spelled(value), 24)]
    escaped = [text.replace("\x7f", "\\u007f") for text in compact]  # as llguidance wants it
    return tuple(dict.fromkeys([*compact, *escaped, json.dumps(value, separators=(",", ":"))]))


def _spelled(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for order in permutations(value.items()):
            for texts in product(*(list(islice(_spelled(below), 6)) for _, below in order)):
                pairs = zip(order, texts, strict=True)
                yield "{" + ",".join(f"{_string(key)}:{text}" for (key, _), text in pairs) + "}"
    elif isinstance(value, list):
        for texts in product(*(list(islice(_spelled(below), 6)) for below in value)):
            yield f"[{','.join(texts)}]"
    elif isinstance(value, str):
        yield _string(value)
    elif isinstance(value, float):
        yield f"{value:.12f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else repr(value)
        if value == int(value):
            yield json.dumps(value)
    else:
        yield json.dumps(value)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _near(schema: Any) -> list[Any]:
    """Values that a schema speaks of, and their neighbours. The same for the same schema."""
    chance = random.Random(zlib.crc32(_text(schema).encode()))
    return [
        _changed(_guess(schema, schema, chance, 3), chance) if n % 3 == 2 else _guess(schema, schema, chance, 3)
        for n in range(12)
    ]


def _guess(schema: Any, root: Any, chance: random.Random, depth: int) -> Any:
    """A value that a schema may have been written for."""
    if not isinstance(schema, dict) or depth < 0:
        return chance.choice([None, 1, "a", [], {}])
    for keyword in chance.sample(["const", "enum", "$ref", "anyOf", "oneOf", "allOf"], 6):
        if keyword not in schema or chance.random() < 0.3:
            continue
        if keyword in ("const", "$ref"):
            return (
                schema["const"]
                if keyword == "const"
                else _guess(root.get("$defs", {}).get("shared"), root, chance, depth - 1)
            )
        below = chance.choice(schema[keyword])
        return (
            below
            if keyword == "enum"
            else _guess(_joined(below, {k: v for k, v in schema.items() if k != keyword}), root, chance, depth - 1)
        )
    kinds = schema.get("type", _kinds(schema))
    kind = chance.choice(kinds) if isinstance(kinds, list) else kinds
    if kind == "object":
        return _object(schema, root, chance, depth)
    if kind == "array":
        return _array(schema, root, chance, depth)
    if kind == "string":
        return chance.choice(["", "a", "b", "ab", "abab", "é", "a\nb", "-", "\\", 'q"', "😀", "c"])
    if kind in ("integer", "number"):
        bounds = [
            schema[key]
            for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
            if key in schema
        ]
        bounds = [bound for bound in bounds if not isinstance(bound, bool)]
        near = chance.choice(bounds or [0, 1]) + chance.choice([0, 0, 1, -1, 0.5, -0.5, 0.001])
        return int(near) if kind == "integer" else near
    return chance.choice([True, False]) if kind == "boolean" else None


def _kinds(schema: dict[str, Any]) -> list[str]:
    if {
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
    } & schema.keys():
        return ["object"]
    return ["array"] if {"items", "prefixItems", "contains", "minItems", "uniqueItems"} & schema.keys() else TYPES


def _object(schema: dict[str, Any], root: Any, chance: random.Random, depth: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    names = [name for name in properties if chance.random() < 0.6] + [
        n for n in schema.get("required", []) if chance.random() < 0.9
    ]
    names += chance.sample(KEYS, chance.choice([0, 0, 1, 2]))
    return {
        name: _guess(properties.get(name, schema.get("additionalProperties", True)), root, chance, depth - 1)
        for name in dict.fromkeys(names[:3])
    }


def _array(schema: dict[str, Any], root: Any, chance: random.Random, depth: int) -> list[Any]:
    items = schema.get("items", True)
    first = schema.get("prefixItems", items if isinstance(items, list) else [])
    length = chance.choice([0, len(first), schema.get("minItems", 1), chance.randint(0, 3)])
    rest = schema.get("additionalItems", schema.get("contains", True)) if isinstance(items, list) else items
    return [_guess(first[n] if n < len(first) else rest, root, chance, depth - 1) for n in range(min(length, 4))]


def _changed(value: Any, chance: random.Random) -> Any:
    """A value with one part changed."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        less = {other: below for other, below in value.items() if other != key}
        return chance.choice([less, value | {key: _changed(value[key], chance)}, value | {chance.choice(KEYS): 1}])
    if isinstance(value, list) and value and chance.random() < 0.8:
        return chance.choice([value[1:], [*value, value[0]], [_changed(value[0], chance), *value[1:]]])
    if isinstance(value, str):
        return value + chance.choice(["", "a", "b"])
    return chance.choice([None, 0, "a", True, value, [value], {"a": value}])


SCHEMAS = Schemas()
