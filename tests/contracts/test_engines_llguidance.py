"""llguidance behind the protocol of constraints."""

from __future__ import annotations

import itertools
import json
import logging
import sys
import time

import numpy as np
import pytest
import torch
from constraint_tools import AB, BYTES, CONTROL, STOPS, allowed_ids, expected_mask, spell, step, walks

from smc import SMCSampler, TableModel
from smc.constraints import Choice, Constraint, Lark, Regex, llguidance_engine
from smc.constraints.llguidance_engine import compile_llguidance, engine_package, full_masks
from smc.errors import ConstraintError, EmptyLanguageError, MissingPackageError, OptionError
from smc.exact import enumerate_posterior
from smc.vocabulary import Vocabulary

SHORT = ["".join(letters) for length in range(4) for letters in itertools.product("ab", repeat=length)]
TEST = Vocabulary(
    (*(bytes([b]) for b in range(256)), b"te", b"tes", b"test", b"est", b"</s>"), (260,), frozenset({260})
)


def regex(pattern: str) -> Regex:
    return Regex(pattern, engine="llguidance")


def lark(text: str, check: bool = True) -> Lark:
    return Lark(text, engine="llguidance", check=check)


@pytest.mark.parametrize(
    ("constraint", "members"),
    [
        (regex("aa?"), ["a", "aa"]),
        (regex("a(ba|ab)?|bb"), ["a", "aba", "aab", "bb"]),
        (regex("[ab]{0,3}"), SHORT),
        (Choice(["", "ab", "ba"], engine="llguidance"), ["", "ab", "ba"]),
        (lark('start: "a" ("b" | "ba")'), ["ab", "aba"]),
        (lark("start: x x?\nx: /a/ | /b/"), [text for text in SHORT if 0 < len(text) < 3]),
    ],
    ids=lambda value: f"{value!r:.40}",
)
def test_masks_agree_with_the_language(constraint: Constraint, members: list[str]) -> None:
    language = [member.encode() for member in members]
    compiled = constraint.compile(AB)
    masks = walks(compiled, AB, depth=4)
    assert masks == {prefix: expected_mask(prefix, language, AB) for prefix in masks}
    assert {AB.spell(prefix) for prefix, mask in masks.items() if mask & set(AB.stop_ids)} == set(language)
    for text in SHORT:
        assert compiled.accepts(text.encode()) == (text in members)


def test_forced_text_is_left_to_every_tokenisation() -> None:
    """The engine's own way would be one token, the tokenizer's; `full_masks` switches it off, in each kind of grammar."""
    matcher = engine_package().LLMatcher
    kinds = [
        (matcher.grammar_from_regex("test"), ""),
        ('start: "test"', ""),
        (matcher.grammar_from_lark("start: /test/"), ""),
        (matcher.grammar_from_json_schema('{"const":"test"}', overrides={"whitespace_flexible": False}), '"'),
    ]
    for grammar, prefix in kinds:
        compiled = compile_llguidance(TEST, "it", lambda grammar=grammar: grammar)  # type: ignore[misc]
        rows = spell(compiled.start(), prefix)
        assert {TEST.tokens[token] for token in allowed_ids(rows, TEST)} == {b"t", b"te", b"tes", b"test"}, grammar


def test_left_to_itself_the_engine_narrows_masks() -> None:
    """If this fails, the option that `full_masks` adds may have become needless."""

    class Tokens(llguidance_engine._Tokens):
        def __call__(self, text: str) -> list[int]:
            return [258]  # "test", as a tokenizer would have it

    package = engine_package()
    tokenizer = package.LLTokenizer(Tokens(list(TEST.tokens), [260], [260]), eos_token=[260])
    matcher = package.LLMatcher(tokenizer, "start: /test/", log_level=0)
    words = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
    assert np.flatnonzero(np.unpackbits(words, bitorder="little")).tolist() == [258]


def test_full_masks_unwraps_what_the_engine_writes() -> None:
    matcher = engine_package().LLMatcher
    assert full_masks(matcher.grammar_from_json_schema('{"type":"null"}')).startswith('start: %json {"type": "null"')
    two = json.dumps({"grammars": [{"lark_grammar": "start: @b"}, {"name": "b", "lark_grammar": 'start: "b"'}]})
    with pytest.raises(ConstraintError, match="Only one grammar"):
        full_masks(two)


