"""A neural critic: its rows move with the population, and other tokenizers are met through text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

from smc import HFModel, Regex, SMCSampler
from smc.potentials import ModelCritic

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
SPACE, A, B, C = (ALPHABET.index(letter) for letter in ("Ġ", "a", "b", "c"))


def tiny(seed: int, merges: tuple[tuple[str, str], ...] = ()) -> HFModel:
    """A random model of byte-level tokens and a few merged ones, with a start and an end token."""
    vocabulary = {letter: i for i, letter in enumerate([*ALPHABET, *(a + b for a, b in merges)])}
    tokenizer = Tokenizer(models.BPE(vocabulary, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(fast), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=64, eos_token_id=fast.eos_token_id,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        parameter.data.mul_(3.0)
    return HFModel(model, fast)


@pytest.fixture(scope="module")
def generator() -> HFModel:
    return tiny(0)


def teacher_forced(critic: HFModel, prompt: tuple[int, ...], tokens: tuple[int, ...]) -> float:
    """log p(tokens, stop | prompt) in one pass over the whole sequence."""
    ids = torch.tensor([[*prompt, *tokens]])
    with torch.inference_mode():
        log_probs = torch.log_softmax(critic.model(input_ids=ids).logits[0].double(), dim=-1)
    following = [*tokens, critic.vocabulary.stop_ids[0]]
    return sum(float(log_probs[len(prompt) - 1 + i, token]) for i, token in enumerate(following))


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_incremental_scores_are_those_of_a_full_pass(generator: HFModel, branching: str) -> None:
    """Whatever was copied, dropped and resampled on the way."""
    critic = tiny(1)
    potential = ModelCritic(critic, "say ab", power=0.5)
    sampler = SMCSampler(
        generator, Regex("[abc]{1,6}"), n_particles=6, branching=branching, potentials=[potential], max_tokens=8,
        ess_threshold=1.0 if branching == "sample" else None, stop_fraction=0.0,
    )  # fmt: skip
    result = sampler.run("x")
    assert len(result.sequences) >= 3
    for sequence in result.sequences:
        expected = 0.5 * teacher_forced(critic, critic.encode("say ab"), sequence.tokens)
        assert sequence.log_potential == pytest.approx(expected, abs=1e-4)


def test_another_tokenizer_scores_the_text(generator: HFModel) -> None:
    critic = tiny(2, merges=(("a", "b"), ("Ġ", "a")))
    potential = ModelCritic(critic, "say")
    result = SMCSampler(
        generator, Regex("[ab]{1,4}"), n_particles=6, potentials=[potential], max_tokens=6, stop_fraction=0.0
    ).run("x")
    assert result.sequences
    for sequence in result.sequences:
        merged = critic.encode(sequence.text)
        assert len(merged) < len(sequence.tokens) or "ab" not in sequence.text
        expected = teacher_forced(critic, critic.encode("say"), merged)
        assert sequence.log_potential == pytest.approx(expected, abs=1e-4)


def test_continuations_in_a_real_tokenizer() -> None:
    """A merge across the prompt's end is not made; special tokens in the text are letters; broken characters are bytes."""
    critic = tiny(3, merges=(("a", "b"), ("Ġ", "a")))
    assert ModelCritic(critic, "x").encode_continuation("abc") == (len(ALPHABET), C)
    assert ModelCritic(critic, "xa").encode_continuation("bc") == (B, C)
    assert ModelCritic(critic, "x ").encode_continuation("a") == (A,)
    spelled = ModelCritic(critic, "x").encode_continuation("a</s>")
    assert spelled is not None
    assert len(spelled) == 5
    assert critic.vocabulary.spell(spelled) == b"a</s>"
    broken = ModelCritic(critic, "x").encode_continuation("a\udcff")
    assert broken is not None
    assert critic.vocabulary.spell(broken) == b"a\xff"


def test_a_critic_is_its_own_teacher(generator: HFModel) -> None:
    """With the model itself as the critic, log phi is log p of the same sequence."""
    prompt = generator.encode("x")
    result = SMCSampler(
        generator, Regex("[ab]{1,3}"), n_particles=4, potentials=[ModelCritic(generator, prompt)], max_tokens=6
    ).run("x")
    for sequence in result.sequences:
        assert sequence.log_potential == pytest.approx(sequence.log_prob, abs=1e-4)
    np.testing.assert_allclose(result.weights.sum(), 1.0)
