"""Grammars on which engines have been wrong, each with its right answer; and what GBNF and Lark mean by their signs."""

from __future__ import annotations

import itertools
import re

import pytest
from constraint_tools import AB, BYTES, allowed_ids, expected_mask, spell, walks

from smc.constraints import EBNF, GBNF, Choice, Constraint, FiniteLanguage, Intersection, Lark, Regex
from smc.constraints.crosscheck import BYTES as PLAIN
from smc.constraints.crosscheck import leads_through
from smc.errors import ConstraintError

BOTH = ["xgrammar", "llguidance"]
STOPS = set(BYTES.stop_ids)


def takes(constraint: Constraint, text: str | bytes) -> bool:
    """Whether the masks lead through a text and let it end, and whether the validator agrees."""
    compiled, data = constraint.compile(PLAIN), text.encode() if isinstance(text, str) else text
    led = leads_through(compiled, data)
    assert led == compiled.accepts(data), data
    return led


@pytest.mark.parametrize("engine", BOTH)
def test_one_to_three_ones_at_their_ends(engine: str) -> None:
    for constraint in (
        Regex("[1]{1,3}", engine=engine),
        EBNF("root ::= [1]{1,3}", engine=engine),
        GBNF("root ::= [1]{1,3}", engine=engine),
    ):
        compiled = constraint.compile(BYTES)
        one = {ord("1")}
        masks = [allowed_ids(spell(compiled.start(), "1" * n), BYTES) for n in range(4)]
        assert masks == [one, one | STOPS, one | STOPS, STOPS]
        assert [compiled.accepts(b"1" * n) for n in range(5)] == [False, True, True, True, False]


@pytest.mark.parametrize("engine", BOTH)
def test_emoji_classes_whose_characters_are_several_tokens(engine: str) -> None:
    emoji = ["\U0001f600", "\U0001f601", "\U0001f64f", "\u2764"]
    for constraint in (
        Regex("[\U0001f600-\U0001f64f\u2764]{1,2}!", engine=engine),
        GBNF(r"root ::= [\U0001F600-\U0001F64F\u2764]{1,2} [!]", engine=engine),
        Lark("start: /[\U0001f600-\U0001f64f\u2764]{1,2}!/", engine=engine),
    ):
        for pair in itertools.product(emoji, emoji):
            assert takes(constraint, "".join(pair) + "!")
        assert not takes(constraint, "!")
        assert not takes(constraint, "\U0001f650!")  # one past the end: the same first three bytes
        assert not takes(constraint, emoji[0].encode()[:3] + b"!")
        rows = spell(constraint.compile(BYTES).start(), emoji[0].encode()[:3])
        assert allowed_ids(rows, BYTES) == set(range(0x80, 0xC0))  # U+1F600 to U+1F63F


COMMENTS = ["/**/", "/* a */", "/***/", "/* ** / */", "/*/*/", "/*a*b/*/"]
NO_COMMENTS = ["/*/", "/* */ */", "/* a", "//", "/**/ ", "/* */*/"]


@pytest.mark.parametrize("engine", BOTH)
def test_c_comments(engine: str) -> None:
    pattern = r"/\*(\*+[^*/]|[^*])*\*+/"
    for constraint in (
        Regex(pattern, engine=engine),
        Lark(f"start: /{pattern.replace('/', chr(92) + '/')}/", engine=engine),
    ):
        assert all(takes(constraint, text) for text in COMMENTS)
        assert not any(takes(constraint, text) for text in NO_COMMENTS)
    grammar = EBNF('root ::= "/*" ([*]+ [^*/] | [^*])* [*]+ "/"', engine=engine)
    for text in COMMENTS + NO_COMMENTS:
        assert takes(grammar, text) == (re.fullmatch(pattern, text) is not None)


@pytest.mark.parametrize("engine", BOTH)
def test_a_choice_of_1200(engine: str) -> None:
    options = [f"option {i}" + ("!" if i % 7 == 0 else "\u00e9") for i in range(1200)]
    choice = Choice(options, engine=engine)
    assert choice.engine == engine
    assert all(takes(choice, option) for option in options[::37])
    assert not any(takes(choice, text) for text in ("option", "option 1200!", "option 0", options[1] + "!"))
    listed = FiniteLanguage(options).compile(BYTES)
    for prefix in ("", "option ", "option 11", "option 77", options[777]):
        rows, expected = spell(choice.compile(BYTES).start(), prefix), spell(listed.start(), prefix)
        assert allowed_ids(rows, BYTES) == allowed_ids(expected, BYTES)


