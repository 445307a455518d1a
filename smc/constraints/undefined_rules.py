"""Rules that a grammar names and nobody defines, and rules that are defined and named nowhere.

A rule that nobody defines is one without any text. An alternative that needs it can never be finished, and leaving these
alternatives out leaves out no text that the grammar derives.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import xgrammar as xgr

from smc.constraints.notes import LanguageNote
from smc.constraints.productivity import CHOICES, EMPTY, REPEAT, RULE, SEQUENCE, Rules, owners, productive
from smc.errors import ConstraintError, EmptyLanguageError

_PIECES = re.compile(
    r'"(?:[^"\\]|\\.)*" | \[(?:[^\]\\]|\\.)*\] | \#[^\r\n]* | (?P<name>[A-Za-z_][A-Za-z0-9_.-]*)(?P<defined>\s*::=)? | .',
    re.VERBOSE | re.DOTALL,
)
_MACROS = re.compile(r"\b(?:Token|ExcludeToken|TagDispatch|TokenTagDispatch)\s*\(")

_SHOWN = 3


def names_of(ebnf: str) -> dict[str, str]:
    """The names in a grammar of xgrammar's dialect, each by itself."""
    return {name: name for piece in _PIECES.finditer(ebnf) if (name := piece["name"])}


def undefined(ebnf: str) -> list[str]:
    """The names in a grammar of xgrammar's dialect that are not those of its rules; none where it uses macros."""
    if _MACROS.search(ebnf):
        return []
    names = [piece for piece in _PIECES.finditer(ebnf) if piece["name"]]
    defined = {piece["name"] for piece in names if piece["defined"]}
    return [name for name in dict.fromkeys(piece["name"] for piece in names) if name not in defined]


def mistaken_classes(ebnf: str, written: Mapping[str, str]) -> tuple[LanguageNote, ...]:
    """Notes on classes such as ``[sign]`` that spell the name of a rule which is used nowhere.

    In other dialects brackets make a part optional; here ``[sign]`` is one of the letters s, i, g and n.
    """
    pieces = list(_PIECES.finditer(ebnf))
    defined = {piece["name"] for piece in pieces if piece["defined"]}
    idle = defined - {piece["name"] for piece in pieces if not piece["defined"]}
    notes: dict[LanguageNote, None] = {}
    rule = ""
    for piece in pieces:
        rule = piece["name"] if piece["defined"] else rule
        name = piece[0][1:-1]
        if piece[0][0] == "[" and name in idle:
            user, meant = written.get(rule, rule), written.get(name, name)
            what = (
                f"the brackets are a class, one of the characters in {meant!r}, and the rule {meant!r} is used nowhere: write ({meant})? "
                f"for an optional part, {meant} for the part itself, or remove the rule if the class is meant"
            )
            notes[LanguageNote("narrower", f"rule {user!r}", piece[0], what)] = None
    return tuple(notes)


def with_all_defined(ebnf: str, missing: Iterable[str]) -> str:
    """The grammar with every missing rule defined as one without any text."""
    return "\n".join([ebnf, *(f"{name} ::= []" for name in missing)])


def settle(
    grammar: xgr.Grammar, missing: Collection[str], what: str, written: Mapping[str, str], check: bool
) -> tuple[xgr.Grammar, tuple[LanguageNote, ...]]:
    """The grammar without the alternatives that need a missing rule, and a note about them.

    Args:
        grammar: one in which the missing rules have no text (:func:`with_all_defined`).
        missing: their names in the grammar; those that cannot be reached do not matter.
        what: names the grammar in errors.
        written: the user's name of each rule, missing ones among them, by its name in the grammar.
        check: whether to refuse instead.

    Raises:
        ConstraintError: with `check`, a missing rule that can be reached; the message names it and the remedy.
        EmptyLanguageError: nothing is left without these alternatives.
    """
    rules = Rules.read(grammar)
    reached = owners(rules, written)
    lost = {rule for rule in reached if rules.names[rule] in missing}
    if not lost:
        return grammar, ()
    names = _listed(written.get(rules.names[rule], rules.names[rule]) for rule in sorted(lost))
    users = _listed(reached[rule] for rule in sorted(reached) if lost.intersection(rules.uses(rule)))
    if check:
        known = [name for engine, name in written.items() if engine not in missing]
        alike = difflib.get_close_matches(written.get(rules.names[min(lost)], rules.names[min(lost)]), known, n=1)
        guess = f" (is {alike[0]!r} meant?)" if alike else ""
        raise ConstraintError(
            f"{what} names {names} in {users}, which nobody defines{guess}: define it, or correct the name. A rule that nobody "
            "defines has no text: with check=False the alternatives that need it are dropped, and a note says so."
        )
    # Those that have no text for want of a missing rule, and not by themselves.
    dead = reached.keys() - productive(rules)
    lost |= dead & productive(rules, granted=lambda user, used: used in lost)
    if rules.root in lost:
        raise EmptyLanguageError(
            f"{what} describes no text: every way through it needs {names}, which nobody defines. Define what is missing, or correct "
            "the name."
        )
    note = LanguageNote("narrower", users, "undefined", f"alternatives that need {names}, which nobody defines")
    return _without(grammar, rules, lost), (note,)


def _listed(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    shown = ", ".join(map(repr, distinct[:_SHOWN])) + (" and others" if len(distinct) > _SHOWN else "")
    return f"rule {shown}" if len(distinct) == 1 else f"rules {shown}"


def _without(grammar: xgr.Grammar, rules: Rules, lost: Collection[int]) -> xgr.Grammar:
    """The grammar without the alternatives that need a lost rule."""
    source: dict[str, Any] = json.loads(grammar.serialize_json())
    data, starts = source["grammar_expr_data"], source["grammar_expr_indptr"]

    def add(kind: int, operands: Iterable[int]) -> int:
        parts = list(operands)
        starts.append(len(data))
        data.extend([kind, len(parts), *parts])
        return len(starts) - 1

    def kept(expression: int) -> int | None:
        """The expression that is left of one, or None."""
        kind, operands = rules.expressions[expression]
        if kind in (RULE, REPEAT) and operands[0] in lost:
            return add(EMPTY, ()) if kind == REPEAT and operands[1] == 0 else None
        if kind not in (SEQUENCE, CHOICES):
            return expression
        parts = [kept(part) for part in operands]
        left = [part for part in parts if part is not None]
        if (not left and operands) or (kind == SEQUENCE and len(left) < len(parts)):
            return None
        return expression if left == list(operands) else add(kind, left)

    for rule, body in enumerate(rules.bodies):
        remains = None if rule in lost else kept(body)
        if remains is not None:
            source["rules"][rule][1] = remains
    return xgr.Grammar.deserialize_json(json.dumps(source))
