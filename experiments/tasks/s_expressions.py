"""Symbolic expressions as SMT-LIB and SyGuS write them: ``(f x "text" #x0)``."""

from __future__ import annotations

import re
from typing import TypeAlias


class Literal(str):
    """A string in quotes, as opposed to a symbol."""


Expression: TypeAlias = "str | tuple[Expression, ...]"
"""A symbol or number (str), a quoted string (`Literal`), or a list of expressions (tuple)."""

_TOKEN = re.compile(
    r"""\s+ | ;[^\n]* | (?P<sign>[()]) | (?P<string>"(?:[^"]|"")*") | \|(?P<quoted>[^|\\]*)\| | (?P<symbol>[^\s()";|]+)""",
    re.VERBOSE,
)


def read(text: str) -> list[Expression]:
    """The expressions of a text, one after the other. A quote inside a string is written twice.

    Raises ValueError for text that is none.
    """
    stack: list[list[Expression]] = [[]]
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"unexpected {text[position]!r} at character {position}")
        position = match.end()
        if match["sign"] == "(":
            stack.append([])
        elif match["sign"] == ")":
            if len(stack) == 1:
                raise ValueError(f"a parenthesis too many at character {match.start()}")
            closed = tuple(stack.pop())
            stack[-1].append(closed)
        elif match["string"] is not None:
            stack[-1].append(Literal(match["string"][1:-1].replace('""', '"')))
        elif match["quoted"] is not None or match["symbol"] is not None:
            stack[-1].append(match["quoted"] if match["symbol"] is None else match["symbol"])
    if len(stack) > 1:
        raise ValueError("a parenthesis is not closed")
    return stack[0]


def items(expression: Expression) -> tuple[Expression, ...]:
    """The members of a list. Raises ValueError for a symbol."""
    if isinstance(expression, str):
        raise ValueError(f"{expression} stands where a list was expected")
    return expression


def named(bindings: Expression) -> list[tuple[str, Expression]]:
    """A list of pairs that begin with a name, as parameters and bindings are written. Raises ValueError for anything else."""
    pairs = []
    for pair in items(bindings):
        name, value = items(pair)
        pairs.append((str(name), value))
    return pairs
