"""Where the subschemas of a JSON Schema stand, and what a reference leads to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from urllib.parse import urljoin

import referencing.exceptions
import referencing.jsonschema
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.jsonschema import lookup_recursive_ref

from smc.constraints.json_drafts import dialect, draft_of, lone_references, read_keywords
from smc.constraints.json_subschemas import escaped, written_in
from smc.constraints.schema_graph import MEANT


@dataclass(frozen=True)
class Place:
    """A subschema.

    Attributes:
        at: its JSON pointer in the schema as it was written; outside of that (a metaschema), the reference that leads there.
        order: its position in the document; places of a conjunction are sorted by it.
        schema: a dict of the keywords that are read, or a bool.
        resolver: looks up references from here.
        scope: what dynamic references mean here, which depends on the way that led here.
    """

    at: str
    order: int = field(compare=False)
    schema: Any = field(compare=False, repr=False)
    resolver: Any = field(compare=False, repr=False)
    scope: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What tells it from all other places: its pointer, and its scope if there is one."""
        return MEANT.join((self.at, *self.scope))


class Document:
    """A whole schema: its places by object identity, so that a reference leads to a pointer of the user's text."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.draft = draft_of(schema)
        self._specification = referencing.jsonschema.specification_with(dialect(self.draft))
        self._lone_references = lone_references(self.draft)
        self._positions: dict[int, tuple[str, int]] = {}
        self._anchors = {"meta": None}  # the metaschemas' own
        for at, part in _walk(schema):
            self._positions[id(part)] = (at, len(self._positions))
            if isinstance(part.get("$dynamicAnchor"), str):
                self._anchors[part["$dynamicAnchor"]] = None
        self._scopes: dict[tuple[str, ...], tuple[str, ...]] = {}
        resource = self._specification.create_resource(schema)
        self.root = self._place("", 0, schema, REGISTRY.resolver_with_root(resource))

    @property
    def keywords(self) -> frozenset[str]:
        """The keywords that are read: those of the draft of the schema, and of other drafts."""
        return read_keywords(self.draft)

    def child(self, parent: Place, *path: str | int) -> Place:
        """The subschema at `path` below a place."""
        schema, at = parent.schema, parent.at
        for step in path:
            schema = schema[step]
            at += "/" + escaped(str(step))
        resolver = parent.resolver
        if isinstance(schema, dict) and ("$id" in schema or "id" in schema):
            resolver = resolver.in_subresource(self._specification.create_resource(schema))
        return self._place(at, parent.order, schema, resolver)

    def synthetic(self, parent: Place, at: str, schema: Any) -> Place:
        """A subschema that the user did not write but means: `at` names what it comes from and is its identity."""
        return self._place(at, parent.order, schema, parent.resolver)

    def referred(self, place: Place, keyword: str) -> Place:
        """What a reference leads to."""
        reference = place.schema[keyword]
        recursive = keyword == "$recursiveRef"
        found = lookup_recursive_ref(place.resolver) if recursive else place.resolver.lookup(reference)
        at = urljoin(place.resolver._base_uri, reference).removeprefix("#")
        order = len(self._positions)
        if isinstance(
            found.contents, dict
        ):  # what is not in the user's text goes by the first reference that leads there
            at, order = self._positions.setdefault(id(found.contents), (at, order))
        return self._place(at, order, found.contents, found.resolver)

    def _place(self, at: str, order: int, schema: Any, resolver: Any) -> Place:
        """A place whose resolver stands there already."""
        if isinstance(schema, dict):
            order = self._positions.get(id(schema), (at, order))[1]
            schema = self._known(schema)
        return Place(at, order, schema, resolver, self._scope(resolver))

    def _known(self, schema: dict[str, Any]) -> dict[str, Any]:
        if self._lone_references and "$ref" in schema:
            return {"$ref": schema["$ref"]}
        return {k: v for k, v in schema.items() if k in self.keywords}

    def _scope(self, resolver: Any) -> tuple[str, ...]:
        """The resources that dynamic references lead to: the outermost on the way here that have the anchors."""
        way = (resolver._base_uri, *(uri for uri, _ in resolver.dynamic_scope()))
        if way not in self._scopes:
            bound = [f"{name}={uri}" for name in self._anchors if (uri := _outermost(resolver, way, name)) is not None]
            chain = list(takewhile(lambda uri: _recurs(resolver, uri), way))
            self._scopes[way] = (*bound, *chain[-1:])
        return self._scopes[way]


def _outermost(resolver: Any, way: tuple[str, ...], anchor: str) -> str | None:
    """The last of the resources on a way out that has a dynamic anchor."""
    outermost = None
    for uri in way:
        with suppress(referencing.exceptions.NoSuchAnchor, referencing.exceptions.NoSuchResource):
            if isinstance(resolver._registry.anchor(uri, anchor).value, referencing.jsonschema.DynamicAnchor):
                outermost = uri
    return outermost


def _recurs(resolver: Any, uri: str) -> bool:
    contents = resolver.lookup(uri).contents
    return isinstance(contents, dict) and contents.get("$recursiveAnchor") is True


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
