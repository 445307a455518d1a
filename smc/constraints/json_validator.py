"""A strict reader of JSON and a validator for JSON Schema: the last word on what a JSON constraint accepts."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from smc.constraints.json_drafts import draft_of
from smc.constraints.json_formats import format_checker
from smc.constraints.json_keywords import validator_class
from smc.constraints.json_numbers import read_number
from smc.constraints.json_patterns import PATTERN_SECONDS
from smc.constraints.json_survey import survey

__all__ = ["PATTERN_SECONDS", "read_json", "schema_validator"]


def read_json(data: bytes) -> Any:
    """The value that `data` spells. Numbers that no float stands for are ints or Fractions.

    Raises:
        ValueError: not UTF-8, not JSON (NaN and Infinity are not), a key given twice in one object, or a lone
            surrogate, which no UTF-8 reader can hold. Nor are integers read of more than 4300 digits
            (:func:`sys.set_int_max_str_digits`).
        RecursionError: nested too deeply to read.
    """
    value = _DECODER.decode(data.decode("utf-8"))
    if b"\\u" in data:
        json.dumps(value, ensure_ascii=False, default=str).encode(
            "utf-8"
        )  # a lone surrogate written as an escape fails here
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object gives a key twice")
    return members


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_float=read_number, parse_constant=_refuse)


def schema_validator(schema: Any) -> jsonschema.protocols.Validator:
    """A validator for the schema's own draft (the latest without ``$schema``), formats checked, offline.

    Two limits are Python's own: values nested more than some 150 deep end in a RecursionError (how deep, depends on the schema
    and on the stack in use), and integers of more than 4300 digits are not read at all; see :func:`sys.setrecursionlimit`
    and :func:`sys.set_int_max_str_digits`, which hold for the whole process and are therefore not set here.
    :meth:`JSONSchema.is_valid <smc.constraints.json_schema.JSONSchema.is_valid>` counts both as invalid.

    Departures from the library's defaults: references are never fetched from the network, formats are those of
    :mod:`smc.constraints.json_formats`, and keywords those of :mod:`smc.constraints.json_keywords`: numbers are exact
    decimals, patterns are those of ECMA-262 and each search has a time limit (PATTERN_SECONDS, after which the string
    counts as invalid), and what another draft means by a keyword counts where the schema's own does not have it.

    Raises:
        ConstraintError: not a valid schema, a draft before 4, a pattern that is no regular expression, or a reference that
            leads nowhere, to what is no schema, or back to itself without entering a value; names the JSON pointer.
    """
    draft = draft_of(schema)
    survey(schema, draft)
    exact = validator_class(draft)
    validator: jsonschema.protocols.Validator = exact(schema, format_checker=format_checker(draft), registry=REGISTRY)
    return validator
