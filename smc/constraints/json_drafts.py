"""The drafts of JSON Schema: which one a schema is read in, and in which one a keyword has its meaning.

Schemas are often written with keywords that the draft they name does not have: ``const`` under draft 4, a list of `items`
or a flag `exclusiveMinimum` under 2020-12. The letter of the standard is to ignore or refuse these. Here they mean what the
nearest draft that has them says, since no keyword means two things by one kind of value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeAlias

import jsonschema
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from smc.constraints.json_subschemas import written_in
from smc.errors import ConstraintError

Draft: TypeAlias = type[jsonschema.protocols.Validator]

DRAFTS: tuple[Draft, ...] = (
    jsonschema.Draft4Validator,
    jsonschema.Draft6Validator,
    jsonschema.Draft7Validator,
    jsonschema.Draft201909Validator,
    jsonschema.Draft202012Validator,
)
"""Oldest first."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

FLAGS = ("exclusiveMinimum", "exclusiveMaximum")
"""Flags of `minimum` and `maximum` in draft 4, bounds of their own later."""

_FOUR, _SIX, LATEST = DRAFTS[0], DRAFTS[1], DRAFTS[-1]
_NAMES = dict(zip(DRAFTS, ("draft 4", "draft 6", "draft 7", "draft 2019-09", "draft 2020-12"), strict=True))
_TOO_OLD = re.compile(r"/draft-0[0-3]/")
_IDENTIFIERS = ("id", "$id", "$anchor", "$dynamicAnchor")


def dialect(draft: Draft) -> str:
    """The URI that ``$schema`` names a draft by."""
    return str(draft.META_SCHEMA["$schema"])


def name_of(draft: Draft) -> str:
    """A draft in words."""
    return _NAMES[draft]


def named_draft(schema: Any) -> Draft:
    """The draft that a schema names, or the latest where it names none that is known."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    return (_named(named) if isinstance(named, str) else None) or LATEST


def draft_of(schema: Any) -> Draft:
    """The draft that a schema is read in: the one that it names, but for two words.

    They stop the reader of references. In draft 4 `id` names a schema: where something else stands under that word, a
    property it seems, the schema is read in draft 6, in which `id` is no keyword. In draft 2020-12 `items` is no list: where
    it is one, the schema is read in draft 2019-09.

    Raises:
        ConstraintError: a draft before 4, or ``$schema`` is no string.
    """
    named = schema.get("$schema", "") if isinstance(schema, dict) else ""
    if not isinstance(named, str):
        raise ConstraintError(
            f"The JSON Schema is invalid at /$schema: {named!r} is not a string. Write the draft's URI, as in "
            f'"{dialect(LATEST)}", or leave it out.'
        )
    if _TOO_OLD.search(named):
        raise ConstraintError(
            f"The JSON Schema is written for {named}: drafts before 4 mean other things by the same words and are "
            "not enforced. Use draft 4 or later."
        )
    draft = named_draft(schema)
    if draft is _FOUR and any(not isinstance(part.get("id", ""), str) for part in _parts(schema)):
        return _SIX
    if draft is LATEST and any(isinstance(part.get("items"), list) for part in _parts(schema)):
        return DRAFTS[-2]
    return draft


def names_a_draft(uri: str) -> bool:
    """Whether a ``$schema`` is that of a draft."""
    return _named(uri) is not None


def _named(uri: str) -> Draft | None:
    """The draft that a URI names, with http for https or the other way round too."""
    _, _, rest = uri.partition("://")
    found = (
        validator_for({"$schema": f"{scheme}://{rest}"}, default=jsonschema.Draft3Validator)
        for scheme in ("http", "https")
    )
    return next((draft for draft in found if draft in DRAFTS), None)


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """The subschemas that are objects, the schema itself among them."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += [child for _, _, child in written_in(part)]


@cache
def described_keywords(draft: Draft) -> frozenset[str]:
    """The keywords that the metaschema of a draft describes, those of its vocabularies included."""
    described = dict(draft.META_SCHEMA)
    names = set(described.get("properties", {}))
    for uri in described.get("$vocabulary", {}):
        names |= REGISTRY.contents(uri.replace("/vocab/", "/meta/")).get("properties", {}).keys()
    return frozenset(names)


@cache
def _asserting(draft: Draft) -> frozenset[str]:
    return frozenset(draft.VALIDATORS) | (described_keywords(draft) & {"then", "else", "minContains", "maxContains"})


@cache
def read_keywords(draft: Draft) -> frozenset[str]:
    """The keywords that say something about values in a schema of this draft: its own, and those of other drafts.

    References are read in their own drafts alone.
    """
    others = frozenset().union(*map(_asserting, DRAFTS)) - set(REFERENCES)
    return others | (_asserting(draft) & set(REFERENCES)) | set(FLAGS)


def reading(keyword: str, value: Any, draft: Draft) -> Draft | None:
    """The draft in which a keyword with such a value has its meaning: `draft` itself or the nearest; None if there is none."""
    having = [other for other in DRAFTS if keyword in described_keywords(other) | _asserting(other)]
    if keyword in FLAGS:
        having = [_FOUR] if isinstance(value, bool) else DRAFTS[1:]  # type: ignore[assignment]
    elif keyword == "items" and isinstance(value, list):
        having = [other for other in DRAFTS if "prefixItems" not in described_keywords(other)]
    elif keyword in ("dependencies", "additionalItems") or keyword in REFERENCES:
        having = [other for other in DRAFTS if keyword in other.VALIDATORS]
    here = DRAFTS.index(draft)
    return min(having, key=lambda other: abs(DRAFTS.index(other) - here), default=None)


def lone_references(draft: Draft) -> bool:
    """Whether nothing beside a ``$ref`` is read: up to draft 7."""
    return DRAFTS.index(draft) < DRAFTS.index(jsonschema.Draft201909Validator)


def unread_identifiers(schema: Any, draft: Draft) -> Iterator[str]:
    """The words in a schema by which other drafts name subschemas, and this one does not."""
    own = described_keywords(draft)
    words = frozenset().union(*_parts(schema))
    yield from (word for word in _IDENTIFIERS if word in words and word not in own)
