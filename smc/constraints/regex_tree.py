"""Regular expressions as trees, over sets of code points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MAX_CODE = 0x10FFFF
Ranges = tuple[tuple[int, int], ...]


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
class Repeat:
    """From `least` to `most` times (None: without end)."""

    item: Tree
    least: int
    most: int | None


@dataclass(frozen=True)
class Anchor:
    """The beginning or the end of the text."""

    start: bool


Tree = Chars | Seq | Alt | Repeat | Anchor

EMPTY = Seq(())
SURROGATES: Ranges = ((0xD800, 0xDFFF),)
"""Halves of a UTF-16 pair: no characters, so no text holds one."""

ANYTHING: Ranges = ((0, SURROGATES[0][0] - 1), (SURROGATES[0][1] + 1, MAX_CODE))
NOTHING = Chars(())
"""No text at all."""

ANY_TEXT = Repeat(Chars(ANYTHING), 0, None)


def widths(tree: Tree) -> tuple[int, int | None]:
    """The fewest and the most characters of a tree without anchors."""
    if isinstance(tree, Chars):
        return 1, 1
    if isinstance(tree, Repeat):
        low, high = widths(tree.item)
        most = 0 if high == 0 or tree.most == 0 else None if high is None or tree.most is None else high * tree.most
        return low * tree.least, most
    if isinstance(tree, Anchor):
        return 0, 0
    if isinstance(tree, Seq):
        both = [widths(item) for item in tree.items]
        highs = [high for _, high in both]
        return sum(low for low, _ in both), None if None in highs else sum(high or 0 for high in highs)
    both = [widths(option) for option in tree.options]
    highs = [high for _, high in both]
    return min(low for low, _ in both), None if None in highs else max(high or 0 for high in highs)


def within(tree: Tree, least: int, most: int | None) -> Tree | None:
    """The texts of `tree` with `least` to `most` characters, if they have a simple form; None if they have not.

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
    """The texts of `tree` without the empty one; None if there are no others."""
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
    if isinstance(tree, Anchor) or not tree.items:
        return None
    if widths(tree)[0]:
        return tree
    first, rest = nonempty(tree.items[0]), Seq(tree.items[1:])
    ways = [] if first is None else [sequence([first, rest])]
    later = nonempty(rest)
    return either(ways + ([] if later is None else [later])) if ways or later is not None else None


def possible(tree: Tree) -> Tree:
    """The same texts, without the ways that need a character out of none; NOTHING if there are no others."""
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


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges in order, overlapping and touching ones merged."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


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
    """A tree without anchors as a pattern for a full match, in syntax that Rust's and Python's engines share."""
    if isinstance(tree, Chars):
        return "[" + "".join(_code(low) + (f"-{_code(high)}" if high > low else "") for low, high in tree.ranges) + "]"
    if isinstance(tree, Repeat):
        return f"(?:{spelled(tree.item)}){{{tree.least},{'' if tree.most is None else tree.most}}}"
    if isinstance(tree, Alt):
        return f"(?:{'|'.join(map(spelled, tree.options))})"
    assert isinstance(tree, Seq), "an anchor"
    return "".join(map(spelled, tree.items))


def _code(code: int) -> str:
    c = chr(code)
    return (
        c
        if c.isascii() and c.isalnum()
        else f"\\x{code:02x}"
        if code < 256
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )
