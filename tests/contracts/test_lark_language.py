"""A Lark grammar means what the `lark` package means by it, for both engines; where the mask is wider, it is said."""

from __future__ import annotations

import itertools
import logging
import random
import re

import lark
import pytest
from constraint_tools import BYTES, allowed_ids, spell

from smc.constraints import Lark, lark_text
from smc.constraints.crosscheck import BYTES as PLAIN
from smc.constraints.crosscheck import leads_through
from smc.constraints.match_automaton import Automaton, automaton
from smc.constraints.match_tree import read
from smc.errors import ConstraintError, OptionError

BOTH = ["xgrammar", "llguidance"]
LEXERS = ["dynamic", "dynamic_complete"]


def parses(parser: lark.Lark, text: str) -> bool:
    """What `lark` says. (It refuses to choose where an ignored text at the end can be read in two ways.)"""
    try:
        parser.parse(text)
    except lark.exceptions.UnexpectedInput:
        return False
    except RuntimeError as error:
        return "multiple start symbol" in str(error)
    return True


JSON = r"""
?start: value
?value: object | array | ESCAPED_STRING -> string | SIGNED_NUMBER -> number | "true" | "false" | "null"
array: "[" [value ("," value)*] "]"
object: "{" [pair ("," pair)*] "}"
pair: ESCAPED_STRING ":" value
%import common (ESCAPED_STRING, SIGNED_NUMBER)
%import common.WS
%ignore WS
"""

# (grammar, texts of it, other texts): exact in the masks too
EXACT: list[tuple[str, list[str], list[str]]] = [
    (r"start: /\w+/ /-\d/", ["é-٣", "_Б-1"], ["-1", "é-²"]),
    (r"start: /\W\D/ /\s/", ["-x\u2003", "→²\x1f"], ["éx ", "-٣ ", "-x-"]),
    (r'start: /[^\w]/i /[\d.]/ "K"i', ["-٣k", "-.\u212a"], ["é1k", "-ak"]),
    ('start: "a" "b"\n%ignore " "', ["ab", " ab", "  a  b  "], ["a", " "]),
    ('start: "a"?\n%ignore /[ \\n]+/', ["", "a", " \n", " a "], ["aa"]),
    ("start: N+\nN: /[0-9]/\n%ignore WS\n%import common.WS", ["1 2\n3", "\t12 "], ["", " ", "a"]),
    (JSON, ['{"a": [1, -2.5e3, "x\\"y"]} ', "\n[ ]", '"\\\\"', "12", "[true,null]"], ['"a"b"', '"\\"', "[1 2]", "[,]", '"a\nb"']),
    ("start: _list{N}\n_list{x}: x (\",\" x)*\nN: /1/", ["1", "1,1"], ["", "1,"]),
    ('start: A ~ 2..3 -> pair\nA.2: "a" | "b"i', ["ab", "BaB"], ["a", "A"]),
    ('?start: x | y\n!x: "a"\n_y: "b"\ny: _y', ["a", "b"], ["ab"]),
    ('start: "a".."c" /X/i', ["bx", "cX"], ["dx", "Bx"]),
    ("start: /(?s:.)x/ /(?i:é)/ /(?a:\\w)/", ["\nxÉz"], ["xéz", "axéß"]),
    ('start: A B\nA: /".*?"/\nB: /.+/', ['"a"b"', '"""x'], ['"a', '"a"']),
    ("start: /a|ab/ /c/", ["ac"], ["abc"]),
    ('start: X\n%import common.DIGIT -> X\n%extend X: "q"', ["7", "q"], ["77"]),
    ('start: X\n%import common.DIGIT -> X\n%override X: "q"', ["q"], ["7"]),
    (r"start: /#[^\n]*/ /\n/ /[ab](?<!b)c|[ab](?<=b)d/", ["#a\nac", "#\nbd"], ["#a\nbc", "#\nad"]),
]  # fmt: skip


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(("grammar", "good", "bad"), EXACT)
def test_what_lark_parses_is_what_the_masks_let_through(
    engine: str, grammar: str, good: list[str], bad: list[str]
) -> None:
    parser, constraint = lark.Lark(grammar), Lark(grammar, engine=engine)
    assert constraint.notes == ()
    compiled = constraint.compile(PLAIN)
    for text in good + bad:
        assert parses(parser, text) == (text in good)
        assert (leads_through(compiled, text.encode()), compiled.accepts(text.encode())) == (text in good,) * 2, text


