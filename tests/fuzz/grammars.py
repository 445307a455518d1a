"""EBNF and GBNF grammars against a recogniser of our own, which reads the tree that the text was written from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.fuzzer import Outcome, Question
from tests.fuzz.recogniser import Expression, Recogniser, texts, written

ALPHABET = "ab01-]^[\\\"'/.,|()*+?{}# \n\r\t\u007f\u00e9\u0663\u2028\u4e2d\ud7ff\ue000\uffff\U0001f600"

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_IN_CLASS = _SHORT | {"[": "\\[", "]": "\\]"}


@dataclass(frozen=True)
class Notation:
    """What differs between the two dialects."""

    name: str
    names: tuple[str, ...]  # of rules
    signs: dict[str, str]  # escapes in classes beyond those that both have
    any: str

    def grammar(self, rules: tuple[Expression, ...]) -> str:
        """The rules as text."""
        lines = []
        for index, body in enumerate(rules):
            lines.append(
                f"{self.names[index]} ::= {written(body, lambda part: self._leaf(part, len(rules)), times=_times)}"
            )
        return "\n".join(lines)

    def _leaf(self, part: Expression, rules: int) -> str:
        if part[0] == "lit":
            return '"' + "".join(self._char(char, part[2], _SHORT) for char in part[1]) + '"'
        if part[0] == "any":
            return self.any
        if part[0] == "ref":
            return self.names[part[1] % rules]
        ranges = "".join(
            self._char(low, form, self.signs) + (f"-{self._char(high, form, self.signs)}" if high != low else "")
            for low, high, form in part[2]
        )
        return f"[{part[1]}{ranges}]"

    def _char(self, char: str, form: str, short: dict[str, str]) -> str:
        code = ord(char)
        if form == "hex" and code < 256 and self.name == "GBNF":
            return f"\\x{code:02x}"
        if form == "short" and code < 0x10000 and code not in range(0xD800, 0xE000):
            return f"\\u{code:04x}"
        if form == "long":
            return f"\\U{code:08x}"
        if char in short:
            return short[char]
        return f"\\u{code:04x}" if char in "-^]" and short is not _SHORT else char


EBNF = Notation("EBNF", ("root", "b", "c_1", "d-x"), _IN_CLASS | {"-": "\\-", "^": "\\^"}, "[\\u0000-\\U0010ffff]")
GBNF = Notation("GBNF", ("root", "1a", "b-c", "-d"), _IN_CLASS, ".")


def _times(least: int, most: int | None) -> str:
    signs = {(0, 1): "?", (0, None): "*", (1, None): "+"}
    return signs.get((least, most)) or (
        f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
    )


def _expressions() -> st.SearchStrategy[Expression]:
    form = st.sampled_from(["raw", "hex", "short", "long"])
    char = st.sampled_from(ALPHABET)
    literal = st.tuples(st.just("lit"), st.text(char, max_size=3), form)
    bounds = st.builds(lambda a, b, how: (min(a, b), max(a, b), how), char, st.one_of(char), form)
    single = st.builds(lambda a, how: (a, a, how), char, form)
    klass = st.tuples(
        st.just("class"),
        st.sampled_from(["", "", "^"]),
        st.lists(st.one_of(single, bounds), min_size=1, max_size=3).map(tuple),
    )
    reference = st.tuples(st.just("ref"), st.integers(0, 3))
    leaf = st.one_of(literal, klass, reference, st.just(("any",)))

    def larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        some = st.lists(inner, min_size=1, max_size=3).map(tuple)
        counts = st.sampled_from([(0, 1), (0, None), (1, None), (0, 2), (2, 2), (1, 3), (2, None), (0, 0)])
        repeat = st.builds(lambda item, count: ("repeat", item, *count), inner, counts)
        return st.one_of(st.tuples(st.just("seq"), some), st.tuples(st.just("or"), some), repeat)

    return st.recursive(leaf, larger, max_leaves=5)


class Grammars:
    """Up to four rules."""

    name = "grammar"
    about = "EBNF and GBNF against a recogniser of our own"

    def missing(self) -> str | None:
        return None

    def cases(self) -> st.SearchStrategy[Any]:
        rules = st.lists(_expressions(), min_size=1, max_size=4).map(tuple)
        return st.tuples(
            rules, st.sampled_from(["EBNF", "GBNF"]), st.sampled_from(["xgrammar", "llguidance"]), st.booleans()
        )

    def examine(self, case: Any) -> Outcome:
        rules, dialect, engine, check = case
        grammar = (EBNF if dialect == "EBNF" else GBNF).grammar(rules)
        recogniser, members, others = Recogniser(rules), [], []
        for text in texts(rules, ALPHABET):
            (members if recogniser.accepts(text) else others).append(text)
        return Question(f"{dialect}({grammar!r}, engine={engine!r}, check={check})", members, others).ask()


GRAMMARS = Grammars()