def test_control_tokens_and_padding_never_leak() -> None:
    rows = compile_llguidance(BYTES, "a string", lambda: 'start: %json {"type": "string"}').start()
    inside = allowed_ids(spell(rows, '"x'), BYTES)
    assert ord("a") in inside
    assert not inside & {CONTROL, 259, *STOPS}
    wide = Vocabulary((*AB.tokens, *[b""] * 60), AB.stop_ids, AB.special_ids)
    assert allowed_ids(regex("a*").compile(wide).start(), wide) == {0, 3, 6, 7}
    raw = Vocabulary((b"\xff", b"\xff[1]", b"a", b"</s>"), (3,), frozenset({3}))
    assert allowed_ids(regex("[^b]").compile(raw).start(), raw) == {2}


def test_forks_and_siblings_are_independent() -> None:
    rows = regex("a*b").compile(AB).start()
    before = allowed_ids(rows, AB)
    grown = rows.fork(np.array([0, 0])).advance(np.array([0, 1, 0, 0]), np.array([0, 1, 3, 2]))  # a, b, aa, ab
    assert [allowed_ids(grown, AB, row) for row in range(4)] == [{0, 1, 2, 3}, {6, 7}, {0, 1, 2, 3}, {6, 7}]
    assert allowed_ids(rows, AB) == before
    assert len(grown.fork(np.array([], dtype=int))) == 0
    grown.advance(np.array([0]), np.array([1]))
    with pytest.raises(RuntimeError, match="fork them first"):
        _ = grown.allowed


@pytest.mark.parametrize(("token", "state"), [(1, "incomplete"), (6, "incomplete"), (5, "incomplete")])
def test_advance_refuses_what_the_mask_does_not_allow(token: int, state: str) -> None:
    with pytest.raises(RuntimeError, match=f"token {token} .*{state}.*stop tokens never"):
        regex("aa").compile(AB).start().advance(np.array([0]), np.array([token]))


def test_a_stop_token_never_advances() -> None:
    with pytest.raises(RuntimeError, match=r"token 6 .*that is complete"):
        step(regex("a").compile(AB).start(), 0, 6)
    with pytest.raises(RuntimeError, match=r"token 1 .*that is complete"):
        step(regex("a").compile(AB).start(), 0, 1)


def test_a_dead_end_is_an_empty_mask_and_no_exception() -> None:
    compiled = lark('start: "a" "c" | "b"', check=False).compile(AB)  # AB has no "c"
    rows = compiled.start().advance(np.array([0, 0]), np.array([0, 1]))
    assert torch.count_nonzero(rows.allowed[0]) == 0
    assert allowed_ids(rows, AB, 1) == {6, 7}
    again = rows.fork(np.array([0, 1, 0]))
    assert [allowed_ids(again, AB, row) for row in range(3)] == [set(), {6, 7}, set()]
    with pytest.raises(RuntimeError, match="incomplete"):
        again.advance(np.array([0]), np.array([0]))


def test_giving_up_is_a_dead_end_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(llguidance_engine, "_LIMITS", {"step_max_items": 1})
    vocabulary = Vocabulary(BYTES.tokens, BYTES.stop_ids, BYTES.special_ids)  # with a cache of its own
    with caplog.at_level(logging.WARNING, "smc"), pytest.raises(EmptyLanguageError):
        lark('start: "a" start start | "b"').compile(vocabulary)
    assert "gave up on a prefix, which counts as a dead end: parser error: Too many items" in caplog.text


