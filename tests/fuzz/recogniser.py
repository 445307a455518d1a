"""Context-free grammars as trees, with a recogniser that owes nothing to the code under test, and likely texts."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

# Expression = ("lit", text, ...) | ("class", "" or "^", ranges of characters) | ("any",) | ("ref", number) | ("seq", expressions)
#            | ("or", expressions) | ("repeat", expression, least, most or None)
# What follows in a tuple says how it is written and means nothing here. A reference counts modulo the number of rules.
Expression = tuple[Any, ...]
Rules = Sequence[Expression]

LONGEST = 7


class Recogniser:
    """Which texts rules derive from the first of them: for every rule and place the ends of what it derives there, grown until
    nothing changes, so that left recursion and empty rules need no care."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def accepts(self, text: str) -> bool:
        """Whether the first rule derives `text`."""
        ends: dict[tuple[int, int], frozenset[int]] = {}
        while True:
            grown = {
                (rule, at): self._ends(body, text, at, ends)
                for rule, body in enumerate(self.rules)
                for at in range(len(text) + 1)
            }
            if grown == ends:
                return len(text) in grown[0, 0]
            ends = grown

    def _ends(
        self, part: Expression, text: str, at: int, known: dict[tuple[int, int], frozenset[int]]
    ) -> frozenset[int]:
        kind = part[0]
        if kind == "lit":
            return frozenset({at + len(part[1])}) if text.startswith(part[1], at) else frozenset()
        if kind in ("class", "any"):
            return frozenset({at + 1}) if at < len(text) and holds(part, text[at]) else frozenset()
        if kind == "ref":
            return known.get((part[1] % len(self.rules), at), frozenset())
        if kind == "or":
            return frozenset().union(*(self._ends(option, text, at, known) for option in part[1]))
        if kind == "seq":
            reached = frozenset({at})
            for item in part[1]:
                reached = frozenset().union(*(self._ends(item, text, end, known) for end in reached))
            return reached
        _, item, least, most = part[:4]
        reached, found, count = frozenset({at}), frozenset[int](), 0
        # after len(text) more rounds than the least there is nothing that a shorter way did not reach
        while reached and (most is None or count <= most) and count <= least + len(text):
            if count >= least:
                found |= reached
            reached = frozenset().union(*(self._ends(item, text, end, known) for end in reached))
            count += 1
        return found


def holds(part: Expression, char: str) -> bool:
    """Whether a class, or ``("any",)``, has a character."""
    return part[0] == "any" or any(low <= char <= high for low, high, *_ in part[2]) != (part[1] == "^")


def texts(rules: Rules, alphabet: str, number: int = 24) -> list[str]:
    """Short texts near the language of rules: derived ones, their neighbours, and others. The same for the same rules."""
    chance = random.Random(zlib.crc32(repr(rules).encode("utf-8", "surrogatepass")))
    near = "".join(sorted(set("".join(hint for body in rules for hint in _hints(body))))) or alphabet
    found = {"", *near[:8], *chance.sample(alphabet, 3)}
    for _ in range(number):
        member = _Deriver(rules, chance).text(rules[0])[:LONGEST]
        at, char = chance.randrange(len(member) + 1), chance.choice(near if chance.random() < 0.7 else alphabet)
        found |= {member, chance.choice([member[:at] + char + member[at:], member[:at] + member[at + 1 :]])}
    return sorted(found, key=lambda text: (len(text), text))


class _Deriver:
    """A text that rules derive, or the beginning of one: what costs more than so many steps is cut short."""

    def __init__(self, rules: Rules, chance: random.Random, steps: int = 60) -> None:
        self.rules, self.chance, self.steps = rules, chance, steps

    def text(self, part: Expression) -> str:
        self.steps -= 1
        if self.steps < 0:
            return ""
        kind, chance = part[0], self.chance
        if kind == "lit":
            return str(part[1])
        if kind == "any":
            return chance.choice("a\n\u00e9\U0001f600")
        if kind == "class":
            return chance.choice("ab1\u00e9") if part[1] else chance.choice(chance.choice(part[2])[:2])
        if kind == "ref":
            return self.text(self.rules[part[1] % len(self.rules)])
        if kind == "or":
            return self.text(chance.choice(part[1]))
        if kind == "seq":
            return "".join(map(self.text, part[1]))
        _, item, least, most = part[:4]
        times = chance.randint(least, min(most if most is not None else least + 2, least + 2))
        return "".join(self.text(item) for _ in range(times))


def _hints(part: Expression) -> Iterator[str]:
    if part[0] == "lit":
        yield part[1]
    elif part[0] == "class":
        for low, high, *_ in part[2]:
            for char in (low, high):
                yield char
                yield from (chr(ord(char) + step) for step in (-1, 1) if 31 < ord(char) + step < 0xD800)
    elif part[0] in ("seq", "or"):
        for inner in part[1]:
            yield from _hints(inner)
    elif part[0] == "repeat":
        yield from _hints(part[1])


def written(part: Expression, leaf: Callable[[Expression], str], *, times: Callable[[int, int | None], str]) -> str:
    """An expression in a notation like everyone's: blanks, bars, brackets, and signs after what they repeat.

    Args:
        leaf: writes literals, classes and references.
        times: the sign of a repetition.
    """
    kind = part[0]
    if kind == "seq":
        return " ".join(
            f"({written(item, leaf, times=times)})" if item[0] in ("or", "seq") else written(item, leaf, times=times)
            for item in part[1]
        )
    if kind == "or":
        return " | ".join(written(option, leaf, times=times) for option in part[1])
    if kind == "repeat":
        inner = written(part[1], leaf, times=times)
        return (f"({inner})" if part[1][0] in ("seq", "or", "repeat") else inner) + times(part[2], part[3])
    return leaf(part)
