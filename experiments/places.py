"""Where in a text each token begins: the grammatical places by which a report says where the mask removes mass."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

Spans = Sequence[tuple[int, str]]
"""Parts of a text in order: (offset of the first character, name)."""

END = "end"
"""The place of the stop."""

_PLAIN: Spans = ((0, "start"), (1, "inside"))
_STRING = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*(?P<closed>"?)', re.DOTALL)
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*|-")
_WORD = re.compile(r"[^\s\"{}\[\]:,]+")


def places_of(text: str, spans: Spans | None, token_texts: Sequence[str]) -> list[str]:
    """The place of the first character of each token, and `END` for the stop: one entry more than tokens.

    `spans` is what `Task.places` says of `text`; without it JSON objects and arrays have the parts of `json_spans`,
    any other text a "start" (its first character) and an "inside". Texts may be invalid or cut off. A token may begin
    inside a character: bytes that are no UTF-8 of their own are surrogate-escaped, and belong to their character.
    """
    if spans is None:
        spans = json_spans(text) if text.lstrip()[:1] in ("{", "[") else _PLAIN
    starts, names = [0, *(start for start, _ in spans)], ["start", *(name for _, name in spans)]
    sizes = [len(token.encode("utf-8", "surrogateescape")) for token in token_texts]
    ends = list(accumulate(len(character.encode("utf-8", "surrogateescape")) for character in text))
    offsets = (bisect_right(ends, first) for first in accumulate([0, *sizes[:-1]]))
    last = max(len(text) - 1, 0)
    found = [names[bisect_right(starts, min(offset, last)) - 1] for offset in offsets] if sizes else []
    return [*found, END]


def json_spans(text: str) -> Spans:
    """The parts of a JSON text, however broken; space belongs to what follows it.

    A string value has three parts, because masks bite differently where it begins (its quote and first character),
    inside, and where it ends (the closing quote).
    """
    spans: list[tuple[int, str]] = []
    for start, name in _parts(text):
        if not spans or spans[-1][1] != name:
            spans.append((start, name))
    return spans


def _parts(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    objects: list[bool] = []  # whether each open bracket is an object's
    key_next = False
    while at < len(text):
        start = at
        while at < len(text) and text[at].isspace():
            at += 1
        sign = text[at : at + 1]
        if sign in ("{", "["):
            yield start, "opening"
            objects.append(sign == "{")
            key_next = sign == "{"
        elif sign in ("}", "]"):
            yield start, "closing"
            objects = objects[:-1]
            key_next = False
        elif sign in (":", ","):
            yield start, "separator"
            key_next = sign == "," and bool(objects) and objects[-1]
        elif string := _STRING.match(text, at):
            if key_next:
                yield start, "key"
            else:
                yield from _string_value(start, at, string)
            at = string.end()
            continue
        elif number := _NUMBER.match(text, at):
            yield start, "number value"
            at = number.end()
            continue
        elif word := _WORD.match(text, at):
            yield start, "key" if key_next else "literal"
            at = word.end()
            continue
        elif start < len(text) and at == len(text):
            yield start, "separator"  # space that nothing follows yet
        at += 1


def _string_value(start: int, quote: int, string: re.Match[str]) -> Iterator[tuple[int, str]]:
    """The parts of a string value: "start" from the space before it to its first character."""
    yield start, "string value: start"
    inside, end = quote + 2, string.start("closed") if string["closed"] else string.end()
    if inside < end:
        yield inside, "string value: inside"
    if string["closed"]:
        yield end, "string value: end"
