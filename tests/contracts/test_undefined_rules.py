"""Grammars that name a rule which nobody defines, and grammars that define one which nobody names."""

from __future__ import annotations

import pytest
from constraint_tools import BYTES, allowed_ids, spell

from smc.constraints import EBNF, GBNF, Constraint, Lark, Template
from smc.constraints.crosscheck import BYTES as PLAIN
from smc.constraints.crosscheck import leads_through
from smc.constraints.notes import LanguageNote, language_of, refuse_narrowing
from smc.errors import ConstraintError, EmptyLanguageError, NarrowedLanguageError

BOTH = ["xgrammar", "llguidance"]

TREES = """
root ::= "(ROOT" S ")"
S ::= "(S" NP VP ")" | "(S" VP C_0_2 | C_0_2
NP ::= "(NP" T ")" | "(NP" T " " C_0_2 "q"
VP ::= "(VP" T ")" | B | D
B ::= "( " T " " C_0_2
D ::= "[" D "]" | B
T ::= "t"
"""
RULES = {GBNF: TREES, EBNF: TREES, Lark: TREES.replace("::=", ":").replace("root", "start")}
for names in ("root", "S", "NP", "VP", "B", "D", "T", "C_0_2"):
    RULES[Lark] = RULES[Lark].replace(f" {names}", f" {names.lower()}").replace(f"\n{names}", f"\n{names.lower()}")


def rules(kind: type, **options: object) -> Constraint:
    return kind(RULES[kind], **options)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("kind", [GBNF, EBNF, Lark])
def test_it_is_named_with_the_remedy(kind: type, engine: str) -> None:
    with pytest.raises(ConstraintError, match=r"(?i)rule 'C_0_2' in rules 'S', 'NP', 'B', which nobody.*check=False"):
        rules(kind, engine=engine).compile(BYTES)
    with pytest.raises(ConstraintError, match=r"'nuber'.*nobody defines \(is 'number' meant\?\)"):
        GBNF('root ::= nuber | number\nnumber ::= "1"', engine=engine).compile(BYTES)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("kind", [GBNF, EBNF, Lark])
def test_without_the_check_what_needs_it_is_left_out_and_said(kind: type, engine: str) -> None:
    constraint = rules(kind, engine=engine, check=False)
    compiled = constraint.compile(BYTES)
    assert allowed_ids(spell(compiled.start(), "(ROOT(S(NPt"), BYTES) == {ord(")")}  # not the blank
    assert allowed_ids(spell(compiled.start(), "(ROOT(S(NPt)("), BYTES) == {ord("V")}  # D only ever leads into B
    assert compiled.accepts(b"(ROOT(S(NPt)(VPt)))")
    [note] = language_of(constraint, compiled).notes
    assert (note.effect, note.keyword, note.scope) == ("narrower", "undefined", "values")
    assert "'c_0_2', which nobody defines" in note.what.lower()
    with pytest.raises(NarrowedLanguageError, match="nobody defines"):
        refuse_narrowing(constraint, compiled)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ('root ::= "a" (nope)? "b"', ["ab"], ["a", "b"]),
        ('root ::= "a" nope* "b"', ["ab"], ["a"]),
        ('root ::= "a" nope{0,3} ("c" nope{0,1})+ "b"', ["acb", "accb"], ["ab"]),
        ('root ::= "a" (nope | "b")+', ["ab", "abb"], ["a"]),
        ('root ::= "a" | "b" nope{1,2} | ("c" nope+)? "d"', ["a", "d"], ["b", "cd", "c"]),
        ('root ::= "a" | x\nx ::= "b" y\ny ::= z nope | nope\nz ::= "c"', ["a"], ["b", "bc"]),
        ('root ::= "a" | "b" never\nnever ::= nope never | "c" never', ["a"], []),  # endless by itself as well
    ],
)
def test_optional_and_repeated_parts_leave_the_empty_text(
    engine: str, text: str, good: list[str], bad: list[str]
) -> None:
    for constraint in (GBNF(text, engine=engine, check=False), EBNF(text, engine=engine, check=False)):
        compiled = constraint.compile(PLAIN)
        assert [leads_through(compiled, word.encode()) for word in good + bad] == [True] * len(good) + [False] * len(
            bad
        )
        with pytest.raises(ConstraintError, match=r"'nope'.*nobody defines"):
            type(constraint)(text, engine=engine).compile(PLAIN)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(
    "make",
    [
        lambda **options: GBNF("root ::= nope", **options),
        lambda **options: EBNF('root ::= "a" root | "b" x\nx ::= nope x | nope', **options),
        lambda **options: Lark('start: "a" nope | NOPE', **options),
        lambda **options: Lark("start: A\n%declare A", **options),
    ],
)
def test_where_nothing_is_left_the_language_is_empty(engine: str, make) -> None:
    with pytest.raises(EmptyLanguageError, match=r"describes no text.*nobody defines"):
        make(engine=engine, check=False).compile(BYTES)


