"""llama.cpp's grammar dialect, GBNF, respelled as the dialect that xgrammar reads.

The two agree on most things. The differences bridged here: ``.`` stands for any character; ``\\[`` and ``\\]`` are escapes
everywhere; ``\\x`` takes exactly two hex digits (xgrammar takes all that follow); an alternative may be empty; a rule name
may begin with a digit or a dash. Token references (``<think>``, ``!<[1000]>``) have no counterpart and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from smc.errors import ConstraintError


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


_LEXER = re.compile(
    r"""(?P<space>[ \t]+) | (?P<newline>\r?\n|\r) | (?P<comment>\#[^\r\n]*)
      | (?P<literal>"(?:[^"\\]|\\.)*") | (?P<klass>\[(?:[^\]\\]|\\.)*\])
      | (?P<define>::=) | (?P<repeat>\{[^}\n]*\}) | (?P<name>[A-Za-z0-9_-]+)
      | (?P<sign>[()|*+?]) | (?P<any>\.) | (?P<reference>!?<[^>\n]*>)""",
    re.VERBOSE | re.DOTALL,
)

_BLANK = ("space", "newline", "comment")

_ANY_CHARACTER = r"[\u0000-\U0010ffff]"


def to_ebnf(text: str) -> str:
    """The same grammar in xgrammar's dialect, line for line.

    Raises:
        ConstraintError: a character that GBNF does not know, or a token reference; names the line.
    """
    pieces: list[str] = []
    gap: int | None = None  # where an empty alternative would be written, while nothing stands there
    tokens = list(_tokens(text))
    for index, token in enumerate(tokens):
        if token.kind in _BLANK:
            pieces.append("" if token.kind == "comment" else token.text)
            continue
        next_rule = token.kind == "name" and _next_kind(tokens, index) == "define"
        if gap is not None and (next_rule or token.text in ("|", ")")):
            pieces.insert(gap, ' "" ')
        pieces.append(_respell(token))
        gap = len(pieces) if token.kind == "define" or token.text in ("|", "(") else None
    if gap is not None:
        pieces.insert(gap, ' "" ')
    return "".join(pieces)


def rule_name(name: str) -> str:
    """A rule's name in xgrammar's dialect, where none begins with a digit or a dash.

    ``1a`` becomes ``_1a``, and so that no two names become one, ``_1a`` becomes ``__1a`` and so on.
    """
    return f"_{name}" if name.lstrip("_")[:1] in tuple("0123456789-") else name


def rule_names(text: str) -> dict[str, str]:
    """Every name in a grammar by its spelling in xgrammar's dialect."""
    return {rule_name(token.text): token.text for token in _tokens(text) if token.kind == "name"}


def _tokens(text: str) -> Iterator[_Token]:
    position, line = 0, 1
    while position < len(text):
        match = _LEXER.match(text, position)
        if match is None:
            raise ConstraintError(
                f"The GBNF grammar cannot be read at line {line}: unexpected {text[position]!r}. "
                "Literals stand in double quotes, classes in brackets, and each rule reads `name ::= ...`."
            )
        yield _Token(match.lastgroup or "", match[0], line)
        position, line = match.end(), line + match[0].count("\n")


def _next_kind(tokens: list[_Token], index: int) -> str:
    return next((token.kind for token in tokens[index + 1 :] if token.kind not in _BLANK), "")


def _respell(token: _Token) -> str:
    if token.kind == "any":
        return _ANY_CHARACTER
    if token.kind == "name":
        return rule_name(token.text)
    if token.kind in ("literal", "klass"):
        literal = token.kind == "literal"
        return re.sub(
            r"\\x[0-9a-fA-F]{2}|\\.|\n|\r", lambda match: _escape(match[0], literal), token.text, flags=re.DOTALL
        )
    if token.kind == "reference":
        raise ConstraintError(
            f"The GBNF grammar refers to the token {token.text} at line {token.line}: tokens cannot be named in a "
            "constraint that knows no tokenizer. Spell the text that the token stands for in quotes."
        )
    return token.text


def _escape(escape: str, literal: bool) -> str:
    if escape in ("\n", "\r"):  # a raw line break inside quotes
        return "\\n" if escape == "\n" else "\\r"
    if escape[1] == "x" and len(escape) == 4:
        return f"\\u00{escape[2:]}"
    return escape[1] if literal and escape[1] in "[]" else escape
