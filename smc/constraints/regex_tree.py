"""Regular expressions as trees, over sets of code points.

Two dialects are read into these trees (`python_regex`, `ecma_regex`), and the engines' patterns are written from them
(`spelled`, `grammar`, the strings of JSON), so that no engine sees the syntax of a user.

A tree is *regular* if it is made of characters, sequences, alternatives and repetitions alone. The other parts are what no
automaton can do, or needs to: `regex_rewrite` and `ecma_regex` take them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from smc.constraints.code_points import Ranges, union

MAX_CODE = 0x10FFFF


@dataclass(frozen=True)
class Chars:
    """One character out of ranges of code points (in order, apart from one another)."""

    ranges: Ranges


@dataclass(frozen=True)
class Seq:
    """One after the other; empty for the empty text."""

    items: tuple[Tree, ...]


@dataclass(frozen=True)
class Alt:
    """One of several."""

    options: tuple[Tree, ...]


@dataclass(frozen=True)
class Mark:
    """Where a part stands in the pattern, and how it is written there."""

    at: int
    text: str


NOWHERE = Mark(0, "")


@dataclass(frozen=True)
class Repeat:
    """From `least` to `most` times (None: without end); as many as possible, as few ("?"), or as many and never fewer ("+")."""

    item: Tree
    least: int
    most: int | None
    mode: Literal["", "?", "+"] = ""
    mark: Mark = NOWHERE


@dataclass(frozen=True)
class Anchor:
    """The beginning or the end of the text, of a line, or of the text less a last newline."""

    start: bool
    of: Literal["text", "line", "last line"] = "text"
    mark: Mark = NOWHERE


@dataclass(frozen=True)
class Group:
    """A group whose text can be referred to."""

    item: Tree
    number: int


@dataclass(frozen=True)
class Reference:
    """The text that a group matched, in either case if `ignore_case`."""

    number: int
    ignore_case: bool = False
    mark: Mark = NOWHERE


@dataclass(frozen=True)
class Condition:
    """One of two, by whether a group has matched."""

    number: int
    yes: Tree
    no: Tree
    mark: Mark = NOWHERE


@dataclass(frozen=True)
class Look:
    """Text that must (or must not) follow, or stand before."""

    item: Tree
    ahead: bool
    negative: bool
    mark: Mark = NOWHERE


@dataclass(frozen=True)
class Boundary:
    """A place between a character of `word` and one that is none (or the text's end); `inside`: any other place.

    Attributes:
        holds_in_nothing: whether the one place of the empty text is such an other place.
    """

    word: Ranges
    inside: bool
    holds_in_nothing: bool = True
    mark: Mark = NOWHERE


@dataclass(frozen=True)
class Atomic:
    """What is matched first, for good."""

    item: Tree
    mark: Mark = NOWHERE


Tree = Chars | Seq | Alt | Repeat | Anchor | Group | Reference | Condition | Look | Boundary | Atomic

EMPTY = Seq(())
SURROGATES: Ranges = ((0xD800, 0xDFFF),)
"""Halves of a UTF-16 pair: no characters, so no text holds one."""

ANYTHING: Ranges = ((0, SURROGATES[0][0] - 1), (SURROGATES[0][1] + 1, MAX_CODE))
NOTHING = Chars(())
"""No text at all."""

ANY_TEXT = Repeat(Chars(ANYTHING), 0, None)


def widths(tree: Tree) -> tuple[int, int | None]:
    """The fewest and the most characters of a tree."""
    if isinstance(tree, Chars):
        return 1, 1
    if isinstance(tree, Anchor | Look | Boundary):
        return 0, 0
    if isinstance(tree, Reference):
        return 0, None
    if isinstance(tree, Group | Atomic):
        return widths(tree.item)
    if isinstance(tree, Repeat):
        low, high = widths(tree.item)
        most = 0 if high == 0 or tree.most == 0 else None if high is None or tree.most is None else high * tree.most
        return low * tree.least, most
    if isinstance(tree, Seq):
        both = [widths(item) for item in tree.items]
        highs = [high for _, high in both]
        return sum(low for low, _ in both), None if None in highs else sum(high or 0 for high in highs)
    both = [widths(option) for option in (tree.options if isinstance(tree, Alt) else (tree.yes, tree.no))]
    highs = [high for _, high in both]
    return min(low for low, _ in both), None if None in highs else max(high or 0 for high in highs)


def within(tree: Tree, least: int, most: int | None) -> Tree | None:
    """The texts of a regular `tree` with `least` to `most` characters, if they have a simple form; None if they have not.

    Simple are trees in which at most one repetition of a character has no fixed length.
    """
    low, high = widths(tree)
    if low >= least and (most is None or (high is not None and high <= most)):
        return tree
    if isinstance(tree, Alt):
        options = [within(option, least, most) for option in tree.options if not _outside(option, least, most)]
        kept = [option for option in options if option is not None]
        return either(kept) if kept and len(kept) == len(options) else None
    items: list[Tree] = list(tree.items) if isinstance(tree, Seq) else [tree]
    loose = [i for i, item in enumerate(items) if len(set(widths(item))) > 1]
    if len(loose) != 1:
        return None
    item = items[loose[0]]
    fixed = sum(widths(other)[0] for i, other in enumerate(items) if i != loose[0])
    if isinstance(item, Repeat) and isinstance(item.item, Chars):
        fewest = max(item.least, least - fixed)
        limits = [limit for limit in (item.most, None if most is None else most - fixed) if limit is not None]
        if limits and min(limits) < fewest:
            return None
        items[loose[0]] = Repeat(item.item, fewest, min(limits) if limits else None)
        return sequence(items)
    inner = within(item, max(0, least - fixed), None if most is None else most - fixed) if item != tree else None
    if inner is None:
        return None
    items[loose[0]] = inner
    return sequence(items)


def _outside(tree: Tree, least: int, most: int | None) -> bool:
    low, high = widths(tree)
    return (most is not None and low > most) or (high is not None and high < least)


def nonempty(tree: Tree) -> Tree | None:
    """The texts of a regular `tree` without the empty one; None if there are no others."""
    if isinstance(tree, Chars):
        return tree
    if isinstance(tree, Repeat):
        item = nonempty(tree.item)
        if item is None or tree.most == 0:
            return None
        if widths(tree.item)[0] == 0:
            return Repeat(item, 1, tree.most)
        return Repeat(item, max(1, tree.least), tree.most)
    if isinstance(tree, Alt):
        options = [option for option in map(nonempty, tree.options) if option is not None]
        return either(options) if options else None
    assert isinstance(tree, Seq), tree
    if not tree.items:
        return None
    if widths(tree)[0]:
        return tree
    first, rest = nonempty(tree.items[0]), Seq(tree.items[1:])
    ways = [] if first is None else [sequence([first, rest])]
    later = nonempty(rest)
    return either(ways + ([] if later is None else [later])) if ways or later is not None else None


def possible(tree: Tree) -> Tree:
    """The same texts of a regular `tree`, without the ways that need a character out of none; NOTHING if there are no others."""
    if isinstance(tree, Repeat):
        item = possible(tree.item)
        if item == NOTHING:
            return NOTHING if tree.least else EMPTY
        return Repeat(item, tree.least, tree.most)
    if isinstance(tree, Seq):
        items = [possible(item) for item in tree.items]
        return NOTHING if NOTHING in items else sequence(items)
    if isinstance(tree, Alt):
        options = [option for option in map(possible, tree.options) if option != NOTHING]
        return either(options) if options else NOTHING
    return tree


def text_tree(text: str) -> Tree:
    """Exactly `text`."""
    return sequence(Chars(((ord(char), ord(char)),)) for char in text)


def sequence(items: Iterable[Tree]) -> Tree:
    """Items one after the other, nested sequences opened."""
    flat: list[Tree] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Seq) else [item])
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def either(options: Iterable[Tree]) -> Tree:
    """One of several, nested alternatives opened and equal ones merged, single characters united."""
    flat: dict[Tree, None] = {}
    for option in options:
        flat.update(dict.fromkeys(option.options if isinstance(option, Alt) else [option]))
    chars = [option for option in flat if isinstance(option, Chars)]
    if len(chars) > 1:
        united = Chars(union(r for option in chars for r in option.ranges))
        flat = {united: None} | {option: None for option in flat if option not in chars}
    return next(iter(flat)) if len(flat) == 1 else Alt(tuple(flat))


def complement(ranges: Ranges) -> Ranges:
    """All other code points."""
    result, at = [], 0
    for low, high in union(ranges):
        if low > at:
            result.append((at, low - 1))
        at = high + 1
    if at <= MAX_CODE:
        result.append((at, MAX_CODE))
    return tuple(result)


def common(a: Ranges, b: Ranges) -> Ranges:
    """The code points in both."""
    return union((max(x[0], y[0]), min(x[1], y[1])) for x in a for y in b if max(x[0], y[0]) <= min(x[1], y[1]))


def spelled(tree: Tree) -> str:
    """A regular tree as a pattern for a full match, in syntax that Rust's engines and Python's share."""
    if isinstance(tree, Chars):
        return _class(tree.ranges)
    if isinstance(tree, Repeat):
        return f"(?:{spelled(tree.item)}){{{tree.least},{'' if tree.most is None else tree.most}}}"
    if isinstance(tree, Alt):
        return f"(?:{'|'.join(map(spelled, tree.options))})"
    assert isinstance(tree, Seq), tree
    return "".join(map(spelled, tree.items))


def _class(ranges: Ranges) -> str:
    if not ranges:
        return f"[^{_code(0)}-{_code(MAX_CODE)}]"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _code(ranges[0][0])
    return "[" + "".join(_code(low) + (f"-{_code(high)}" if high > low else "") for low, high in ranges) + "]"


def _code(code: int) -> str:
    char = chr(code)
    return f"\\x{code:02x}" if char.isascii() and not char.isalnum() else char
