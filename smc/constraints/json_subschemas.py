"""Where subschemas stand in a JSON Schema: which keywords hold them, and their JSON pointers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ONE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
    }
    | {"then", "unevaluatedItems", "unevaluatedProperties"}
)
LISTS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
DEFINITIONS = frozenset({"$defs", "definitions"})
MAPS = frozenset({"dependencies", "dependentSchemas", "patternProperties", "properties"}) | DEFINITIONS
IN_PLACE = frozenset({"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"})
"""Keywords that apply their subschemas to the value itself and not to a part of it."""


def written_in(schema: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The subschemas written directly in one, definitions included: keyword, pointer from the one, subschema."""
    for keyword, value in schema.items():
        if keyword in ONE and isinstance(value, dict | bool):
            yield keyword, f"/{keyword}", value
        elif keyword in LISTS and isinstance(value, list):
            yield from ((keyword, f"/{keyword}/{i}", child) for i, child in enumerate(value))
        elif keyword in MAPS and isinstance(value, dict):
            for name, child in value.items():
                if isinstance(child, dict | bool):
                    yield keyword, f"/{keyword}/{escaped(name)}", child


def has_own_base(schema: Any) -> bool:
    """Whether a subschema is a resource or a dialect of its own, so that references in it mean something else."""
    if not isinstance(schema, dict):
        return False
    names = [schema.get(keyword) for keyword in ("$id", "id")]
    return "$schema" in schema or any(isinstance(name, str) and not name.startswith("#") for name in names)


def member(value: Any, part: str) -> Any:
    """One step of a JSON pointer; None where it leads nowhere."""
    part = part.replace("~1", "/").replace("~0", "~")
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
        return value[int(part)]
    return None


def escaped(name: str) -> str:
    """One step of a JSON pointer, written."""
    return name.replace("~", "~0").replace("/", "~1")
