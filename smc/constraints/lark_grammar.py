"""A Lark grammar as one of xgrammar's dialect, for either engine.

A terminal is any text that a match of its pattern takes as a whole (:mod:`smc.constraints.match_automaton`), ignored
terminals may stand before every other and at the end. That is the language of Lark's lexer ``dynamic_complete``; the lexer
``dynamic`` takes the longest match of each terminal, which the mask cannot foresee. Where it makes a difference a note says
so, and the parser repairs it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import lark

from smc.constraints.code_points import Ranges
from smc.constraints.lark_text import NO_TEXT, LarkGrammar
from smc.constraints.match_automaton import Automaton, TooLarge, automaton, meet, same
from smc.constraints.match_tree import Alt, Chars, Match, Repeat, Seq, read
from smc.constraints.notes import LanguageNote

_SHOWN = 3


@dataclass(frozen=True)
class Respelled:
    """A grammar for the engines.

    Attributes:
        ebnf: the grammar in xgrammar's dialect.
        names: Lark's name of each of its rules and terminals, by the name in `ebnf`; without those of Lark's own making.
        missing: the names in `ebnf` of what is not defined, and of terminals that have no text for want of what is not.
        inlined: Lark's names of what is not defined and stands in terminals alone.
        notes: where it lets more through than Lark's parser does.
    """

    ebnf: str
    names: Mapping[str, str]
    missing: tuple[str, ...]
    inlined: tuple[str, ...]
    notes: tuple[LanguageNote, ...]


def respell(grammar: LarkGrammar, lexer: str) -> Respelled:
    """The grammar in xgrammar's dialect."""
    parser = grammar.parser
    terminals = {terminal.name: _Terminal.of(terminal.pattern.to_regexp()) for terminal in parser.terminals}
    rules: dict[str, list[list[lark.grammar.Symbol]]] = defaultdict(list)
    for rule in parser.rules:
        rules[str(rule.origin.name)].append(list(rule.expansion))
    spelled = {name: f"{re.sub('[^A-Za-z0-9]', '_', name)}_{at}" for at, name in enumerate([*rules, *terminals])}
    ignored = list(dict.fromkeys(parser.ignore_tokens))

    lines = [f"root ::= {spelled['start']}{' ignored' if ignored else ''}"]
    for name, expansions in rules.items():
        ways = (" ".join(spelled[symbol.name] for symbol in expansion) or '""' for expansion in expansions)
        lines.append(f"{spelled[name]} ::= {' | '.join(dict.fromkeys(ways))}")
    for name, terminal in terminals.items():
        lines.append(f"{spelled[name]} ::= {'ignored ' if ignored else ''}{spelled[name]}_s0")
        lines += terminal.lines(spelled[name])
    if ignored:
        lines.append(f"ignored ::= ({' | '.join(f'{spelled[name]}_s0' for name in ignored)})*")
    names = {spelled[name]: str(name) for name in spelled if not name.startswith("__")}
    # terminals that hold what nobody defines, itself and what stands for an undefined rule left out
    wanting = [
        terminal.name
        for terminal in parser.terminals
        if NO_TEXT[1:-1] in terminal.pattern.to_regexp()
        and terminal.name not in grammar.missing
        and not terminal.name.startswith("__")
    ]
    hollow = [name for name in wanting if (texts := terminals[name].automaton) is not None and not any(texts.accepting)]
    return Respelled(
        "\n".join(lines),
        names | {"root": "start"},
        tuple(spelled[name] for name in spelled if name in grammar.missing or name in hollow),
        tuple(name for name in grammar.missing if name not in spelled) if wanting else (),
        _notes(terminals, rules, ignored, parser, lexer),
    )


@dataclass(frozen=True)
class _Terminal:
    """What a terminal takes.

    Attributes:
        tree: its pattern, which describes just that unless `automaton` is what must be written.
        automaton: the texts; None where it would be too large.
        written: whether the automaton must be written, since the tree describes more.
        dropped: what of the pattern holds everywhere for the mask.
    """

    tree: Match
    automaton: Automaton | None
    written: bool
    dropped: tuple[str, ...]

    @staticmethod
    def of(pattern: str) -> _Terminal:
        reading = read(pattern)
        dropped = reading.dropped
        try:
            ways = automaton(reading.tree, preferring=False)
            if ways.looks_before:
                dropped = (*dropped, "a look at what stands before the terminal")
            taken = ways if dropped else automaton(reading.tree, preferring=True)
        except TooLarge:
            return _Terminal(reading.tree, None, False, (*dropped, "a choice between too many matches"))
        return _Terminal(reading.tree, taken, _looks_back(reading.tree) or not same(ways, taken), dropped)

    def lines(self, name: str) -> list[str]:
        if self.automaton is None or not self.written:
            return [f"{name}_s0 ::= {written(self.tree)}"]
        return [
            f"{name}_s{state} ::= {_state(self.automaton, state, name)}" for state in range(len(self.automaton.moves))
        ]


