"""Where the subschemas of a JSON Schema stand, and what a reference leads to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import referencing
import referencing.jsonschema
from jsonschema.validators import validator_for

from smc.constraints.json_subschemas import escaped, written_in
from smc.constraints.json_validator import REGISTRY

_REFERENCES_STAND_ALONE = frozenset(f"http://json-schema.org/draft-0{draft}/schema#" for draft in (3, 4, 6, 7))
"""Drafts in which the neighbours of ``$ref`` are ignored."""


_HELPERS = frozenset({"then", "else", "minContains", "maxContains", "exclusiveMinimum", "exclusiveMaximum"})
"""Keywords that others read."""


@dataclass(frozen=True)
class Place:
    """A subschema.

    Attributes:
        at: its JSON pointer in the schema as it was written; outside of that (a metaschema), the reference that leads there.
        order: its position in the document; places of a conjunction are sorted by it.
        schema: a dict of the keywords that its draft knows, or a bool.
        resolver: looks up references from here.
    """

    at: str
    order: int = field(compare=False)
    schema: Any = field(compare=False, repr=False)
    resolver: Any = field(compare=False, repr=False)


class Document:
    """A whole schema: its places by object identity, so that a reference leads to a pointer of the user's text."""

    def __init__(self, schema: Any, draft: Any = None) -> None:
        self.schema = schema
        self.draft = draft or validator_for(schema, default=jsonschema.Draft202012Validator)
        dialect = self.draft.META_SCHEMA.get("$schema", "")
        self._specification = referencing.jsonschema.specification_with(dialect)
        self._lone_references = dialect in _REFERENCES_STAND_ALONE
        self._positions: dict[int, tuple[str, int]] = {}
        self._dynamic: Counter[str] = Counter()
        for at, part in _walk(schema):
            self._positions[id(part)] = (at, len(self._positions))
            for keyword in ("$dynamicAnchor", "$recursiveAnchor"):
                if keyword in part:
                    self._dynamic[str(part[keyword])] += 1
        resource = referencing.Resource.from_contents(schema, default_specification=self._specification)
        self.root = self._place("", 0, schema, REGISTRY.resolver_with_root(resource))

    @property
    def keywords(self) -> frozenset[str]:
        """The keywords that the draft of the schema knows."""
        return frozenset(self.draft.VALIDATORS) | _HELPERS

    def child(self, parent: Place, *path: str | int) -> Place:
        """The subschema at `path` below a place."""
        schema, at = parent.schema, parent.at
        for step in path:
            schema = schema[step]
            at += "/" + escaped(str(step))
        return self._place(at, parent.order, schema, parent.resolver)

    def synthetic(self, parent: Place, at: str, schema: Any) -> Place:
        """A subschema that the user did not write but means: `at` names what it comes from and is its identity."""
        return self._place(at, parent.order, schema, parent.resolver)

    def referred(self, place: Place, keyword: str) -> Place | None:
        """What a reference leads to; None for a dynamic reference whose target depends on the way there."""
        reference = place.schema[keyword]
        if keyword != "$ref" and self._dynamic.total() > 1:
            return None
        found = place.resolver.lookup(reference)
        outside = place.at.partition("#")[0] if not place.at.startswith("/") else ""
        at = outside + reference if outside else reference.removeprefix("#")
        at, order = self._positions.get(id(found.contents), (at, len(self._positions)))
        return self._place(at, order, found.contents, found.resolver)

    def _place(self, at: str, order: int, schema: Any, resolver: Any) -> Place:
        if isinstance(schema, dict):
            order = self._positions.get(id(schema), (at, order))[1]
            if "$id" in schema or "id" in schema:
                resolver = resolver.in_subresource(self._specification.create_resource(schema))
            schema = self._known(schema)
        return Place(at, order, schema, resolver)

    def _known(self, schema: dict[str, Any]) -> dict[str, Any]:
        if self._lone_references and "$ref" in schema:
            return {"$ref": schema["$ref"]}
        return {k: v for k, v in schema.items() if k in self.draft.VALIDATORS or k in _HELPERS}


def _walk(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    stack: list[tuple[str, Any]] = [("", schema)]
    while stack:
        at, part = stack.pop()
        if isinstance(part, dict):
            yield at, part
            stack.extend((f"{at}/{escaped(str(k))}", v) for k, v in reversed(part.items()))
        elif isinstance(part, list):
            stack.extend((f"{at}/{i}", part[i]) for i in reversed(range(len(part))))


def subschemas(schema: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every subschema that is an object, with its pointer, definitions included, in the order of the document."""
    stack: list[tuple[str, Any]] = [(at, schema)]
    while stack:
        here, part = stack.pop()
        if isinstance(part, dict):
            yield here, part
            stack.extend(reversed([(here + below, child) for _, below, child in written_in(part)]))
