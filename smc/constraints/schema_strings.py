"""JSON strings as rules of a grammar: each character in a spelling that JSON knows.

Engines write a pattern between two quotes as it stands; but a quote, a backslash and the control characters must be
escaped in JSON. So the tree of a pattern is written here character by character, an escape where it must be one. A
character that may be anything has every spelling; others have one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from smc.constraints.regex_tree import (
    ANYTHING,
    SURROGATES,
    Alt,
    Anchor,
    Chars,
    Ranges,
    Repeat,
    Seq,
    Tree,
    common,
    complement,
    nonempty,
    widths,
)

MAX_CHAIN = 16
"""Longest run of alternatives that is counted exactly: one rule a character, which takes time to compile."""

_PLAIN = common(complement(((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))), complement(SURROGATES))
_ESCAPED = common(complement(_PLAIN), complement(SURROGATES))
_SHORT = {0x22: '\\"', 0x5C: "\\\\", 8: "b", 9: "t", 10: "n", 12: "f", 13: "r"}


class Rules:
    """The rules of a grammar as they are written; equal bodies share a rule."""

    def __init__(self) -> None:
        self.bodies: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._loops: dict[tuple[str, ...], str] = {}

    def rule(self, body: str) -> str:
        """The name of a rule with this body."""
        if body not in self._names:
            name = self.reserve()
            self._names[body] = name
            self.bodies[name] = body
        return self._names[body]

    def reserve(self) -> str:
        """A name whose body comes later: for recursion."""
        name = f"r{len(self.bodies)}"
        self.bodies[name] = ""
        return name

    def loop(self, items: Iterable[str]) -> str:
        """Any number of `items`: recursion to the right, which the engine follows far faster than a starred choice."""
        listed = tuple(items)
        if listed not in self._loops:
            name = self._loops[listed] = self.reserve()
            self.bodies[name] = " | ".join(['""', *(f"{item} {name}" for item in listed)])
        return self._loops[listed]

    def chain(self, items: tuple[str, ...], least: int, most: int) -> str:
        """From `least` to `most` of `items`, counted one by one."""
        if most == 0:
            return '""'
        after = self.chain(items, max(0, least - 1), most - 1)
        ways = [f"{item} {after}" if after != '""' else item for item in items]
        return self.rule(" | ".join([*([] if least else ['""']), *ways]))

    def text(self, start: str) -> str:
        """The grammar in EBNF, beginning with rule `start`."""
        lines = [f"root ::= {start}", *(f"{name} ::= {body}" for name, body in self.bodies.items())]
        return "\n".join(lines) + "\n"


def literal(text: str) -> str:
    """A terminal that is exactly `text`."""
    return '"' + "".join(_in_literal(c) for c in text) + '"'


def _in_literal(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    return c if c.isprintable() else f"\\U{ord(c):08x}"


def char_class(ranges: Ranges) -> str:
    """A class of plain characters, written as what it is not: the engine counts repetitions of such classes quickly."""
    outside = complement(ranges)
    return "[^" + "".join(_bound(low) + (f"-{_bound(high)}" if high > low else "") for low, high in outside) + "]"


def _bound(code: int) -> str:
    c = chr(code)
    if c.isascii() and c.isalnum():
        return c
    return f"\\U{code:08x}"


_HEX = "[0-9a-fA-F]"


def any_escape(rules: Rules) -> str:
    """What may follow a backslash: short escapes, code units, surrogates in pairs only."""
    pair = f'[dD] [89abAB] {_HEX} {_HEX} "\\\\u" [dD] [c-fC-F] {_HEX} {_HEX}'
    unit = f"[0-9a-cA-CefEF] {_HEX} {_HEX} {_HEX} | [dD] [0-7] {_HEX} {_HEX}"
    return rules.rule(f'["\\\\/bfnrt] | "u" ({unit} | {pair})')


def characters(rules: Rules, ranges: Ranges) -> tuple[str, ...]:
    """The spellings of one character out of `ranges`, as alternatives."""
    plain = common(ranges, _PLAIN)
    ways = [char_class(plain)] if plain else []
    if ranges == ANYTHING:
        return (*ways, f'"\\\\" {any_escape(rules)}')
    codes = [code for low, high in common(ranges, _ESCAPED) for code in range(low, high + 1)]
    short = "".join(_SHORT[code] for code in codes if code in _SHORT)
    if short:
        ways.append(f'"\\\\" [{short}]')
    for high in range(2):  # the other control characters, as \u000b
        digits = "".join(_digit(code % 16) for code in codes if code not in _SHORT and code // 16 == high)
        if digits:
            ways.append(f'"\\\\u00{high}" [{digits}]')
    return tuple(ways)


def _digit(value: int) -> str:
    digit = f"{value:x}"
    return digit if digit.isdecimal() else digit + digit.upper()


def any_string(rules: Rules) -> str:
    """A JSON string without further conditions."""
    key = "string"
    if key not in rules.bodies:
        rules.bodies[key] = ""
        plain, escape = characters(rules, ANYTHING)
        name = rules.reserve()
        rules.bodies[name] = f'"\\"" | {plain} {name} | {escape} {name}'
        rules.bodies[key] = f'"\\"" {name}'
    return key


def bounded_string(rules: Rules, least: int, most: int | None) -> tuple[str, bool]:
    """A JSON string of `least` to `most` characters, and whether that is exact.

    Beyond MAX_CHAIN characters only strings without escapes are counted: one with an escape may be longer or shorter.
    """
    plain, escape = characters(rules, ANYTHING)
    if most is not None and most <= MAX_CHAIN:
        body = rules.chain((plain, escape), least, most)
        return f'"\\"" {body} "\\""', True
    if most is None and least <= MAX_CHAIN:
        after = rules.loop((plain, escape))
        for _ in range(least):
            after = rules.rule(f"{plain} {after} | {escape} {after}")
        return f'"\\"" {after} "\\""', True
    limit = "" if most is None else most
    before = "" if most is None else most - 1
    end = rules.bodies[any_string(rules)].partition(" ")[2]  # without the opening quote
    counted = f'"\\"" {plain}{{{least},{limit}}} "\\""'
    return f'({counted} | "\\"" {plain}{{0,{before}}} {escape} {end})', False


class PatternWriter:
    """Writes the tree of a pattern as an expression for what stands between the quotes.

    Attributes:
        exact: whether everything so far was written exactly; a long count of a choice is not.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.exact = True

    def write(self, tree: Tree) -> str:
        """An expression that can stand in a sequence."""
        if isinstance(tree, Chars):
            return _choice(characters(self.rules, tree.ranges))
        if isinstance(tree, Seq):
            return " ".join(map(self.write, tree.items)) or '""'
        if isinstance(tree, Alt):
            return _choice([self.write(option) for option in tree.options])
        assert isinstance(tree, Repeat), Anchor
        return self.repeat(tree)

    def repeat(self, tree: Repeat) -> str:
        item, least, most = tree.item, tree.least, tree.most
        if widths(item)[0] == 0:
            inner = nonempty(item)
            if inner is None or most == 0:
                return '""'
            item, least = inner, 0
        if most == 0:
            return '""'
        ways = self.alternatives(item)
        if len(ways) == 1 and isinstance(item, Chars):
            return repeated(ways[0], least, most)
        if (least, most) == (0, 1):
            return f"({' | '.join(ways)})?"
        if most is not None and most <= MAX_CHAIN:
            return self.rules.chain(ways, least, most)
        if most is not None and len(ways) == 1:
            return repeated(ways[0], least, most)
        if least > MAX_CHAIN:
            self.exact, least = False, MAX_CHAIN
        self.exact &= most is None
        after = self.rules.loop(ways)
        for _ in range(least):
            after = self.rules.rule(" | ".join(f"{way} {after}" for way in ways))
        return after

    def alternatives(self, item: Tree) -> tuple[str, ...]:
        if isinstance(item, Chars):
            return characters(self.rules, item.ranges)
        if isinstance(item, Alt):
            return tuple(way for option in item.options for way in self.alternatives(option))
        return (self.write(item),)