# (grammar, a text, what the mask lets through besides, what is named)
WIDER = [
    ('start: /[a-z]+/ "x"', None, "abx", "terminals"),
    ('start: "select" NAME "from" NAME\nNAME: /[a-z]+/\n%ignore " "', "select a from b", "selectafrom b", "terminals"),
    (r"start: /ab\b/ /.+/", "ab-", "abc", r"\b"),
    ("start: /a(?!b)./", "ac", "ab", "(?!..)"),
    (r"start: /(a|b)\1/", "aa", "ab", "a back-reference"),
    ("start: /(?>a|ab)c/", "ac", "abc", "(?>..)"),
    ("start: /a*+[ab]/", "aab", "aa", "a possessive repetition"),
    ('start: "a" /(?<!a)b/', None, "ab", "a look at what stands before the terminal"),
]


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(("grammar", "good", "let_through", "keyword"), WIDER)
def test_what_the_mask_cannot_do_is_noted_and_refused_by_lark(
    engine: str, grammar: str, good: str | None, let_through: str, keyword: str
) -> None:
    constraint = Lark(grammar, engine=engine)
    assert keyword in [note.keyword for note in constraint.notes]
    assert {note.effect for note in constraint.notes} == {"wider"}
    compiled = constraint.compile(PLAIN)
    for text in (good, let_through):
        if text is not None:
            assert leads_through(compiled, text.encode())
            assert compiled.accepts(text.encode()) == parses(lark.Lark(grammar), text) == (text == good)


@pytest.mark.parametrize("engine", BOTH)
def test_the_other_lexer_tries_shorter_matches(engine: str) -> None:
    constraint = Lark('start: /[a-z]+/ "x"', engine=engine, lexer="dynamic_complete")
    assert constraint.notes == ()
    compiled = constraint.compile(PLAIN)
    assert [(leads_through(compiled, t), compiled.accepts(t)) for t in (b"abx", b"ab")] == [(True,) * 2, (False,) * 2]
    with pytest.raises(OptionError, match=r"lexer='basic'.*'dynamic', 'dynamic_complete'"):
        Lark('start: "a"', lexer="basic")


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ("start: /a*/", r"may be empty \(/a\*/\).*optional in the rules"),
        ('start: A\nA: "a"?', r"may be empty \(A: /"),
        ('start: "a"\n%ignore /x*/', r"may be empty \(/x\*/\)"),
        ("%import nowhere.X\nstart: X", "imports nowhere.lark, which is not there"),
        ('foo: "a"', "no rule `start`"),
        ("start: 'a'", "line 1 column 8 .texts stand in double quotes"),
        ('root ::= "a"', "Lark writes `name: ...`"),
        (r"start: /\q/", r"the regex .*uses \\q at character 0"),
        ('start: "a"\nstart: "b"', "'start' defined more than once"),
        ('start: x{"a"}', "Template 'x' used but not defined"),
        ('start: ""', "Empty terminals are not allowed"),
        ('start: "a"\n%ignore WS', "WS.* marked to ignore but were not defined"),
        ("start: A\n%declare A", "'A' in rule 'start', which nobody defines"),
        ("start: " + "(" * 2000 + '"a"' + ")" * 2000, "nested too deeply"),
    ],
)
def test_what_lark_refuses_is_refused_in_words(engine: str, grammar: str, message: str) -> None:
    with pytest.raises(ConstraintError, match=message) as caught:
        Lark(grammar, engine=engine).compile(BYTES)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_what_only_xgrammar_can_read_is_noted_or_refused() -> None:
    tool = ' | "x" %json {"type": "null"}'
    assert Lark(f"start: /[a-z]+/{tool}").notes == ()
    ignoring = Lark(f'start: "a" "b"{tool}\n%ignore " "')
    [note] = ignoring.notes
    assert (note.effect, note.keyword) == ("narrower", "terminals")
    assert ignoring.compile(PLAIN).accepts(b"xnull")
    for engine in BOTH:
        words = Lark(rf"start: /[\p{{L}}\w]+/{tool}", engine=engine).compile(PLAIN)
        assert words.accepts("Zoé٣".encode())
        assert words.accepts(b"xnull")
        assert not words.accepts(b"a-")
    with pytest.raises(ConstraintError, match=r"uses \\q at character"):
        Lark(rf"start: /a\q/{tool}").compile(PLAIN)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"[\p{L} ]+", "é a", "1"),
        (r"\p{L}+-\p{L}+", "a-é", "a-"),
        (r"\P{L}", "-", "é"),
        (r"[^\p{L}]+", "1-", "a"),
        (r"[\w-.]+", "a-.", "!"),
        (r"[a\/b]\p{L}", "/é", "/1"),
    ],
)
def test_properties_beside_signs(pattern: str, good: str, bad: str, engine: str) -> None:
    compiled = Lark(f"start: /{pattern}/", engine=engine).compile(PLAIN)
    for text, right in ((good, True), (bad, False)):
        assert compiled.accepts(text.encode()) == leads_through(compiled, text.encode()) == right


