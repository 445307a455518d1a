"""A grammar of xgrammar's, written in llguidance's Lark with one character to a terminal.

llguidance cuts a text into terminals and gives each the longest match: ``("a" | "aa") "a"`` would not have the text "aa". If
every terminal is one character, none is the beginning of another and there is nothing to be greedy about, so that the
language is that of the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smc.constraints.code_points import Ranges, merged
from smc.constraints.productivity import (
    CHARACTERS,
    CHARACTERS_STAR,
    CHOICES,
    EMPTY,
    LITERAL,
    REPEAT,
    RULE,
    SEQUENCE,
    Rules,
    characters,
)
from smc.constraints.regex_tree import Chars, spelled
from smc.errors import ConstraintError


def to_lark(rules: Rules, what: str) -> str:
    """The rules as Lark text that begins with ``start``.

    Raises:
        ConstraintError: an expression that only xgrammar has (free text with tags, tokens by their ids).
    """

    def write(expression: int) -> str:
        kind, operands = rules.expressions[expression]
        if kind not in _WRITERS:
            raise ConstraintError(f"{what} uses a part that only xgrammar has: leave engine='llguidance' out.")
        return _WRITERS[kind](operands, write)

    lines = [f"start: {_name(rules.root)}"]
    lines += [f"{_name(rule)}: {write(body)}" for rule, body in enumerate(rules.bodies)]
    return "\n".join(lines)


def _name(rule: int) -> str:
    return f"rule{rule}"


def _character(ranges: Ranges) -> str:
    return f"/{spelled(Chars(ranges))}/"


def _literal(operands: Sequence[int], _: Callable[[int], str]) -> str:
    codes = map(ord, bytes(operands).decode("utf-8"))
    return " ".join(_character(((code, code),)) for code in codes) or '""'


def _class(operands: Sequence[int], _: Callable[[int], str]) -> str:
    negated, *bounds = operands
    return _character(merged(characters(bool(negated), bounds)))


def _repeat(operands: Sequence[int], _: Callable[[int], str]) -> str:
    rule, least, most = operands[:3]
    return f"{_name(rule)}{{{least},{'' if most < 0 else most}}}"


_WRITERS: dict[int, Callable[[Sequence[int], Callable[[int], str]], str]] = {
    LITERAL: _literal,
    CHARACTERS: _class,
    CHARACTERS_STAR: lambda operands, write: f"({_class(operands, write)})*",
    EMPTY: lambda operands, write: '""',
    RULE: lambda operands, write: _name(operands[0]),
    SEQUENCE: lambda operands, write: " ".join(map(write, operands)) or '""',
    CHOICES: lambda operands, write: f"({' | '.join(map(write, operands))})",
    REPEAT: _repeat,
}
