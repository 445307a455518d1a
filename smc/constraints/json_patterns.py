"""Regular expressions as JSON Schema means them: ECMA-262, searched for anywhere in the text.

Python's engines read some of that syntax in another way: ``$`` also matches before a last newline, ``\\d`` takes any
script's digits, ``.`` takes a line separator, ``\\s`` takes other spaces. So a pattern is respelled first.
"""

from __future__ import annotations

import re
from functools import lru_cache

import regex  # type: ignore[import-untyped]

from smc.constraints.caching import shortened
from smc.constraints.nesting import readable
from smc.errors import ConstraintError, quoted

PATTERN_SECONDS = 1.0
"""How long one pattern may search one string."""

_SPACES = "\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_NO_SPACES = "\0-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff\u3001-\ufefe\uff00-\U0010ffff"
_CLASSES = {
    "d": "0-9",
    "D": r"\x00-/:-\U0010ffff",
    "w": "0-9A-Z_a-z",
    "W": r"\x00-/:-@\[-\^`{-\U0010ffff",
    "s": _SPACES,
    "S": _NO_SPACES,
}
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "0": "\0"}
_BOUNDARY = "(?:(?<=[{w}])(?![{w}])|(?<![{w}])(?=[{w}]))".format(w=_CLASSES["w"])
_INSIDE_WORD = "(?:(?<=[{w}])(?=[{w}])|(?<![{w}])(?![{w}]))".format(w=_CLASSES["w"])

_TOKEN = re.compile(
    r"""\\u\{(?P<point>[0-9a-fA-F]+)\}
    | \\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
    | \\(?:u(?P<unit>[0-9a-fA-F]{4})|x(?P<byte>[0-9a-fA-F]{2})|c(?P<control>[A-Za-z]))
    | \\[pP]\{[^}]*\}
    | \\k<(?P<again>[^>]*)>
    | \\(?P<escaped>.)
    | \(\?<(?P<name>[^=!>][^>]*)>
    | \{[0-9]+(?:,[0-9]*)?\}
    | .
    """,
    re.DOTALL | re.VERBOSE,
)


def found(pattern: str, text: str) -> bool | None:
    """Whether `pattern` matches somewhere in `text`; None if that takes longer than PATTERN_SECONDS.

    Raises:
        ConstraintError: `pattern` is not a regular expression.
    """
    try:
        return compiled(pattern).search(text, timeout=PATTERN_SECONDS) is not None
    except TimeoutError:
        return None


@lru_cache(1024)
def compiled(pattern: str) -> regex.Pattern[str]:
    """An ECMA-262 pattern for the `regex` package.

    Raises:
        ConstraintError: it is not a regular expression.
    """
    try:
        with readable(f"The pattern {shortened(pattern)!r}"):
            return regex.compile(in_python(pattern))
    except (regex.error, OverflowError) as error:
        raise ConstraintError(f"The pattern {quoted(pattern)} is not a regular expression: {error}.") from None


def in_python(pattern: str) -> str:
    """The same language in the `regex` package's syntax.

    Raises:
        ConstraintError: an escape that ECMA-262 does not have.
    """
    spelled: list[str] = []
    tokens = list(_TOKEN.finditer(pattern))
    at = 0
    while at < len(tokens):
        token = tokens[at][0]
        at += 1
        if token == "[":
            body, at = _class(pattern, tokens, at)
            spelled.append(body)
        elif token == "$":
            spelled.append(r"\Z")
        elif token == ".":
            spelled.append("[^\n\r\u2028\u2029]")
        elif token in ("{", "}", "]"):
            spelled.append("\\" + token)
        elif tokens[at - 1]["name"]:
            spelled.append(f"(?P<{tokens[at - 1]['name']}>")
        elif tokens[at - 1]["again"]:
            spelled.append(f"(?P={tokens[at - 1]['again']})")
        elif token in (r"\b", r"\B"):
            spelled.append(_BOUNDARY if token == r"\b" else _INSIDE_WORD)
        elif token[0] == "\\" and token[1:] in _CLASSES:
            spelled.append(f"[{_CLASSES[token[1:]]}]")
        elif token[0] == "\\" and token[1:].isdecimal() and token != r"\0":
            spelled.append(token)  # a group that was matched before
        else:
            spelled.append(_character(pattern, tokens[at - 1]))
    return "".join(spelled)


def _class(pattern: str, tokens: list[re.Match[str]], at: int) -> tuple[str, int]:
    """A character class, and the position after it."""
    negated = at < len(tokens) and tokens[at][0] == "^"
    at += negated
    start, parts = at, ["[^" if negated else "["]
    while at < len(tokens) and tokens[at][0] != "]":
        token = tokens[at][0]
        beside = {tokens[i][0][1:] for i in (at - 1, at + 1) if start <= i < len(tokens) and tokens[i][0][0] == "\\"}
        if token[0] == "\\" and token[1:] in _CLASSES:
            parts.append(_CLASSES[token[1:]])
        elif token == "-" and beside & _CLASSES.keys():
            parts.append(r"\-")  # no range can begin or end with \d and the like
        elif token in (r"\b", "[") or (len(token) > 1 and token[0] in "({"):
            parts += [r"\x08"] if token == r"\b" else [regex.escape(token, special_only=False)]
        elif token in ("-", "^"):
            parts.append(token if token == "-" else r"\^")
        else:
            parts.append(_character(pattern, tokens[at], in_class=True))
        at += 1
    if at == len(tokens):
        raise ConstraintError(f"The pattern {quoted(pattern)} opens a class with [ and does not close it with ].")
    if at == start:
        return ("[\\x00-\\U0010ffff]" if negated else "(?!)"), at + 1
    return "".join(parts) + "]", at + 1


def _character(pattern: str, match: re.Match[str], in_class: bool = False) -> str:
    """A token that stands for one character, or for an operator that both languages share."""
    if point := match["point"] or match["unit"] or match["byte"]:
        return _literal(int(point, 16), pattern)
    if match["high"]:
        high, low = int(match["high"], 16), int(match["low"], 16)
        return _literal(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), pattern)
    if match["control"]:
        return _literal(ord(match["control"]) % 32, pattern)
    escaped = match["escaped"]
    if escaped is None:
        return regex.escape(match[0]) if in_class and match[0] in "&|~[" else match[0]
    if escaped in _CONTROLS:
        return _literal(ord(_CONTROLS[escaped]), pattern)
    if escaped.isalnum() and escaped.isascii():
        raise ConstraintError(
            f"The pattern {quoted(pattern)} uses \\{escaped}, which ECMA-262 does not have: write what it should match in "
            "another way (JSON Schema's ^ and $ are the ends of the whole string)."
        )
    return str(regex.escape(escaped, special_only=False))


def _literal(point: int, pattern: str) -> str:
    if point > 0x10FFFF:
        raise ConstraintError(f"The pattern {quoted(pattern)} names the character {point:X}, beyond the last, 10FFFF.")
    return f"\\U{point:08x}"