@pytest.mark.parametrize("engine", BOTH)
def test_properties_in_terminals(engine: str) -> None:
    """Python's `re`, and so `lark`, has none: they are respelled before it reads them."""
    words = Lark('start: NAME ("," NAME)*\nNAME: /\\p{Lu}[\\p{L}]*/', engine=engine)
    compiled = words.compile(PLAIN)
    for text, right in [("Zoé", True), ("Zoé,Émile", True), ("zoé", False), ("LLL", True), ("Z1", False)]:
        assert compiled.accepts(text.encode()) == leads_through(compiled, text.encode()) == right


@pytest.mark.parametrize("engine", BOTH)
def test_what_takes_too_long_to_parse_is_left_to_the_engine(
    engine: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiled = Lark("start: /a/ | start start", engine=engine).compile(BYTES)
    assert compiled.accepts(b"aa")
    assert not compiled.accepts(b"a\xff")
    assert caplog.records == []
    monkeypatch.setattr(lark_text, "PARSE_SECONDS", 0.001)
    with caplog.at_level(logging.WARNING, "smc"):
        assert compiled.accepts(b"a" * 40)
        assert not compiled.accepts(b"a" * 40 + b"b")
    said = [record.getMessage() for record in caplog.records]
    assert [text.split(" within")[0] for text in said] == [f"lark did not parse a text of {n} bytes" for n in (40, 41)]


def test_masks_of_multi_byte_tokens_follow_ignored_text() -> None:
    compiled = Lark('start: "{" "}"\n%ignore /[ \\n]+/').compile(BYTES)
    assert allowed_ids(spell(compiled.start(), ""), BYTES) == {ord(c) for c in " \n{"}
    assert allowed_ids(spell(compiled.start(), " {\n"), BYTES) == {ord(c) for c in " \n}"}


# ------------------------------------------------------------------ random inputs

PIECES = [
    "/a+/",
    "/[ab]+/",
    "/a|ab/",
    "/a.*?b/",
    '"a"',
    '"ab"',
    '"b"i',
    '"x"',
    '" "',
    r"/\w/",
    r"/\w+/",
    r"/\d+/",
    "/[^a]/",
]
PIECES += [
    "/(?<!a)b/",
    "/a(?<!b)b?/",
    "/x(?=a)/",
    r"/\bab/",
    '"a".."b"',
    "/AB/i",
    "/a{1,2}b??/",
    "/./s",
    "/[ab]+?x/",
    r"/(a)\1/",
]
TEXTS = ["".join(t) for n in range(5) for t in itertools.product("ab x1", repeat=n)] + [
    "a\nb",
    "\n",
    "é",
    "aé",
    "AB",
    "a٣",
]


def random_grammar(rng: random.Random) -> str:
    def expression(depth: int, names: list[str]) -> str:
        kind = rng.random()
        if depth == 0 or kind < 0.35:
            return rng.choice([*names, rng.choice(PIECES), rng.choice(PIECES)])
        first = expression(depth - 1, names)
        if kind < 0.6:
            return f"{first} {expression(depth - 1, names)}"
        if kind < 0.75:
            return f"({first} | {expression(depth - 1, names)})"
        return f"[{first}]" if kind < 0.8 else f"({first}){rng.choice(['*', '+', '?', '~2', '~0..2'])}"

    names = ["r", "s", "T", "U"]
    lines = [f"start: {expression(2, names)} | {expression(2, names)}", f"?r: {expression(1, names)}"]
    lines += [
        f"s: {expression(1, names)} | {rng.choice(['', 'T'])}",
        f"T.2: {expression(2, [])}",
        f"U: {expression(1, [])}",
    ]
    ignored = rng.choice(["", "", '" "', "/ +/", "/[ x]/", "U", '" " "x"?', "/x[^1]*/"])
    return "\n".join([*lines, f"%ignore {ignored}" if ignored else ""])


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("lexer", LEXERS)
def test_random_grammars(engine: str, lexer: str) -> None:
    rng, tried, exact = random.Random(f"{engine} {lexer}"), 0, 0
    while tried < 12:
        grammar = random_grammar(rng)
        constraint = Lark(grammar, engine=engine, lexer=lexer)
        try:
            compiled = constraint.compile(PLAIN)
        except ConstraintError:
            continue
        tried += 1
        exact += not constraint.notes
        parser = lark.Lark(grammar, lexer=lexer)
        for text in rng.sample(TEXTS, 60):
            right, led = parses(parser, text), leads_through(compiled, text.encode())
            assert compiled.accepts(text.encode()) == right, (grammar, text)
            assert led == right or (led and constraint.notes), (grammar, text)
    assert exact >= 2


PATTERNS = [
    "a",
    "b",
    ".",
    r"\w",
    "[ab]",
    "[^a]",
    "(?<!a)",
    "(?<=b)",
    "(?i:a)",
    "(?i:[^B])",
    "é",
    "(?i:k)",
    r"(?a:\w)",
    r"(?s:.)",
]


def test_automata_take_what_a_match_takes() -> None:
    rng, tried = random.Random(5), 0

    def pattern(depth: int) -> str:
        kind = rng.random()
        if depth == 0 or kind < 0.3:
            return rng.choice(PATTERNS)
        if kind < 0.55:
            return pattern(depth - 1) + pattern(depth - 1)
        if kind < 0.75:
            return f"(?:{pattern(depth - 1)}|{pattern(depth - 1)})"
        return f"(?:{pattern(depth - 1)}){rng.choice(['*', '+', '?', '*?', '+?', '??', '{1,2}', '{0,2}?', '{2,}'])}"

    def holds(texts: Automaton, text: str) -> bool:
        state: int | None = 0
        for char in text:
            moves = texts.moves[state].items()  # type: ignore[index]
            state = next((to for to, ranges in moves if any(a <= ord(char) <= b for a, b in ranges)), None)
            if state is None:
                return False
        return texts.accepting[state]

    words = ["".join(t) for n in range(4) for t in itertools.product("abAé\nk\u212a", repeat=n)]
    while tried < 60:
        text = pattern(4)
        reading = read(text)
        taken, described = (automaton(reading.tree, preferring=preferring) for preferring in (True, False))
        if reading.dropped or taken.looks_before:
            continue
        tried += 1
        python = re.compile(text)
        for word in words:
            match = python.match(word)
            assert holds(taken, word) == (match is not None and match.end() == len(word)), (text, word)
            assert holds(described, word) == (python.fullmatch(word) is not None), (text, word)
