"""Regular expressions as JSON Schema writes them (ECMA 262): read into a tree, and turned from search into full match."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MAX_CODE = 0x10FFFF
MAX_SPLITS = 32
"""Most alternatives into which a pattern is taken apart to bring its anchors to its ends."""

Ranges = tuple[tuple[int, int], ...]


class Untranslatable(ValueError):
    """A pattern that no regular grammar here can follow; the argument names the feature."""


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
ANYTHING: Ranges = ((0, MAX_CODE),)
ANY_TEXT = Repeat(Chars(ANYTHING), 0, None)


def full_match(pattern: str) -> Tree:
    """The texts in which `pattern` is found, as a tree without anchors that matches them whole.

    Raises:
        Untranslatable: lookaround, back references, word boundaries, Unicode properties, anchors in the middle, or syntax
            that is not understood.
    """
    ways = []
    for start, tree, end in _sides(parse(pattern)):
        ways.append(sequence([*([] if start else [ANY_TEXT]), tree, *([] if end else [ANY_TEXT])]))
    return either(ways)


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


def _sides(tree: Tree) -> list[tuple[bool, Tree, bool]]:
    """`tree` as alternatives without anchors: (must begin the text, what is matched, must end the text)."""
    if isinstance(tree, Anchor):
        return [(tree.start, EMPTY, not tree.start)]
    if isinstance(tree, Alt):
        ways = [way for option in tree.options for way in _sides(option)]
    elif isinstance(tree, Seq):
        ways = [(False, EMPTY, False)]
        for item in tree.items:
            ways = [_joined(left, right) for left in ways for right in _sides(item)]
            if len(ways) > MAX_SPLITS:
                raise Untranslatable("anchor")
    elif isinstance(tree, Repeat):
        inner = _sides(tree.item)
        if inner == [(False, tree.item, False)] or not any(start or end for start, _, end in inner):
            return [(False, tree, False)]
        if (tree.least, tree.most) == (0, 1):
            ways = [(False, EMPTY, False), *inner]
        else:
            raise Untranslatable("anchor")
    else:
        return [(False, tree, False)]
    if not any(start or end for start, _, end in ways):
        return [(False, tree, False)]
    return ways


def _joined(left: tuple[bool, Tree, bool], right: tuple[bool, Tree, bool]) -> tuple[bool, Tree, bool]:
    if (left[2] and right[1] != EMPTY) or (right[0] and left[1] != EMPTY):
        raise Untranslatable("anchor")
    return left[0] or right[0], sequence([left[1], right[1]]), left[2] or right[2]


# Sets of characters.


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


DIGITS: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_BLANKS = (0x20, 0xA0, 0x1680, 0x202F, 0x205F, 0x3000, 0xFEFF)
SPACE: Ranges = union([(9, 13), (0x2000, 0x200A), (0x2028, 0x2029), *((code, code) for code in _BLANKS)])
LINE_ENDS: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CLASSES = {"d": DIGITS, "w": WORD, "s": SPACE}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}


def parse(pattern: str) -> Tree:
    """The tree of a pattern, anchors included.

    Raises:
        Untranslatable: see `full_match`.
    """
    reader = _Reader(pattern)
    tree = reader.alternatives()
    if reader.at < len(pattern):
        raise Untranslatable("syntax")
    return tree


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, width: int = 1) -> str:
        taken = self.text[self.at : self.at + width]
        if len(taken) < width:
            raise Untranslatable("syntax")
        self.at += width
        return taken

    def eat(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def alternatives(self) -> Tree:
        options = [self.terms()]
        while self.eat("|"):
            options.append(self.terms())
        return options[0] if len(options) == 1 else either(options)

    def terms(self) -> Tree:
        items: list[Tree] = []
        while self.peek() not in ("", "|", ")"):
            items.append(self.quantified(self.atom()))
        return sequence(items)

    def atom(self) -> Tree:
        c = self.take()
        if c == "^" or c == "$":
            return Anchor(c == "^")
        if c == ".":
            return Chars(complement(LINE_ENDS))
        if c == "[":
            return self.char_class()
        if c == "(":
            return self.group()
        if c == "\\":
            return Chars(self.escape(in_class=False))
        if c in "*+?":
            raise Untranslatable("syntax")
        return Chars(((ord(c), ord(c)),))

    def group(self) -> Tree:
        if self.eat("?"):
            if self.eat("<"):
                if self.peek() in ("=", "!"):
                    raise Untranslatable("lookaround")
                while self.take() != ">":
                    pass
            elif not self.eat(":"):
                raise Untranslatable("lookaround" if self.peek() in ("=", "!") else "syntax")
        tree = self.alternatives()
        if not self.eat(")"):
            raise Untranslatable("syntax")
        return tree

    def quantified(self, item: Tree) -> Tree:
        counts = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self.peek() in counts and self.peek():
            least, most = counts[self.take()]
        elif self.peek() == "{":
            end = self.text.find("}", self.at)
            low, comma, high = self.text[self.at + 1 : max(end, 0)].partition(",")
            if end < 0 or not low.isdecimal() or (high and not high.isdecimal()):
                if low.isdecimal():
                    raise Untranslatable("syntax")
                return item  # a brace that stands for itself, read as the next atom
            self.at = end + 1
            least, most = int(low), (int(high) if high else None) if comma else int(low)
        else:
            return item
        self.eat("?")  # reluctance does not change what is matched
        if self.peek() in ("*", "+", "?") and self.peek():
            raise Untranslatable("syntax")
        if isinstance(item, Anchor) or (most is not None and most < least):
            raise Untranslatable("syntax")
        return item if (least, most) == (1, 1) else Repeat(item, least, most)

    def escape(self, in_class: bool) -> Ranges:
        c = self.take()
        if c.lower() in _CLASSES:
            ranges = _CLASSES[c.lower()]
            return ranges if c.islower() else complement(ranges)
        if c in "pP" or (c in "kK" and not in_class):
            raise Untranslatable("property" if c in "pP" else "backreference")
        if c in "bB" and not in_class:
            raise Untranslatable("boundary")
        if c in "123456789" and not in_class:
            raise Untranslatable("backreference")
        if c in "AZzGQE":
            raise Untranslatable("syntax")  # anchors of other dialects
        code = self.code(c)
        return ((code, code),)

    def code(self, c: str) -> int:
        if c in _CONTROLS:
            return _CONTROLS[c]
        if c == "b":
            return 8
        if c == "x":
            return self.hex(self.take(2))
        if c == "c":
            return ord(self.take()) % 32
        if c == "u":
            if self.eat("{"):
                digits = ""
                while (d := self.take()) != "}":
                    digits += d
                return self.hex(digits)
            code = self.hex(self.take(4))
            if 0xD800 <= code < 0xDC00 and self.text.startswith("\\u", self.at):
                low = self.hex(self.text[self.at + 2 : self.at + 6])
                if 0xDC00 <= low < 0xE000:
                    self.at += 6
                    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            return code
        if c.isalnum():
            raise Untranslatable("syntax")
        return ord(c)

    def hex(self, digits: str) -> int:
        try:
            code = int(digits, 16)
        except ValueError:
            raise Untranslatable("syntax") from None
        if code > MAX_CODE:
            raise Untranslatable("syntax")
        return code

    def char_class(self) -> Tree:
        negated = self.eat("^")
        ranges: list[tuple[int, int]] = []
        if self.peek() == "]":
            raise Untranslatable("syntax")  # dialects differ on an empty class
        while not self.eat("]"):
            low = self.member()
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.take()
                high = self.member()
                if low[0][0] != low[-1][1] or high[0][0] != high[-1][1] or low[0][0] > high[0][0]:
                    raise Untranslatable("syntax")
                ranges.append((low[0][0], high[0][0]))
            else:
                ranges.extend(low)
        whole = union(ranges)
        whole = complement(whole) if negated else whole
        if not whole:
            raise Untranslatable("syntax")
        return Chars(whole)

    def member(self) -> Ranges:
        c = self.take()
        if c == "\\":
            return self.escape(in_class=True)
        if c == "[":
            ahead = self.peek()
            if ahead in (":", ".", "="):
                raise Untranslatable("syntax")
        return ((ord(c), ord(c)),)


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
