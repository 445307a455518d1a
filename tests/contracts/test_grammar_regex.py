"""A regex means what Python's `re` means by it, for both engines; where the mask is wider, it is said."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from constraint_tools import BYTES, allowed_ids, spell

from smc.constraints import Regex
from smc.constraints.code_points import complement, merged, shorthand, size
from smc.constraints.regex_tree import Chars, spelled
from smc.errors import ConstraintError, EmptyLanguageError, OptionError

ENGINES = ["xgrammar", "llguidance"]
LETTERS = [
    "a",
    "b",
    "\u00e9",
    "1",
    "\u0663",
    "\n",
    "-",
    "]",
    " ",
    ".",
    "{",
    "\\",
]  # U+0663 is a digit, not an ASCII one
TEXTS = ["".join(text) for length in range(3) for text in itertools.product(LETTERS, repeat=length)]
TEXTS += ["aaa", "aab", "aba", "aaaa", "ab1", "a-b", "\u00e9\u00e9\u00e9", "a\nb"]

ATOMS = [
    "a",
    "b",
    "\u00e9",
    "1",
    ".",
    r"\d",
    r"\w",
    r"\s",
    r"\D",
    "[^a]",
    "[a-c]",
    r"[^\w]",
    "-",
    r"\n",
    r"\.",
    "[]x]",
    r"[\d-]",
]
ATOMS += [r"\x61", r"\u00e9", "\u0663", "{", "}", r"\\", "[^\\]]", r"\141", r"[\b-\n]"]
ASSERTIONS = ["^", "$", r"\b", r"\A", r"\Z", "(?=a)", "(?!b)", "(?<=a)", "(?<!b)"]


def random_pattern(rng: random.Random, depth: int, atoms: list[str]) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.35:
        return rng.choice(atoms)
    first = random_pattern(rng, depth - 1, atoms)
    if kind < 0.55:
        return first + random_pattern(rng, depth - 1, atoms)
    if kind < 0.7:
        return f"({first})" + rng.choice(["", "*", "+", "?", "{1,2}", "{,2}", "{2,}", "*?"])
    if kind < 0.8:
        return f"(?:{first}|{random_pattern(rng, depth - 1, atoms)})"
    if kind < 0.9:
        return first + "|" + random_pattern(rng, depth - 1, atoms)
    return rng.choice(["a", "[ab]", r"\w", "."]) + rng.choice(["*", "+", "?", "{2}", "{0,2}", "*+", "+?"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("atoms", "seed"), [(ATOMS, 1), (ATOMS + ASSERTIONS, 2)], ids=["plain", "assertions"])
def test_random_patterns_mean_what_they_mean_to_python(engine: str, atoms: list[str], seed: int) -> None:
    rng, done, exact = random.Random(seed), 0, 0
    while done < 25:
        pattern = random_pattern(rng, 3, atoms)
        try:
            python = re.compile(pattern)
        except re.error:
            continue
        done += 1
        constraint = Regex(pattern, engine=engine)
        members = {text for text in TEXTS if python.fullmatch(text)}
        if not members and _is_empty(constraint):
            continue
        compiled = constraint.compile(BYTES)
        assert {text for text in TEXTS if compiled.accepts(text.encode())} == members, pattern
        let_through = {text for text in TEXTS if compiled.generates(text.encode())}  # type: ignore[attr-defined]
        assert let_through >= members, pattern
        if not constraint.notes:
            assert let_through == members, pattern
            exact += 1
    assert exact >= (15 if atoms is ATOMS else 5)


def _is_empty(constraint: Regex) -> bool:
    try:
        constraint.compile(BYTES)
    except EmptyLanguageError:
        return True
    return False


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("pattern", "keyword", "good", "let_through"),
    [
        (r"a\b.*", r"\b", "a-b", "ab"),
        ("ab(?!c).*", "(?!..)", "abd", "abc"),
        ("(?=.*1)[a1]{2}", "(?=..)", "a1", "aa"),
        (r"(a|b)-\1", r"\1", "a-a", "a-b"),
        (r"(?P<x>a|b)(?P=x)", "(?P=x)", "bb", "ab"),
        ("(a|^b)+", "^", "ba", "ab"),
        ("a$b|a", "$", "a", "ab"),
        ("a*+[ab]", "*+", "aab", "aaa"),
        ("(?>a|ab)c", "(?>..)", "ac", "abc"),
        ("(a)?(?(1)b|c)", "(?(1)..)", "ab", "ac"),
    ],
)
def test_what_the_mask_cannot_do_is_noted_as_wider_and_refused_by_the_validator(
    engine: str, pattern: str, keyword: str, good: str, let_through: str
) -> None:
    constraint = Regex(pattern, engine=engine)
    assert [(note.effect, note.keyword) for note in constraint.notes] == [("wider", keyword)]
    compiled = constraint.compile(BYTES)
    for text in (good, let_through):
        assert set(BYTES.stop_ids) <= allowed_ids(spell(compiled.start(), text), BYTES)
    assert compiled.accepts(good.encode())
    assert not compiled.accepts(let_through.encode())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^a|b$", "b", "ab"),
        (r"\Aab\Z", "ab", "ab\n"),
        (r"\d{2}", "1\u0663", "1\u00b2"),  # a superscript is no digit to Python
        (r"\w\W", "\u00b2-", "\u00b2\u00b2"),
        (r".", "\u2028", "\n"),
        ("[a&&c~~-]+", "&c~-", "b"),  # no operations on sets
        ("(?P<year>[0-9]+)(?#a comment)-", "12-", "-"),
        ("(?<year>[0-9]+)-", "12-", "-"),
        ("x{,2}y{z}", "xxy{z}", "xxxy{z}"),
        ("[\U0001f600-\U0001f64f]{2}", "\U0001f601\U0001f602", "\U0001f601"),
        (r"\N{GREEK SMALL LETTER ALPHA}[\N{EM DASH}]", "\u03b1\u2014", "a-"),
    ],
)
def test_dialect(engine: str, pattern: str, good: str, bad: str) -> None:
    constraint = Regex(pattern, engine=engine)
    assert constraint.notes == ()
    compiled = constraint.compile(BYTES)
    assert compiled.accepts(good.encode())
    assert compiled.generates(good.encode())  # type: ignore[attr-defined]
    assert not compiled.accepts(bad.encode())
    assert not compiled.generates(bad.encode())  # type: ignore[attr-defined]


def test_surrogates_are_in_no_class() -> None:
    for engine in ENGINES:
        assert not Regex("[^a]", engine=engine).compile(BYTES).generates(b"\xed\xa0\x80")  # type: ignore[attr-defined]


def test_references_that_would_double_for_ever_are_refused() -> None:
    with pytest.raises(ConstraintError, match="for too large a group"):
        Regex("(ab)" + "".join(rf"(\{n}\{n})" for n in range(1, 40))).compile(BYTES)


def test_unknown_engines() -> None:
    with pytest.raises(OptionError, match="'xgrammar', 'llguidance'"):
        Regex("a", engine="outlines")


def test_code_points() -> None:
    assert merged([(5, 9), (1, 2), (3, 4), (8, 12)]) == ((1, 12),)
    assert merged([(0xD7FF, 0xE000)]) == ((0xD7FF, 0xD7FF), (0xE000, 0xE000))
    assert complement(complement(((1, 2), (9, 9)))) == ((1, 2), (9, 9))
    assert size(complement(())) == 0x110000 - 0x800
    for letter in "dws":
        inside, outside = shorthand(letter), shorthand(letter.upper())
        assert size(inside) + size(outside) == 0x110000 - 0x800
        for code in (0x30, 0x41, 0x20, 0xE9, 0xB2, 0x663, 0x1C, 0x1D7CE, 0x10FFFF):
            assert bool(re.match(rf"\{letter}", chr(code))) == any(low <= code <= high for low, high in inside)
    assert spelled(Chars(((97, 97),))) == "a"
    assert spelled(Chars(((45, 45), (97, 99)))) == r"[\x2da-c]"
