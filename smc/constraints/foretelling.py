"""Text about which a constraint leaves no choice, of which only so much is told as is ever used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

AHEAD = 64
"""Characters of forced text that are told at a time; a pass has no room for more."""

AHEAD_BYTES = 4 * AHEAD
"""Bytes that hold as many characters of UTF-8."""


def beginning(data: bytes) -> str:
    """The first AHEAD characters of forced bytes, up to the first character that is cut or broken."""
    data = data[:AHEAD_BYTES]
    try:
        return data.decode()[:AHEAD]
    except UnicodeDecodeError as error:
        return data[: error.start].decode()[:AHEAD]


def agreed(texts: Iterable[str]) -> str:
    """What several constraints force together: the longest of their texts, or nothing if they contradict each other."""
    longest, *others = sorted(texts, key=len, reverse=True)
    return longest if all(longest.startswith(text) for text in others) else ""


@dataclass(frozen=True)
class Foretold:
    """Forced bytes, and how many of them a prefix has behind it. Prefixes share the bytes, however many they are."""

    data: bytes
    behind: int = 0

    @property
    def text(self) -> str:
        """What comes next."""
        return beginning(self.data[self.behind : self.behind + AHEAD_BYTES])

    def after(self, piece: bytes) -> Foretold | None:
        """What is left for the prefix extended by `piece`; None if that is nothing, and the engine has to be asked again."""
        end = self.behind + len(piece)
        return Foretold(self.data, end) if end < len(self.data) and self.data.startswith(piece, self.behind) else None
