"""A strict reader of JSON and a validator for JSON Schema: the last word on what a JSON constraint accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import jsonschema
import referencing.exceptions
import referencing.jsonschema
import regex  # type: ignore[import-untyped]
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from smc.errors import ConstraintError

PATTERN_SECONDS = 1.0
"""How long one `pattern` may search one string before the string counts as invalid."""

_LATEST = jsonschema.Draft202012Validator


def read_json(data: bytes) -> Any:
    """The value that `data` spells.

    Raises:
        ValueError: not UTF-8, not JSON (NaN and Infinity are not), a key given twice in one object, or a lone
            surrogate, which no UTF-8 reader can hold.
        RecursionError: nested too deeply to read.
    """
    value = json.loads(data.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refuse)
    json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate written as an escape fails here
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object gives a key twice")
    return members


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def schema_validator(schema: Any) -> jsonschema.protocols.Validator:
    """A validator for the schema's own draft (the latest without ``$schema``), formats checked, offline.

    Three departures from the library's defaults: references are never fetched from the network, ``multipleOf`` is exact on
    decimals (19.99 is a multiple of 0.01), and ``pattern`` has a time limit.

    Raises:
        ConstraintError: not a valid schema, or a reference that leads nowhere; names the JSON pointer.
    """
    draft = validator_for(schema, default=_LATEST)
    try:
        draft.check_schema(schema)
    except SchemaError as error:
        at = "/".join(["", *(str(part).replace("~", "~0").replace("/", "~1") for part in error.absolute_path)])
        raise ConstraintError(
            f"The JSON Schema is invalid at {at or 'its root'}: {error.message}. "
            f"See {draft.META_SCHEMA['$schema']} for what may stand there."
        ) from None
    _check_references(schema, draft.META_SCHEMA["$schema"])
    exact = extend(draft, {"multipleOf": _multiple_of, "pattern": _pattern})
    validator: jsonschema.protocols.Validator = exact(schema, format_checker=draft.FORMAT_CHECKER, registry=REGISTRY)
    return validator


def _check_references(schema: Any, dialect: str) -> None:
    specification = referencing.jsonschema.specification_with(dialect)
    root = referencing.Resource.from_contents(schema, default_specification=specification)

    def visit(resource: referencing.Resource[Any], resolver: Any) -> None:
        reference = resource.contents.get("$ref") if isinstance(resource.contents, dict) else None
        if isinstance(reference, str):
            try:
                resolver.lookup(reference)
            except (referencing.exceptions.Unresolvable, ValueError):
                raise ConstraintError(
                    f"The JSON Schema refers to {reference!r}, which it does not contain: define it (under $defs, say) "
                    "or write the subschema in place. References are never fetched from the network."
                ) from None
        for inner in resource.subresources():
            visit(inner, resolver.in_subresource(inner))

    visit(root, REGISTRY.resolver_with_root(root))


def _multiple_of(validator: Any, divisor: float, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # Through the decimal spelling: as binary fractions, 19.99 is no multiple of 0.01.
    if not validator.is_type(instance, "number"):
        return
    try:
        multiple = Fraction(repr(instance)) % Fraction(repr(divisor)) == 0
    except ValueError:  # a number too large for a float reads as infinity
        multiple = False
    if not multiple:
        yield ValidationError(f"{instance!r} is not a multiple of {divisor}")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "string"):
        return
    try:
        found = regex.search(pattern, instance, timeout=PATTERN_SECONDS)
    except TimeoutError:
        found = None
    if not found:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")