def test_what_cannot_be_reached_does_not_matter() -> None:
    for constraint in (GBNF('root ::= "a"\nx ::= nope'), EBNF('root ::= "a"\nx ::= nope'), Lark('start: "a"\nx: nope')):
        assert constraint.compile(BYTES).accepts(b"a")
        assert constraint.notes == ()


def test_endless_rules_run_as_before_without_the_check() -> None:
    compiled = GBNF('root ::= "a" | "b" loop | nope\nloop ::= "c" loop', check=False).compile(PLAIN)
    assert allowed_ids(spell(compiled.start(), "bcc"), PLAIN) == {ord("c")}


def test_names_in_comments_texts_and_classes_are_none() -> None:
    text = 'root ::= "nope" [nope] # nope ::= "x" nope\n'
    for constraint in (GBNF(text), EBNF(text)):
        assert constraint.undefined == ()
        assert constraint.compile(BYTES).accepts(b"nopee")


def test_a_part_of_a_template_is_settled_too() -> None:
    part = GBNF('root ::= "a" | "b" nope', check=False)
    template = Template("x", part)
    compiled = template.compile(PLAIN)
    assert [leads_through(compiled, text) for text in (b"xa", b"xb")] == [True, False]
    assert allowed_ids(spell(compiled.start(), "x"), PLAIN) == {ord("a")}
    with pytest.raises(ConstraintError, match=r"'nope'.*nobody defines"):
        Template("x", GBNF('root ::= "a" | "b" nope')).compile(PLAIN)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("kind", [GBNF, EBNF])
def test_brackets_around_the_name_of_an_unused_rule_are_questioned(kind: type, engine: str) -> None:
    constraint = kind('root ::= [sign] digit+\nsign ::= "+" | "-"\ndigit ::= [0-9]', engine=engine)
    assert constraint.compile(PLAIN).accepts(b"s12")  # a class, as the dialect has it
    [note] = constraint.notes
    assert isinstance(note, LanguageNote)
    assert (note.effect, note.at, note.keyword) == ("narrower", "rule 'root'", "[sign]")
    assert "rule 'sign' is used nowhere: write (sign)?" in note.what
    used = kind('root ::= [sign] sign digit+\nsign ::= "+" | "-"\ndigit ::= [0-9]', engine=engine)
    assert used.notes == ()
    assert Lark('start: [sign] "1"\nsign: "+" | "-"', engine=engine).compile(PLAIN).accepts(b"1")


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize(
    ("text", "kept"),
    [('start: "a" A\nA: B | "c"', "ac"), ('start: "x" | A\nA: "a" B', "x")],
)
def test_names_inside_terminals(text: str, kept: str, engine: str) -> None:
    """Lark writes terminals out in each other, so that nothing is left of a name but a class without characters."""
    name = "'B'"
    with pytest.raises(
        ConstraintError, match=rf"{name}.*which nobody defines: define it, or correct the name.*check=False"
    ):
        Lark(text, engine=engine).compile(PLAIN)
    constraint = Lark(text, engine=engine, check=False)
    compiled = constraint.compile(PLAIN)
    assert leads_through(compiled, kept.encode())
    assert not leads_through(compiled, b"a")
    assert any(note.keyword == "undefined" and name in note.what for note in constraint.notes)


def test_what_lark_refuses_without_a_word() -> None:
    with pytest.raises(ConstraintError, match="declared terminal"):
        Lark("start: A\n%declare A\nB: A").compile(PLAIN)
    assert Lark('start: "x" | B "a"\nB: "b"\nC: D').compile(PLAIN).accepts(b"ba")  # C is used nowhere
