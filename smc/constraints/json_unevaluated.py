"""`unevaluatedProperties`, with patterns as JSON Schema means them and a time limit on each search.

The `jsonschema` package has this keyword too, but searches with Python's expressions and for as long as it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema.exceptions import ValidationError
from referencing.jsonschema import lookup_recursive_ref

from smc.constraints.json_patterns import found


def unevaluated_properties(validator: Any, rest: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Errors of the members that no other keyword of `schema` evaluates and that do not follow `rest`."""
    if not validator.is_type(instance, "object"):
        return
    evaluated = _evaluated_keys(validator, instance, schema)
    for key in sorted(instance.keys() - evaluated):
        if not _holds(validator, instance[key], rest):
            yield ValidationError(f"the member {key!r} is unevaluated and not allowed")


def _evaluated_keys(validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
    """The keys of the members that a subschema, which the instance follows, says something about."""
    if not isinstance(schema, dict):
        return set()
    keys = instance.keys() & schema.get("properties", {}).keys()
    keys |= {key for key in instance for pattern in schema.get("patternProperties", {}) if found(pattern, key)}
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in schema:
            keys |= {key for key, value in instance.items() if _holds(validator, value, schema[keyword])}
    for branch in _applied_in_place(validator, instance, schema):
        if _holds(validator, instance, branch):
            keys |= _evaluated_keys(validator, instance, branch)
    for target in _references(validator, schema):
        there = validator.evolve(schema=target.contents, _resolver=target.resolver)
        keys |= _evaluated_keys(there, instance, target.contents)
    return keys


def _applied_in_place(validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> Iterator[Any]:
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(keyword, ())
    yield from (branch for key, branch in schema.get("dependentSchemas", {}).items() if key in instance)
    if "if" in schema:
        yield schema["if"]
        yield schema.get("then" if _holds(validator, instance, schema["if"]) else "else", True)


def _references(validator: Any, schema: dict[str, Any]) -> Iterator[Any]:
    """What the references of a subschema lead to. Only the validator knows what they are relative to."""
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema and keyword in validator.VALIDATORS:
            yield validator._resolver.lookup(schema[keyword])
    if "$recursiveRef" in schema and "$recursiveRef" in validator.VALIDATORS:
        yield lookup_recursive_ref(validator._resolver)


def _holds(validator: Any, value: Any, schema: Any) -> bool:
    return next(validator.descend(value, schema), None) is None
