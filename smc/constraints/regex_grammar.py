"""A regular tree as an expression of xgrammar's EBNF.

Characters are written as escapes of eight digits, the only ones that end by themselves whatever follows.
"""

from __future__ import annotations

from smc.constraints.regex_tree import MAX_CODE, Alt, Chars, Ranges, Repeat, Seq, Tree

_PLAIN = frozenset(map(chr, range(32, 127))) - {'"', "\\"}


def grammar_text(tree: Tree) -> str:
    """A grammar of one rule with the texts of a regular tree."""
    return f"root ::= {expression(tree)}\n"


def expression(tree: Tree) -> str:
    """The texts of a regular tree; it can stand in a sequence, and be repeated."""
    if isinstance(tree, Chars):
        code = _single(tree)
        return _class(tree.ranges) if code is None else literal(chr(code))
    if isinstance(tree, Alt):
        return f"({' | '.join(map(expression, tree.options))})"
    if isinstance(tree, Repeat):
        item = expression(tree.item)
        return (f"({item})" if isinstance(tree.item, Repeat) else item) + _sign(tree.least, tree.most)
    assert isinstance(tree, Seq), tree
    return f"({_sequence(tree)})" if tree.items else '""'


def literal(text: str) -> str:
    """A text as a terminal."""
    return '"' + "".join(char if char in _PLAIN else f"\\U{ord(char):08x}" for char in text) + '"'


def _sequence(tree: Seq) -> str:
    """The items side by side, neighbouring characters as one terminal."""
    parts: list[str] = []
    word = ""
    for item in tree.items:
        code = _single(item)
        if code is not None:
            word += chr(code)
            continue
        parts += [literal(word)] if word else []
        parts.append(expression(item))
        word = ""
    return " ".join([*parts, literal(word)] if word else parts)


def _single(tree: Tree) -> int | None:
    """The one character of a tree that is one."""
    if isinstance(tree, Chars) and len(tree.ranges) == 1 and tree.ranges[0][0] == tree.ranges[0][1]:
        return tree.ranges[0][0]
    return None


def _class(ranges: Ranges) -> str:
    if not ranges:
        return f"[^{_code(0)}-{_code(MAX_CODE)}]"
    return "[" + "".join(_code(low) + (f"-{_code(high)}" if high > low else "") for low, high in ranges) + "]"


def _code(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\U{code:08x}"


def _sign(least: int, most: int | None) -> str:
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    return signs.get((least, most)) or f"{{{least},{'' if most is None else most}}}"
