"""Reading a JSON Schema through before it is used: every subschema is one, every reference leads to one, none goes in circles.

The metaschema is asked about each subschema by itself, what stands inside of it taken for sound until its own turn comes.
Large schemas say the same small things again and again, so most answers are known already.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

import jsonschema
import referencing.exceptions
import referencing.jsonschema
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from smc.constraints.caching import shortened
from smc.constraints.json_drafts import (
    DRAFTS,
    FLAGS,
    REFERENCES,
    Draft,
    described_keywords,
    dialect,
    lone_references,
    name_of,
    read_keywords,
    reading,
    unread_identifiers,
)
from smc.constraints.json_formats import format_checker
from smc.constraints.json_patterns import compiled
from smc.constraints.json_subschemas import (
    DEFINITIONS,
    IN_PLACE,
    LISTS,
    MAPS,
    ONE,
    escaped,
    has_own_base,
    written_in,
)
from smc.errors import ConstraintError, quoted

_ANNOTATIONS = frozenset(
    {"$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
"""Keywords that say nothing about which values are valid: no schema is refused for what they hold."""


def survey(schema: Any, draft: Draft) -> None:
    """Read a schema and all that its references lead to.

    Args:
        schema: the whole schema.
        draft: the draft in which it is read; keywords of other drafts are judged by these.

    Raises:
        ConstraintError: a subschema that the draft does not allow, a pattern that is no regular expression, a reference
            that leads nowhere or to what is no schema, or one that comes back to itself without entering a value; names
            the JSON pointer.
    """
    found = _Survey(schema, draft)
    found.read()
    found.refuse_circles()


class _Survey:
    def __init__(self, schema: Any, draft: Draft) -> None:
        self._schema, self._draft = schema, draft
        self._known = frozenset().union(read_keywords(draft), *map(described_keywords, DRAFTS))
        self._specification = referencing.jsonschema.specification_with(dialect(draft))
        self._sound: set[str] = set()  # subschemas by themselves, as text, that the metaschema allows
        self._pointers = {id(part): at for at, part in _objects(schema)}
        self._found: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._applied: dict[str, list[str]] = {}  # what each subschema applies or refers to
        self._in_place: dict[str, list[str]] = {}  # the part of it that judges the same value

    def read(self) -> None:
        if isinstance(self._schema, dict):
            self._check("", self._schema)  # before its name is read
        root = self._specification.create_resource(self._schema)
        waiting: list[tuple[str, Any, Any, bool]] = [("", self._schema, REGISTRY.resolver_with_root(root), True)]
        referring: deque[tuple[str, str, Any, Any]] = deque()  # followed when all that stands in known places is sound
        while waiting or referring:
            if not waiting:
                target = self._target(*referring.popleft())
                waiting += [] if target is None else [target]
                continue
            at, schema, resolver, is_there = waiting.pop()
            if not isinstance(schema, dict) or at in self._applied:
                continue
            self._check(at, schema)
            if not is_there and has_own_base(schema):
                resolver = resolver.in_subresource(self._specification.create_resource(schema))
            self._applied[at], self._in_place[at] = [], []
            used = [k for k in REFERENCES if k in schema and k in self._draft.VALIDATORS]
            referring += [(at, keyword, schema[keyword], resolver) for keyword in used]
            inside = [part for part in written_in(schema) if part[0] in self._known]
            self._note_applied(at, schema, inside)
            waiting += [(at + under, child, resolver, False) for _, under, child in reversed(inside)]

    def _check(self, at: str, schema: dict[str, Any]) -> None:
        alone = self._by_itself(schema)
        text = json.dumps(alone)
        if text not in self._sound:
            self._check_references(at, alone)
            for draft, part in self._by_draft(alone):
                for error in _metaschema(draft).iter_errors(part):
                    self._refuse(at + "".join(f"/{escaped(str(step))}" for step in error.absolute_path), part, error)
            if isinstance(alone.get("items"), list) and "prefixItems" in alone:
                raise ConstraintError(
                    f"The JSON Schema is invalid at {at or 'its root'}: a list of items stands beside prefixItems, and no "
                    "draft has both. Keep prefixItems, with one schema under items for what comes after."
                )
            self._sound.add(text)
        for pattern in schema.get("patternProperties", ()):
            compiled(pattern)  # early drafts do not say that it must be a regular expression

    def _check_references(self, at: str, alone: dict[str, Any]) -> None:
        """Refuse a reference that another draft has: in which schema it ends, cannot be said in this one."""
        for keyword in REFERENCES:
            other = reading(keyword, alone.get(keyword), self._draft)
            if keyword in alone and other is not None and other is not self._draft:
                raise ConstraintError(
                    f"The JSON Schema is read as {name_of(self._draft)}, which has no {keyword}, as it stands at "
                    f'{at}/{keyword}: write "$schema": "{dialect(other)}" at its root, or refer by $ref.'
                )

    def _by_draft(self, alone: dict[str, Any]) -> list[tuple[Draft, dict[str, Any]]]:
        """The keywords of a subschema by the draft that they are read in; of others, without what they name or annotate,
        and without flags, whose type says all."""
        parts: dict[Draft, dict[str, Any]] = {self._draft: {}}
        for keyword, value in alone.items():
            draft = reading(keyword, value, self._draft)
            is_flag = keyword in FLAGS and isinstance(value, bool)
            if draft is not self._draft and (is_flag or keyword not in DEFINITIONS | read_keywords(self._draft)):
                continue
            parts.setdefault(draft or self._draft, {})[keyword] = value
        return list(parts.items())

    def _by_itself(self, schema: dict[str, Any]) -> dict[str, Any]:
        """What the metaschema has to say something about, without what stands inside."""
        alone: dict[str, Any] = {}
        for keyword, value in schema.items():
            if keyword not in self._known or keyword in _ANNOTATIONS:
                continue
            if keyword in ONE and isinstance(value, dict):
                value = {}
            elif keyword in LISTS and isinstance(value, list):
                value = [_emptied(item) for item in value]
            elif keyword in MAPS and isinstance(value, dict):
                named = keyword == "patternProperties"
                value = {k: _emptied(item) for k, item in value.items() if named or not isinstance(item, dict)}
            alone[keyword] = value
        return alone

    def _refuse(self, at: str, part: dict[str, Any], error: Any) -> None:
        if error.validator == "format" and error.validator_value == "regex":
            raise ConstraintError(f"The JSON Schema is invalid at {at}. {_reason(str(error.instance))}")
        allowing = [
            draft
            for draft in reversed(DRAFTS)
            if all(reading(keyword, value, draft) is draft for keyword, value in part.items())
            and _metaschema(draft).is_valid(part)
        ]
        remedy = f"See {dialect(self._draft)} for what may stand there."
        if allowing:
            remedy = (
                f"It is read as {name_of(self._draft)}, and {name_of(allowing[0])} allows this: if that is meant, write "
                f'"$schema": "{dialect(allowing[0])}" at its root.'
            )
        raise ConstraintError(
            f"The JSON Schema is invalid at {at or 'its root'}: {shortened(error.message, 300)}. {remedy}"
        )

    def _note_applied(self, at: str, schema: dict[str, Any], inside: list[tuple[str, str, Any]]) -> None:
        if lone_references(self._draft) and "$ref" in schema:
            return
        for keyword, under, _ in inside:
            conditional = keyword in ("then", "else") and "if" in schema
            if conditional or keyword in read_keywords(self._draft) - {"then", "else"}:
                self._applied[at].append(at + under)
                self._in_place[at] += [at + under] if keyword in IN_PLACE else []

    def _target(self, at: str, keyword: str, reference: Any, resolver: Any) -> tuple[str, Any, Any, bool] | None:
        """What a reference leads to, with its pointer; None where no more of this schema is found."""
        here = f"{at}/{keyword}"
        if not isinstance(reference, str):
            raise ConstraintError(
                f"The JSON Schema is invalid at {here}: {quoted(reference)} is not a string. Write a reference as in "
                '"#/$defs/name".'
            )
        try:
            found = self._looked_up("#" if keyword == "$recursiveRef" else reference, resolver)
        except (referencing.exceptions.Unresolvable, AttributeError, LookupError, TypeError, ValueError):
            unread = " and ".join(unread_identifiers(self._schema, self._draft))
            hint = f" It is read as {name_of(self._draft)}, which does not read {unread}." if unread else ""
            raise ConstraintError(
                f"The JSON Schema refers to {quoted(reference)} at {here}, which it does not contain: define it (under $defs, "
                f"say) or write the subschema in place. References are never fetched from the network.{hint}"
            ) from None
        if not isinstance(found.contents, dict | bool):
            raise ConstraintError(
                f"The JSON Schema refers to {quoted(reference)} at {here}, where no schema stands (a schema is an object, true "
                "or false): define it under $defs, say, and refer to that."
            )
        target = self._pointers.get(id(found.contents))
        if target is None:  # true, false, or a part of a metaschema
            return None
        self._applied[at].append(target)
        self._in_place[at].append(target)
        return target, found.contents, found.resolver, True

    def _looked_up(self, reference: str, resolver: Any) -> Any:
        """What a reference means to a resolver; most subschemas share one."""
        key = (reference, id(resolver))
        if key not in self._found:
            self._found[key] = (resolver.lookup(reference), resolver)  # kept, so that its id stays its own
        return self._found[key][0]

    def refuse_circles(self) -> None:
        """Refuse a way from the root that leads back to a subschema with the same value in hand."""
        reached: dict[str, None] = {}
        waiting = [""]
        while waiting:
            at = waiting.pop()
            if at not in reached:
                reached[at] = None
                waiting += self._applied.get(at, [])
        try:
            TopologicalSorter({at: self._in_place.get(at, []) for at in reached}).prepare()
        except CycleError as error:
            circle = error.args[1][:0:-1]
            first = min(circle, key=lambda at: (at.count("/"), at))
            start = circle.index(first)
            way = " to ".join(at or "its root" for at in (*circle[start:], *circle[:start], first))
            raise ConstraintError(
                f"The JSON Schema refers to itself without entering a value, from {way}: that says nothing about any value. "
                "Put the reference under properties, items or the like, or leave it out."
            ) from None


@cache
def _metaschema(draft: Draft) -> jsonschema.protocols.Validator:
    return draft(draft.META_SCHEMA, format_checker=format_checker(draft))


def _emptied(part: Any) -> Any:
    return {} if isinstance(part, dict) else part


def _reason(pattern: str) -> str:
    """Why a pattern is not one, in words."""
    try:
        compiled(pattern)
    except ConstraintError as error:
        return str(error)
    return ""


def _objects(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a JSON value with its pointer."""
    waiting = [("", schema)]
    while waiting:
        at, part = waiting.pop()
        if isinstance(part, dict):
            yield at, part
            waiting += [(f"{at}/{escaped(str(key))}", value) for key, value in part.items()]
        elif isinstance(part, list):
            waiting += [(f"{at}/{i}", value) for i, value in enumerate(part)]
