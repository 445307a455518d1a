"""What keywords of JSON Schema say of a value, where the `jsonschema` package says less or something else.

Numbers are compared as decimals (19.99 is a multiple of 0.01, and 10^23 is not above 1e23), patterns are those of ECMA-262
and each search has a time limit, and keywords that a draft does not have mean what they do in the nearest one that has them
(:mod:`smc.constraints.json_drafts`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

from attrs import fields
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from smc.constraints.json_drafts import DRAFTS, LATEST, REFERENCES, Draft
from smc.constraints.json_numbers import exact_value
from smc.constraints.json_patterns import PATTERN_SECONDS, found
from smc.constraints.json_unevaluated import unevaluated_items, unevaluated_properties


@cache
def validator_class(draft: Draft) -> Draft:
    """The `jsonschema` package's validator for a draft, with the keywords of this module.

    The package takes its own class again for each subschema that names its draft, the root above all, when a reference leads
    there. This one stays itself.
    """
    others = {name: check for other in DRAFTS for name, check in other.VALIDATORS.items() if name not in REFERENCES}
    exact: Any = extend(draft, {**others, **dict(draft.VALIDATORS), **_KEYWORDS})
    names = [(field.name, field.alias) for field in fields(exact) if field.init]

    def evolve(self: Any, **changes: Any) -> Any:
        kept = {alias: getattr(self, name) for name, alias in names if alias not in changes}
        return exact(**kept, **changes)

    exact.evolve = evolve
    found_class: Draft = exact
    return found_class


def _bound(flag: str, included: Callable[[Any, Any], bool], excluded: Callable[[Any, Any], bool]) -> Any:
    """`minimum` or `maximum`, which a flag beside it may turn into a strict bound (draft 4)."""

    def check(validator: Any, bound: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        inside = excluded if schema.get(flag) is True else included
        if validator.is_type(instance, "number") and not inside(exact_value(instance), exact_value(bound)):
            yield ValidationError(f"{instance!r} is beyond the bound {bound!r}")

    return check


def _strict_bound(inside: Callable[[Any, Any], bool]) -> Any:
    def check(validator: Any, bound: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if isinstance(bound, bool) or not validator.is_type(instance, "number"):
            return  # a flag: its bound reads it
        if not inside(exact_value(instance), exact_value(bound)):
            yield ValidationError(f"{instance!r} is beyond the bound {bound!r}, which is excluded")

    return check


def _multiple_of(validator: Any, divisor: float, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # Through the decimal spelling: as binary fractions, 19.99 is no multiple of 0.01.
    if not validator.is_type(instance, "number"):
        return
    value = exact_value(instance)
    if not isinstance(value, Fraction) or value % exact_value(divisor) != 0:  # what reads as infinity is no multiple
        yield ValidationError(f"{instance!r} is not a multiple of {divisor}")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for key, value in instance.items():
            match = found(pattern, key)
            if match is None:
                yield ValidationError(f"matching the key {key!r} with {pattern!r} took more than {PATTERN_SECONDS:g} s")
            elif match:
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, others: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    patterns = schema.get("patternProperties", {})
    for key, value in instance.items():
        if key not in schema.get("properties", {}) and not any(found(pattern, key) for pattern in patterns):
            yield from validator.descend(value, others, path=key)


def _items(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """A list is for the first items, one each (up to draft 2019-09); else it is for those after `prefixItems`."""
    if not validator.is_type(instance, "array"):
        return
    if isinstance(items, list):
        for index, (item, subschema) in enumerate(zip(instance, items, strict=False)):
            yield from validator.descend(item, subschema, path=index, schema_path=index)
        return
    for index in range(len(schema.get("prefixItems", ())), len(instance)):
        yield from validator.descend(instance[index], items, path=index)


def _additional_items(validator: Any, others: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """What comes after a list of `items`; nothing is said where these are no list."""
    if validator.is_type(instance, "array") and isinstance(schema.get("items"), list):
        for index in range(len(schema["items"]), len(instance)):
            yield from validator.descend(instance[index], others, path=index)


_KEYWORDS = {
    "additionalItems": _additional_items,
    "additionalProperties": _additional_properties,
    "contains": LATEST.VALIDATORS["contains"],
    "exclusiveMaximum": _strict_bound(operator.lt),
    "exclusiveMinimum": _strict_bound(operator.gt),
    "items": _items,
    "maximum": _bound("exclusiveMaximum", operator.le, operator.lt),
    "minimum": _bound("exclusiveMinimum", operator.ge, operator.gt),
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "unevaluatedItems": unevaluated_items,
    "unevaluatedProperties": unevaluated_properties,
}