def other_keys(rules: Rules, declared: Iterable[str]) -> str:
    """A JSON string, quotes included, that is none of `declared`, where it departs from them by an unescaped character."""
    words = list(declared)
    if not words:
        return any_string(rules)
    end = rules.bodies[any_string(rules)].partition(" ")[2]
    return f'"\\"" {_departing(rules, sorted(set(words)), end)}'


def _departing(rules: Rules, words: list[str], end: str) -> str:
    """The rest of a key, the closing quote included, that is none of `words`."""
    following: dict[str, list[str]] = {}
    for word in words:
        if word:
            following.setdefault(word[0], []).append(word[1:])
    ways = [] if "" in words else ['"\\""']
    free = complement(tuple((ord(c), ord(c)) for c in sorted(following)))
    ways += [f"{way} {end}" for way in characters(rules, free)]
    for c, rest in following.items():
        ways += [f"{way} {_departing(rules, rest, end)}" for way in characters(rules, ((ord(c), ord(c)),))]
    return rules.rule(" | ".join(ways))


def repeated(item: str, least: int, most: int | None) -> str:
    """An expression `least` to `most` times, in brackets unless it is one class, terminal or name that is not repeated."""
    return f"{item if _ONE.fullmatch(item) else f'({item})'}{{{least},{'' if most is None else most}}}"


_ONE = re.compile(r'\[(?:[^\]\\]|\\.)*\]|"(?:[^"\\]|\\.)*"|\w+', re.DOTALL)


def _choice(ways: Iterable[str]) -> str:
    listed = list(ways)
    return listed[0] if len(listed) == 1 and " " not in listed[0] else f"({' | '.join(listed)})"
