"""A JSON Schema read as the user of a tool means it: objects and arrays hold nothing but what it names.

A value is closed once, to all that is named for it: by its subschema and by those applied in place (what it refers to,
branches of ``allOf``, ``anyOf``, ``if`` and the like), which are not closed by themselves. That is what
``unevaluatedProperties: false`` means. It is written with ``additionalProperties`` where that says the same, since a mask
can follow that; in drafts without the former, always: there a value may have what any of its branches names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from smc.constraints.json_drafts import REFERENCES
from smc.constraints.json_subschemas import escaped
from smc.constraints.schema_places import Document, Place

Container = Literal["object", "array"]

_VALUES = ("additionalItems", "additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties")
_VALUE_LISTS = ("items", "prefixItems")
_VALUE_MAPS = ("patternProperties", "properties")
_BRANCHES = ("then", "else")
_BRANCH_LISTS = ("allOf", "anyOf", "oneOf")
_BRANCH_MAPS = ("dependentSchemas", "dependencies", "$defs", "definitions")
_OPENING: dict[Container, set[str]] = {
    "object": {"additionalProperties", "unevaluatedProperties"},
    "array": {"additionalItems", "unevaluatedItems"},
}


def closed(schema: Any) -> Any:
    """A copy of a valid schema in which every value is closed to what is not named for it, unless something says otherwise.

    Conditions are left as they are: what stands in ``not``, ``if``, ``contains`` and ``propertyNames``.
    """
    return _Closer(Document(schema)).value(schema, "")


@dataclass(frozen=True)
class _Named:
    """What is named for objects (members and patterns of them) or for arrays (how many items).

    Attributes:
        spoken: whether anything is named, be it an empty list.
        opened: whether something says of the others what they are.
    """

    members: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    items: int = 0
    spoken: bool = False
    opened: bool = False

    def __or__(self, other: _Named) -> _Named:
        return _Named(
            tuple(dict.fromkeys((*self.members, *other.members))),
            tuple(dict.fromkeys((*self.patterns, *other.patterns))),
            max(self.items, other.items),
            self.spoken or other.spoken,
            self.opened or other.opened,
        )


_NOTHING = (_Named(), _Named())


class _Closer:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.unevaluated = "unevaluatedProperties" in document.draft.VALIDATORS
        self.known: dict[tuple[str, Container], tuple[_Named, _Named]] = {}

    # What is named.

    def named(self, place: Place, kind: Container) -> tuple[_Named, _Named]:
        """What a subschema and all that it applies in place name: what surely holds, and what may hold."""
        key = (place.name, kind)
        if key not in self.known:
            self.known[key] = _NOTHING  # for a subschema that is nothing but itself
            self.known[key] = self._named(place, kind) if isinstance(place.schema, dict) else _NOTHING
        return self.known[key]

    def _named(self, place: Place, kind: Container) -> tuple[_Named, _Named]:
        surely = maybe = _by_itself(place.schema, kind)
        for part in self.conjuncts(place):
            sure, possible = self.named(part, kind)
            surely, maybe = surely | sure, maybe | possible
        for branches, must_one_hold in self.choices(place):
            living = [branch for branch in branches if self.takes(branch, kind, frozenset())]
            for sure, possible in (self.named(branch, kind) for branch in living):
                maybe |= possible
                if must_one_hold and len(living) == 1:
                    surely |= sure
        return surely, maybe

    def conjuncts(self, place: Place) -> Iterator[Place]:
        """What must hold besides."""
        for keyword in REFERENCES:
            if keyword in place.schema:
                yield self.document.referred(place, keyword)
        for i in range(len(place.schema.get("allOf", ()))):
            yield self.document.child(place, "allOf", i)

    def choices(self, place: Place) -> Iterator[tuple[list[Place], bool]]:
        """Branches that may hold, and whether one of them must."""
        schema, child = place.schema, self.document.child
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield [child(place, keyword, i) for i in range(len(schema[keyword]))], True
        conditional = ("if", "then", "else") if "if" in schema else ()
        yield [child(place, keyword) for keyword in conditional if keyword in schema], False
        for keyword in ("dependentSchemas", "dependencies"):
            for name, wanted in schema.get(keyword, {}).items():
                if not isinstance(wanted, list):
                    yield [child(place, keyword, name)], False

    def takes(self, place: Place, kind: Container, seen: frozenset[str]) -> bool:
        """Whether a value of this kind may satisfy a subschema, as far as its types and listed values tell."""
        schema = place.schema
        if not isinstance(schema, dict) or place.name in seen:
            return bool(schema)
        types = schema.get("type", kind)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        python = dict if kind == "object" else list
        return (
            kind in ([types] if isinstance(types, str) else types)
            and (values is None or any(isinstance(value, python) for value in values))
            and all(self.takes(part, kind, seen | {place.name}) for part in self.conjuncts(place))
        )

    # What is written.

    def value(self, schema: Any, at: str, above: Place | None = None) -> Any:
        """The subschema of a value, closed."""
        if not isinstance(schema, dict):
            return schema
        place = self.document.root if above is None else self.document.synthetic(above, at, schema)
        schema = self.inside(schema, place)
        added: dict[str, Any] = {}
        kinds: tuple[Container, ...] = ("object", "array")
        for kind in kinds:
            surely, maybe = self.named(place, kind)
            if maybe.spoken and not surely.opened and (self.unevaluated or not maybe.opened):
                close = self.closed_object if kind == "object" else self.closed_array
                added |= close(schema, maybe, surely == maybe)
        if added and "$ref" in schema and not self.unevaluated:  # older drafts read nothing beside a reference
            kept = {word: schema[word] for word in ("$schema", "definitions", "$defs") if word in schema}
            return {**kept, "allOf": [{"$ref": schema["$ref"]}], **added}
        return {**schema, **added}

    def closed_object(self, schema: dict[str, Any], named: _Named, sure: bool) -> dict[str, Any]:
        """What closes an object; each keyword replaces one that is there."""
        if sure or not self.unevaluated:
            added: dict[str, Any] = {"additionalProperties": False}
            for keyword, words in (("properties", named.members), ("patternProperties", named.patterns)):
                if words:
                    added[keyword] = {**dict.fromkeys(words, True), **schema.get(keyword, {})}
            return added
        added = {"unevaluatedProperties": False}
        if not named.patterns and not named.opened and "propertyNames" not in schema:
            added["propertyNames"] = {"enum": list(named.members)}  # what a mask can follow of it
        return added

    def closed_array(self, schema: dict[str, Any], named: _Named, sure: bool) -> dict[str, Any]:
        """What closes an array."""
        added: dict[str, Any] = {"unevaluatedItems": False} if not sure and self.unevaluated else {}
        if not named.opened:
            added["maxItems"] = min(named.items, schema.get("maxItems", named.items))
        return added

    def inside(self, schema: dict[str, Any], place: Place) -> dict[str, Any]:
        """A subschema that is not closed by itself, with the values inside it closed."""

        def branch(child: Any, at: str, above: Place) -> Any:
            return self.inside(child, self.document.synthetic(above, at, child)) if isinstance(child, dict) else child

        changed = dict(schema)
        for word, below in schema.items():
            at = f"{place.at}/{word}"
            change: Callable[[Any, str, Place], Any] = self.value
            if word in (*_BRANCHES, *_BRANCH_LISTS, *_BRANCH_MAPS):
                change = branch
            if word in (*_VALUES, *_BRANCHES) and not isinstance(below, list):
                changed[word] = change(below, at, place)
            elif word in (*_VALUE_LISTS, *_BRANCH_LISTS) and isinstance(below, list):
                changed[word] = [change(item, f"{at}/{i}", place) for i, item in enumerate(below)]
            elif word in (*_VALUE_MAPS, *_BRANCH_MAPS) and isinstance(below, dict):
                changed[word] = {name: change(item, f"{at}/{escaped(name)}", place) for name, item in below.items()}
        return changed


def _by_itself(schema: dict[str, Any], kind: Container) -> _Named:
    """What a subschema names without those that it applies in place."""
    opened = bool(_OPENING[kind] & schema.keys())
    if kind == "object":
        members, patterns = tuple(schema.get("properties", ())), tuple(schema.get("patternProperties", ()))
        return _Named(members, patterns, 0, bool({"properties", "patternProperties"} & schema.keys()), opened)
    listed = next((schema[word] for word in ("prefixItems", "items") if isinstance(schema.get(word), list)), None)
    opened |= "items" in schema and not isinstance(schema["items"], list)
    return _Named((), (), len(listed or ()), listed is not None, opened)
