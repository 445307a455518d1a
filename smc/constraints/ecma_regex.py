"""Regular expressions as JSON Schema writes them (ECMA 262): read into a tree, and turned from search into full match."""

from __future__ import annotations

from smc.constraints.regex_tree import (
    ANY_TEXT,
    ANYTHING,
    EMPTY,
    MAX_CODE,
    Alt,
    Anchor,
    Chars,
    Ranges,
    Repeat,
    Seq,
    Tree,
    common,
    complement,
    either,
    possible,
    sequence,
    union,
)

MAX_SPLITS = 32
"""Most alternatives into which a pattern is taken apart to bring its anchors to its ends."""


class Untranslatable(ValueError):
    """A pattern that no regular grammar here can follow; the argument names the feature."""


def full_match(pattern: str) -> Tree:
    """The texts in which `pattern` is found, as a tree without anchors that matches them whole; NOTHING if there are none.

    Raises:
        Untranslatable: lookaround, back references, word boundaries, Unicode properties, anchors in the middle, or syntax
            that is not understood.
    """
    ways = []
    for start, tree, end in _sides(parse(pattern)):
        ways.append(sequence([*([] if start else [ANY_TEXT]), tree, *([] if end else [ANY_TEXT])]))
    return possible(either(ways))


def _chars(ranges: Ranges) -> Chars:
    """One character of `ranges`. A lone surrogate is none: with a class of nothing else, no text matches."""
    return Chars(common(ranges, ANYTHING))


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
            return _chars(complement(LINE_ENDS))
        if c == "[":
            return self.char_class()
        if c == "(":
            return self.group()
        if c == "\\":
            return _chars(self.escape(in_class=False))
        if c in "*+?":
            raise Untranslatable("syntax")
        return _chars(((ord(c), ord(c)),))

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
        return _chars(whole)

    def member(self) -> Ranges:
        c = self.take()
        if c == "\\":
            return self.escape(in_class=True)
        if c == "[":
            ahead = self.peek()
            if ahead in (":", ".", "="):
                raise Untranslatable("syntax")
        return ((ord(c), ord(c)),)
