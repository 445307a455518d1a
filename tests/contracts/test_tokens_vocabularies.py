"""Vocabularies of every kind of tokenizer: bytes that spell the text again, and masks that mean the same everywhere."""

import random

import numpy as np
import pytest
import torch
from constraint_tools import allowed_ids, expected_mask, walks
from tokenizer_zoo import CORPUS, ZOO
from transformers import AutoModelForCausalLM, GPT2Config

from smc import Choice, FiniteLanguage, HFModel, JSONSchema, Regex, SMCSampler
from smc.constraints.template import Free, Template
from smc.exact import enumerate_posterior
from smc.models.huggingface import _vocabulary
from smc.vocabulary import Vocabulary

PADDING = 40
BLANK_FIRST = {"byte-level BPE": False, "metaspace unigram": True, "metaspace BPE": True, "metaspace, no bytes": True}


@pytest.fixture(scope="module", params=ZOO)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def made(kind):
    tokenizer = ZOO[kind]()
    return tokenizer, _vocabulary(tokenizer, len(tokenizer) + PADDING, (tokenizer.eos_token_id,))


def _texts(kind: str, n: int = 200) -> list[str]:
    """Random texts of what the corpus holds and, where the tokenizer has bytes, of anything."""
    rng = random.Random(7)
    letters = sorted(set("".join(CORPUS)) - set("\n\t日本ü"))
    wild = [*letters, "日", "\n", "\t", "😀", "\x00", "ß", "<tool_call>", "éö"]
    return [
        "".join(rng.choices(letters if kind == "metaspace, no bytes" else wild, k=rng.randint(0, 30))) for _ in range(n)
    ]


def test_the_tokens_of_a_text_spell_it_again(kind: str, made) -> None:
    """Byte for byte; SentencePiece puts one blank before the first word, and the blank is spelled."""
    tokenizer, vocabulary = made
    for text in _texts(kind):
        spelled = vocabulary.spell(tokenizer(text, add_special_tokens=False)["input_ids"]).decode()
        if kind == "metaspace BPE":  # one more blank after every added token, where this kind begins anew
            assert spelled.replace(" ", "") == text.replace(" ", ""), text
        elif BLANK_FIRST[kind]:
            assert spelled in (text, f" {text}"), text
            assert spelled == text or not text.startswith(" ")
        else:
            assert spelled == text


def test_added_tokens_spell_themselves(made) -> None:
    """Also where their characters are letters of the alphabet that byte-level BPE writes bytes in."""
    tokenizer, vocabulary = made
    ids = tokenizer.get_vocab()
    for added in ("<tool_call>", "  ", "é→", "éö"):
        assert vocabulary.tokens[ids[added]] == added.encode()
        assert vocabulary.spelling[ids[added]]


def test_special_and_unknown_ids_are_silent(made) -> None:
    tokenizer, vocabulary = made
    ids = tokenizer.get_vocab()
    assert not vocabulary.maskable[[ids["<s>"], ids["<unk>"], ids["<|x|>"]]].any()
    assert vocabulary.stop_ids == (ids["</s>"],)
    assert len(vocabulary) == len(tokenizer) + PADDING
    assert not vocabulary.spelling[len(tokenizer) :].any()
    assert all(token == b"" for token in vocabulary.tokens[len(tokenizer) :])


WORDS = ["the cat", "the", " the", "12", "aab"]


def test_masks_mean_the_same_for_every_engine_and_tokenizer(made) -> None:
    """A list of texts through the trie, through xgrammar twice, and through the definition, at every prefix."""
    _, vocabulary = made
    members = [word.encode() for word in WORDS]
    finite = walks(FiniteLanguage(WORDS).compile(vocabulary), vocabulary, 4)
    assert finite == walks(Choice(WORDS).compile(vocabulary), vocabulary, 4)
    assert finite == walks(Regex("|".join(WORDS)).compile(vocabulary), vocabulary, 4)
    assert len(finite) >= 20
    for prefix, mask in finite.items():
        assert mask == expected_mask(prefix, members, vocabulary)


