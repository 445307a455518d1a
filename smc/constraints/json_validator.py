"""A strict reader of JSON and a validator for JSON Schema: the last word on what a JSON constraint accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import jsonschema
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from smc.constraints.json_formats import format_checker
from smc.constraints.json_patterns import PATTERN_SECONDS, found
from smc.constraints.json_survey import survey
from smc.constraints.json_unevaluated import unevaluated_properties
from smc.errors import ConstraintError

__all__ = ["PATTERN_SECONDS", "read_json", "schema_validator"]

_LATEST = jsonschema.Draft202012Validator
_TOO_OLD = re.compile(r"/draft-0[0-3]/")


def read_json(data: bytes) -> Any:
    """The value that `data` spells.

    Raises:
        ValueError: not UTF-8, not JSON (NaN and Infinity are not), a key given twice in one object, or a lone
            surrogate, which no UTF-8 reader can hold. Nor are integers read of more than 4300 digits
            (:func:`sys.set_int_max_str_digits`).
        RecursionError: nested too deeply to read.
    """
    value = _DECODER.decode(data.decode("utf-8"))
    if b"\\u" in data:
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate written as an escape fails here
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object gives a key twice")
    return members


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_refuse)


def schema_validator(schema: Any) -> jsonschema.protocols.Validator:
    """A validator for the schema's own draft (the latest without ``$schema``), formats checked, offline.

    Two limits are Python's own: values nested more than some 150 deep end in a RecursionError (how deep, depends on the schema
    and on the stack in use), and integers of more than 4300 digits are not read at all; see :func:`sys.setrecursionlimit`
    and :func:`sys.set_int_max_str_digits`, which hold for the whole process and are therefore not set here.
    :meth:`JSONSchema.is_valid <smc.constraints.json_schema.JSONSchema.is_valid>` counts both as invalid.

    Departures from the library's defaults: references are never fetched from the network, ``multipleOf`` is exact on
    decimals (19.99 is a multiple of 0.01), patterns are those of ECMA-262 and each search has a time limit
    (PATTERN_SECONDS, after which the string counts as invalid), and formats are those of
    :mod:`smc.constraints.json_formats`.

    Raises:
        ConstraintError: not a valid schema, a draft before 4, a pattern that is no regular expression, or a reference that
            leads nowhere, to what is no schema, or back to itself without entering a value; names the JSON pointer.
    """
    draft = validator_for(schema, default=_LATEST)
    written_for = str(schema.get("$schema", "")) if isinstance(schema, dict) else ""
    if _TOO_OLD.search(written_for):
        raise ConstraintError(
            f"The JSON Schema is written for {written_for}: drafts before 4 mean other things by the same words and are "
            "not enforced. Use draft 4 or later."
        )
    survey(schema, draft)
    exact = extend(draft, {name: check for name, check in _KEYWORDS.items() if name in draft.VALIDATORS})
    validator: jsonschema.protocols.Validator = exact(schema, format_checker=format_checker(draft), registry=REGISTRY)
    return validator


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


_KEYWORDS = {
    "additionalProperties": _additional_properties,
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "unevaluatedProperties": unevaluated_properties,
}
