"""The texts that ``re.match`` takes as a whole, as a deterministic automaton.

A pattern describes more texts than a match ever is: asked of ``"a" or "b"`` (with the quotes), ``".*?"`` takes ``"a"``, for a
lazy repetition takes no more than it must, and of ``ab`` the pattern ``a|ab`` takes ``a``, for the first alternative that
matches wins. A text is taken as a whole if a match at its beginning ends at its end.

The automaton is the powerset construction with priorities (Cox, Regular Expression Matching: the Virtual Machine Approach,
2009): a state is a list of threads, most wanted first, and a thread that is done ends those that are wanted less.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from dataclasses import dataclass, field

from smc.constraints.code_points import LAST, Ranges, merged
from smc.constraints.match_tree import After, Alt, Chars, Match, Repeat, Seq

MAX_STATES = 2_000
MAX_THREADS = 20_000


class TooLarge(Exception):
    """The automaton has more than MAX_STATES states."""


@dataclass(frozen=True)
class Automaton:
    """States of which each has a way to an accepting one, but for the start of an automaton without texts.

    Attributes:
        accepting: of each state; the start is state 0.
        moves: for each state the characters that lead to each other state.
        looks_before: whether it matters what stands before a text; it is taken to be what is wanted.
    """

    accepting: tuple[bool, ...]
    moves: tuple[dict[int, Ranges], ...]
    looks_before: bool = False

    @property
    def first(self) -> Ranges:
        """The characters with which texts begin."""
        return merged(part for ranges in self.moves[0].values() for part in ranges)

    @property
    def longer(self) -> Ranges:
        """The characters that may follow a text within a longer one."""
        return merged(
            part
            for state, ends in enumerate(self.accepting)
            if ends
            for ranges in self.moves[state].values()
            for part in ranges
        )


def automaton(tree: Match, *, preferring: bool) -> Automaton:
    """The automaton of a tree.

    Args:
        tree: the pattern.
        preferring: whether a text must be what a match would take; else any way through the tree will do.

    Raises:
        TooLarge: more than MAX_STATES states, or a tree of more than MAX_THREADS parts.
    """
    program = _Program()
    start = program.write(tree, program.done)
    alphabet = program.alphabet()
    states: dict[tuple[int, ...], int] = {program.closure([start], None, preferring): 0}
    pending = deque(states)
    moves: list[dict[int, list[tuple[int, int]]]] = []
    while pending:
        threads = pending.popleft()
        out: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for code, ranges in alphabet:
            reached = [program.then[thread] for thread in threads if program.takes(thread, code)]
            following = program.closure(reached, code, preferring)
            if not following:
                continue
            if following not in states:
                if len(states) >= MAX_STATES:
                    raise TooLarge
                states[following] = len(states)
                pending.append(following)
            out[states[following]] += ranges
        moves.append(out)
    return _trimmed([program.done in threads for threads in states], moves, program.looks_before)


def same(one: Automaton, other: Automaton) -> bool:
    """Whether two automata accept the same texts."""
    seen = {(0, 0)}
    pending = [(0, 0)]
    while pending:
        a, b = pending.pop()
        if a is None or b is None or one.accepting[a] != other.accepting[b]:
            return False
        left, right = one.moves[a], other.moves[b]
        if merged(r for ranges in left.values() for r in ranges) != merged(r for s in right.values() for r in s):
            return False  # every state has a way to an end
        for target, ranges in left.items():
            for opposite, others in right.items():
                if (target, opposite) not in seen and meet(ranges, others):
                    seen.add((target, opposite))
                    pending.append((target, opposite))
    return True


def meet(a: Ranges, b: Ranges) -> bool:
    """Whether two sets have a character in common."""
    begins = [low for low, _ in b]
    for low, high in a:
        at = bisect_right(begins, high) - 1
        if at >= 0 and b[at][1] >= low:
            return True
    return False


@dataclass
class _Program:
    """Threads: each takes a character, branches, or looks back. Thread 0 is done."""

    takers: list[Ranges | None] = field(default_factory=lambda: [None])
    then: list[int] = field(default_factory=lambda: [0])
    branches: dict[int, tuple[int, ...]] = field(default_factory=dict)
    guards: dict[int, Ranges] = field(default_factory=dict)
    done: int = 0
    looks_before: bool = False

    def write(self, tree: Match, then: int) -> int:
        """Where to begin in order to match `tree` and go on with `then`."""
        if isinstance(tree, Chars):
            return self._add(then, tree.ranges)
        if isinstance(tree, After):
            thread = self._add(then)
            self.guards[thread] = tree.ranges
            return thread
        if isinstance(tree, Seq):
            for item in reversed(tree.items):
                then = self.write(item, then)
            return then
        if isinstance(tree, Alt):
            return self._branch(*(self.write(option, then) for option in tree.options))
        return self._repeat(tree, then)

    def _repeat(self, tree: Repeat, then: int) -> int:
        start = then
        if tree.most is None:
            start = self._branch()
            inner = self.write(tree.item, start)
            self.branches[start] = (then, inner) if tree.lazy else (inner, then)
        else:
            for _ in range(tree.most - tree.least):
                inner = self.write(tree.item, start)
                start = self._branch(then, inner) if tree.lazy else self._branch(inner, then)
        for _ in range(tree.least):
            start = self.write(tree.item, start)
        return start

    def _branch(self, *ways: int) -> int:
        thread = self._add(0)
        self.branches[thread] = ways
        return thread

    def _add(self, then: int, takes: Ranges | None = None) -> int:
        if len(self.then) >= MAX_THREADS:
            raise TooLarge
        self.takers.append(takes)
        self.then.append(then)
        return len(self.then) - 1

    def takes(self, thread: int, code: int) -> bool:
        """Whether a thread takes a character."""
        ranges = self.takers[thread]
        return ranges is not None and _holds(ranges, code)

    def closure(self, threads: list[int], before: int | None, preferring: bool) -> tuple[int, ...]:
        """The threads that are reached without taking a character, most wanted first."""
        found: dict[int, None] = {}
        seen: set[int] = set()
        pending = threads[::-1]
        while pending:
            thread = pending.pop()
            if thread in seen:
                continue
            seen.add(thread)
            if thread == self.done or self.takers[thread] is not None:
                found[thread] = None
                if thread == self.done and preferring:
                    break
            elif thread in self.branches:
                pending += reversed(self.branches[thread])
            else:
                self.looks_before |= before is None
                if before is None or _holds(self.guards[thread], before):
                    pending.append(self.then[thread])
        return tuple(found) if preferring else tuple(sorted(found))

    def alphabet(self) -> list[tuple[int, Ranges]]:
        """Sets of characters between which no thread makes a difference, each with one of its characters."""
        sets = list(dict.fromkeys([*filter(None, self.takers), *self.guards.values()]))
        cuts = sorted({0} | {cut for ranges in sets for low, high in ranges for cut in (low, high + 1)})
        members: list[list[int]] = [[] for _ in cuts]
        where = {cut: at for at, cut in enumerate(cuts)}
        for number, ranges in enumerate(sets):
            for low, high in ranges:
                for at in range(where[low], where.get(high + 1, len(cuts))):
                    members[at].append(number)
        classes: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
        for at, low in enumerate(cuts):
            end = cuts[at + 1] - 1 if at + 1 < len(cuts) else LAST
            if members[at] and low <= LAST:
                classes[tuple(members[at])].append((low, end))
        united = [merged(ranges) for ranges in classes.values()]
        return [(ranges[0][0], ranges) for ranges in united if ranges]


def _holds(ranges: Ranges, code: int) -> bool:
    at = bisect_right(ranges, (code, LAST)) - 1
    return at >= 0 and ranges[at][1] >= code


def _trimmed(accepting: list[bool], moves: list[dict[int, list[tuple[int, int]]]], looks_before: bool) -> Automaton:
    """Without the states that have no way to an accepting one."""
    sources: dict[int, list[int]] = defaultdict(list)
    for state, out in enumerate(moves):
        for target in out:
            sources[target].append(state)
    live = {state for state, ends in enumerate(accepting) if ends}
    pending = list(live)
    while pending:
        for source in sources[pending.pop()]:
            if source not in live:
                live.add(source)
                pending.append(source)
    kept = sorted(live | {0})
    number = {state: at for at, state in enumerate(kept)}
    return Automaton(
        tuple(accepting[state] for state in kept),
        tuple(
            {number[target]: merged(ranges) for target, ranges in moves[state].items() if target in live}
            for state in kept
        ),
        looks_before,
    )