def _looks_back(tree: Match) -> bool:
    if isinstance(tree, Seq):
        return any(map(_looks_back, tree.items))
    if isinstance(tree, Alt):
        return any(map(_looks_back, tree.options))
    if isinstance(tree, Repeat):
        return _looks_back(tree.item)
    return not isinstance(tree, Chars)


def written(tree: Match) -> str:
    """A pattern as an expression of xgrammar's dialect, in brackets if it has parts; what looks back is left out."""
    if isinstance(tree, Chars):
        return _class(tree.ranges)
    if isinstance(tree, Seq):
        return f"({' '.join(map(written, tree.items))})" if tree.items else '""'
    if isinstance(tree, Alt):
        return f"({' | '.join(map(written, tree.options))})"
    if isinstance(tree, Repeat):
        if tree.most == 0:
            return '""'
        counts = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        bounds = f"{{{tree.least},{'' if tree.most is None else tree.most}}}"
        return f"({written(tree.item)}){counts.get((tree.least, tree.most), bounds)}"
    return '""'


def _state(texts: Automaton, state: int, name: str) -> str:
    ways = [f"{_class(ranges)} {name}_s{target}" for target, ranges in texts.moves[state].items() if target != state]
    if texts.accepting[state]:
        ways.append('""')
    again = texts.moves[state].get(state)
    return f"{f'{_class(again)}* ' if again else ''}({' | '.join(ways) or '[]'})"


def _class(ranges: Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return f'"{_code(ranges[0][0])}"'
    return "[" + "".join(_code(low) if low == high else f"{_code(low)}-{_code(high)}" for low, high in ranges) + "]"


def _code(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# ------------------------------------------------------------------ where a longest match makes a difference


def _notes(
    terminals: Mapping[str, _Terminal],
    rules: Mapping[str, list[list[lark.grammar.Symbol]]],
    ignored: list[str],
    parser: lark.Lark,
    lexer: str,
) -> tuple[LanguageNote, ...]:
    shown = {t.name: f"/{t.pattern.value}/" if t.name.startswith("__") else t.name for t in parser.terminals}
    notes = [
        LanguageNote(
            "wider", f"terminal {shown[name]}", part, f"{part} is left to Lark's parser: the mask takes it to hold"
        )
        for name, terminal in terminals.items()
        for part in terminal.dropped
    ]
    greedy = [name for name in terminals if lexer == "dynamic" or name in ignored]
    following = _following(rules, ignored)
    unsure = [
        name
        for name in greedy
        if (texts := terminals[name].automaton) is not None
        and any(
            (other := terminals[follower].automaton) is not None and meet(texts.longer, other.first)
            for follower in following[name]
            if not (follower == name and name in ignored and _closed(terminals[name].tree))
        )
    ]
    if unsure:
        listed = ", ".join(shown[name] for name in unsure[:_SHOWN]) + (" and others" if len(unsure) > _SHOWN else "")
        what = (
            f"Lark gives a terminal its longest match: the mask also lets texts through in which {listed} would have to take a shorter "
            "one before what follows"
        )
        notes.append(LanguageNote("wider", f"terminal {listed}", "terminals", what))
    return tuple(notes)


def _closed(tree: Match) -> bool:
    """Whether two texts of a pattern in a row are one text of it."""
    try:
        twice = automaton(Alt((tree, Seq((tree, tree)))), preferring=False)
        return same(twice, automaton(tree, preferring=False))
    except TooLarge:
        return False


def _following(rules: Mapping[str, list[list[lark.grammar.Symbol]]], ignored: Iterable[str]) -> Mapping[str, set[str]]:
    """The terminals that may follow each terminal: the textbook fixed points FIRST and FOLLOW."""
    empty: set[str] = set()
    first: dict[str, set[str]] = defaultdict(set)
    follow: dict[str, set[str]] = defaultdict(set)
    ignored = set(ignored)

    def first_of(symbol: lark.grammar.Symbol) -> set[str]:
        return {symbol.name} if symbol.is_term else first[symbol.name]

    changed = True
    while changed:
        before = (len(empty), sum(map(len, first.values())), sum(map(len, follow.values())))
        for name, expansions in rules.items():
            for expansion in expansions:
                for symbol in expansion:
                    first[name] |= first_of(symbol)
                    if symbol.is_term or symbol.name not in empty:
                        break
                else:
                    empty.add(name)
                after = set(follow[name])
                for symbol in reversed(expansion):
                    follow[symbol.name] |= after
                    after = first_of(symbol) | (set() if symbol.is_term or symbol.name not in empty else after)
        changed = before != (len(empty), sum(map(len, first.values())), sum(map(len, follow.values())))
    terminals = {symbol.name for expansions in rules.values() for e in expansions for symbol in e if symbol.is_term}
    for name in terminals:
        follow[name] |= ignored
    for name in ignored:
        follow[name] |= terminals | ignored
    return follow
