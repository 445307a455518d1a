"""Regular expressions as Python writes them, read into a tree.

The syntax is that of `re`, flags included, and with it what people write who know the `regex` package or another dialect:
Unicode properties (``\\p{L}``, ``\\P{Lu}``, ``\\p{Script=Greek}``), ``[[:alpha:]]``, ``(?<name>..)``, ``\\u{1F600}``, ``\\x{e9}``,
``\\z``, lookbehind of any width, and ``[\\w-.]`` with a hyphen that can make no range. Whatever else `re` refuses is refused
here, in words. Every set of characters is a list of code points in the tree, so that nothing which reads the tree depends on
flags or tables.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, NoReturn

from smc.constraints.character_sets import either_case, posix_class, shorthand, unicode_property
from smc.constraints.code_points import LAST, Ranges, complement, merged
from smc.constraints.regex_tree import (
    EMPTY,
    Anchor,
    Atomic,
    Boundary,
    Chars,
    Condition,
    Group,
    Look,
    Mark,
    Reference,
    Repeat,
    Tree,
    either,
    sequence,
)

FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII}
"""The flags that are understood, by their letters. Unicode is the default, and has no effect of its own."""

NO_FLAGS: frozenset[str] = frozenset()

_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_EVERYTHING: Ranges = complement(())
_NEWLINE: Ranges = ((10, 10),)
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_NAME = re.compile(r"\w+")
_MOST = 2**32 - 2
"""The largest count of a repetition in `re`."""

# Whether the one place of the empty text is a place inside: to `re` it is from Python 3.14 on.
_HOLDS_IN_NOTHING = re.fullmatch(r"\B", "") is not None


class Unreadable(ValueError):
    """A pattern with a part that is not understood.

    The argument says what is wrong and where, to follow the name of the pattern in a sentence.
    """


def parse(pattern: str, flags: frozenset[str] = NO_FLAGS) -> Tree:
    """The tree of a pattern.

    Args:
        pattern: the regex; it may begin with flags of its own.
        flags: letters of FLAGS.

    Raises:
        Unreadable: it is not understood.
    """
    reader = _Reader(pattern)
    tree = reader.alternatives(flags, outermost=True)
    if reader.at < len(pattern):
        reader.refuse("closes a group that was never opened")
    reader.check_conditions()
    return tree


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.names: dict[str, int] = {}
        self.groups = 0
        self.open: set[int] = set()
        self.conditions: list[tuple[int, int]] = []  # (group, place)

    # ------------------------------------------------------------------ characters

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        char = self.peek()
        if not char:
            self.refuse("ends where something must follow")
        self.at += 1
        return char

    def eat(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def until(self, end: str, what: str, begin: int) -> str:
        """The text up to `end`, which is taken too."""
        found = self.text.find(end, self.at)
        if found < 0:
            self.refuse(f"opens {what} and does not close it with {end}", begin)
        text, self.at = self.text[self.at : found], found + len(end)
        return text

    def refuse(self, what: str, at: int | None = None, why: str = "") -> NoReturn:
        raise Unreadable(f"{what} at character {self.at if at is None else at}{why and f': {why}'}")

    def written(self, begin: int) -> str:
        return self.text[begin : self.at]

    # ------------------------------------------------------------------ alternatives, sequences, repetitions

    def alternatives(self, flags: frozenset[str], outermost: bool = False) -> Tree:
        options: list[Tree] = []
        while True:
            tree, flags = self.terms(flags, first=outermost and not options)
            options.append(tree)
            if not self.eat("|"):
                return options[0] if len(options) == 1 else either(options)

    def terms(self, flags: frozenset[str], first: bool) -> tuple[Tree, frozenset[str]]:
        """One alternative, and the flags after it: the pattern's own, which stand at its beginning, hold to its end."""
        items: list[Tree] = []
        repeatable: Literal["", "nothing", "repeat"] = "nothing"
        while True:
            if "x" in flags:
                self.skip_blanks()
            begin = self.at
            if self.peek() in ("", "|", ")"):
                return sequence(items), flags
            if self.eat("(?#"):
                self.skip_comment(begin)
            elif (counts := self.counts(begin)) is not None:
                if repeatable == "nothing":
                    self.refuse(f"repeats nothing with {self.written(begin)}", begin)
                if repeatable == "repeat":
                    self.refuse(
                        f"repeats a repetition with {self.written(begin)}", begin, "put (?:..) around the inner one"
                    )
                mode: Literal["", "?", "+"] = "+" if self.eat("+") else "?" if self.eat("?") else ""
                items[-1] = Repeat(items[-1], *counts, mode, Mark(begin, self.written(begin)))
                repeatable = "repeat"
            elif (of_the_pattern := self.global_flags(first and not items)) is not None:
                flags |= of_the_pattern
            else:
                items.append(self.atom(flags))
                repeatable = "nothing" if isinstance(items[-1], Anchor | Boundary) and self.text[begin] != "(" else ""

    def skip_blanks(self) -> None:
        while True:
            if self.peek() and self.peek() in " \t\n\r\v\f":
                self.at += 1
            elif self.eat("#"):
                while self.peek() and self.take() != "\n":
                    if self.text[self.at - 1] == "\\":
                        self.take()
            else:
                return

    def skip_comment(self, begin: int) -> None:
        while self.peek() != ")":
            if not self.peek():
                self.refuse("opens a comment and does not close it with )", begin)
            self.at += 2 if self.peek() == "\\" else 1
        self.at += 1

    def counts(self, begin: int) -> tuple[int, int | None] | None:
        """The counts of a repetition; None where none stands, and of a brace that stands for itself."""
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self.peek() in simple:
            return simple[self.take()]
        match = re.compile(r"\{(?!\})([0-9]*)(,?)([0-9]*)\}").match(self.text, self.at)
        if match is None or (match[3] and not match[2]):
            return None
        self.at = match.end()
        least = int(match[1] or 0)
        most = (int(match[3]) if match[3] else None) if match[2] else least
        if most is not None and most < least:
            self.refuse(f"repeats at least {least} and at most {most} times", begin)
        if max(least, most or 0) > _MOST:
            self.refuse(f"repeats too often with {match[0]}", begin)
        return least, most

    # ------------------------------------------------------------------ groups

    def global_flags(self, allowed: bool) -> frozenset[str] | None:
        """The flags of ``(?ix)``; None where no such thing stands."""
        match = re.compile(r"\(\?([A-Za-z]+)\)").match(self.text, self.at)
        if match is None or match[1] == "R":
            return None
        begin, self.at = self.at, match.end()
        flags = self.letters(match[1], begin)
        if not allowed:
            self.refuse(f"sets flags with {match[0]}", begin, f"put them at its beginning, or write (?{match[1]}:..)")
        return flags

    def letters(self, letters: str, begin: int) -> frozenset[str]:
        for letter in letters:
            if letter == "L":
                self.refuse("uses the flag L (LOCALE)", begin, "it is for bytes, and a text has characters")
            if letter not in FLAGS and letter != "u":
                self.refuse(f"uses the flag {letter}", begin, f"the flags are {', '.join(FLAGS)}")
        if "a" in letters and "u" in letters:
            self.refuse("uses the flags a and u", begin, "they exclude one another")
        return frozenset(letters) & FLAGS.keys()

    def atom(self, flags: frozenset[str]) -> Tree:
        begin, c = self.at, self.take()
        if c == ".":
            return Chars(_EVERYTHING if "s" in flags else complement(_NEWLINE))
        if c == "^":
            return Anchor(True, "line" if "m" in flags else "text", Mark(begin, c))
        if c == "$":
            return Anchor(False, "line" if "m" in flags else "last line", Mark(begin, c))
        if c == "[":
            return self.char_class(flags, begin)
        if c == "(":
            return self.group(flags, begin)
        if c == "\\":
            return self.escape(flags, begin)
        return _one(ord(c), flags)

    def group(self, flags: frozenset[str], begin: int) -> Tree:
        if not self.eat("?"):
            return self.captured(flags, begin)
        if self.eat(":"):
            return self.inner(flags, begin)
        for sign, ahead, negative in (("=", True, False), ("!", True, True), ("<=", False, False), ("<!", False, True)):
            if self.eat(sign):
                return Look(self.inner(flags, begin), ahead, negative, Mark(begin, f"(?{sign}..)"))
        if self.eat(">"):
            return Atomic(self.inner(flags, begin), Mark(begin, "(?>..)"))
        if self.eat("P=") or self.eat("P>"):
            called = self.text[self.at - 1] == ">"
            name = self.until(")", "a reference to a group", begin)
            return self.recursion(begin) if called else self.reference(name, flags, begin)
        if self.eat("P<") or self.eat("<"):
            name = self.until(">", "the name of a group", begin)
            if not name.isidentifier():
                self.refuse(f"names a group {name!r}", begin, "that is no identifier")
            if name in self.names:
                self.refuse(f"names two groups {name!r}", begin)
            return self.captured(flags, begin, name)
        if self.eat("("):
            return self.condition(flags, begin)
        if self.peek() in ("R", "&", "0") or self.peek().isdecimal():
            self.recursion(begin)
        if self.eat("|"):
            self.refuse("uses (?|", begin, "Python numbers all groups in a row")
        return self.scoped(flags, begin)

    def recursion(self, begin: int) -> NoReturn:
        self.refuse(
            "calls a group again (recursion)",
            begin,
            "no regular expression of Python's can. Write what is nested as rules of a grammar (EBNF, GBNF or Lark)",
        )

    def scoped(self, flags: frozenset[str], begin: int) -> Tree:
        match = re.compile(r"([A-Za-z]*)(?:-([A-Za-z]*))?:").match(self.text, self.at)
        if match is None or match[2] == "" or not (match[1] or match[2]):
            if match is None and re.compile(r"[-+]\d+\)").match(self.text, self.at):
                self.recursion(begin)
            self.refuse(f"uses {self.text[begin : begin + 3]}", begin, "that begins no group of Python's")
        self.at = match.end()
        on, off = self.letters(match[1], begin), self.letters(match[2] or "", begin)
        if off & {"a"} or "u" in (match[2] or ""):
            self.refuse("turns off the flag a or u", begin, "they can only be turned on")
        if on & off:
            self.refuse("turns a flag on and off at once", begin)
        unicode = {"a"} if "u" in match[1] else set()
        return self.inner((flags - unicode | on) - off, begin)

    def inner(self, flags: frozenset[str], begin: int) -> Tree:
        tree = self.alternatives(flags)
        if not self.eat(")"):
            self.refuse("opens a group and does not close it with )", begin)
        return tree

    def captured(self, flags: frozenset[str], begin: int, name: str = "") -> Tree:
        self.groups += 1
        number = self.groups
        if name:
            self.names[name] = number
        self.open.add(number)
        tree = self.inner(flags, begin)
        self.open.remove(number)
        return Group(tree, number)

    def condition(self, flags: frozenset[str], begin: int) -> Tree:
        name = self.until(")", "a condition", begin)
        if name.isdecimal() and name.isascii():
            number = int(name)
            self.conditions.append((number, begin))
        elif name in self.names:
            number = self.names[name]
        else:
            self.refuse(f"asks for a group {name!r}", begin, "it has none of that name so far")
        yes, flags = self.terms(flags, first=False)
        no, flags = self.terms(flags, first=False) if self.eat("|") else (EMPTY, flags)
        if self.eat("|"):
            self.refuse("has more than two ways after a condition", begin)
        if not self.eat(")"):
            self.refuse("opens a group and does not close it with )", begin)
        return Condition(number, yes, no, Mark(begin, f"(?({name})..)"))

    def check_conditions(self) -> None:
        for number, at in self.conditions:
            if not 1 <= number <= self.groups:
                self.refuse(f"asks for group {number}", at, f"it has {self.groups}")

    def reference(self, name: str, flags: frozenset[str], begin: int) -> Tree:
        number = int(name) if name.isdecimal() and name.isascii() else self.names.get(name, 0)
        if not 1 <= number <= self.groups:
            self.refuse(f"refers with {self.written(begin)} to a group that is not before it", begin)
        if number in self.open:
            self.refuse(f"refers with {self.written(begin)} to a group that is not closed", begin)
        return Reference(number, "i" in flags, Mark(begin, self.written(begin)))

    # ------------------------------------------------------------------ escapes and classes

    def escape(self, flags: frozenset[str], begin: int) -> Tree:
        c = self.peek()
        if c in ("A", "Z", "z"):
            self.take()
            return Anchor(c == "A", "text", Mark(begin, f"\\{c}"))
        if c in ("b", "B"):
            self.take()
            holds = c == "B" and _HOLDS_IN_NOTHING
            return Boundary(shorthand("w", "a" in flags), c == "B", holds, Mark(begin, f"\\{c}"))
        if c and c in "123456789":
            return self.octal_or_reference(flags, begin)
        member = self.member(flags, begin, in_class=False)
        return Chars(member) if isinstance(member, tuple) else _one(member, flags)

    def octal_or_reference(self, flags: frozenset[str], begin: int) -> Tree:
        digits = re.compile("[0-7]{3}|[0-9]{1,2}").match(self.text, self.at)
        assert digits is not None
        self.at = digits.end()
        if len(digits[0]) == 3:
            return _one(self.octal(digits[0], begin), flags)
        return self.reference(digits[0], flags, begin)

    def member(self, flags: frozenset[str], begin: int, in_class: bool) -> Ranges | int:
        """What an escape stands for: a set, or one character."""
        c = self.take()
        if c in "dDwWsS":
            return shorthand(c, "a" in flags)
        if c in "pP":
            return self.property(c, flags, begin)
        if c in _HEX_DIGITS:
            return self.hexadecimal(c, begin)
        if c == "N":
            return self.named(begin)
        if c in "01234567" and (in_class or c == "0"):
            match = re.compile("[0-7]{0,2}").match(self.text, self.at)
            assert match is not None
            self.at = match.end()
            return self.octal(c + match[0], begin)
        if c in _CONTROLS:
            return _CONTROLS[c]
        if c == "b" and in_class:
            return 8
        if c.isascii() and c.isalnum():
            self.refuse(
                f"uses {self.written(begin)}", begin, "Python's re does not have it: write the characters that it means"
            )
        return ord(c)

    def octal(self, digits: str, begin: int) -> int:
        code = int(digits, 8)
        if code > 0o377:
            self.refuse(f"uses {self.written(begin)}", begin, r"the last octal escape is \377")
        return code

    def hexadecimal(self, c: str, begin: int) -> int:
        digits = self.until("}", "an escape", begin) if self.eat("{") else self.text[self.at : self.at + _HEX_DIGITS[c]]
        braced = self.text[begin + 2 : begin + 3] == "{"
        if not re.fullmatch("[0-9a-fA-F]+", digits) or (not braced and len(digits) < _HEX_DIGITS[c]):
            self.refuse(f"uses {self.text[begin : begin + 2]} with too few hexadecimal digits", begin)
        self.at += 0 if braced else len(digits)
        code = int(digits, 16)
        if code > LAST:
            self.refuse(f"uses {self.written(begin)}", begin, f"the last character is {LAST:X}")
        return code

    def named(self, begin: int) -> int:
        if not self.eat("{"):
            self.refuse(r"uses \N without a name in braces", begin)
        name = self.until("}", "the name of a character", begin)
        try:
            return ord(unicodedata.lookup(name))
        except (KeyError, TypeError):
            self.refuse(f"names a character {name!r}", begin, "Unicode has none of that name")

    def property(self, c: str, flags: frozenset[str], begin: int) -> Ranges:
        name = self.until("}", "a property", begin) if self.eat("{") else self.take()
        denied = (c == "P") != name.startswith("^")
        ranges = unicode_property(name.removeprefix("^"), "i" in flags, "a" in flags)
        if ranges is None:
            self.refuse(f"uses the Unicode property {name!r}", begin, "the `regex` package knows none of that name")
        return complement(ranges) if denied else ranges

    def char_class(self, flags: frozenset[str], begin: int) -> Tree:
        denied = self.eat("^")
        ranges: list[tuple[int, int]] = []  # of written characters, which stand for either case
        named: list[tuple[int, int]] = []  # of sets, which are as they are
        first = True
        while first or self.peek() != "]":
            at = self.at
            low = self.class_member(flags, begin)
            first = False
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] != "]" and isinstance(low, int):
                hyphen = self.at
                self.take()
                high = self.class_member(flags, begin)
                if isinstance(high, int):
                    if high < low:
                        self.refuse(f"has the range {self.written(at)}", at, "it ends before it begins")
                    ranges.append((low, high))
                    continue
                self.at = hyphen  # no range ends in a set: the hyphen stands for itself, and is read as the next member
            if isinstance(low, int):
                ranges.append((low, low))
            else:
                named += low
        self.take()
        written = merged(ranges)
        written = either_case(written, "a" in flags) if "i" in flags else written
        whole = merged([*written, *named])
        return Chars(complement(whole) if denied else whole)

    def class_member(self, flags: frozenset[str], begin: int) -> Ranges | int:
        at = self.at
        c = self.peek()
        if not c:
            self.refuse("opens a class with [ and does not close it with ]", begin)
        self.take()
        if c == "\\":
            return self.member(flags, at, in_class=True)
        named = re.compile(r":(\^?)(\w+):\]").match(self.text, self.at) if c == "[" else None
        ranges = posix_class(named[2], "i" in flags, "a" in flags) if named else None
        if named is None or ranges is None:
            return ord(c)
        self.at = named.end()
        return complement(ranges) if named[1] else ranges


def _one(code: int, flags: frozenset[str]) -> Chars:
    ranges = merged([(code, code)])
    return Chars(either_case(ranges, "a" in flags) if "i" in flags else ranges)
