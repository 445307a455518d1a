"""Prefix checks of the constrained spans inside longer texts: behind a fixed text, after a marker, in the calls of tools.

Each finds where its span begins, which the mask has made sure of, and gives what follows to the check of the span. None
ever claims anything about free text, and all states are values that prefixes may share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from smc.constraints.base import Constraint
from smc.constraints.validated import PrefixCheck


def prefix_check_of(constraint: Constraint) -> PrefixCheck[Any] | None:
    """The check of a constraint's growing texts; None if it has none, or nothing to check."""
    make: Callable[[], PrefixCheck[Any] | None] | None = getattr(constraint, "prefix_check", None)
    return None if make is None else make()


class _Waiting(NamedTuple):
    """Not in the span yet: how many bytes of the fixed text are missing."""

    missing: int


@dataclass(frozen=True)
class Behind:
    """A span that begins after the first `length` bytes."""

    length: int
    inner: PrefixCheck[Any]

    def start(self) -> Any:
        """Nothing is written yet."""
        return _Waiting(self.length) if self.length else self.inner.start()

    def advance(self, state: Any, piece: bytes) -> Any | None:
        """The state after one piece more; None if the span is refused."""
        if not isinstance(state, _Waiting):
            return self.inner.advance(state, piece)
        if state.missing > len(piece):
            return _Waiting(state.missing - len(piece))
        return self.inner.advance(self.inner.start(), piece[state.missing :])


class _Free(NamedTuple):
    """In free text: its last bytes, with which the marker may have begun."""

    tail: bytes


@dataclass(frozen=True)
class AfterMarker:
    """A span that begins where `marker`, which does not overlap itself, has first been written."""

    marker: bytes
    inner: PrefixCheck[Any]

    def start(self) -> Any:
        """Nothing is written yet."""
        return _Free(b"")

    def advance(self, state: Any, piece: bytes) -> Any | None:
        """The state after one piece more; None if the span is refused."""
        if not isinstance(state, _Free):
            return self.inner.advance(state, piece)
        rest, tail = _behind(self.marker, state.tail + piece)
        return _Free(tail) if rest is None else self.inner.advance(self.inner.start(), rest)


class _InCall(NamedTuple):
    """Between the trigger and the arguments, or between these and the end: what is written there."""

    text: bytes
    over: bool


class _Arguments(NamedTuple):
    """In the arguments of a tool."""

    tool: bytes
    state: Any


@dataclass(frozen=True)
class InCalls:
    """The arguments of calls in prose. A text that is not built as the mask builds it is left to the validator.

    Attributes:
        begin: the trigger of a call.
        opening: matches what stands between it and the arguments; its group is the name of the tool, as JSON.
        closing: matches what stands between the arguments and the prose that follows.
        tools: the check of each tool's arguments, by name as JSON.
        closed: whether a state of such a check is that of a whole value.
    """

    begin: bytes
    opening: re.Pattern[bytes]
    closing: re.Pattern[bytes]
    tools: Mapping[bytes, PrefixCheck[Any]]
    closed: Callable[[Any], bool]

    def start(self) -> Any:
        """Prose, with nothing written yet."""
        return _Free(b"")

    def advance(self, state: Any, piece: bytes) -> Any | None:
        """The state after one piece more; None if the arguments of a call are refused."""
        while piece:
            if isinstance(state, _Free):
                rest, tail = _behind(self.begin, state.tail + piece)
                if rest is None:
                    return _Free(tail)
                state, piece = _InCall(b"", False), rest
            elif isinstance(state, _Arguments):
                # an object can only close with a brace
                cut = piece.find(b"}") + 1 or len(piece)
                inner = self.tools[state.tool].advance(state.state, piece[:cut])
                if inner is None:
                    return None
                state, piece = _InCall(b"", True) if self.closed(inner) else state._replace(state=inner), piece[cut:]
            else:
                written = state.text + piece
                found = (self.closing if state.over else self.opening).match(written)
                if found is None or not (state.over or found[1] in self.tools):
                    return state._replace(text=written)
                piece = written[found.end() :]
                state = _Free(b"") if state.over else _Arguments(found[1], self.tools[found[1]].start())
        return state


def _behind(marker: bytes, text: bytes) -> tuple[bytes | None, bytes]:
    """What follows the first `marker`, None if there is none; and as much of the end as it may have begun with."""
    at = text.find(marker)
    return (None, text[max(0, len(text) - len(marker) + 1) :]) if at < 0 else (text[at + len(marker) :], b"")
