"""Which rule of a grammar is to blame, in time that grows with the grammar and no faster."""

from __future__ import annotations

import random
import time

import pytest
from constraint_tools import BYTES

from smc.constraints import EBNF, GBNF, Lark, Regex, xgrammar_engine
from smc.constraints.gbnf import rule_name
from smc.constraints.productivity import CHOICES, LITERAL, RULE, SEQUENCE, Rules, components, culprits, productive
from smc.errors import ConstraintError, EmptyLanguageError

Grammar = list[list[list[int]]]
"""The alternatives of each rule, each a sequence of the rules it uses; -1 is a letter."""


def rules_of(grammar: Grammar) -> Rules:
    expressions: list[tuple[int, tuple[int, ...]]] = []

    def add(kind: int, *operands: int) -> int:
        expressions.append((kind, operands))
        return len(expressions) - 1

    def item(used: int) -> int:
        return add(LITERAL, ord("a")) if used < 0 else add(RULE, used)

    bodies = [add(CHOICES, *[add(SEQUENCE, *map(item, option)) for option in options]) for options in grammar]
    return Rules(tuple(map(str, range(len(grammar)))), tuple(bodies), tuple(expressions), 0)


def derivable(grammar: Grammar, given: set[int]) -> set[int]:
    """The definition, round after round."""
    found = {-1, *given}
    while True:
        new = {r for r, options in enumerate(grammar) if any(found.issuperset(option) for option in options)} - found
        if not new:
            return found - {-1}
        found |= new


def reached(grammar: Grammar, start: int, among: set[int]) -> set[int]:
    found: set[int] = set()
    pending = [start]
    while pending:
        new = {used for option in grammar[pending.pop()] for used in option if used in among} - found
        found |= new
        pending += new
    return found


def test_culprits_are_those_of_the_definition() -> None:
    chance = random.Random(0)
    several = 0
    for _ in range(400):
        size = chance.randint(1, 8)
        grammar = [
            [[chance.randrange(-1, size) for _ in range(chance.randint(1, 3))] for _ in range(chance.randint(1, 2))]
            for _ in range(size)
        ]
        alive = derivable(grammar, set())
        rules = rules_of(grammar)
        assert productive(rules) == alive
        dead = set(range(size)) - alive
        reach = {rule: reached(grammar, rule, dead) for rule in dead}
        cycles = {rule: {other for other in reach[rule] if rule in reach[other]} | {rule} for rule in dead}
        expected = sorted(rule for rule in dead if rule not in derivable(grammar, alive | dead - cycles[rule]))
        assert culprits(rules, dead) == expected
        component = components({rule: sorted(reach[rule]) for rule in dead})
        assert {r: {o for o in dead if component[o] == component[r]} for r in dead} == cycles
        several += 1 < len(expected) < len(dead)
    assert several > 20


def chain(length: int) -> str:
    steps = "".join(f'r{i} ::= "a" r{i + 1} | "b" r{i + 1}\n' for i in range(length))
    return f'root ::= r0\n{steps}r{length} ::= "x" r{length}'


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
def test_a_long_chain_blames_its_end(engine: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(EmptyLanguageError, match="leads back into itself \\(rule 'r3000'\\)"):
        EBNF(chain(3000), engine=engine).compile(BYTES)
    assert (
        time.perf_counter() - begin < 10
    )  # 0.2 s where nothing else runs; it was minutes with a cycle searched per rule


@pytest.mark.parametrize(
    "constraint",
    [
        EBNF('root ::= "a"', engine="llguidance"),
        Lark('start: "a"', engine="llguidance"),
        Regex("a", engine="llguidance"),
        EBNF('root ::= "a"'),
    ],
)
def test_the_time_limit_holds_for_what_xgrammar_reads_first(constraint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xgrammar_engine, "COMPILE_SECONDS", 0.05)
    monkeypatch.setattr(xgrammar_engine.Rules, "read", lambda grammar: time.sleep(1.0))
    with pytest.raises(ConstraintError, match=r"took more than 0\.05 s to compile"):
        constraint.compile(BYTES)


def test_names_that_begin_with_digits_stay_apart() -> None:
    compiled = GBNF(
        'root ::= 1a _1a __1a -a _a\n1a ::= "1"\n_1a ::= "2"\n__1a ::= "3"\n-a ::= "4"\n_a ::= "5"'
    ).compile(BYTES)
    assert [compiled.accepts(text) for text in (b"12345", b"11345", b"22345")] == [True, False, False]
    names = [under + name for under in ("", "_", "__") for name in ("1a", "-a", "a", "a1", "_")]
    assert len({rule_name(name) for name in names}) == len(set(names))
    with pytest.raises(ConstraintError, match="rule '_1a'"):
        GBNF('root ::= 1a | _1a\n1a ::= "1"\n_1a ::= "2" _1a').compile(BYTES)


def test_an_unknown_special_token_is_called_that() -> None:
    for engine in ("xgrammar", "llguidance"):
        with pytest.raises(ConstraintError, match=r"unknown special token <\|im_end\|>\. Correct it") as caught:
            Lark('start: "<no>" /<nor>/ <|im_end|> // <nothing>', engine=engine).compile(BYTES)
        assert "panic" not in str(caught.value)
