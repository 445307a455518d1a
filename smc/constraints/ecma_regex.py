"""Regular expressions as JSON Schema writes them (ECMA-262): read into a tree, and turned from search into full match.

Characters are code points and properties are known, as with the flag u. Escapes and braces that only older readers take
(``\\@``, ``a{,3}``, ``[\\w-.]``) are read as those do, since schemas are full of them.
"""

from __future__ import annotations

from typing import Literal, NoReturn

from smc.constraints.character_sets import unicode_property
from smc.constraints.code_points import union
from smc.constraints.regex_tree import (
    ANY_TEXT,
    ANYTHING,
    EMPTY,
    MAX_CODE,
    Alt,
    Anchor,
    Boundary,
    Chars,
    Condition,
    Group,
    Look,
    Ranges,
    Reference,
    Repeat,
    Seq,
    Tree,
    common,
    complement,
    either,
    possible,
    sequence,
)

MAX_SPLITS = 32
"""Most alternatives into which a pattern is taken apart to bring its anchors to its ends."""


class NotEcma(ValueError):
    """A pattern that ECMA-262 does not have; the argument says why, to follow the pattern in a sentence."""


class Untranslatable(ValueError):
    """A pattern that no regular grammar here can follow; the argument names the feature."""


def full_match(pattern: str) -> Tree:
    """The texts in which `pattern` is found, as a regular tree that matches them whole; NOTHING if there are none.

    Raises:
        Untranslatable: lookaround, back references, word boundaries, anchors in the middle.
        NotEcma: the pattern is not understood; the validator has refused it before.
    """
    ways = []
    for start, way, end in _sides(_plain(parse(pattern))):
        ways.append(sequence([*([] if start else [ANY_TEXT]), way, *([] if end else [ANY_TEXT])]))
    return possible(either(ways))


