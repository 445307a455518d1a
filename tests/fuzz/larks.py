"""Lark grammars against the `lark` package: its Earley parser, with both of the lexers that go with it."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable
from typing import Any

import lark
from hypothesis import strategies as st

from tests.fuzz import patterns
from tests.fuzz.fuzzer import Outcome, Question
from tests.fuzz.recogniser import Expression, texts, written

ALPHABET = "ab01A_-.,\"'/\\()[]{}|*+?~^$ \n\t\u00e9\u00c9\u0663\u212a\u2028\u4e2d\U0001f600"

_RULES = ("start", "b", "c_1")
_TERMINALS = ("T", "U_1", "V")
_COMMON = (
    "WS",
    "INT",
    "DIGIT",
    "LETTER",
    "WORD",
    "CNAME",
    "NEWLINE",
    "SIGNED_INT",
    "ESCAPED_STRING",
    "WS_INLINE",
    "HEXDIGIT",
)

_PLAIN = [
    "a",
    "b",
    "0",
    "-",
    "_",
    "\\.",
    "\\d",
    "\\w",
    "\\s",
    "\\D",
    "\\W",
    "\\S",
    ".",
    "\\n",
    "\\t",
    "\\x61",
    "\\u00e9",
    "\u00e9",
    "\\/",
    "\\\\",
    "\\-",
    " ",
]
REGEX = patterns.Dialect(
    plain=_PLAIN,
    outside=["^", "$", "\\b", "\\B", "\\Z", "\\1", "\\p{L}", '"', "\\("],
    inside=["-", "a-z", "0-9", "^", "|", '"', "\\]", "&&"],
    openings=["(?:", "(", "(?:", "(?P<n>", "(?=", "(?!", "(?i:", "(?<=", "(?>"],
    suffixes=patterns.SUFFIXES,
)


def _regexes() -> st.SearchStrategy[Expression]:
    flags = st.sampled_from(["", "", "", "i", "s", "m", "x", "is"])
    return st.tuples(st.just("regex"), REGEX.trees(), flags)


def _literals() -> st.SearchStrategy[Expression]:
    return st.tuples(
        st.just("lit"), st.text(st.sampled_from(ALPHABET), min_size=1, max_size=3), st.sampled_from(["", "", "i"])
    )


def _expressions(leaf: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        some = st.lists(inner, min_size=1, max_size=3).map(tuple)
        counts = st.sampled_from([(0, 1), (0, None), (1, None), (0, 2), (2, 2), (1, 3)])
        repeat = st.builds(lambda item, count: ("repeat", item, *count), inner, counts)
        return st.one_of(st.tuples(st.just("seq"), some), st.tuples(st.just("or"), some), repeat)

    return st.recursive(leaf, larger, max_leaves=4)


def _times(least: int, most: int | None) -> str:
    signs = {(0, 1): "?", (0, None): "*", (1, None): "+"}
    return signs.get((least, most)) or (f"~{least}" if least == most else f"~{least}..{most}")


class Larks:
    """Up to three rules and up to three terminals, perhaps with text to be ignored and terminals of Lark's own library."""

    name = "lark"
    about = "Lark grammars against the lark package (Earley)"

    def missing(self) -> str | None:
        return None

    def cases(self) -> st.SearchStrategy[Any]:
        regexes, literals, number = _regexes(), _literals(), st.integers(0, 2)
        terminal = st.tuples(st.just("terminal"), number)
        rule = st.one_of(
            literals,
            terminal,
            regexes,
            st.tuples(st.just("ref"), number),
            st.tuples(st.just("common"), st.sampled_from(_COMMON)),
        )
        return st.fixed_dictionaries(
            {
                "rules": st.lists(_expressions(rule), min_size=1, max_size=3).map(tuple),
                "terminals": st.lists(_expressions(st.one_of(literals, regexes)), min_size=1, max_size=3).map(tuple),
                "ignore": st.one_of(
                    st.none(), st.none(), literals, regexes, st.tuples(st.just("common"), st.just("WS"))
                ),
                "mark": st.sampled_from(["", "?", "!"]),
                "engine": st.sampled_from(["xgrammar", "llguidance"]),
                "lexer": st.sampled_from(["dynamic_complete", "dynamic"]),
            }
        )

    def examine(self, case: Any) -> Outcome:
        grammar = text_of(case)
        parses = oracle(grammar, case["lexer"])
        if parses is None:
            return "invalid"
        members, others = [], []
        for text in texts(_as_rules(case), ALPHABET):
            (members if parses(text) else others).append(text)
        options = f"engine={case['engine']!r}, lexer={case['lexer']!r}"
        return Question(f"Lark({grammar!r}, {options})", members, others).ask()


