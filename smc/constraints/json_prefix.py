"""Refusing a JSON text before its end: as soon as a value closes that breaks the schema, whatever follows.

The mask of an engine lets some texts through that the schema forbids (`uniqueItems`, `not`, `multipleOf`, ...). A validator
at the end finds them all, but by then a whole sequence has been spent on each. Most of them are lost much earlier: where
a value has just closed at a place where a subschema must hold, and it does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import jsonschema

from smc.constraints.json_places import Place, Places
from smc.constraints.json_reader import START, Closed, Container, Reading, Step, advance

MAX_VERDICTS = 4096
"""Verdicts remembered; rows that differ elsewhere often close the same value."""


class PrefixChecker:
    """Tells which prefixes of JSON texts no valid document of a schema begins with. Holds no run state.

    It never refuses a prefix of a valid document. It refuses, with the piece of text that brings them about: what no
    strict reader takes (a key given twice, a lone surrogate), a closed value that breaks a subschema which must hold
    where it stands, an item equal to an earlier one under ``uniqueItems``, a member too many, a key that ``propertyNames``
    forbids. What only the members to come can decide is left to the validator at the end.

    Args:
        validator: of the whole schema, as :func:`smc.constraints.json_validator.schema_validator` makes it.
        needed: JSON pointers of the subschemas, or of keywords in them, that the mask does not enforce; by default
            everything is asked about.
    """

    def __init__(self, validator: jsonschema.protocols.Validator, needed: Iterable[str] | None = None) -> None:
        self._validator = validator
        self._places = Places(validator)
        self._asked = None if needed is None else self._places.asking(needed)
        self._validators = cache(self._evolved)  # of large schemas, few subschemas are ever asked
        self._distinct = validator.evolve(schema={"uniqueItems": True})
        self._verdict = lru_cache(MAX_VERDICTS)(self._ask)

    def start(self) -> Reading:
        """The empty prefix."""
        return START

    def advance(self, reading: Reading, piece: bytes) -> Reading | None:
        """The prefix with one piece more, or None if no valid document begins so."""
        after, closed = advance(reading, piece)
        if after.broken or any(self._refuses(event) for event in closed):
            return None
        return after

    def _refuses(self, event: Closed) -> bool:
        container = event.container
        around = () if container is None else self._place(container.path)
        if container is not None:
            judge = self._bad_name if event.is_name else self._bad_member
            if any(judge(pointer, container, event.value) for pointer in self._asking(around)):
                return True
        if event.is_name:
            return False
        place = self._places.root if container is None else self._places.inside(around, container.step)
        return not all(self._holds(pointer, event.value) for pointer in self._asking(place))

    def _place(self, path: tuple[Step, ...]) -> Place:
        place = self._places.root
        for step in path:
            place = self._places.inside(place, step)
        return place

    def _asking(self, place: Place) -> Place:
        """The subschemas to ask among those that must hold at a place."""
        return place if self._asked is None else tuple(pointer for pointer in place if pointer in self._asked)

    def _bad_name(self, pointer: str, container: Container, name: str) -> bool:
        """Whether the key of a member is one that the object may not have."""
        names = f"{pointer}/propertyNames"
        known = self._keyword(pointer, "propertyNames") is not None and names in self._places.schemas
        return known and not self._holds(names, name)

    def _bad_member(self, pointer: str, container: Container, value: Any) -> bool:
        """Whether this member is one too many, or in an array equal to one before it."""
        most = self._keyword(pointer, "maxProperties" if container.is_object else "maxItems")
        if most is not None and container.size >= most:
            return True
        if container.is_object or self._keyword(pointer, "uniqueItems") is not True:
            return False
        # equal to Python is necessary and not enough: true is not 1
        same = (earlier for earlier in container.values if earlier == value)
        return any(not self._distinct.is_valid([earlier, value]) for earlier in same)

    def _keyword(self, pointer: str, keyword: str) -> Any:
        """The value of a keyword of a subschema, if the draft knows it and it counts."""
        schema = self._places.schemas[pointer]
        counts = isinstance(schema, dict) and keyword in self._validator.VALIDATORS
        return schema.get(keyword) if counts and not self._places.only_refers(schema) else None

    def _holds(self, pointer: str, value: Any) -> bool:
        try:
            return self._verdict(pointer, json.dumps(value, ensure_ascii=False))
        except (RecursionError, TypeError):
            return True  # no opinion: nested too deeply to judge here, or a number that cannot be written again
        except ValueError:
            return False  # the validator of the whole document could not judge it either

    def _evolved(self, pointer: str) -> jsonschema.protocols.Validator:
        return self._validator.evolve(schema=self._places.schemas[pointer])

    def _ask(self, pointer: str, text: str) -> bool:
        """What a subschema says of a value, written as Python writes JSON."""
        return bool(self._validators(pointer).is_valid(json.loads(text)))


def prefix_checker(
    validator: jsonschema.protocols.Validator, needed: Iterable[str] | None = None
) -> PrefixChecker | None:
    """A checker of what is `needed` (see :class:`PrefixChecker`), or None if that is nothing."""
    needed = None if needed is None else tuple(needed)
    return PrefixChecker(validator, needed) if needed is None or needed else None
