"""A regex in Python's dialect, respelled so that the engines read it as Python does.

The engines' dialects are not Python's: to one ``.`` takes a newline and ``\\d`` is ASCII, to the other ``[a--b]`` is a
difference. What is left after the rewriting they read alike: plain characters, classes that list their code points,
groups, alternatives and repetitions.

What no automaton can do becomes wider and is noted, for the validator to repair: assertions inside the pattern (lookaround,
word boundaries, ``^`` and ``$`` not at the ends) match everywhere, a back-reference matches whatever its group can, and a
possessive repetition gives back.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from smc.constraints.code_points import LAST, Ranges, complement, merged, shorthand
from smc.constraints.notes import LanguageNote
from smc.errors import ConstraintError

_LEXER = re.compile(
    r"""(?P<comment>\(\?\#[^)]*\))
      | (?P<reference>\(\?P=(?P<referred>\w+)\))
      | (?P<condition>\(\?\()
      | (?P<flags>\(\?[aiLmsux-]+[:)])
      | (?P<look>\(\?<?[=!])
      | (?P<group>\((?:\?(?::|>|P?<(?P<name>\w+)>))?)
      | (?P<close>\))
      | (?P<bar>\|)
      | (?P<klass>\[\^?\]?(?:[^\]\\]|\\.)*\])
      | (?P<escape>\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|0[0-7]{0,2}|[1-3][0-7]{2}|[1-9][0-9]?|.))
      | (?P<repeat>(?:[*+?]|\{(?!\})(?P<least>\d*)(?P<most>,\d*)?\})(?P<mode>[?+]?))
      | (?P<any>\.)
      | (?P<anchor>[\^$])
      | (?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
)

_CONTROL = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}

_LONGEST_COPY = 100_000
"""How long a group may be, in characters of the engine's pattern, that a back-reference repeats."""

_NOTHING = "(?:)"  # matches the empty text, and may be repeated


@dataclass(frozen=True)
class Respelled:
    """A pattern for the engines and one for the validator.

    Attributes:
        engine: what both engines read alike; it matches at least what the pattern does.
        validator: the pattern itself with its classes spelled out, so that it does not depend on the validator's tables.
        notes: where `engine` matches more than the pattern.
    """

    engine: str
    validator: str
    notes: tuple[LanguageNote, ...]


def respell(pattern: str, what: str) -> Respelled | None:
    """Respell a pattern that Python's `re` can read (``(?<name>..)`` counts as ``(?P<name>..)``); None for any other.

    Args:
        pattern: the regex.
        what: names it in errors.

    Raises:
        ConstraintError: a part that cannot be respelled, such as inline flags; the message names it.
    """
    pattern = pattern if _python_reads(pattern) else re.sub(r"(?<!\\)\(\?<(?=[A-Za-z_])", "(?P<", pattern)
    return _Writer(what).write(list(_LEXER.finditer(pattern))) if _python_reads(pattern) else None


def literal(text: str) -> str:
    """A text as a regex that both engines read alike."""
    return "".join(character_class(((ord(char), ord(char)),)) for char in text)


def character_class(ranges: Ranges) -> str:
    """One character out of `ranges`, for either engine."""
    if not ranges:
        return rf"[^\u{{0}}-\u{{{LAST:x}}}]"
    if ranges == ((0, 0),):  # xgrammar drops a NUL that stands alone
        ranges = ((0, 1),)
    (low, high), *others = ranges
    if low == high and not others:
        return _code(low)
    return "[" + "".join(_code(a) if a == b else f"{_code(a)}-{_code(b)}" for a, b in ranges) + "]"


@dataclass
class _Open:
    """A group that is not closed yet."""

    kind: str
    text: str
    at: int
    start: int  # where it begins in the engine's pattern
    notes: int  # how many notes there were before it
    number: int | None


