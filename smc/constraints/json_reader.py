"""JSON read piece by piece: which values has a text closed so far?

The pieces are tokens, which fall anywhere: in the middle of a number, of an escape, of a character. A :class:`Reading` is
a persistent value: what two prefixes have in common they share, and taking up a piece costs what the piece is long, plus
the making of each value that it closes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from smc.constraints.json_validator import read_json

Step: TypeAlias = str | int
"""From a container to what is in it: a key or an index."""

Pieces: TypeAlias = tuple["Pieces", bytes] | None
Members: TypeAlias = tuple["Members", Step, Any] | None
"""Linked lists, the latest first: prefixes that share a beginning share its storage."""

# What a reading waits for, or is in the middle of.
VALUE, ITEM, KEY, MEMBER, COLON, NEXT = "value", "value or ]", "key", "key or }", ":", ", or the end"
STRING, NAME, NUMBER, WORD, NOTHING = "string", "name", "number", "word", "nothing"

_BLANK = re.compile(rb"[ \t\n\r]*")
_IN_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_IN_NUMBER = re.compile(rb"[-+.0-9eE]*")
_IN_WORD = re.compile(rb"[a-z]*")
_WORDS = (b"true", b"false", b"null")
_SCALARS = {ord('"'): STRING, **dict.fromkeys(b"-0123456789", NUMBER), **dict.fromkeys(b"tfn", WORD)}
_INSIDE = {STRING: _IN_STRING, NAME: _IN_STRING, NUMBER: _IN_NUMBER, WORD: _IN_WORD}
_OPEN, _CLOSE = {ord("["): ITEM, ord("{"): MEMBER}, {ord("]"): False, ord("}"): True}


class Container(NamedTuple):
    """An array or object that is open.

    Attributes:
        outer: the container that it is in; None at the root.
        is_object: an object, or else an array.
        size: members that are closed.
        members: those, as (members before, key or index, value).
        keys: of an object, the keys given so far.
        key: of an object, the key whose value is being read.
    """

    outer: Container | None
    is_object: bool
    size: int = 0
    members: Members = None
    keys: frozenset[str] = frozenset()
    key: str = ""

    @property
    def step(self) -> Step:
        """Where the value that is being read will stand."""
        return self.key if self.is_object else self.size

    @property
    def path(self) -> tuple[Step, ...]:
        """From the root to this container."""
        steps: list[Step] = []
        outer = self.outer
        while outer is not None:
            steps.append(outer.step)
            outer = outer.outer
        return tuple(reversed(steps))

    @property
    def values(self) -> Iterator[Any]:
        """The values of the members, the latest first."""
        members = self.members
        while members is not None:
            members, _, value = members
            yield value

    @property
    def value(self) -> Any:
        """What it holds so far."""
        pairs: list[tuple[Step, Any]] = []
        members = self.members
        while members is not None:
            members, step, value = members
            pairs.append((step, value))
        pairs.reverse()
        return dict(pairs) if self.is_object else [value for _, value in pairs]

    def named(self, key: str) -> Container:
        """With a key whose value comes next."""
        return Container(self.outer, True, self.size, self.members, self.keys | {key}, key)

    def holding(self, value: Any) -> Container:
        """With one member more."""
        members = (self.members, self.step, value)
        return Container(self.outer, self.is_object, self.size + 1, members, self.keys, self.key)


class Closed(NamedTuple):
    """A value, or the name of one, that a piece has closed.

    Attributes:
        container: what it stands in, without it; None at the root.
        value: as Python reads it.
        is_name: whether it is the key of a member and not a value.
    """

    container: Container | None
    value: Any
    is_name: bool = False

    @property
    def path(self) -> tuple[Step, ...]:
        """Keys and indices from the root to the value; for a name, to its object."""
        if self.container is None:
            return ()
        return self.container.path if self.is_name else (*self.container.path, self.container.step)


class Reading(NamedTuple):
    """A prefix of a JSON text.

    Attributes:
        wants: what comes next, or is under way.
        container: the innermost open one.
        pieces: the bytes of the string, number or word that is under way.
        escaped: whether they end with a backslash that stands for nothing yet.
    """

    wants: str = VALUE
    container: Container | None = None
    pieces: Pieces = None
    escaped: bool = False

    @property
    def broken(self) -> bool:
        """Whether nothing that begins so can be read by :func:`smc.constraints.json_validator.read_json`."""
        return self.wants == NOTHING


START: Final = Reading()
BROKEN: Final = Reading(NOTHING)


def advance(reading: Reading, piece: bytes) -> tuple[Reading, tuple[Closed, ...]]:
    """The reading after one piece more, and what the piece has closed, in its order.

    Strings, arrays and objects close with their last byte, ``true``, ``false`` and ``null`` too; a number closes with
    what comes after it. A text that is no strict JSON (a key given twice, a lone surrogate, bytes that are not UTF-8) is
    broken once the string, key or number in question closes, or at once where a byte cannot stand.
    """
    if reading.broken:
        return BROKEN, ()
    wants, container, pieces, escaped = reading.wants, reading.container, reading.pieces, reading.escaped
    closed: list[Closed] = []
    at, end = 0, len(piece)
    while at < end:
        if wants in _INSIDE:
            # 1. go on with the scalar that is under way
            stop, done, escaped = _scan(wants, piece, at, escaped)
            pieces, at = (pieces, piece[at:stop]), stop
            if wants == WORD:
                written = _joined(pieces)
                if not any(word.startswith(written) for word in _WORDS):
                    return BROKEN, tuple(closed)
                done = done or written in _WORDS
            if not done:
                break
            # 2. it is closed
            try:
                value = read_json(_joined(pieces))
            except ValueError:
                return BROKEN, tuple(closed)
            pieces = None
            if wants == NAME:
                assert container is not None
                closed.append(Closed(container, value, is_name=True))
                if value in container.keys:
                    return BROKEN, tuple(closed)
                container, wants = container.named(value), COLON
            else:
                closed.append(Closed(container, value))
                container, wants = _after(container, value), NEXT
            continue

        # 3. between scalars
        blank = _BLANK.match(piece, at)
        assert blank is not None
        at = blank.end()
        if at == end:
            break
        byte = piece[at]
        if wants in (VALUE, ITEM) and byte in _SCALARS:
            wants = _SCALARS[byte]
            if wants == STRING:
                pieces, at = (None, b'"'), at + 1
            continue
        at += 1
        if wants in (VALUE, ITEM) and byte in _OPEN:
            container, wants = Container(container, byte == ord("{")), _OPEN[byte]
        elif wants in (KEY, MEMBER) and byte == ord('"'):
            wants, pieces = NAME, (None, b'"')
        elif wants == COLON and byte == ord(":"):
            wants = VALUE
        elif wants == NEXT and byte == ord(",") and container is not None:
            wants = KEY if container.is_object else VALUE
        elif wants in (NEXT, ITEM, MEMBER) and container is not None and _CLOSE.get(byte) is container.is_object:
            value, container = container.value, container.outer
            closed.append(Closed(container, value))
            container, wants = _after(container, value), NEXT
        else:
            return BROKEN, tuple(closed)
    return Reading(wants, container, pieces, escaped), tuple(closed)


def finish(reading: Reading) -> tuple[Reading, tuple[Closed, ...]]:
    """The reading at the end of the text: a number at the root closes here, and what is still open is broken."""
    if reading.wants == NUMBER and reading.container is None:
        return advance(reading, b" ")
    return (reading if closed(reading) else BROKEN), ()


def closed(reading: Reading) -> bool:
    """Whether a whole value has been read, at most blanks after it."""
    return reading.wants == NEXT and reading.container is None


def _scan(wants: str, piece: bytes, at: int, escaped: bool) -> tuple[int, bool, bool]:
    """How far the scalar goes in this piece, whether it ends there, and whether a backslash of it is left over."""
    inside = _INSIDE[wants].match(piece, at + escaped)
    assert inside is not None  # every one of these patterns matches nothing, too
    stop = inside.end()
    if stop == len(piece) or wants in (NUMBER, WORD):
        return stop, stop < len(piece), False
    if piece[stop] == ord('"'):
        return stop + 1, True, False
    return len(piece), False, True


def _after(container: Container | None, value: Any) -> Container | None:
    return None if container is None else container.holding(value)


def _joined(pieces: Pieces) -> bytes:
    parts: list[bytes] = []
    while pieces is not None:
        pieces, part = pieces
        parts.append(part)
    return b"".join(reversed(parts))
