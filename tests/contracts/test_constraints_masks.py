"""Masks say what the language says, whichever engine makes them, and rows are independent."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from constraint_tools import AB, BYTES, CONTROL, STOPS, allowed_ids, expected_mask, spell, step, walks

from smc.constraints import (
    EBNF,
    GBNF,
    Choice,
    Constraint,
    Everything,
    FiniteLanguage,
    Intersection,
    JSONSchema,
    Lark,
    Regex,
    StructuralTag,
)
from smc.vocabulary import Vocabulary

AMBIGUOUS = ["a", "aa"]
SHORT = ["".join(letters) for length in range(4) for letters in itertools.product("ab", repeat=length)]

FINITE = [
    (Choice(AMBIGUOUS), AMBIGUOUS),
    (FiniteLanguage(AMBIGUOUS), AMBIGUOUS),
    (Regex("aa?"), AMBIGUOUS),
    (EBNF('root ::= "a" "a"?'), AMBIGUOUS),
    (Regex("a(ba|ab)?|bb"), ["a", "aba", "aab", "bb"]),
    (Choice(["", "ab", "ba"]), ["", "ab", "ba"]),
    (FiniteLanguage(["", "ab", "ba"]), ["", "ab", "ba"]),
    (Regex("[ab]{0,3}"), SHORT),
    (FiniteLanguage(SHORT), SHORT),
    (Lark('start: "a" ("b" | "ba")'), ["ab", "aba"]),
    (StructuralTag({"type": "structural_tag", "format": {"type": "const_string", "value": "abba"}}), ["abba"]),
    (Intersection(Regex("[ab]{1,2}"), Regex("a[ab]?")), ["a", "aa", "ab"]),
    (Intersection(FiniteLanguage(["ab", "b"]), Choice(["b", "ab"])), ["ab", "b"]),
]


@pytest.mark.parametrize(("constraint", "members"), FINITE, ids=[repr(case[0])[:40] for case in FINITE])
def test_masks_agree_with_the_language(constraint: Constraint, members: list[str]) -> None:
    language = [member.encode() for member in members]
    compiled = constraint.compile(AB)
    masks = walks(compiled, AB, depth=4)
    assert masks == {prefix: expected_mask(prefix, language, AB) for prefix in masks}
    # and the walks spell every tokenisation of every member
    finished = {AB.spell(prefix) for prefix, mask in masks.items() if mask & set(AB.stop_ids)}
    assert finished == set(language)
    for text in SHORT:
        assert compiled.accepts(text.encode()) == (text in members)


GRAMMARS = [
    (Regex("[a-c]+(é|-)[0-9]{2}"), "ab"),
    (Regex("[a-c]+(é|-)[0-9]{2}"), "ab\u00e9"),
    (JSONSchema({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}), '{"a"'),
    (JSONSchema({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}), '{"a": "x'),
    (JSONSchema({"type": "array", "items": {"type": "number"}}, whitespace="free"), "[1,  "),
    (EBNF('root ::= "(" root ")" | "a"+'), "((a"),
    (Lark('start: NAME ("," NAME)*\nNAME: /[a-z]+/'), "ab,"),
    (Choice([f"item {i}" for i in range(1200)]), "item 12"),
    (FiniteLanguage([f"item {i}" for i in range(1200)]), "item 12"),
]


@pytest.mark.parametrize(("constraint", "prefix"), GRAMMARS, ids=[f"{type(c).__name__}-{p}" for c, p in GRAMMARS])
def test_mask_allows_exactly_what_advance_accepts(constraint: Constraint, prefix: str) -> None:
    rows = spell(constraint.compile(BYTES).start(), prefix)
    allowed = allowed_ids(rows, BYTES)
    assert allowed, "a live state"
    for token in np.flatnonzero(BYTES.spelling):
        extend = rows.fork(np.array([0])).advance
        if token in allowed:
            extend(np.array([0]), np.array([token]))
        else:
            with pytest.raises(RuntimeError, match=rf"token {token}\b"):
                extend(np.array([0]), np.array([token]))


@pytest.mark.parametrize(
    "constraint", [Regex("a*b"), FiniteLanguage(["aaab", "aab", "ab", "b"])], ids=["xgrammar", "finite"]
)
def test_forks_and_siblings_are_independent(constraint: Constraint) -> None:
    rows = constraint.compile(AB).start()
    before = allowed_ids(rows, AB)
    copies = rows.fork(np.array([0, 0]))
    grown = copies.advance(np.array([0, 1, 0, 0]), np.array([0, 1, 3, 2]))  # a, b, aa, ab
    after_aa = {0, 1, 2} if isinstance(constraint, FiniteLanguage) else {0, 1, 2, 3}
    assert [allowed_ids(grown, AB, row) for row in range(4)] == [{0, 1, 2, 3}, {6, 7}, after_aa, {6, 7}]
    assert allowed_ids(rows, AB) == before
    assert len(grown.fork(np.array([], dtype=int))) == 0
    again = grown.advance(np.array([2, 0]), np.array([1, 1]))
    assert [allowed_ids(again, AB, row) for row in range(2)] == [{6, 7}, {6, 7}]


@pytest.mark.parametrize(
    "constraint", [Regex("[ab]{1,6}"), FiniteLanguage([t for t in SHORT if t])], ids=["xgrammar", "finite"]
)
def test_many_rows_at_once_equal_one_by_one(constraint: Constraint) -> None:
    compiled = constraint.compile(AB)
    random = np.random.default_rng(0)
    rows = compiled.start()
    prefixes: list[tuple[int, ...]] = [()]
    for _ in range(2):
        children: list[tuple[int, int]] = []
        for row in range(len(rows)):
            options = sorted(allowed_ids(rows, AB, row) - set(AB.stop_ids))
            children += [(row, token) for token in random.permutation(options)[:4].tolist()]
        random.shuffle(children)  # children of one parent need not be neighbours
        prefixes = [(*prefixes[parent], token) for parent, token in children]
        rows = rows.advance(*np.array(children).T)
    assert len(rows) == len(prefixes) > 5
    for row, prefix in enumerate(prefixes):
        assert allowed_ids(rows, AB, row) == allowed_ids(step(compiled.start(), *prefix), AB)


def test_control_tokens_never_leak() -> None:
    text = JSONSchema({"type": "string"}, whitespace="compact").compile(BYTES)
    inside = allowed_ids(spell(text.start(), '"x'), BYTES)
    assert ord("a") in inside
    assert not inside & {CONTROL, 259, *STOPS}
    for constraint in (Regex("a+"), FiniteLanguage(["aa"]), Choice(["a"]), Intersection(Regex("a"), Everything())):
        mask = allowed_ids(constraint.compile(BYTES).start(), BYTES)
        assert ord("a") in mask
        assert CONTROL not in mask


def test_a_control_token_spelled_as_text_may_still_be_written_as_text() -> None:
    vocabulary = Vocabulary((*(bytes([b]) for b in range(256)), b"</s>", b"<|im_end|>"), (256,), frozenset({256, 257}))
    rows = Regex(r"<\|im_end\|>").compile(vocabulary).start()
    assert allowed_ids(rows, vocabulary) == {ord("<")}
    assert allowed_ids(spell(rows, "<|im_end|>"), vocabulary) == {256}


def test_all_stop_tokens_are_set_where_a_text_is_complete_and_only_there() -> None:
    for constraint in (Regex("a{1,2}"), FiniteLanguage(["a", "aa"])):
        rows = constraint.compile(AB).start()
        assert not allowed_ids(rows, AB) & {6, 7}
        rows = step(rows, 0)
        assert allowed_ids(rows, AB) == {0, 6, 7}
        assert allowed_ids(step(rows, 0), AB) == {6, 7}


def test_padding_of_the_logits_is_never_allowed() -> None:
    wide = Vocabulary((*AB.tokens, *[b""] * 60), AB.stop_ids, AB.special_ids)
    for constraint in (Regex("a*"), FiniteLanguage(["", "a"]), EBNF("root ::= [^x]*")):
        assert not allowed_ids(constraint.compile(wide).start(), wide) & set(range(len(AB), 96))


def test_everything_allows_everything() -> None:
    rows = Everything().compile(BYTES).start()
    assert allowed_ids(rows, BYTES) == set(range(len(BYTES)))
    grown = rows.advance(np.array([0, 0, 0]), np.array([1, CONTROL, 3]))
    assert grown.allowed.shape == (3, 9)
    assert allowed_ids(grown, BYTES, 2) == set(range(len(BYTES)))
    assert Everything().compile(BYTES).accepts(b"\xff")
    checked = Everything(Regex("[0-9]+")).compile(BYTES)
    assert checked.accepts(b"12")
    assert not checked.accepts(b"x")


def test_an_intersection_may_run_into_a_dead_end() -> None:
    compiled = Intersection(Regex("ab"), Regex("aa|b")).compile(AB)
    rows = compiled.start()
    assert allowed_ids(rows, AB) == {0}  # each part can go on from "a", but not the same way
    assert allowed_ids(step(rows, 0), AB) == set()
    assert not compiled.accepts(b"ab")


def test_equal_constraints_compile_once_for_each_vocabulary() -> None:
    assert JSONSchema({"type": "integer"}) == JSONSchema('{ "type":  "integer"}')
    assert JSONSchema({"type": "integer"}).compile(BYTES) is JSONSchema('{"type": "integer"}').compile(BYTES)
    assert JSONSchema(True) != JSONSchema(True, whitespace="free")
    assert Choice(["b", "a", "b"]) == Choice(["a", "b"])
    assert FiniteLanguage(["a"]).compile(AB) is FiniteLanguage([b"a"]).compile(AB)
    assert EBNF('root ::= "a"') != GBNF('root ::= "a"')
    assert Regex("a").compile(AB) is not Regex("a").compile(BYTES)
    assert Intersection(Regex("a"), Choice(["a"])).compile(AB) is Intersection(Regex("a"), Choice(["a"])).compile(AB)


def test_engines_are_named() -> None:
    assert Regex("a").engine == JSONSchema(True).engine == "xgrammar"
    assert FiniteLanguage(["a"]).engine == "finite"
    assert Everything().engine == "none"
    assert Intersection(Regex("a"), FiniteLanguage(["a"]), Choice(["a"])).engine == "xgrammar & finite"
    assert isinstance(Intersection(Regex("a")), Constraint)


def test_choice_of_many_with_every_kind_of_character() -> None:
    options = [f'{i}: "{chr(0x20 + i)}" \\ \n\t {i * i}' for i in range(1200) if not 0xD800 <= 0x20 + i < 0xE000]
    choice, finite = Choice(options).compile(BYTES), FiniteLanguage(options).compile(BYTES)
    left, right = choice.start(), finite.start()
    assert allowed_ids(left, BYTES) == allowed_ids(right, BYTES)
    for byte in options[777].encode():
        left, right = step(left, byte), step(right, byte)
        assert allowed_ids(left, BYTES) == allowed_ids(right, BYTES)
    assert allowed_ids(left, BYTES) == set(STOPS)
    assert all(choice.accepts(option.encode()) for option in options)
    assert not choice.accepts(options[0][:-1].encode())


def test_finite_language_prunes_what_the_vocabulary_cannot_finish() -> None:
    vocabulary = Vocabulary((b"a", b"b", b"bc", b"</s>"), (3,), frozenset({3}))
    compiled = FiniteLanguage(["abc", "ac", "b"]).compile(vocabulary)
    rows = compiled.start()
    assert allowed_ids(rows, vocabulary) == {0, 1}
    assert allowed_ids(step(rows, 0), vocabulary) == {2}  # "abc" through "bc"; "ac" has no last token
    assert compiled.accepts(b"ac")


def test_finite_language_of_bytes_that_are_not_text() -> None:
    compiled = FiniteLanguage([b"\xff\x00", "\udcff\x00"]).compile(BYTES)
    assert allowed_ids(step(compiled.start(), 0xFF), BYTES) == {0}
    assert compiled.accepts(b"\xff\x00")


def test_finite_language_equals_a_regex_over_dates() -> None:
    dates = [f"20{y}-{m:02}-0{d}" for y in (12, 20) for m in (1, 12) for d in range(1, 10)]
    finite, regex = FiniteLanguage(dates).compile(BYTES), Regex("20(12|20)-(01|12)-0[1-9]").compile(BYTES)
    left, right = walks(finite, BYTES, 10), walks(regex, BYTES, 10)
    assert left == right
    assert len(left) > 100


def test_advance_consumes_and_refuses_a_wrong_token() -> None:
    for constraint in (Regex("ab"), FiniteLanguage(["ab"])):
        with pytest.raises(RuntimeError, match=re.compile("token 1.*incomplete", re.DOTALL)):
            constraint.compile(AB).start().advance(np.array([0]), np.array([1]))