@dataclass
class _Writer:
    what: str
    engine: list[str] = field(default_factory=list)
    validator: list[str] = field(default_factory=list)
    notes: list[LanguageNote] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)  # the engine's text of each closed group, by number and name
    names: dict[int, str] = field(default_factory=dict)
    stack: list[_Open] = field(default_factory=list)
    numbered: int = 0

    def write(self, tokens: list[re.Match[str]]) -> Respelled:
        for index, token in enumerate(tokens):
            kind, text = token.lastgroup, token[0]
            self.validator.append(text)
            if kind == "comment":
                continue
            if kind in ("group", "look"):
                self._open(kind, token)
            elif kind == "close":
                self._close()
            elif kind == "repeat":
                self._repeat(token)
            elif kind == "bar":
                self.engine.append("|")
            elif kind == "reference":
                self._refer(token, token["referred"])
            elif kind == "klass":
                self._characters(_members(text))
            elif kind == "any":
                self._characters(complement(((10, 10),)), spelled=text)
            elif kind == "plain":
                self._characters(((ord(text), ord(text)),))
            elif kind == "anchor" or text in (r"\A", r"\Z"):
                self._anchor(tokens, index)
            elif kind == "escape":
                self._escape(token)
            else:
                raise ConstraintError(
                    f"{self.what} uses {text} at character {token.start()}, which no engine has: write its effect out, "
                    "as in [aA] for a letter of either case, or as alternatives."
                )
        return Respelled("".join(self.engine), "".join(self.validator), tuple(self.notes))

    def _open(self, kind: str, token: re.Match[str]) -> None:
        number = None
        if token[0] == "(" or token["name"]:
            self.numbered += 1
            number = self.numbered
            if token["name"]:
                self.names[number] = token["name"]
        self.stack.append(_Open(kind, token[0], token.start(), len(self.engine), len(self.notes), number))
        self.engine.append("(?:")

    def _close(self) -> None:
        group = self.stack.pop()
        self.engine.append(")")
        whole = "".join(self.engine[group.start :])
        if group.number is not None:
            self.groups[str(group.number)] = whole
            self.groups[self.names.get(group.number, str(group.number))] = whole
        if group.kind == "look":
            del self.engine[group.start :], self.notes[group.notes :]
            self.engine.append(_NOTHING)
            self._wider(group.at, group.text + "..)", "a lookaround holds everywhere for the mask")
        elif group.text == "(?>":
            self._wider(group.at, group.text + "..)", "an atomic group gives back what it matched")

    def _repeat(self, token: re.Match[str]) -> None:
        text, mode = token[0], token["mode"]
        if text[0] == "{":
            least, most = int(token["least"] or 0), token["most"]
            bound = (token["least"] or "") if most is None else most[1:]
            sign = f"{{{least},{bound}}}" if bound else ("*", "+")[least] if least < 2 else f"{{{least},}}"
        else:
            sign = text[0]
        self.engine.append(sign)
        if mode == "+":
            self._wider(token.start(), text, "a possessive repetition gives back what it matched")

    def _refer(self, token: re.Match[str], group: str) -> None:
        copied = self.groups[group]
        if len(copied) > _LONGEST_COPY:  # references to groups with references double it each time
            raise ConstraintError(
                f"{self.what} uses {token[0]} at character {token.start()} for too large a group: write it out."
            )
        self.engine.append(copied)
        self._wider(token.start(), token[0], "whatever the group can match, not only what it did match")

    def _anchor(self, tokens: list[re.Match[str]], index: int) -> None:
        token = tokens[index]
        opening = token[0] in ("^", r"\A")
        beside = reversed(tokens[:index]) if opening else iter(tokens[index + 1 :])
        same = ("^", r"\A") if opening else ("$", r"\Z")
        following = next((other[0] for other in beside if other[0] not in same and not other["comment"]), "|")
        if self.stack or following != "|":
            self.engine.append(_NOTHING)
            self._wider(token.start(), token[0], "an anchor inside the pattern holds everywhere for the mask")

    def _escape(self, token: re.Match[str]) -> None:
        text = token[0]
        if text[1] in "dDwWsS":
            self._characters(shorthand(text[1]))
        elif text[1] in "bB":
            word = _explicit(shorthand("w"))
            inside, outside = (
                rf"(?<={word})(?={word})|(?<!{word})(?!{word})",
                rf"(?<={word})(?!{word})|(?<!{word})(?={word})",
            )
            self.validator[-1] = f"(?:{outside if text[1] == 'b' else inside})"
            self.engine.append(_NOTHING)
            self._wider(token.start(), text, "a word boundary holds everywhere for the mask")
        elif text[1] in "123456789" and len(text) < 4:
            self._refer(token, text[1:])
        else:
            code = _character(text)
            self._characters(((code, code),))

    def _characters(self, ranges: Ranges, spelled: str = "") -> None:
        self.validator[-1] = spelled or _explicit(ranges)
        self.engine.append(character_class(ranges))
        if ranges == ((0, 0),):
            self.notes.append(LanguageNote("wider", "", r"\x00", "the mask also lets U+0001 through where NUL stands"))

    def _wider(self, at: int, keyword: str, what: str) -> None:
        self.notes.append(LanguageNote("wider", f"character {at}", keyword, what))


def _python_reads(pattern: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of sets in classes, which are spelled out here
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _members(klass: str) -> Ranges:
    """The characters of a class such as ``[^\\w.-]``."""
    body = klass[1:-1]
    negated = body.startswith("^")
    items = list(_items(body[negated:]))
    ranges: list[tuple[int, int]] = []
    while items:
        item = items.pop(0)
        if len(items) > 1 and items[0] == ((45, 45),) and len(item) == 1 and len(items[1]) == 1:
            items.pop(0)
            ranges.append((item[0][0], items.pop(0)[0][1]))
        else:
            ranges += item
    return complement(merged(ranges)) if negated else merged(ranges)


def _items(body: str) -> Iterator[Ranges]:
    for token in re.finditer(_ESCAPE_IN_CLASS, body):
        text = token[0]
        if text[0] == "\\" and text[1] in "dDwWsS":
            yield shorthand(text[1])
        else:
            code = _character(text, in_class=True) if text[0] == "\\" else ord(text)
            yield ((code, code),)


_ESCAPE_IN_CLASS = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|[0-7]{1,3}|.)|.", re.DOTALL
)


def _character(escape: str, in_class: bool = False) -> int:
    """The code point of an escape for one character."""
    letter, rest = escape[1], escape[2:]
    if letter in "xuU" and rest:
        return int(rest, 16)
    if letter == "N":
        return ord(unicodedata.lookup(rest[1:-1]))
    if letter in "01234567":
        return int(escape[1:], 8)
    if letter in _CONTROL and (letter != "b" or in_class):
        return _CONTROL[letter]
    return ord(letter)


def _code(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\u{{{code:x}}}"


def _explicit(ranges: Ranges) -> str:
    """A class in the spelling of the validator."""
    if not ranges:
        return r"[^\U00000000-\U0010ffff]"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return f"\\U{ranges[0][0]:08x}"
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"