def _plain(tree: Tree) -> Tree:
    """The tree without what only asks how a text is matched, and not which."""
    if isinstance(tree, Group):
        return _plain(tree.item)
    if isinstance(tree, Seq):
        return sequence(map(_plain, tree.items))
    if isinstance(tree, Alt):
        return either(map(_plain, tree.options))
    if isinstance(tree, Repeat):
        return Repeat(_plain(tree.item), tree.least, tree.most)
    if isinstance(tree, Look):
        raise Untranslatable("lookaround")
    if isinstance(tree, Boundary):
        raise Untranslatable("boundary")
    if isinstance(tree, Reference | Condition):
        raise Untranslatable("backreference")
    return tree


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
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_SIMPLE_COUNTS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def parse(pattern: str) -> Tree:
    """The tree of a pattern, as it is searched for.

    Raises:
        NotEcma: it is not understood.
    """
    reader = _Reader(pattern)
    tree = reader.alternatives()
    if reader.at < len(pattern):
        raise NotEcma("closes a group that was never opened")
    for number, name in reader.references:
        if not (name in reader.names if name else number <= reader.groups):
            raise NotEcma(f"refers to group {name or number}, which it does not have")
    if reader.only_with_u and reader.only_without_u:
        raise NotEcma(
            f"uses {reader.only_with_u}, which the flag u brings, and {reader.only_without_u}, which it forbids "
            "(put \\ before - { } ] that stand for themselves, and before no other character that needs none)"
        )
    return tree


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.groups = 0
        self.names: dict[str, int] = {}
        self.closed: set[int] = set()
        self.references: list[tuple[int, str]] = []
        self.only_with_u = ""  # a part that engines read with the flag u alone
        self.only_without_u = ""  # and one that they refuse with it

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, width: int = 1) -> str:
        taken = self.text[self.at : self.at + width]
        if len(taken) < width:
            raise NotEcma("ends in the middle of a class, a group or an escape")
        self.at += width
        return taken

    def eat(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def refuse(self, what: str, begin: int, why: str = "") -> NoReturn:
        raise NotEcma(f"{what} at character {begin}{why and f': {why}'}")

    def alternatives(self) -> Tree:
        options = [self.terms()]
        while self.eat("|"):
            options.append(self.terms())
        return options[0] if len(options) == 1 else either(options)

    def terms(self) -> Tree:
        items: list[Tree] = []
        while self.peek() not in ("", "|", ")"):
            begin = self.at
            if self.counts() is not None:
                self.refuse(f"repeats nothing with {self.text[begin : self.at]}", begin)
            items.append(self.quantified(self.atom()))
        return sequence(items)

    def atom(self) -> Tree:
        begin, c = self.at, self.take()
        if c == "^" or c == "$":
            return Anchor(c == "^")
        if c == ".":
            return _chars(complement(LINE_ENDS))
        if c == "[":
            return self.char_class()
        if c == "(":
            return self.group(begin)
        if c == "\\":
            return self.escape(begin)
        if c in "{}]":
            self.only_without_u = c
        return _chars(((ord(c), ord(c)),))

    def group(self, begin: int) -> Tree:
        if not self.eat("?"):
            return self.captured()
        if self.eat(":"):
            return self.inner()
        for sign, ahead, negative in (("=", True, False), ("!", True, True), ("<=", False, False), ("<!", False, True)):
            if self.eat(sign):
                return Look(self.inner(), ahead, negative)
        if not self.eat("<"):
            self.refuse(
                f"uses {self.text[begin : begin + 3]}",
                begin,
                "that begins no group of ECMA-262 (a name is written (?<name>..); flags, comments and atomic groups it has not)",
            )
        name = self.until(">")
        if not name.replace("$", "_").isidentifier() or name in self.names:
            self.refuse(f"names a group {name!r}", begin, "that is no identifier, or another has the name")
        self.names[name] = self.groups + 1
        return self.captured()

    def captured(self) -> Tree:
        self.groups += 1
        number = self.groups
        tree = Group(self.inner(), number)
        self.closed.add(number)
        return tree

    def inner(self) -> Tree:
        tree = self.alternatives()
        if not self.eat(")"):
            raise NotEcma("opens a group and does not close it")
        return tree

    def until(self, end: str) -> str:
        taken = ""
        while (c := self.take()) != end:
            taken += c
        return taken

    def counts(self) -> tuple[int, int | None] | None:
        """The counts of a repetition; None where none stands, and of a brace that stands for itself."""
        if self.peek() in _SIMPLE_COUNTS:
            return _SIMPLE_COUNTS[self.take()]
        if self.peek() != "{":
            return None
        begin, end = self.at, self.text.find("}", self.at)
        low, comma, high = self.text[begin + 1 : max(end, 0)].partition(",")
        if end < 0 or not _is_number(low) or (high and not _is_number(high)):
            return None
        self.at = end + 1
        least, most = int(low), (int(high) if high else None) if comma else int(low)
        if most is not None and most < least:
            self.refuse(f"repeats at least {least} and at most {most} times", begin)
        return least, most

    def quantified(self, item: Tree) -> Tree:
        begin = self.at
        counts = self.counts()
        if counts is None:
            return item
        bare = isinstance(item, Anchor | Boundary) and self.text[begin - 1] != ")"
        if bare or (isinstance(item, Look) and not item.ahead):
            self.refuse(f"repeats an assertion with {self.text[begin : self.at]}", begin)
        if isinstance(item, Look) and self.text[begin - 1] == ")":
            self.only_without_u = f"a repeated lookahead {self.text[begin : self.at]}"
        mode: Literal["", "?"] = "?" if self.eat("?") else ""
        return item if counts == (1, 1) else Repeat(item, *counts, mode)

    def escape(self, begin: int) -> Tree:
        c = self.peek()
        if c and c in "bB":
            self.take()
            return Boundary(WORD, c == "B")
        if c and c in "123456789":
            digits = self.take()
            while self.peek() and self.peek() in "0123456789":
                digits += self.take()
            return self.reference(int(digits), "")
        if c == "k":
            self.take()
            if not self.eat("<"):
                self.refuse("uses \\k without a name in <>", begin)
            return self.reference(0, self.until(">"))
        return _chars(self.member_escape(begin, in_class=False))

    def reference(self, number: int, name: str) -> Tree:
        """The text of a group; nothing, if the group matched nothing so far."""
        self.references.append((number, name))
        number = self.names.get(name, 0) if name else number
        if number not in self.closed:  # what comes later has always been forgotten
            return EMPTY
        return Condition(number, Reference(number), EMPTY)

    def member_escape(self, begin: int, in_class: bool) -> Ranges:
        """What an escape stands for in a class, and outside if it stands for characters."""
        c = self.take()
        if c in "dDwWsS":
            ranges = _CLASSES[c.lower()]
            return ranges if c.islower() else complement(ranges)
        if c in "pP":
            ranges = self.property(begin)
            return ranges if c == "p" else complement(ranges)
        code = self.code(c, begin, in_class)
        return ((code, code),)

    def property(self, begin: int) -> Ranges:
        if not self.eat("{"):
            self.refuse(f"uses {self.text[begin : begin + 2]} without a property in braces", begin)
        name = self.until("}")
        self.only_with_u = self.text[begin : self.at]
        key, equals, value = name.partition("=")
        ranges = None
        if (equals and key in _KEYED and _is_name(value)) or name in ("Any", "ASCII", "Assigned"):
            ranges = unicode_property(name)
        elif _is_name(name):
            ranges = unicode_property(f"gc={name}") or unicode_property(f"{name}=Yes")
        if ranges is None:
            self.refuse(
                f"uses the Unicode property {name!r}",
                begin,
                r"ECMA-262 has none of that name (a script is written \p{Script=Greek})",
            )
        return ranges

    def code(self, c: str, begin: int, in_class: bool) -> int:
        """The one character of an escape."""
        if c in _CONTROLS:
            return _CONTROLS[c]
        if c == "0" and not (self.peek() and self.peek() in "0123456789"):
            return 0
        if c == "x":
            return self.hex(self.take(2), begin)
        if c == "c" and self.peek().isascii() and self.peek().isalpha():
            return ord(self.take()) % 32
        if c == "u":
            if self.eat("{"):
                code = self.hex(self.until("}"), begin)
                self.only_with_u = self.text[begin : self.at]
                return code
            code = self.hex(self.take(4), begin)
            if 0xD800 <= code < 0xDC00 and self.text.startswith("\\u", self.at):
                low = self.text[self.at + 2 : self.at + 6]
                if len(low) == 4 and low[0] in "dD" and low[1] in "cdefCDEF":
                    self.at += 6
                    return 0x10000 + ((code - 0xD800) << 10) + (self.hex(low, begin) - 0xDC00)
            return code
        if c.isascii() and c.isalnum():
            self.refuse(
                f"uses {self.text[begin : self.at]}",
                begin,
                "ECMA-262 does not have it: write what it should match in another way (JSON Schema's ^ and $ are the ends of the "
                "whole string)",
            )
        if c not in "^$\\.*+?()[]{}|/" and not (c == "-" and in_class):
            self.only_without_u = f"\\{c}"
        return ord(c)

    def hex(self, digits: str, begin: int) -> int:
        if not digits or not set(digits) <= set("0123456789abcdefABCDEF"):
            self.refuse(f"uses {self.text[begin : self.at]}", begin, "its digits are not hexadecimal")
        if int(digits, 16) > MAX_CODE:
            self.refuse(f"names the character {digits}", begin, "the last is 10FFFF")
        return int(digits, 16)

    def char_class(self) -> Tree:
        denied = self.eat("^")
        ranges: list[tuple[int, int]] = []
        while not self.eat("]"):
            begin = self.at
            low, single = self.member()
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                hyphen = self.at
                self.take()
                high, ends = self.member()
                if single and ends:
                    if low[0][0] > high[0][0]:
                        self.refuse(f"has the range {self.text[begin : self.at]}", begin, "it ends before it begins")
                    ranges.append((low[0][0], high[0][0]))
                    if high[0][0] > 0xFFFF:
                        self.only_with_u = f"the range {self.text[begin : self.at]}"
                    continue
                self.at = hyphen  # a set ends no range: the hyphen stands for itself, and is read as the next member
                self.only_without_u = "a hyphen beside a set"
            ranges.extend(low)
        return _chars(complement(union(ranges)) if denied else union(ranges))

    def member(self) -> tuple[Ranges, bool]:
        """A member of a class, and whether it is one character."""
        begin, c = self.at, self.take()
        if c != "\\":
            return ((ord(c), ord(c)),), True
        if self.eat("b"):
            return ((8, 8),), True
        kind = self.peek()
        return self.member_escape(begin, in_class=True), kind not in ("d", "D", "w", "W", "s", "S", "p", "P")


_KEYED = ("General_Category", "gc", "Script", "sc", "Script_Extensions", "scx")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _is_name(text: str) -> bool:
    return text.isascii() and text.replace("_", "").isalnum()