@pytest.mark.parametrize(
    "constraint",
    [
        Regex("(a*)*"),
        Regex("(a*)*", engine="llguidance"),
        Regex("((a?)+)*"),
        Regex("((a?)+)*", engine="llguidance"),
        EBNF('root ::= (("a")?)*'),
        EBNF('root ::= (("a"?)+ ""*)*'),
        GBNF('root ::= (("a")?)*'),
        GBNF('root ::= (("a")?)*', engine="llguidance"),
        EBNF('root ::= (("a"?)+ ""*)*', engine="llguidance"),
        GBNF('root ::= x*\nx ::= y{0,3}\ny ::= | "a"'),
        Lark('start: (("a")?)*'),
        Lark('start: (("a")?)*', engine="llguidance"),
    ],
    ids=lambda constraint: f"{constraint!r:.60}",
)
def test_nested_empty_repetitions(constraint: Constraint) -> None:
    compiled = constraint.compile(AB)
    members = [b"a" * n for n in range(12)]
    masks = walks(compiled, AB, depth=3)
    assert masks == {prefix: expected_mask(prefix, members, AB) for prefix in masks}
    assert [compiled.accepts(text) for text in (b"", b"aaaa", b"ab")] == [True, True, False]


@pytest.mark.parametrize(
    "constraint",
    [
        EBNF('root ::= root "b" | "a"'),
        EBNF('root ::= x\nx ::= y "b" | "a"\ny ::= x'),
        GBNF('root ::= list\nlist ::= list "b" | "a"'),
        GBNF('root ::= "" root "b" | "a"'),
        GBNF('root ::= "" root "b" | "a"', engine="llguidance"),
        Lark('start: start "b" | "a"'),
        Lark('start: start "b" | "a"', engine="llguidance"),
    ],
    ids=lambda constraint: f"{constraint!r:.60}",
)
def test_left_recursion_works(constraint: Constraint) -> None:
    compiled = constraint.compile(AB)
    members = [b"a" + b"b" * n for n in range(12)]
    masks = walks(compiled, AB, depth=4)
    assert masks == {prefix: expected_mask(prefix, members, AB) for prefix in masks}
    assert [compiled.accepts(text) for text in (b"a", b"abbb", b"b", b"aa")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("grammar", "named"),
    [
        ("root ::= root{0,2}", "rule 'root'"),
        ('root ::= "a"\nx ::= x{0,2}', "rule 'x'"),  # the engine reads rules that nothing uses, too
        ('root ::= "a" | x\nx ::= "" y ""\ny ::= x{2,3}', "rules 'x', 'y'"),
        ('root ::= "a" | x\nx ::= (x{0,2}){0,3}', "rules 'x'"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_a_rule_that_only_repeats_itself_is_refused(grammar: str, named: str, check: bool) -> None:
    """It would end the process."""
    for kind in (EBNF, GBNF):
        with pytest.raises(ConstraintError, match=f"nothing but a repetition of itself \\({named}"):
            kind(grammar, check=check).compile(BYTES)


def test_rules_that_repeat_themselves_among_other_things_are_fine() -> None:
    assert takes(EBNF('root ::= x{0,2} | "b"\nx ::= x{0,2} | "a"'), "aaa")
    assert takes(EBNF('root ::= x\nx ::= "c" x{0,2}'), "ccc")


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(
    ("grammar", "good", "bad"),
    [
        # repetition counts
        ('root ::= "a"{2}', ["aa"], ["a", "aaa"]),
        ('root ::= "a"{2,}', ["aa", "aaaaa"], ["a"]),
        ('root ::= "a"{0,2}', ["", "aa"], ["aaa"]),
        ('root ::= ("ab"{1,2} "c"){2}', ["abcabc", "ababcabc"], ["abc", "abababcabc"]),
        ('root ::= "ab"{2}', ["abab"], ["abb"]),  # of the whole literal
        ('root ::= "a"{ 1 , 2 }', ["a", "aa"], ["", "aaa"]),
        # ranges of Unicode
        (r"root ::= [\u0400-\u04FF]+", ["\u0416\u04ff"], ["z", "\u0500"]),
        ("root ::= [\u00e9-\u00eb]", ["\u00ea"], ["e", "\u00ec"]),
        (r"root ::= [^\x00-\x7F]", ["\u00e9", "\U0001f600"], ["a", "\x7f"]),
        (r"root ::= [\x61-\x63]{2}", ["ac"], ["ad"]),
        (
            "root ::= [\u00e9]{2} [\U0001f600]?",
            ["\u00e9\u00e9", "\u00e9\u00e9\U0001f600"],
            ["\u00e9", "ee"],
        ),  # classes of one
        # escapes
        (r'root ::= "\n\t\\\"\x41\u00e9"', ['\n\t\\"A\u00e9'], ["nt"]),
        (r"root ::= [\]\\^-]+", ["]\\^-"], ["["]),
        ("root ::= [a^]", ["a", "^"], ["b"]),
        # comments
        ('# one\nroot ::= # two\n  "a" # three "b"\n  | "#" # four', ["a", "#"], ["b", 'a "b"']),
        # groups over several lines, alternatives that begin a line
        ('root ::= (\n  "a" |\n  "b"\n)+', ["abba"], ["", "c"]),
    ],
)
def test_gbnf(engine: str, grammar: str, good: list[str], bad: list[str]) -> None:
    constraint = GBNF(grammar, engine=engine)
    assert [text for text in good if not takes(constraint, text)] == []
    assert [text for text in bad if takes(constraint, text)] == []


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(
    ("grammar", "good", "bad"),
    [
        ('// a comment\nstart: "a" // another\n  | "b"', ["a", "b"], ["ab"]),
        ('start: "a"~2..3', ["aa", "aaa"], ["a", "aaaa"]),
        ("start: /[\\u0400-\\u04ff]+/", ["\u0416\u04ff"], ["z", "\u0500"]),
        (r'start: "\n\t\"\u00e9"', ['\n\t"\u00e9'], ["nt"]),
        ('start: ["a"] "b"', ["ab", "b"], ["a"]),
        ('start: item ("," item)*\nitem: /[0-9]+/', ["1", "1,22"], ["1,", ",1"]),
        ('start: "b"i', ["b", "B"], ["a"]),
        ('start: "a" "b"\n%ignore " "', ["ab", "a  b"], ["ba"]),
    ],
)
def test_lark(engine: str, grammar: str, good: list[str], bad: list[str]) -> None:
    constraint = Lark(grammar, engine=engine)
    assert [text for text in good if not takes(constraint, text)] == []
    assert [text for text in bad if takes(constraint, text)] == []


def test_what_only_llguidance_can_read_takes_the_longest_match_and_that_is_said() -> None:
    constraint = Lark('start: /[a-z]+/ "x" | %json {"type": "null"}', engine="llguidance")
    assert not takes(constraint, "abx")
    assert takes(constraint, "null")
    (note,) = constraint.notes
    assert (note.effect, note.keyword, note.scope) == ("narrower", "terminals", "values")


def test_what_only_one_engine_has_is_refused_by_the_other() -> None:
    for text in ("root ::= Token(97)", "root ::= TagDispatch(loop_after_dispatch=true, excludes=())"):
        with pytest.raises(ConstraintError, match="a part that only xgrammar has: leave engine='llguidance' out"):
            EBNF(text, engine="llguidance").compile(BYTES)


def test_undefined_rules_are_named() -> None:
    for constraint, name in (
        (EBNF('root ::= "a" thing'), "thing"),
        (GBNF('root ::= "a" thing'), "thing"),
        (GBNF('root ::= "a" thing', engine="llguidance"), "thing"),
        (Lark('start: "a" thing'), "thing"),
        (Lark('start: "a" thing', engine="llguidance"), "thing"),
    ):
        with pytest.raises(ConstraintError, match=name):
            constraint.compile(BYTES)


def test_intersection_of_engines_is_the_intersection_of_masks() -> None:
    left, right = Regex("[ab]{1,3}"), Lark('start: "a" start | "b"', engine="llguidance")
    both = Intersection(left, right)
    assert both.engine == "xgrammar & llguidance"
    masks = walks(both.compile(AB), AB, depth=3)
    one, other = walks(left.compile(AB), AB, 3), walks(right.compile(AB), AB, 3)
    assert masks == {prefix: one[prefix] & other[prefix] for prefix in masks}
    assert both.notes == ()


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize(
    "text",
    [
        'root ::= "a" x{2} | "b"\nx ::= "c" y{1,2} | "d"\ny ::= x{2} | "e"',
        'root ::= a\na ::= b{1,3}\nb ::= a{1,2} | "x"',
        'root ::= root{2} | "a"',
        "root ::= r0{1,2}\n" + "\n".join(f'r{i} ::= "a" r{i + 1}{{0,2}}' for i in range(1500)) + '\nr1500 ::= "b"',
    ],
)
def test_rules_that_repeat_each_other_compile(text: str, engine: str) -> None:
    """Their size is told before they are compiled, whether they go round in circles or deeper than Python recurses."""
    assert allowed_ids(EBNF(text, engine=engine).compile(BYTES).start(), BYTES)
