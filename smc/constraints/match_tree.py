"""Patterns of Python's `re`, read by `re` itself, as trees over sets of characters.

Unlike those of :mod:`smc.constraints.regex_tree`, these keep what decides between several matches of one text: the order of
alternatives and whether a repetition is lazy.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from smc.constraints.code_points import LAST, Ranges, complement, merged, shorthand


@dataclass(frozen=True)
class Chars:
    """One character out of a set."""

    ranges: Ranges


@dataclass(frozen=True)
class Seq:
    """One after the other; empty for the empty text."""

    items: tuple[Match, ...]


@dataclass(frozen=True)
class Alt:
    """The first of several that leads to a match."""

    options: tuple[Match, ...]


@dataclass(frozen=True)
class Repeat:
    """From `least` to `most` times (None: without end), as often as possible or, if `lazy`, as seldom."""

    item: Match
    least: int
    most: int | None
    lazy: bool


@dataclass(frozen=True)
class After:
    """Nothing, where the character before is one of a set."""

    ranges: Ranges


Match = Chars | Seq | Alt | Repeat | After


def nullable(tree: Match) -> bool:
    """Whether the empty text is one of a tree's."""
    if isinstance(tree, Seq):
        return all(map(nullable, tree.items))
    if isinstance(tree, Alt):
        return any(map(nullable, tree.options))
    if isinstance(tree, Repeat):
        return tree.least == 0 or nullable(tree.item)
    return isinstance(tree, After)


@dataclass(frozen=True)
class Reading:
    """A pattern as a tree.

    Attributes:
        tree: texts of the pattern, and more where something was dropped.
        dropped: what the tree does not say, as it was written or nearly so: assertions, back-references, atomic groups.
    """

    tree: Match
    dropped: tuple[str, ...]


@lru_cache(maxsize=1024)
def read(pattern: str) -> Reading:
    """The tree of a pattern.

    Raises:
        re.error: Python cannot read it. RecursionError: it is nested too deeply.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of sets in classes, which Python does not have
        parsed = parser.parse(pattern)
    reader = _Reader()
    tree = reader.sequence(parsed, parsed.state.flags)
    return Reading(tree, tuple(dict.fromkeys(reader.dropped)))


@dataclass
class _Reader:
    dropped: list[str] = field(default_factory=list)
    groups: dict[int, Match] = field(default_factory=dict)

    def sequence(self, items: Iterable[Any], flags: int) -> Match:
        read = [self.item(op, argument, flags) for op, argument in items]
        return read[0] if len(read) == 1 else Seq(tuple(read))

    def item(self, op: Any, argument: Any, flags: int) -> Match:
        if op in (sre.LITERAL, sre.NOT_LITERAL):
            return _class([(sre.LITERAL, argument)], op is sre.NOT_LITERAL, flags)
        if op is sre.ANY:
            return Chars(complement(() if flags & re.DOTALL else ((10, 10),)))
        if op is sre.IN:
            negated = argument[0][0] is sre.NEGATE
            return _class(argument[negated:], negated, flags)
        if op is sre.BRANCH:
            return Alt(tuple(self.sequence(option, flags) for option in argument[1]))
        if op is sre.SUBPATTERN:
            number, added, removed, inner = argument
            tree = self.sequence(inner, flags & ~removed | added)
            if number is not None:
                self.groups[number] = tree
            return tree
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, inner = argument
            if op is sre.POSSESSIVE_REPEAT:
                self.dropped.append("a possessive repetition")
            end = None if most == sre.MAXREPEAT else int(most)
            tree = self.sequence(inner, flags)
            if end != 1 and nullable(tree):  # Python ends a repetition that gets nowhere, in ways of its own
                self.dropped.append("a repetition of what may be empty")
            return Repeat(tree, int(least), end, op is sre.MIN_REPEAT)
        if op is sre.ATOMIC_GROUP:
            self.dropped.append("(?>..)")
            return self.sequence(argument, flags)
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            direction, inner = argument
            return self._look(op is sre.ASSERT, direction, inner, flags)
        if op is sre.GROUPREF:
            self.dropped.append("a back-reference")
            return self.groups[argument]
        if op is sre.GROUPREF_EXISTS:
            self.dropped.append("(?(..)..|..)")
            _, yes, no = argument
            return Alt((self.sequence(yes, flags), self.sequence(no or (), flags)))
        if op is sre.AT:
            self.dropped.append(_ANCHORS[argument])
            return Seq(())
        return Chars(())  # what cannot match: (?!)

    def _look(self, wanted: bool, direction: int, inner: Any, flags: int) -> Match:
        kept = len(self.dropped)
        tree = self.sequence(inner, flags)
        del self.dropped[kept:]
        if direction < 0 and isinstance(tree, Chars):
            return After(tree.ranges if wanted else complement(tree.ranges))
        self.dropped.append(f"(?{'<' if direction < 0 else ''}{'=' if wanted else '!'}..)")
        return Seq(())


_ANCHORS = {
    sre.AT_BEGINNING: "^",
    sre.AT_BEGINNING_STRING: r"\A",
    sre.AT_BOUNDARY: r"\b",
    sre.AT_NON_BOUNDARY: r"\B",
    sre.AT_END: "$",
    sre.AT_END_STRING: r"\Z",
}

_LETTERS = {
    sre.CATEGORY_DIGIT: "d",
    sre.CATEGORY_NOT_DIGIT: "D",
    sre.CATEGORY_SPACE: "s",
    sre.CATEGORY_NOT_SPACE: "S",
    sre.CATEGORY_WORD: "w",
    sre.CATEGORY_NOT_WORD: "W",
}

_ASCII: dict[str, Ranges] = {"d": ((48, 57),), "s": ((9, 13), (32, 32)), "w": ((48, 57), (65, 90), (95, 95), (97, 122))}


def _category(category: Any, flags: int) -> Ranges:
    letter = _LETTERS[category]
    if not flags & re.ASCII:
        return shorthand(letter)
    return _ASCII[letter] if letter in _ASCII else complement(_ASCII[letter.lower()])


def _class(members: Iterable[tuple[Any, Any]], negated: bool, flags: int) -> Chars:
    """A class of literals, ranges and categories. Under IGNORECASE, categories stay as they are."""
    written, named = list[tuple[int, int]](), list[tuple[int, int]]()
    for op, argument in members:
        if op in (sre.LITERAL, sre.RANGE):
            written.append((argument, argument) if op is sre.LITERAL else argument)
        else:
            named += _category(argument, flags)
    if flags & re.IGNORECASE and written:
        written += _either_case(merged(written), flags & re.ASCII)
    whole = merged([*written, *named])
    return Chars(complement(whole) if negated else whole)


@lru_cache(maxsize=256)
def _either_case(ranges: Ranges, ascii_only: int) -> Ranges:
    """What a class under IGNORECASE has of the characters that have a case: Python is asked."""
    listed = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
    matches = re.compile(f"[{listed}]", re.IGNORECASE | ascii_only).match
    return merged((code, code) for code in _cased() if matches(chr(code)))


@cache
def _cased() -> tuple[int, ...]:
    """Code points of the characters that are changed by some change of case."""
    return tuple(
        code
        for code in range(LAST + 1)
        if (char := chr(code)).lower() != char or char.upper() != char or char.casefold() != char
    )