def test_json_may_be_spelled_by_any_tokens_of_its_text(kind: str, made) -> None:
    """The tokenizer's own tokens for a document are allowed one after the other, and the end only at its end."""
    tokenizer, vocabulary = made
    compiled = JSONSchema({"type": "object", "properties": {"name": {"type": "string"}, "list": {}}}).compile(
        vocabulary
    )
    text = (
        '{"name": "the naïve dog  12", "list": [1, 2]}'
        if kind == "metaspace, no bytes"
        else '{"name": "日\tï  😀", "list": [1]}'
    )
    text = text.replace("\t", "\\t")
    rows, stops = compiled.start(), set(vocabulary.stop_ids)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if vocabulary.spell(ids[:1]).startswith(b" "):  # the blank before the first word is not JSON
        assert ids[0] not in allowed_ids(rows, vocabulary)
        blank = vocabulary.tokens[ids[0]]
        ids = [
            token
            for token in [vocabulary.tokens.index(blank[1:]) if blank[1:] else None, *ids[1:]]
            if token is not None
        ]
    for token in ids:
        mask = allowed_ids(rows, vocabulary)
        assert token in mask, vocabulary.tokens[token]
        assert not stops & mask
        rows = rows.advance(np.array([0]), np.array([token]))
    assert stops <= allowed_ids(rows, vocabulary)
    assert compiled.accepts(vocabulary.spell(ids))


def test_special_tokens_never_leak(made) -> None:
    """Not in a JSON string, not in a class of all characters, not in free text, not where a grammar spells them out."""
    tokenizer, vocabulary = made
    ids = tokenizer.get_vocab()
    special = {ids["<s>"], ids["<unk>"], ids["<|x|>"], *range(len(tokenizer), len(vocabulary))}
    quote = vocabulary.tokens.index(b'"')
    inside = JSONSchema({"type": "string"}).compile(vocabulary).start().advance(np.array([0]), np.array([quote]))
    everything = [inside, Regex("[^x]*").compile(vocabulary).start(), Template(Free()).compile(vocabulary).start()]
    named = [Choice(["<s>", "<|x|>"]).compile(vocabulary).start(), FiniteLanguage(["<s>"]).compile(vocabulary).start()]
    for rows in (*everything, *named):
        assert not allowed_ids(rows, vocabulary) & special


def test_duplicate_byte_strings_are_all_allowed_and_distinct() -> None:
    """Two ids for one letter (a byte and a piece, as with byte fallback): each is a spelling, none shadows the other."""
    vocabulary = Vocabulary((b"a", b"a", b"b", b"ab", b"ab", b"</s>"), (5,), frozenset({5}))
    for constraint in (Choice(["ab"]), FiniteLanguage(["ab"]), Regex("ab"), Template("ab")):
        masks = walks(constraint.compile(vocabulary), vocabulary, 2)
        assert masks[()] == {0, 1, 3, 4}
        assert masks[(0,)] == masks[(1,)] == {2}
        assert masks[(0, 2)] == masks[(3,)] == masks[(4,)] == {5}


def test_byte_tokens_and_pieces_of_one_letter_are_both_there() -> None:
    tokenizer = ZOO["metaspace unigram"]()
    vocabulary = _vocabulary(tokenizer, len(tokenizer), (tokenizer.eos_token_id,))
    ids = tokenizer.get_vocab()
    assert vocabulary.tokens[ids["<0x61>"]] == vocabulary.tokens[ids["a"]] == b"a"
    assert vocabulary.tokens[ids["<0x0A>"]] == b"\n"
    first = allowed_ids(Choice(["a\n"]).compile(vocabulary).start(), vocabulary)
    assert first == {ids["<0x61>"], ids["a"]}


def test_a_model_heals_its_prompts() -> None:
    """A tiny random model with padded logits: the run is over what the shortened prompt gives to " do" and the words."""
    tokenizer = ZOO["byte-level BPE"]()
    torch.manual_seed(0)
    size = dict(vocab_size=len(tokenizer) + PADDING, n_embd=16, n_layer=1, n_head=2, n_positions=64)
    config = GPT2Config(**size, bos_token_id=1, eos_token_id=2)
    model = HFModel(AutoModelForCausalLM.from_config(config), tokenizer)
    words = ["g", "gs and", "or"]
    sampler = SMCSampler(model, Choice(words), n_particles=500, max_tokens=6, stop_fraction=0, token_healing=True)
    result = sampler.run("the quick do")
    ids = model.encode("the quick do")
    assert result.healed == model.vocabulary.spell(ids[-1:]).decode() == " do"
    exact = enumerate_posterior(model, FiniteLanguage([f" do{word}" for word in words]), ids[:-1], max_tokens=6)
    assert result.log_evidence == pytest.approx(exact.log_evidence, abs=1e-4)
    posterior = {f" do{text}": p for text, p in result.posterior().items()}
    assert posterior == pytest.approx(exact.posterior(), abs=1e-4)
    assert {s.text for s in result.sequences} == set(words)
