"""`unevaluatedProperties` and `unevaluatedItems`, in a schema of any draft.

The `jsonschema` package has them too, but searches for patterns with Python's expressions and for as long as it takes, and
knows of each draft's keywords alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import referencing.jsonschema
from jsonschema.exceptions import ValidationError
from referencing.jsonschema import lookup_recursive_ref

from smc.constraints.json_drafts import dialect
from smc.constraints.json_patterns import found

_DRAFT_2019 = dialect(jsonschema.Draft201909Validator)


def unevaluated_properties(validator: Any, rest: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Errors of the members that no other keyword of `schema` evaluates and that do not follow `rest`."""
    if not validator.is_type(instance, "object"):
        return
    evaluated = _evaluated_keys(validator, instance, schema)
    for key in sorted(instance.keys() - evaluated):
        if not _holds(validator, instance[key], rest):
            yield ValidationError(f"the member {key!r} is unevaluated and not allowed")


def unevaluated_items(validator: Any, rest: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Errors of the items that no other keyword of `schema` evaluates and that do not follow `rest`."""
    if not validator.is_type(instance, "array"):
        return
    evaluated = _evaluated_items(validator, instance, schema)
    for index in sorted(set(range(len(instance))) - evaluated):
        if not _holds(validator, instance[index], rest):
            yield ValidationError(f"the item {index} is unevaluated and not allowed")


def _evaluated_keys(validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
    """The keys of the members that a subschema, which the instance follows, says something about."""
    if not isinstance(schema, dict):
        return set()
    keys = instance.keys() & schema.get("properties", {}).keys()
    keys |= {key for key in instance for pattern in schema.get("patternProperties", {}) if found(pattern, key)}
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in schema:
            keys |= {key for key, value in instance.items() if _holds(validator, value, schema[keyword])}
    for there, branch in _applied(validator, instance, schema):
        keys |= _evaluated_keys(there, instance, branch)
    return keys


def _evaluated_items(validator: Any, instance: list[Any], schema: Any) -> set[int]:
    """The indices of the items that a subschema, which the instance follows, says something about."""
    if not isinstance(schema, dict):
        return set()
    first, others = ("items", "additionalItems") if isinstance(schema.get("items"), list) else ("prefixItems", "items")
    if others in schema:
        return set(range(len(instance)))
    indices = set(range(len(schema.get(first, ()))))
    # In draft 2019-09, `contains` says nothing of what it finds.
    asked = ("unevaluatedItems",) if dialect(validator) == _DRAFT_2019 else ("contains", "unevaluatedItems")
    for keyword in asked:
        if keyword in schema:
            indices |= {i for i, item in enumerate(instance) if _holds(validator, item, schema[keyword])}
    for there, branch in _applied(validator, instance, schema):
        indices |= _evaluated_items(there, instance, branch)
    return indices


def _applied(validator: Any, instance: Any, schema: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The subschemas applied to the instance itself that it follows, each with a validator that stands there."""
    for branch in _applied_in_place(validator, instance, schema):
        if _holds(validator, instance, branch):
            yield _at(validator, branch), branch
    for target in _references(validator, schema):
        yield validator.evolve(schema=target.contents, _resolver=target.resolver), target.contents


def _applied_in_place(validator: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Any]:
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(keyword, ())
    for keyword in ("dependentSchemas", "dependencies"):
        branches = schema.get(keyword, {}).items() if isinstance(instance, dict) else ()
        yield from (branch for key, branch in branches if key in instance and not isinstance(branch, list))
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


def _at(validator: Any, branch: Any) -> Any:
    """The validator of a branch, whose references may be relative to a name of its own."""
    if not isinstance(branch, dict) or not {"$id", "id"} & branch.keys():
        return validator
    specification = referencing.jsonschema.specification_with(dialect(validator))
    resolver = validator._resolver.in_subresource(specification.create_resource(branch))
    return validator.evolve(schema=branch, _resolver=resolver)


def _holds(validator: Any, value: Any, schema: Any) -> bool:
    return next(validator.descend(value, schema), None) is None
