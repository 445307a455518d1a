"""Keywords of a JSON Schema that say nothing where they stand, although they look as if they did."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from smc.constraints.json_drafts import (
    DRAFTS,
    FLAGS,
    Draft,
    lone_references,
    name_of,
    names_a_draft,
    read_keywords,
    reading,
)
from smc.constraints.json_formats import checked_formats

_ALONE = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
_MEANT = {"datetime": "date-time", "timestamp": "date-time", "url": "uri", "ip": "ipv4", "guid": "uuid"}
_BOUNDS = dict(zip(FLAGS, ("minimum", "maximum"), strict=True))


def unchecked(schema: dict[str, Any], draft: Draft) -> Iterator[tuple[str, str]]:
    """The keywords of one subschema that nothing checks, each with the reason.

    Args:
        draft: the one that the schema is read in.
    """
    alone = "$ref" in schema and lone_references(draft)
    for keyword, value in schema.items():
        if keyword == "$schema" and not names_a_draft(value):
            yield keyword, f"it names no draft that is known here; the schema is read as {name_of(draft)}"
        elif keyword not in read_keywords(draft):
            continue
        elif alone and keyword != "$ref":
            yield keyword, f"{name_of(draft)} reads nothing beside $ref; write both under allOf, or name a later draft"
        elif _ALONE.get(keyword, keyword) not in schema:
            yield keyword, f"it says nothing without {_ALONE[keyword]} beside it"
        elif keyword == "if" and not {"then", "else"} & schema.keys():
            yield keyword, "it says nothing without then or else beside it"
        elif keyword == "additionalItems" and not isinstance(schema.get("items"), list):
            yield keyword, "it says nothing without a list of items beside it"
        elif keyword in _BOUNDS and isinstance(value, bool) and _BOUNDS[keyword] not in schema:
            yield keyword, f"a flag says nothing without {_BOUNDS[keyword]} beside it"
        elif keyword == "format" and value not in checked_formats(draft):
            yield keyword, _unknown(value, draft)


def _unknown(name: str, draft: Draft) -> str:
    """Why a format is not checked, and which may be meant."""
    having = [other for other in DRAFTS if name in checked_formats(other)]
    if having:
        return f"any string: {name_of(draft)} does not have the format {name!r}, {name_of(having[-1])} does"
    known = sorted(checked_formats(draft))
    meant = _MEANT.get(name.lower()) or next(iter(get_close_matches(name.lower(), known, 1, 0.7)), None)
    hint = f"; {meant!r} may be meant" if meant in known else ""
    return f"any value: no draft has the format {name!r}{hint}"


def borrowed(schema: dict[str, Any], draft: Draft) -> Iterator[tuple[str, str]]:
    """The keywords of one subschema that another draft has, each with how it is read."""
    for keyword, value in schema.items():
        other = reading(keyword, value, draft)
        if keyword in read_keywords(draft) and other is not None and other is not draft:
            yield keyword, f"read as {name_of(other)} has it; {name_of(draft)} does not"
