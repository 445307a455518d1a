"""A first word that SentencePiece would write with a blank, under languages that begin without one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tokenizer_zoo import ZOO

from smc import GBNF, Choice, FiniteLanguage, Lark, Regex
from smc.constraints import Constraint
from smc.constraints.notes import language_of, refuse_narrowing
from smc.models.huggingface import _vocabulary
from smc.vocabulary import Vocabulary

KEPT = {"byte-level BPE"}


def vocabulary(kind: str) -> Vocabulary:
    tokenizer = ZOO[kind]()
    return _vocabulary(tokenizer, len(tokenizer) + 3, (tokenizer.eos_token_id,))


@pytest.mark.parametrize("kind", ZOO)
def test_which_tokenizers_drop_the_blank_of_a_first_word(kind: str) -> None:
    made = vocabulary(kind)
    assert made.blank_first == (kind not in KEPT)
    assert made.with_text(()).blank_first == made.blank_first


@pytest.mark.parametrize("kind", ZOO)
@pytest.mark.parametrize(
    "make",
    [
        lambda blank: Regex(f"{blank}(the|a)"),
        lambda blank: Regex(f"{blank}(the|a)", engine="llguidance"),
        lambda blank: Choice([f"{blank[:1]}the", "a"]),
        lambda blank: FiniteLanguage([f"{blank[:1]}the", "a"]),
        lambda blank: GBNF(f'root ::= "{blank[:1]}the" | "a"'),
        lambda blank: Lark(f'start: "{blank[:1]}the" | "a"'),
    ],
)
def test_a_language_that_begins_without_the_blank_says_so(kind: str, make) -> None:
    made = vocabulary(kind)

    def said(constraint: Constraint) -> list[str]:
        compiled = constraint.compile(made)
        refuse_narrowing(constraint, compiled)  # every text can still be written
        return [note.scope for note in language_of(constraint, compiled).notes if note.at == "the first word"]

    assert said(make("")) == ([] if kind in KEPT else ["tokens"])
    assert said(make(" ?")) == []


def test_other_notes_stand_beside_it() -> None:
    bare = Vocabulary((b"a", b" a", b"</s>"), (2,), frozenset({2}))
    compiled = GBNF('root ::= "a" | "b"').compile(replace(bare, blank_first=True))
    assert [note.keyword for note in compiled.notes] == ["vocabulary", "SentencePiece"]
    assert [note.keyword for note in GBNF('root ::= "a" | "b"').compile(bare).notes] == ["vocabulary"]