def text_of(case: Any) -> str:
    """The grammar of a case."""
    rules, terminals = case["rules"], case["terminals"]
    used: dict[str, None] = {}

    def leaf(part: Expression) -> str:
        kind = part[0]
        if kind == "lit":
            return _quoted(part[1]) + part[2]
        if kind == "regex":
            pattern = re.sub(r"(?<!\\)((?:\\\\)*)/", r"\1\/", patterns.written(part[1]))
            return f"/{pattern}/{part[2]}"
        if kind == "common":
            used[part[1]] = None
            return str(part[1])
        return _RULES[part[1] % len(rules)] if kind == "ref" else _TERMINALS[part[1] % len(terminals)]

    lines = [
        f"{case['mark'] if index else ''}{_RULES[index]}: {written(body, leaf, times=_times)}"
        for index, body in enumerate(rules)
    ]
    lines += [f"{_TERMINALS[index]}: {written(body, leaf, times=_times)}" for index, body in enumerate(terminals)]
    if case["ignore"] is not None:
        lines.append(f"%ignore {leaf(case['ignore'])}")
    lines += [f"%import common.{name}" for name in used]
    return "\n".join(lines)


def oracle(grammar: str, lexer: str) -> Callable[[str], bool] | None:
    """Whether Lark parses a text; None if it does not read the grammar."""
    logging.getLogger("lark").setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parser = lark.Lark(grammar, parser="earley", lexer=lexer, ambiguity="forest")
    except Exception:  # whatever it says: such a grammar is none that can be compared
        return None

    def parses(text: str) -> bool:
        try:
            parser.parse(text)
        except lark.exceptions.UnexpectedInput:
            return False
        except RuntimeError as error:  # raised of a text that was parsed, in more ways than one
            if "multiple start symbol items" not in str(error):
                raise
        return True

    return parses


def _as_rules(case: Any) -> tuple[Expression, ...]:
    """Roughly the same rules for drawing texts: regexes become a few of the texts that they match."""

    def plain(part: Expression) -> Expression:
        kind = part[0]
        if kind in ("seq", "or"):
            return (kind, tuple(map(plain, part[1])))
        if kind == "repeat":
            return (kind, plain(part[1]), *part[2:])
        if kind == "regex":
            return ("or", tuple(("lit", text) for text in patterns.texts(part[1], 4)))
        if kind == "terminal":
            return plain(case["terminals"][part[1] % len(case["terminals"])])
        if kind == "common":
            return ("or", tuple(("lit", text) for text in (" ", "1", "a", "\n", "a1", '"a"', "-1", "_")))
        if kind == "lit" and part[2]:
            return ("or", (part, ("lit", part[1].swapcase())))
        return part

    ignored = ("repeat", plain(case["ignore"]), 0, 1) if case["ignore"] is not None else ("lit", "")
    first, *others = map(plain, case["rules"])
    return (("seq", (ignored, first, ignored)), *others)


def _quoted(text: str) -> str:
    short = {"\n": "\\n", "\t": "\\t", "\\": "\\\\", '"': '\\"', "\u2028": "\\u2028"}
    return '"' + "".join(short.get(char, char) for char in text) + '"'


LARKS = Larks()
