"""Which parts of a JSON Schema must hold at a place of the document, whatever comes after it.

From the root they are reached through ``$ref``, ``allOf``, ``properties``, ``patternProperties``, ``additionalProperties``,
``items``, ``prefixItems`` and ``additionalItems``, each as the schema's draft reads it. Through ``anyOf``, ``oneOf``, ``if``,
``not``, ``contains`` and the like nothing must hold by itself, so nothing is claimed there: what they say is part of the
subschema that they stand in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote

import jsonschema
import referencing.exceptions
import referencing.jsonschema
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from smc.constraints.json_patterns import found
from smc.constraints.json_reader import Step
from smc.constraints.json_subschemas import DEFINITIONS, escaped, has_own_base, member, written_in

Place: TypeAlias = tuple[str, ...]
"""JSON pointers of the subschemas that must hold at one place of the document."""

MAX_PLACES = 4096
"""Places remembered; keys may be anything, so there is no end to them."""

_CLAIMED = frozenset(
    {"additionalItems", "additionalProperties", "allOf", "items", "patternProperties", "prefixItems", "properties"}
)


class Places:
    """The places of the documents of one schema.

    Args:
        validator: of the whole schema; its draft decides what a keyword means.
    """

    def __init__(self, validator: jsonschema.protocols.Validator) -> None:
        self._root = validator.schema
        self._keywords = validator.VALIDATORS
        dialect = str(validator.META_SCHEMA.get("$schema", ""))
        self._lone_ref = "draft-0" in dialect  # up to draft 7 nothing counts beside a $ref
        specification = referencing.jsonschema.specification_with(dialect)
        self._resolver = REGISTRY.resolver_with_root(specification.create_resource(self._root))
        self.schemas: dict[str, Any] = {}  # by pointer; those with a base of their own are left out
        self._inner: dict[str, list[tuple[str, str]]] = {}  # keyword and pointer of what is written in each
        self._pointers: dict[int, str] = {}
        self._targets: dict[str, str | None] = {}
        self._register("", self._root)
        self.root: Place = self._all_of([""])
        self.inside = lru_cache(MAX_PLACES)(self._inside)

    def _register(self, pointer: str, schema: Any) -> None:
        if pointer in self.schemas or (pointer and has_own_base(schema)):
            return
        self.schemas[pointer] = schema
        if isinstance(schema, dict):
            self._pointers.setdefault(id(schema), pointer)
            children = [(keyword, pointer + under, child) for keyword, under, child in written_in(schema)]
            # definitions by themselves apply to nothing
            self._inner[pointer] = [(keyword, under) for keyword, under, _ in children if keyword not in DEFINITIONS]
            for _, under, child in children:
                self._register(under, child)
            reference = schema.get("$ref")
            if isinstance(reference, str) and _is_pointer(reference):
                self._at(unquote(reference[1:]))  # it may stand where no keyword leads

    def _inside(self, place: Place, step: Step) -> Place:
        """What must hold one step further in: at a key of the object or an index of the array at `place`."""
        return self._all_of(
            pointer + under for pointer in place for under in self._applied(self.schemas[pointer], step)
        )

    def _all_of(self, pointers: Iterable[str]) -> Place:
        """The given subschemas and what they refer to, as far as it is known."""
        place: dict[str, None] = {}
        waiting = list(pointers)[::-1]
        while waiting:
            pointer = waiting.pop()
            if pointer in place or pointer not in self.schemas:
                continue
            place[pointer] = None
            schema = self.schemas[pointer]
            if isinstance(schema, dict):
                waiting += [] if self.only_refers(schema) else [f"{pointer}/allOf/{i}" for i in self._indices(schema)]
                target = self.target(schema)
                waiting += [] if target is None else [target]
        return tuple(place)

    def _indices(self, schema: dict[str, Any]) -> range:
        branches = schema.get("allOf") if "allOf" in self._keywords else None
        return range(len(branches) if isinstance(branches, list) else 0)

    def only_refers(self, schema: dict[str, Any]) -> bool:
        """Whether nothing but the ``$ref`` of a subschema counts."""
        return self._lone_ref and isinstance(schema.get("$ref"), str)

    def _applied(self, schema: Any, step: Step) -> Iterator[str]:
        """Where, under a subschema, that stands which it applies to one of its members."""
        if not isinstance(schema, dict) or self.only_refers(schema):
            return
        known = {keyword: value for keyword, value in schema.items() if keyword in self._keywords}
        if isinstance(step, str):
            yield from _for_key(known, step)
        else:
            yield from _for_index(known, step)

    def target(self, schema: dict[str, Any]) -> str | None:
        """The pointer of what a subschema's ``$ref`` refers to; None without one, or where it leads out of the schema."""
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return None
        if reference not in self._targets:
            self._targets[reference] = self._target(reference)
        return self._targets[reference]

    def _target(self, reference: str) -> str | None:
        if _is_pointer(reference):
            return self._at(unquote(reference[1:]))
        try:
            contents = self._resolver.lookup(reference).contents
        except (referencing.exceptions.Unresolvable, ValueError):
            return None
        return self._pointers.get(id(contents))

    def _at(self, pointer: str) -> str | None:
        """The pointer, if a subschema is there whose references mean what they mean at the root."""
        if pointer in self.schemas:
            return pointer
        here: Any = self._root
        for part in pointer.split("/")[1:]:
            here = member(here, part)
            if here is None or has_own_base(here):
                return None
        self._register(pointer, here)
        return pointer if pointer in self.schemas else None

    def asking(self, needed: Iterable[str]) -> frozenset[str]:
        """The subschemas to ask so that nothing of what is `needed` is missed.

        Args:
            needed: JSON pointers of subschemas or of keywords in them. One that stands behind ``anyOf``, ``not`` and
                the like is asked as part of the subschema that must hold and in which they stand.
        """
        wanted = {self._nearest(pointer) for pointer in needed}
        reaching = self._reaching(wanted)
        return frozenset(
            pointer
            for pointer, schema in self.schemas.items()
            if pointer in wanted or any(under in reaching for under in self._unclaimed(pointer, schema))
        )

    def _nearest(self, pointer: str) -> str:
        """The innermost subschema that a pointer leads through."""
        here, nearest, passed = self._root, "", ""
        for part in pointer.split("/")[1:]:
            here, passed = member(here, part), f"{passed}/{part}"
            if passed in self.schemas:
                nearest = passed
        return nearest

    def _unclaimed(self, pointer: str, schema: Any) -> Iterator[str]:
        """What a subschema applies without claims: its ``anyOf``, ``if``, ..., and what has a base of its own."""
        if isinstance(schema, dict):
            for keyword, child in self._inner[pointer]:
                if keyword not in _CLAIMED or child not in self.schemas:
                    yield child
            yield from self._unfollowed(pointer, schema)

    def _unfollowed(self, pointer: str, schema: dict[str, Any]) -> list[str]:
        """The references of a subschema that are not followed here."""
        left = {"$ref", "$dynamicRef", "$recursiveRef"} & schema.keys()
        left -= {"$ref"} if self.target(schema) is not None else set()
        return [f"{pointer}/{keyword}" for keyword in sorted(left)]

    def _reaching(self, wanted: set[str]) -> set[str]:
        """The subschemas that apply or refer to a wanted one, at any distance, or to one that cannot be followed."""
        users: dict[str, list[str]] = {}
        waiting = list(wanted)
        for pointer, schema in self.schemas.items():
            if not isinstance(schema, dict):
                continue
            used = [under for _, under in self._inner[pointer]]
            target = self.target(schema)
            used += [*self._unfollowed(pointer, schema), *([] if target is None else [target])]
            for part in used:
                users.setdefault(part, []).append(pointer)
        waiting += [part for part in users if part not in self.schemas]
        reaching: set[str] = set()
        while waiting:
            pointer = waiting.pop()
            if pointer not in reaching:
                reaching.add(pointer)
                waiting += users.get(pointer, [])
        return reaching


def _is_pointer(reference: str) -> bool:
    return reference == "#" or reference.startswith("#/")


def _for_key(schema: dict[str, Any], key: str) -> Iterator[str]:
    declared = key in schema.get("properties", {})
    if declared:
        yield f"/properties/{escaped(key)}"
    matches = {pattern: found(pattern, key) for pattern in schema.get("patternProperties", {})}
    yield from (f"/patternProperties/{escaped(pattern)}" for pattern, match in matches.items() if match)
    if "additionalProperties" in schema and not declared and not any(match is not False for match in matches.values()):
        yield "/additionalProperties"


def _for_index(schema: dict[str, Any], index: int) -> Iterator[str]:
    items = schema.get("items")
    first, rest = ("items", "additionalItems") if isinstance(items, list) else ("prefixItems", "items")
    if index < len(schema.get(first, ())):
        yield f"/{first}/{index}"
    elif rest in schema:
        yield f"/{rest}"
