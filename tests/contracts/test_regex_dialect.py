"""A regex by every spelling that Python has for it: members of classes, flags, properties; against `re` and `regex`."""

from __future__ import annotations

import itertools
import random
import re
import warnings

import pytest
import regex
from constraint_tools import BYTES

from smc import Lark, Regex
from smc.constraints.crosscheck import BYTES as PLAIN
from smc.constraints.crosscheck import leads_through
from smc.constraints.python_regex import parse
from smc.constraints.regex_rewrite import respell
from smc.constraints.regex_tree import Chars
from smc.errors import ConstraintError

ENGINES = ["xgrammar", "llguidance"]
ALPHABET = [
    *map(chr, range(0x180)),
    *"\u0663\u2028\u2014\u03b1\u0391\u017f\u212a\ud7ff\ue000\uffff\U0001f600\U0010ffff",
]
MEMBERS = [*"aZ09-._^]\\[/ &|~:\n\t\0\x7f", "é", "ÿ", "α", "\u2014", "\U0001f600", "k", "i", "\u017f"]
SETS = [r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\b"]


def spelling(rng: random.Random, char: str) -> str:
    code = ord(char)
    ways = [char, f"\\U{code:08x}"]
    ways += [] if char.isascii() and char.isalnum() else [f"\\{char}"]
    ways += [f"\\u{code:04x}"] if code < 0x10000 else []
    ways += [f"\\x{code:02x}", f"\\{code:03o}"] if code < 0x100 else []
    ways += {"-": [r"\N{HYPHEN-MINUS}"], "\u2014": [r"\N{EM DASH}"]}.get(char, [])
    return rng.choice(ways)


def random_class(rng: random.Random) -> str:
    def member() -> str:
        return rng.choice(SETS) if rng.random() < 0.15 else spelling(rng, rng.choice(MEMBERS))

    parts = []
    for _ in range(rng.randint(1, 5)):
        kind = rng.random()
        hyphen = rng.choice(["-", r"\-", r"\x2d", r"\055"])
        parts.append(hyphen if kind < 0.25 else f"{member()}-{member()}" if kind < 0.4 else member())
    return f"[{rng.choice(['', '^'])}{''.join(parts)}]"


def read_by_python(rng: random.Random, number: int) -> list[tuple[str, re.Pattern[str]]]:
    found: list[tuple[str, re.Pattern[str]]] = []
    while len(found) < number:
        pattern, flag = random_class(rng), rng.choice(["", "", "i", "a"])
        pattern = f"(?{flag}:{pattern})" if flag else pattern
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            try:
                compiled = re.compile(pattern)
            except re.error:
                continue
        if isinstance(parse(pattern), Chars):  # a bare ] may end the class early
            found.append((pattern, compiled))
    return found


def test_random_classes_hold_the_characters_that_python_takes() -> None:
    for pattern, python in read_by_python(random.Random(13), 700):
        members = {char for char in ALPHABET if python.fullmatch(char)}
        tree = parse(pattern)
        assert isinstance(tree, Chars)
        assert {c for c in ALPHABET if any(low <= ord(c) <= high for low, high in tree.ranges)} == members, pattern


@pytest.mark.parametrize("engine", ENGINES)
def test_random_classes_are_the_same_to_the_engine_and_the_validator(engine: str) -> None:
    classes = read_by_python(random.Random(14), 80)
    numbered = "|".join(f"{at:03d}(?:{pattern})" for at, (pattern, _) in enumerate(classes))
    compiled = Regex(numbered, engine=engine).compile(BYTES)
    for at, (pattern, python) in enumerate(classes):
        for char in ALPHABET:
            text = f"{at:03d}{char}".encode()
            assert compiled.generates(text) == bool(python.fullmatch(char)), (pattern, char)  # type: ignore[attr-defined]
        for char in ALPHABET[at % 7 :: 7]:
            assert compiled.accepts(f"{at:03d}{char}".encode()) == bool(python.fullmatch(char)), (pattern, char)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"[.\-_]", ["-", ".", "_"], ["A", "\\"]),
        (r"\d{3}[.\-/ ]\d{4}", ["555-0100", "555/0100"], ["555,0100"]),
        (r"[^\-a]", ["b"], ["-", "a"]),
        (r"[\055a]", ["-"], ["b"]),
        ("(?i)straße", ["STRAßE", "strAẞe"], ["strasse"]),
        ("(?i:[a-c])x", ["Bx"], ["BX"]),
        ("(?i)a(?-i:b)", ["Ab"], ["aB"]),
        ("(?s).", ["\n"], [""]),
        ("a(?s:.)", ["a\n"], ["a"]),
        (".", ["\r", "\u2028"], ["\n"]),
        ("(?x) a # a comment\n b \\  [ ]", ["ab  "], ["a b"]),
        (r"(?a)\w\d", ["a1"], ["é1", "a\u0663"]),
        ("(?m)^a$", ["a"], ["a\n"]),
        (r"a(?#a \) b)b", ["ab"], ["a"]),
        (r"a(?#c)*", ["", "aa"], ["b"]),
        ("(?:a{2})*", ["", "aaaa"], ["aaa"]),
        ("(?:^a|b)$", ["a", "b"], ["ab"]),
        ("a\0\\0", ["a\0\0"], ["a", "a\0\1"]),
        (r"[\p{L}]+", ["Zoé"], ["L", "{"][1:]),
        (r"\P{L}[^\p{Lu}]", ["1a"], ["aa", "1A"]),
        (r"\p{Script=Greek}\pN\p{^L}", ["α11"], ["a11", "αα1"]),
        ("[[:alpha:][:^ascii:]]", ["é", "a", "\u0663"], ["1"]),
        (r"\u{1F600}\x{e9}\z", ["\U0001f600é"], ["\U0001f600"]),
        (r"[\w-.]", ["-", ".", "a"], ["/"]),
    ],
)
def test_dialect(engine: str, pattern: str, good: list[str], bad: list[str]) -> None:
    constraint = Regex(pattern, engine=engine)
    assert constraint.notes == ()
    compiled = constraint.compile(BYTES)
    for text in good + bad:
        assert compiled.accepts(text.encode()) == (text in good), text
        assert compiled.generates(text.encode()) == (text in good), text  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ENGINES)