def test_giving_up_on_the_way_is_a_dead_end_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(llguidance_engine, "_LIMITS", {"max_items_in_row": 1})
    vocabulary = Vocabulary(BYTES.tokens, BYTES.stop_ids, BYTES.special_ids)
    rows = lark('start: "a" start start | "b"').compile(vocabulary).start()
    assert ord("a") in allowed_ids(rows, vocabulary)
    with caplog.at_level(logging.WARNING, "smc"):
        rows = step(rows, ord("a"))
        assert allowed_ids(rows, vocabulary) == set()
        assert allowed_ids(rows.fork(np.array([0])), vocabulary) == set()
    assert "gave up on a prefix" in caplog.text


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    for constraint in (regex("abc"), Choice(["abc"], engine="llguidance"), lark('start: "abc"')):
        with pytest.raises(MissingPackageError, match=r"pip install 'smc\[llguidance\]'"):
            constraint.compile(Vocabulary((*AB.tokens, b"c"), AB.stop_ids, AB.special_ids))


def test_compiling_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llguidance_engine, "COMPILE_SECONDS", 0.05)

    def slow() -> str:
        time.sleep(1)
        return 'start: "a"'

    began = time.perf_counter()
    with pytest.raises(ConstraintError, match=r"The thing took more than 0.05 s.*Simplify"):
        compile_llguidance(BYTES, "The thing", slow)
    assert time.perf_counter() - began < 0.9


@pytest.mark.parametrize(
    ("grammar", "message", "kind"),
    [
        ('start: "a" thing', "names rule 'thing' in rule 'start', which nobody defines", ConstraintError),
        ('start: "a', "unexpected input at line 1 column 8", ConstraintError),
        ("start: /a(/", "line 1, column 8: the regex '/a\\(/' opens a group", ConstraintError),
        ('start: %json {"uniqueItems": true}', r'Unimplemented keys: \["uniqueItems"\]', ConstraintError),
        ('start: %json {"type": "integer", "minimum": 3, "maximum": 2}', "minimum .3. is greater", EmptyLanguageError),
        ("start: A\nA: /a/ & /b/", "allows no first token", EmptyLanguageError),
    ],
)
def test_errors_speak_to_the_user(grammar: str, message: str, kind: type[ConstraintError]) -> None:
    with pytest.raises(ConstraintError, match=message) as caught:
        lark(grammar).compile(BYTES)
    assert isinstance(caught.value, EmptyLanguageError) == (kind is EmptyLanguageError)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("The Lark grammar ")


def test_unknown_engines() -> None:
    for make in (lambda: Choice(["a"], engine="x"), lambda: Lark('start: "a"', engine="x")):
        with pytest.raises(OptionError, match="engine='x' is not known: choose one of 'xgrammar', 'llguidance'"):
            make()


def test_engines_are_part_of_the_constraint() -> None:
    assert regex("a") != Regex("a")
    assert regex("a").engine == "llguidance"
    assert regex("a").compile(AB) is regex("a").compile(AB)
    assert regex("a").compile(AB) is not Regex("a").compile(AB)
    assert Choice(["a"], engine="llguidance") != Choice(["a"])


def test_both_engines_give_the_same_posterior() -> None:
    """On a model whose tokens overlap: Z_t depends on the whole mask, so that a narrowed one would show."""
    vocab = ["a", "b", "ab", "aab", "<eos>"]
    odds = {"a": 0.3, "b": 0.2, "ab": 0.25, "aab": 0.15, "<eos>": 0.1}
    model = TableModel(vocab, "<eos>", lambda prefix: odds)
    pattern = "aab|ab|b{1,3}"
    one, other = (
        enumerate_posterior(model, Regex(pattern, engine=e), "", max_tokens=6) for e in ("xgrammar", "llguidance")
    )
    # every tokenisation of each member, by hand
    aab = 0.15 + 0.3 * 0.25 + 0.3 * 0.3 * 0.2
    ab, bs = 0.25 + 0.3 * 0.2, 0.2 + 0.2**2 + 0.2**3
    assert np.exp(one.log_evidence) == pytest.approx(0.1 * (aab + ab + bs), rel=1e-12)
    assert other.log_evidence == pytest.approx(one.log_evidence, rel=1e-12)
    assert other.posterior() == pytest.approx(one.posterior(), rel=1e-12)
    run = SMCSampler(model, Regex(pattern, engine="llguidance"), n_particles=64, max_tokens=6, stop_fraction=0).run("")
    assert run.log_evidence == pytest.approx(one.log_evidence, rel=1e-12)
    assert run.language.engine == "llguidance"
