"""Random regular expressions as trees, and texts that are likely to match them or nearly do."""

from __future__ import annotations

import random
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import regex
from hypothesis import strategies as st

# Tree = ("one", fragment) | ("class", "" or "^", fragments) | ("seq", trees) | ("or", trees) | ("group", opening, tree)
#      | ("repeat", tree, suffix)
Tree = tuple[Any, ...]

# Characters that some dialect, table or engine treats in a way of its own.
LETTERS = "abAkKsz\u212a\u017f\u00e9\u00c9\u00df\u03c3\u03c2\u03a3\u0430\u4e2d\ufb00"
DIGITS = "019\u0663\u00b2\u0967"
SIGNS = "-]^[\\./_,:~&|'\"{}()*+?$#!<>=@%`; "
BLANKS = "\n\t\r\f\v\x1c\x85\u00a0\u2028\u2003\u200b\ufeff"
RARE = "\0\x01\x7f\u0300\u20ac\u2014\ud7ff\ue000\uffff\U0001f600\U0010ffff"
ALPHABET = LETTERS + DIGITS + SIGNS + BLANKS + RARE

SUFFIXES = ["?", "*", "+", "{2}", "{1,2}", "{0,1}", "{1,}", "{,2}", "{0}", "*?", "+?", "??", "{1,2}?"]


@dataclass(frozen=True)
class Dialect:
    """What patterns of one dialect are made of.

    Attributes:
        plain: fragments that stand for one character or fewer, outside classes and in them; the simplest first.
        outside: fragments for outside classes alone. inside: for classes alone.
        openings: of groups.
        suffixes: of repetitions.
    """

    plain: Sequence[str]
    outside: Sequence[str]
    inside: Sequence[str]
    openings: Sequence[str]
    suffixes: Sequence[str]

    def trees(self) -> st.SearchStrategy[Tree]:
        """Patterns, often little more than a class."""
        plain, outside, inside = map(st.sampled_from, (self.plain, self.outside, self.inside))
        one = st.tuples(st.just("one"), st.one_of(plain, outside))
        ranges = st.builds(lambda low, high: f"{low}-{high}", plain, plain)
        member = st.one_of(plain, inside, ranges)
        klass = st.tuples(
            st.just("class"), st.sampled_from(["", "^"]), st.lists(member, min_size=1, max_size=5).map(tuple)
        )
        return st.recursive(st.one_of(one, klass), self._larger, max_leaves=6)

    def _larger(self, inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        some = st.lists(inner, min_size=1, max_size=3).map(tuple)
        return st.one_of(
            st.tuples(st.just("seq"), some),
            st.tuples(st.just("or"), some),
            st.tuples(st.just("group"), st.sampled_from(self.openings), inner),
            st.tuples(st.just("repeat"), inner, st.sampled_from(self.suffixes)),
        )


def spellings(chars: str, forms: Sequence[str]) -> list[str]:
    """The characters as they are, then escaped in each form, such as ``"\\\\x{:02x}"``; what does not fit a form is left out."""
    spelled = list(chars)
    for form in forms:
        for char in chars:
            code = ord(char)
            fits = code < 256 if "02x" in form or "03o" in form else code < 0x10000 if "04" in form else True
            if "name" in form:
                name = unicodedata.name(char, "")
                spelled += [form.format(name=name)] if name else []
            elif fits:
                spelled.append(form.format(code, char=char))
    return spelled


def written(tree: Tree) -> str:
    """A tree as a pattern."""
    kind, *parts = tree
    if kind == "one":
        return str(parts[0])
    if kind == "class":
        return f"[{parts[0]}{''.join(parts[1])}]"
    if kind == "seq":
        return "".join(f"(?:{written(part)})" if part[0] == "or" else written(part) for part in parts[0])
    if kind == "or":
        return "|".join(map(written, parts[0]))
    if kind == "group":
        return f"{parts[0]}{written(parts[1])})"
    inner = written(parts[0])
    return (inner if parts[0][0] in ("one", "class", "group") else f"(?:{inner})") + str(parts[1])


def texts(tree: Tree, number: int = 24) -> list[str]:
    """Short texts near the language of a tree: likely members, their neighbours, and others. The same for the same tree."""
    chance = random.Random(zlib.crc32(repr(tree).encode("utf-8", "surrogatepass")))
    near = sorted(set("".join(_hints(tree))))
    found = {"", *chance.sample(ALPHABET, 6), *near[:20]}
    for _ in range(number):
        member = _sample(tree, chance)[:8]
        found.add(member)
        at, char = (
            chance.randrange(len(member) + 1),
            chance.choice(near + list(ALPHABET) if chance.random() < 0.5 else near or ALPHABET),
        )
        found.add(
            chance.choice(
                [
                    member[:at] + char + member[at:],
                    member[:at] + char + member[at + 1 :],
                    member[:at] + member[at + 1 :],
                ]
            )
        )
    return sorted(found, key=lambda text: (len(text), text))


def _hints(tree: Tree) -> Iterator[str]:
    """Characters that a pattern names, and those beside them: where a mistake about one class is likely to show."""
    if tree[0] == "one":
        yield from _matching(tree[1])[:2]
    elif tree[0] == "class":
        for fragment in tree[2]:
            yield from (char for char in fragment if not 0xD800 <= ord(char) < 0xE000)
        matching = _matching(written(tree))
        yield from matching[:3] + matching[-1:]
    else:
        for part in tree[1:]:
            if isinstance(part, tuple):
                for below in [part] if part and isinstance(part[0], str) else part:
                    yield from _hints(below)


def _sample(tree: Tree, chance: random.Random) -> str:
    kind, *parts = tree
    if kind in ("one", "class"):
        matching = _matching(written(tree))
        return chance.choice(matching) if matching else ""
    if kind == "seq":
        return "".join(_sample(part, chance) for part in parts[0])
    if kind == "or":
        return _sample(chance.choice(parts[0]), chance)
    if kind == "group":
        return "" if parts[0] in ("(?=", "(?!", "(?<=", "(?<!") else _sample(parts[1], chance)
    return "".join(_sample(parts[0], chance) for _ in range(chance.choice([0, 1, 1, 2, 2, 3])))


@cache
def _matching(fragment: str) -> str:
    """The characters of the alphabet that a fragment matches, as near as the `regex` package tells."""
    try:
        pattern = regex.compile(fragment)
    except (regex.error, OverflowError):
        return ""
    return "".join(char for char in ALPHABET if pattern.fullmatch(char))
