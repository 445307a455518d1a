"""What a grammar derives: its rules as xgrammar serialises them, and the textbook fixed point over them.

An engine masks token by token and never asks. Under ``root ::= "a" root``, or a JSON Schema that requires a reference
to itself, every step looks fine and no sequence can ever end.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import xgrammar as xgr

# Kinds of expression in xgrammar's serialised grammar. Those that are not named here (free text with tags, ...) are taken
# to derive a string.
LITERAL, CHARACTERS, CHARACTERS_STAR, EMPTY = 0, 1, 2, 3
RULE, SEQUENCE, CHOICES, DISPATCH, REPEAT = 4, 5, 6, 7, 8
TOKENS = 9

LAST_CODE_POINT = 0x10FFFF

Leaf = Callable[[int, Sequence[int]], bool]
"""Whether an expression without parts, given by its kind and operands, derives a string."""


@dataclass(frozen=True)
class Rules:
    """A grammar as its rules.

    Attributes:
        names: of each rule; the engine's helper rules have names of its own making.
        bodies: the expression of each rule.
        expressions: kind and operands of each.
        root: which rule the language begins with.
    """

    names: tuple[str, ...]
    bodies: tuple[int, ...]
    expressions: tuple[tuple[int, tuple[int, ...]], ...]
    root: int

    @staticmethod
    def read(grammar: xgr.Grammar) -> Rules:
        """The rules of a grammar."""
        source = json.loads(grammar.serialize_json())
        bounds, flat = source["grammar_expr_indptr"], source["grammar_expr_data"]
        ends = [*bounds[1:], len(flat)]
        rules = source["rules"]
        return Rules(
            tuple(rule[0] for rule in rules),
            tuple(rule[1] for rule in rules),
            tuple(_expression(flat[at], flat[at + 2 : end]) for at, end in zip(bounds, ends, strict=False)),
            source["root_rule_id"],
        )

    @property
    def root_is_used(self) -> bool:
        """Whether some rule uses the root."""
        return any(self.root in self.uses(rule) for rule in range(len(self.bodies)))

    def leaves(self, rule: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The expressions without parts in the body of a rule."""
        return (self.expressions[part] for part in self._parts(self.bodies[rule]) if not self._has_parts(part))

    def uses(self, rule: int) -> list[int]:
        """The rules that the body of a rule names."""
        used: list[int] = []
        for part in self._parts(self.bodies[rule]):
            kind, operands = self.expressions[part]
            if kind in (RULE, REPEAT):
                used.append(operands[0])
            elif kind == DISPATCH:  # pairs of trigger and rule, then two settings
                used += operands[1:-2:2]
        return used

    def _parts(self, expression: int) -> Iterator[int]:
        pending = [expression]
        while pending:
            part = pending.pop()
            yield part
            if self._has_parts(part):
                pending += reversed(self.expressions[part][1])

    def _has_parts(self, expression: int) -> bool:
        return self.expressions[expression][0] in (SEQUENCE, CHOICES)


def _expression(kind: int, operands: list[int]) -> tuple[int, tuple[int, ...]]:
    # A class of one character is kept as a literal, whose bytes have a sign.
    return kind, tuple(octet & 0xFF for octet in operands) if kind == LITERAL else tuple(operands)


def size(rules: Rules) -> int:
    """How much there is to compile: the expressions, and 20 for each time that something may be repeated, nested or not."""

    counted: dict[int, list[tuple[int, int]]] = {}  # what each rule repeats, and how often
    for rule in range(len(rules.bodies)):
        found = (rules.expressions[part] for part in rules._parts(rules.bodies[rule]))
        counted[rule] = [(operands[0], max(operands[1:3])) for kind, operands in found if kind == REPEAT]
    repeats: dict[int, int] = {}
    for rule in counted:
        waiting = [rule]
        while waiting:  # inner rules first; those that repeat each other in turn count once
            rule = waiting[-1]
            inner = [other for other, _ in counted[rule] if other not in repeats and other not in waiting]
            waiting += inner
            if not inner:
                repeats[waiting.pop()] = sum(n * max(1, repeats.get(other, 1)) for other, n in counted[rule])
    return len(rules.expressions) + 20 * sum(repeats.values())


def not_empty(kind: int, operands: Sequence[int]) -> bool:
    """Whether an expression without parts derives a string at all: a character class may be empty."""
    if kind != CHARACTERS:
        return True
    negated, *bounds = operands
    return bool(characters(bool(negated), bounds))