def test_properties_are_those_of_the_regex_package(engine: str) -> None:
    names = ["L", "Lu", "Nd", "P", "Zs", "Script=Cyrillic", "Alphabetic", "Emoji", "ASCII"]
    patterns = [rf"\p{{{name}}}" for name in names] + [rf"[^\p{{{name}}}-]" for name in names]
    patterns += [r"(?i:\p{Lu})", r"[[:punct:]]", r"[\P{L}\d]"]
    compiled = Regex("|".join(f"{at:02d}{p}" for at, p in enumerate(patterns)), engine=engine).compile(BYTES)
    chars = [*ALPHABET, *map(chr, range(0x400, 0xD800, 397)), *map(chr, range(0x10000, 0x30000, 3997))]
    for at, pattern in enumerate(patterns):
        oracle = regex.compile(pattern)
        for char in chars:
            let_through = compiled.generates(f"{at:02d}{char}".encode())  # type: ignore[attr-defined]
            assert let_through == bool(oracle.fullmatch(char)), (pattern, char)


@pytest.mark.parametrize(
    "compiled", [re.compile("a.b", re.I | re.S), re.compile("(?i)a.b", re.S), regex.compile("a.b", regex.I | regex.S)]
)
def test_compiled_patterns_bring_their_flags(compiled: re.Pattern[str]) -> None:
    constraint = Regex(compiled)
    assert constraint.flags == "is"
    assert constraint == Regex(compiled)
    assert constraint != Regex(compiled.pattern)
    assert constraint.compile(BYTES).accepts(b"A\nB")
    assert not Regex("a.b").compile(BYTES).accepts(b"A\nB")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (re.compile(b"a"), "is of bytes"),
        (b"a", "must be a string or a compiled pattern, not bytes"),
        (regex.compile("a", regex.V1), "flags that are not understood"),
        ("(?L:a)", r"uses the flag L \(LOCALE\) at character 0"),
        ("a(?i)b", r"sets flags with \(\?i\) at character 1: put them at its beginning"),
        (r"\((?:[^()]|(?R))*\)", "calls a group again .*EBNF, GBNF or Lark"),
        ("(a(?1)?b)", "calls a group again"),
        ("(?P<n>a(?&n)?b)", "calls a group again"),
        (r"\X", r"uses \\X at character 0: Python's re does not have it"),
        ("a**", r"repeats a repetition with \* at character 2"),
        ("^*", r"repeats nothing with \* at character 1"),
    ],
)
def test_what_is_not_meant_is_refused_in_words(pattern: object, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        Regex(pattern).compile(BYTES)  # type: ignore[arg-type]


def test_a_place_inside_nothing_is_what_this_python_says() -> None:
    for pattern in (r"\B", r"\b", r"a*\B", r"\Ba*", r"\B\n?"):
        for text in ("", "a", "aa", "\n"):
            accepted = Regex(pattern).compile(BYTES).accepts(text.encode())
            assert accepted == bool(re.fullmatch(pattern, text)), (pattern, text)


PIECES = ["a", "b", "A", "\u017f", "\u0130", "é", "1", ".", "*", "+", "?", "*?", "a*+", "{", "}", "{2}", "{,1}", "{1,}"]
PIECES += ["{2,1}", "|", "(", ")", "(?:", "(?i:", "(?-i:", "(?s:", "(?m:", "(?x:", "(?=", "(?!", "(?<=", "(?<!", "(?>"]
PIECES += ["(?P<n>", "(?P=n)", "(?#\\))", "(?(1)", r"\1", "[", "]", "[^", "-", "^", "$", r"\A", r"\Z", r"\b", r"\B"]
PIECES += [
    r"\d",
    r"\W",
    r"\n",
    r"\-",
    r"\x41",
    r"\101",
    r"\0",
    " ",
    "#",
    "\n",
    r"\ ",
    "[]a]",
    "[a\\-c]",
    "(a)",
    r"\q",
    "[a--b]",
]


def test_random_syntax_is_read_or_refused_as_python_does() -> None:
    rng = random.Random(15)
    texts = ["".join(text) for n in range(3) for text in itertools.product("abAs\u017fiI\u01301\n-#", repeat=n)]
    read = 0
    for _ in range(1500):
        pattern = rng.choice(["", "", "(?i)", "(?s)", "(?m)", "(?x)", "(?a)"])
        pattern += "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 6)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            try:
                python = re.compile(pattern)
            except (re.error, OverflowError):
                continue
        read += 1
        validator = regex.compile(respell(pattern, "it").validator)
        for text in texts:
            assert bool(validator.fullmatch(text)) == bool(python.fullmatch(text)), (pattern, text)
    assert read > 250


@pytest.mark.parametrize("kind", ["regex", "lark"])
@pytest.mark.parametrize(
    "pattern", [r"[^\W\d_]+", r"[\W]", r"[\w]", r"[^\w]", r"[k\W]", r"[^k\d]", r"[^\Wa-k]", "[^ι]"]
)
def test_sets_in_a_class_are_as_they_are_in_either_case(kind: str, pattern: str) -> None:
    """Only written characters stand for both cases: U+0345 folds to iota, and is no letter."""
    for flags, engine in itertools.product(("i", "ia"), ("xgrammar", "llguidance")):
        scoped = f"(?{flags}:{pattern})"
        constraint = Regex(scoped, engine=engine) if kind == "regex" else Lark(f"start: /{scoped}/", engine=engine)
        compiled = constraint.compile(PLAIN)
        for char in "ιΙ\u0345kK\u212aſS1_ éİı\u00b5μ-":
            wanted = re.fullmatch(scoped, char) is not None
            assert leads_through(compiled, char.encode()) == compiled.accepts(char.encode()) == wanted, (char, scoped)
