"""Fixed text, free text and constrained spans, in a fixed order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import xgrammar as xgr

from smc.constraints.assembly import Assembly, Format, checked_part, embedded, fixed, free, reader, sequence, texts_of
from smc.constraints.base import Constraint
from smc.constraints.caching import text_of
from smc.constraints.json_schema import JSONSchema
from smc.constraints.notes import LanguageNote, language_of, located
from smc.errors import ConstraintError, at_least, quoted
from smc.vocabulary import to_bytes


@dataclass(frozen=True)
class Free:
    """Free text in a :class:`Template`: any bytes, of which the mask takes nothing away but control tokens.

    Attributes:
        until: the text that ends it, and does not occur in it. It is itself a part of the whole. None for free text up to
            the end of the whole.
        max_chars: the most characters before `until`; None for no limit.

    Raises:
        ConstraintError: an `until` that is empty or no text.
        OptionError: a `max_chars` that is no whole number of at least 0.
    """

    until: str | None = None
    max_chars: int | None = None

    def __post_init__(self) -> None:
        if self.until is not None and not text_of("Free(until=...)", self.until):
            raise ConstraintError("Free(until='') would end before it begins: name the text that ends it.")
        if self.max_chars is not None:
            at_least("max_chars", self.max_chars, 0)

    @property
    def format(self) -> Format:
        """The free text and what ends it, as a structural format."""
        text = free(self.until, self.max_chars)
        return text if self.until is None else sequence(text, fixed(self.until))

    def ends(self, text: str, start: int) -> Iterator[int]:
        """Where in `text` it may end if it begins at `start`."""
        if self.until is None:
            if self._fits(text[start:]):
                yield len(text)
            return
        # A text that overlaps itself, like a line break given twice, may end later than where it first occurs.
        first = at = text.find(self.until, start)
        while first <= at < first + len(self.until) and at >= 0:
            if self.until not in text[start:at] and self._fits(text[start:at]):
                yield at + len(self.until)
            at = text.find(self.until, at + 1)

    def _fits(self, text: str) -> bool:
        return self.max_chars is None or _characters(text) <= self.max_chars


Part = str | Free | Constraint


@dataclass(frozen=True, init=False)
class Template(Assembly):
    """Parts in a row: fixed text (a string), free text (:class:`Free`) and constrained spans (any constraint of xgrammar).

    For example ``Template("Answer: ", Choice(["yes", "no"]), ". Because ", Free(until="\\n"), JSONSchema(schema))``. In free
    text nothing is masked but control tokens, the stop before the end of the whole, and tokens that write `until` and
    something after it that the next part does not begin with; so log Z_t is near 0 there.

    The validator takes a finished text apart and asks the validator of each part; :meth:`split` shows the pieces. Where a
    text can be taken apart in several ways, any one that suits all parts will do; parts that end early are tried first.

    Raises:
        ConstraintError: no parts; a part that is none of these; free text without an end anywhere but at the end.
    """

    parts: tuple[Part, ...]

    def __init__(self, *parts: Part) -> None:
        if not parts:
            raise ConstraintError("Template has no parts: give texts, Free(...) and constraints.")
        for place, part in enumerate(parts):
            if isinstance(part, str):
                text_of(f"Part {place} of a Template", part)
            elif not isinstance(part, Free):
                checked_part(part, "Template")
            elif part.until is None and place < len(parts) - 1:
                raise ConstraintError(
                    f"Part {place} of a Template is free text without an end, and other parts follow: say what ends it, as in "
                    "Free(until='\\n')."
                )
        object.__setattr__(self, "parts", parts)

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """What the parts have to say, each under its number."""
        spans = [(place, part) for place, part in enumerate(self.parts) if not isinstance(part, str | Free)]
        return tuple(note for place, part in spans for note in located(language_of(part).notes, f"part {place}"))

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        texts: list[str] = []
        for part in self.parts:
            if isinstance(part, Free):
                texts += [part.until] if part.until else []
            else:
                texts += [part] if isinstance(part, str) else texts_of(part)
        return tuple(texts)

    def format(self, tokens: xgr.TokenizerInfo) -> Format:
        return sequence(*(_format(part, tokens) for part in self.parts))

    def holds(self, text: str) -> bool:
        return self.split(text) is not None

    def split(self, text: str) -> tuple[str, ...] | None:
        """The piece of `text` that belongs to each part (free text with what ends it); None if it is not in the language."""
        dead: set[tuple[int, int]] = set()  # (place, start) from which there is no way to the end

        def ends_from(place: int, start: int) -> list[int] | None:
            if place == len(self.parts):
                return [] if start == len(text) else None
            if (place, start) in dead:
                return None
            for end in self._ends(place, text, start):
                rest = ends_from(place + 1, end)
                if rest is not None:
                    return [end, *rest]
            dead.add((place, start))
            return None

        ends = ends_from(0, 0)
        if ends is None:
            return None
        return tuple(text[start:end] for start, end in zip([0, *ends], ends, strict=False))

    def _ends(self, place: int, text: str, start: int) -> Iterator[int]:
        part = self.parts[place]
        if isinstance(part, Free):
            yield from part.ends(text, start)
        elif isinstance(part, str):
            if text.startswith(part, start):
                yield start + len(part)
        else:
            holds = self._readers[place]
            yield from (end for end in self._candidates(place, text, start) if holds(text[start:end]))

    def _candidates(self, place: int, text: str, start: int) -> Iterator[int]:
        """Where a constrained part may end, as far as can be told without asking its validator."""
        part, following = self.parts[place], self.parts[place + 1 : place + 2]
        if isinstance(part, JSONSchema):
            yield from _json_ends(text, start)  # without the blanks around it that its validator would let pass
        elif not following:
            yield len(text)
        elif isinstance(following[0], str):
            at = text.find(following[0], start)
            while at >= 0:
                yield at
                at = text.find(following[0], at + 1)
        else:
            yield from range(start, len(text) + 1)

    @cached_property
    def _readers(self) -> dict[int, Callable[[str], bool]]:
        return {place: reader(part) for place, part in enumerate(self.parts) if not isinstance(part, str | Free)}

    @property
    def _named(self) -> str:
        return f"The Template {quoted(self.parts)}"


def _format(part: Part, tokens: xgr.TokenizerInfo) -> Format:
    if isinstance(part, str):
        return fixed(part)
    return part.format if isinstance(part, Free) else embedded(part, tokens)


def _json_ends(text: str, start: int) -> Iterator[int]:
    """Where one JSON value that begins at `start` may end: the longest first of numbers, the others end by themselves."""
    try:
        _, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return
    yield from range(end, start, -1) if text[start] in "-0123456789" else [end]


def _characters(text: str) -> int:
    """Characters as the engine counts them: bytes that do not continue one."""
    return sum(byte & 0xC0 != 0x80 for byte in to_bytes(text))