def characters(negated: bool, bounds: Sequence[int]) -> list[tuple[int, int]]:
    """The code points of a class, as inclusive ranges."""
    ranges = list(zip(bounds[::2], bounds[1::2], strict=True))
    if not negated:
        return ranges
    gaps, begin = [], 0
    for low, high in sorted(ranges):
        if low > begin:
            gaps.append((begin, low - 1))
        begin = max(begin, high + 1)
    return [*gaps, (begin, LAST_CODE_POINT)] if begin <= LAST_CODE_POINT else gaps


def nothing_granted(user: int, used: int) -> bool:
    """No rule is taken for productive before it is found to be."""
    return False


def productive(rules: Rules, leaf: Leaf = not_empty, granted: Callable[[int, int], bool] = nothing_granted) -> set[int]:
    """The rules from which a finite string can be derived, out of leaves that satisfy `leaf`.

    The textbook fixed point: a rule is productive once its body can be written with productive rules alone, or with those
    that it may take for productive: ``granted(user, used)``.
    """
    found: set[int] = set()

    def derives(user: int, expression: int) -> bool:
        kind, operands = rules.expressions[expression]
        if kind == SEQUENCE:
            return all(derives(user, part) for part in operands)
        if kind == CHOICES:
            return any(derives(user, part) for part in operands)
        if kind in (RULE, REPEAT):
            used = operands[0]
            return used in found or granted(user, used) or (kind == REPEAT and operands[1] == 0)
        return leaf(kind, operands)

    users: list[list[int]] = [[] for _ in rules.bodies]
    for rule in range(len(rules.bodies)):
        for used in rules.uses(rule):
            users[used].append(rule)
    pending = list(range(len(rules.bodies)))
    while pending:
        rule = pending.pop()
        if rule not in found and derives(rule, rules.bodies[rule]):
            found.add(rule)
            pending += users[rule]
    return found


def owners(rules: Rules, written: Mapping[str, str]) -> dict[int, str]:
    """The rules that can be reached from the root, each with the rule of the user's text that it is a part of.

    Args:
        rules: the grammar.
        written: the user's name of each rule of the user's text, by the name that the engine has for it. The other rules
            are the engine's own.
    """
    owner = {rules.root: written.get(rules.names[rules.root], rules.names[rules.root])}
    pending = deque([rules.root])
    while pending:
        rule = pending.popleft()
        for used in rules.uses(rule):
            if used not in owner:
                owner[used] = written.get(rules.names[used], owner[rule])
                pending.append(used)
    return owner


def culprits(rules: Rules, unproductive: Collection[int]) -> list[int]:
    """Those of the unproductive rules that would be so even if every rule were productive but those they are mutually
    recursive with: not the ones that merely use a culprit."""
    dead = set(unproductive)
    component = components({rule: [used for used in rules.uses(rule) if used in dead] for rule in dead})
    excused = productive(rules, granted=lambda user, used: component.get(user) != component.get(used))
    return sorted(dead - excused)


def circular(rules: Rules) -> list[int]:
    """Rules of which each is nothing but one other rule of these or its repetition, with a repetition among them."""

    def stands_for(rule: int) -> tuple[int, bool] | None:
        """The rule that a rule is another name for, and whether it is repeated."""
        kind, operands = rules.expressions[rules.bodies[rule]]
        while kind in (SEQUENCE, CHOICES):
            parts = [part for part in operands if kind == CHOICES or rules.expressions[part][0] != EMPTY]
            if len(parts) != 1:
                return None
            kind, operands = rules.expressions[parts[0]]
        return (operands[0], kind == REPEAT) if kind in (RULE, REPEAT) else None

    next_of = {rule: found for rule in range(len(rules.bodies)) if (found := stands_for(rule)) is not None}
    component = components({rule: [used] if used in next_of else [] for rule, (used, _) in next_of.items()})
    repeated = {
        component[rule]
        for rule, (used, repeats) in next_of.items()
        if repeats and component.get(used) == component[rule]
    }
    return [rule for rule in next_of if component[rule] in repeated]


def components(uses: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """The strongly connected component of each node, named by one of its nodes; Tarjan (1972), without recursion.

    Args:
        uses: the successors of each node, all of them nodes too.
    """
    component: dict[int, int] = {}
    order: dict[int, int] = {}  # when each node was first seen
    low: dict[int, int] = {}  # the earliest node that it is known to lead back to
    open_nodes: list[int] = []  # seen, and in no component yet
    for start in uses:
        path = [] if start in order else [(start, iter(uses[start]))]
        while path:
            node, successors = path[-1]
            if node not in order:
                order[node] = low[node] = len(order)
                open_nodes.append(node)
            for used in successors:
                if used not in order:
                    path.append((used, iter(uses[used])))
                    break
                if used not in component:
                    low[node] = min(low[node], order[used])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    while node not in component:
                        component[open_nodes.pop()] = node
    return component
