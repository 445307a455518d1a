"""The engine that shares prompts and passes among runs: equal to a full recompute, and gone without a trace."""

from __future__ import annotations

import copy
import gc
import warnings

import numpy as np
import pytest
import torch
from test_models_huggingface import CONFIGS, SMALL, byte_tokenizer, recomputed, tiny
from torch import nn
from transformers import AutoModelForCausalLM, Gemma2Config, LlamaConfig

from smc import HFModel, Job, Regex, SMCSampler
from smc.errors import MemoryLimitError, MemoryLimitWarning
from smc.exact import enumerate_posterior
from smc.models import engine as engine_module
from smc.models import slots as slots_module
from smc.models.attention import Decode, attention, merged
from smc.models.base import evaluate
from smc.models.cpu_linear import FEW, FeaturesFirst
from smc.models.engine import SharedEngine
from smc.models.footprint import Footprint, _free_on_the_cpu, footprint, in_words
from smc.models.plain_rows import PlainRows
from smc.models.shared_rows import SharedRows
from smc.models.slots import BLOCK, SlotPool
from smc.models.twin import in_float32

PROMPTS = ("What day is it?", "No", "A prompt that is a good deal longer than the other two.")


def predicted(model: HFModel, prompt_tokens: int, max_tokens: int) -> Footprint:
    found = footprint(model.model, prompt_tokens, max_tokens)
    assert found is not None
    return found


def engine(model: HFModel) -> SharedEngine:
    assert model.shared is not None
    return model.shared


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_runs_that_share_passes_equal_a_full_recompute(name: str) -> None:
    """Prompts of three lengths, rows of different ages, populations that grow and shrink, one pass a round."""
    model, rng = tiny(name), np.random.default_rng(2)
    prompts = [list(model.encode(text)) for text in PROMPTS]
    runs = [(model.start(prompt), [prompt]) for prompt in prompts]
    passes = 0

    def counted(*args: object) -> torch.Tensor:
        nonlocal passes
        passes += 1
        return forward(*args)

    forward, engine(model)._forward = engine(model)._forward, counted  # type: ignore[method-assign]
    for step in range(12):
        passes = 0
        evaluate(model, [rows for rows, _ in runs])
        assert passes == (3 if step == 0 else 1 if step != 6 else 2)  # each prompt alone, then all rows together
        for i, (rows, prefixes) in enumerate(runs):
            torch.testing.assert_close(rows.log_probs, recomputed(model, prefixes), atol=1e-4, rtol=1e-4)
            n = int(rng.integers(1, 6))
            parents, tokens = rng.integers(0, len(prefixes), n), rng.integers(0, 260, n)
            grown = [[*prefixes[p], int(t)] for p, t in zip(parents, tokens, strict=True)]
            runs[i] = (rows.advance(parents, tokens), grown)
        if step == 5:  # one ends and a new one takes its place
            runs[1] = (model.start(prompts[0][:4]), [prompts[0][:4]])
    assert passes == 1


def test_a_prompt_is_held_once_and_let_go_with_its_last_row() -> None:
    model = tiny("llama")
    shared, prompt = engine(model), model.encode(PROMPTS[2])
    a, b = model.start(prompt), model.start(prompt)
    evaluate(model, [a, b])
    assert isinstance(a, SharedRows)
    assert isinstance(b, SharedRows)
    assert a.cache is b.cache
    fork = a.fork(np.array([0, 0]))
    many = a.advance(np.zeros(20, dtype=int), np.arange(20))
    evaluate(model, [many])
    assert shared.pool.held == 20
    # 24 slots for twenty rows, of one block each: the prompt, 56 tokens, is not among them
    assert shared.pool.n_bytes == predicted(model, len(prompt), BLOCK).row * 24
    del many, a, b
    gc.collect()
    assert shared.pool.held == 0
    assert shared.pool.n_bytes == 0
    assert len(shared._prompts) == 1  # the fork still stands behind it
    torch.testing.assert_close(fork.log_probs, recomputed(model, [list(prompt)] * 2), atol=1e-4, rtol=1e-4)
    del fork
    gc.collect()
    assert not len(shared._prompts)


def test_what_prompts_have_in_common_is_computed_once() -> None:
    model = tiny("llama")
    shared, fed = engine(model), []
    forward = shared._forward

    def counted(tokens: np.ndarray, *rest: object) -> torch.Tensor:
        fed.append(len(tokens))
        return forward(tokens, *rest)

    shared._forward = counted  # type: ignore[method-assign]
    first = list(model.encode("The same long beginning of both. One"))
    second = list(model.encode("The same long beginning of both. Another one"))
    within = first[:20]
    rows = [model.start(prompt) for prompt in (first, second, within, first[:3])]
    evaluate(model, rows)
    common = len("The same long beginning of both. ")
    assert fed == [len(first), len(second) - common, 1, 3]
    for part, prompt in zip(rows, (first, second, within, first[:3]), strict=True):
        torch.testing.assert_close(part.log_probs, recomputed(model, [prompt]), atol=1e-4, rtol=1e-4)
    grown = [part.advance(np.zeros(2, dtype=int), np.array([7, 8])) for part in rows]
    evaluate(model, grown)
    for part, prompt in zip(grown, (first, second, within, first[:3]), strict=True):
        torch.testing.assert_close(
            part.log_probs, recomputed(model, [[*prompt, 7], [*prompt, 8]]), atol=1e-4, rtol=1e-4
        )


def test_the_model_is_its_owners_again_after_every_pass() -> None:
    model = tiny("llama")
    kinds = [type(module) for module in model.model.modules()]
    before = model.model.config._attn_implementation
    padded = torch.tensor([[0, 0, 5, 6], [1, 2, 3, 4]])
    mask = (padded > 0).long()
    with torch.inference_mode():
        expected = model.model(padded, attention_mask=mask).logits
    SMCSampler(model, Regex("[ab]{3}"), n_particles=4, max_tokens=5).run("x")
    assert model.model.config._attn_implementation == before
    assert [type(module) for module in model.model.modules()] == kinds
    with torch.inference_mode():
        torch.testing.assert_close(model.model(padded, attention_mask=mask).logits, expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes(dtype: torch.dtype) -> None:
    model = tiny("llama", dtype)
    prompt = list(model.encode("abc"))
    rows = model.start(prompt).advance(np.zeros(2, dtype=int), np.array([5, 6]))
    rows = rows.advance(np.array([1, 0, 1]), np.array([7, 8, 9]))
    assert isinstance(rows, SharedRows)
    expected = recomputed(model, [[*prompt, 6, 7], [*prompt, 5, 8], [*prompt, 6, 9]])
    tolerance = 1e-5 if dtype == torch.float64 else 0.1
    torch.testing.assert_close(rows.log_probs, expected.to(rows.log_probs.dtype), atol=tolerance, rtol=0)
    assert rows.log_probs.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


def test_attention_that_does_more_than_attend_is_left_to_the_model() -> None:
    """A cap on scores in full attention layers: our attention has none, so the model keeps its own."""
    torch.manual_seed(0)
    config = Gemma2Config(
        **SMALL, intermediate_size=48, num_key_value_heads=2, head_dim=8, layer_types=["full_attention"] * 2
    )
    model = HFModel(AutoModelForCausalLM.from_config(config), byte_tokenizer(), "capped")
    prompt = list(model.encode("abc"))
    rows = model.start(prompt).advance(np.array([0, 0]), np.array([5, 6]))
    assert isinstance(rows, PlainRows)
    torch.testing.assert_close(rows.log_probs, recomputed(model, [[*prompt, 5], [*prompt, 6]]), atol=1e-4, rtol=1e-4)


def test_merged_attention_is_attention_over_both() -> None:
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, 3, n, 8, generator=generator, dtype=torch.float64) for n in (4, 9, 9))
    whole = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.3)
    parts = [attention(q, k[:, :, s], v[:, :, s], 0.3) for s in (slice(0, 5), slice(5, 9))]
    torch.testing.assert_close(merged(parts[0], parts[1]), whole, atol=1e-12, rtol=0)
    fused = attention(q[:1], k[:1], v[:1], 0.3)
    plain = attention(q, k, v, 0.3)
    torch.testing.assert_close(fused[0], plain[0][:1], atol=1e-12, rtol=0)
    torch.testing.assert_close(fused[1].double(), plain[1][:1], atol=1e-6, rtol=0)


@pytest.mark.parametrize("bias", [False, True])
def test_features_first_is_the_same_layer(bias: bool) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(12, 7, bias=bias)
    other = FeaturesFirst(12, 7, bias=bias)
    other.load_state_dict(plain.state_dict())
    for shape in ((1, 1, 12), (1, 5, 12), (2, 3, 12), (1, FEW + 1, 12)):
        x = torch.randn(shape)
        torch.testing.assert_close(other(x), plain(x), atol=1e-6, rtol=1e-5)


class TestMemory:
    def test_a_pass_that_does_not_fit_is_split_and_says_so(self) -> None:
        model = tiny("llama")
        shared, prompt = engine(model), list(model.encode("abc"))
        forward, widths = shared._forward, []

        def small(tokens: np.ndarray, *rest: object) -> torch.Tensor:
            if len(tokens) > 3:
                raise torch.OutOfMemoryError("out of memory")
            widths.append(len(tokens))
            return forward(tokens, *rest)

        shared._forward = small  # type: ignore[method-assign]
        rows = model.start(prompt).advance(np.zeros(7, dtype=int), np.arange(7))
        with pytest.warns(MemoryLimitWarning, match="rows does not fit in memory, so passes take at most") as caught:
            got = rows.log_probs
        assert len(caught) == 2  # 7 to 4, 4 to 2
        assert widths == [3, 2, 2, 2, 1]
        torch.testing.assert_close(got, recomputed(model, [[*prompt, t] for t in range(7)]), atol=1e-4, rtol=1e-4)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rows.advance(np.arange(7), np.arange(7)).log_probs  # noqa: B018  (it remembers)

    def test_one_row_that_does_not_fit_is_an_error(self) -> None:
        model = tiny("llama")

        def full(*args: object) -> torch.Tensor:
            raise torch.OutOfMemoryError("out of memory")

        rows = model.start(model.encode("abc"))
        engine(model)._forward = full  # type: ignore[method-assign]
        with pytest.raises(torch.OutOfMemoryError):
            rows.log_probs  # noqa: B018

    def test_what_is_hopeless_is_refused_with_the_numbers(self) -> None:
        model = tiny("llama")
        model.memory_limit = 1_000_000
        regex = Regex("[a-z]{1,20}")
        with pytest.raises(
            MemoryLimitError, match=r"100 rows takes about 2\.0 MiB .* prompt of 5 tokens.*976\.6 KiB are free"
        ):
            SMCSampler(model, regex, n_particles=100, max_tokens=30).run("hello")
        with pytest.raises(MemoryLimitError, match="Job 'long'"):
            SMCSampler(model, regex, n_particles=100, max_tokens=30).run_many([Job("hello", key="long")])
        most = 48
        with pytest.raises(MemoryLimitError, match=f"at most {most}"):
            SMCSampler(model, regex, n_particles=most + 1, max_tokens=30).run("hello")
        SMCSampler(model, regex, n_particles=most, max_tokens=30).run("hello")
        # particles that draw may share rows, so it cannot be known
        SMCSampler(model, regex, n_particles=100, branching="sample", max_tokens=3).run("hello")
        model.memory_limit = 1000
        with pytest.raises(MemoryLimitError, match="Shorten the prompt"):
            SMCSampler(model, regex, n_particles=1, max_tokens=30).run("hello")
        model.memory_limit = float("inf")
        SMCSampler(model, Regex("[ab]"), n_particles=10**7, max_tokens=2).run("hello")

    def test_the_prediction_is_what_the_buffers_take(self) -> None:
        model = tiny("llama")
        prompt = model.encode("a" * 40)
        rows = model.start(prompt).advance(np.zeros(6, dtype=int), np.arange(6))
        rows.log_probs  # noqa: B018
        assert isinstance(rows, SharedRows)
        assert rows.cache is not None
        needs = predicted(model, len(prompt), 10)
        held = [*rows.cache.keys.values(), *rows.cache.values.values()]
        assert sum(t.numel() * t.element_size() for t in held) == needs.prompt
        assert engine(model).pool.n_bytes == 8 * needs.row  # slots come by the eight

    def test_free_memory_heeds_the_control_group(self, tmp_path) -> None:
        meminfo = tmp_path / "meminfo"
        meminfo.write_text("MemTotal:       100 kB\nMemAvailable:    50 kB\n")
        assert _free_on_the_cpu(meminfo, tmp_path) == 50 * 1024
        (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 300\n")
        (tmp_path / "memory.max").write_text("max\n")
        (tmp_path / "memory.current").write_text("1000\n")
        assert _free_on_the_cpu(meminfo, tmp_path) == 50 * 1024
        (tmp_path / "memory.max").write_text("21000\n")
        assert _free_on_the_cpu(meminfo, tmp_path) == 20000 + 300  # cached files give way
        assert _free_on_the_cpu(tmp_path / "none", tmp_path) is None

    def test_numbers_for_people(self) -> None:
        assert [in_words(n) for n in (2048, 3 * 2**20, 5 * 2**30)] == ["2.0 KiB", "3.0 MiB", "5.0 GiB"]


class TestSlots:
    def test_rows_of_several_runs_share_the_pool(self) -> None:
        pool = SlotPool(1)
        first, second = pool.take(3), pool.take(2)
        assert second.slots.tolist() == [3, 4]
        del first
        assert pool.held == 2
        # the second run moves down as it goes on
        second = pool.branch(second, np.array([0, 1, 1]))
        assert second.slots.tolist() == [1, 2, 0]
        assert pool.held == 3

    def test_slots_come_back_when_memory_runs_out(self, monkeypatch) -> None:
        pool = SlotPool(1)
        lease, others = pool.take(3), pool.take(1)

        def full(*args: object) -> None:
            raise MemoryError

        monkeypatch.setattr(pool, "copy", full)
        with pytest.raises(MemoryError):
            pool.branch(lease, np.array([2, 2, 0, 0, 0]))
        assert pool.held == 1
        assert sorted(pool.take(5).slots.tolist() + others.slots.tolist()) == [0, 1, 2, 3, 4, 5]

    def test_a_size_that_did_not_fit_is_not_asked_for_again(self, monkeypatch) -> None:
        pool = SlotPool(1)
        others, lease = pool.take(1), pool.take(2)
        pool.reserve(1)
        pool.layer(0, torch.zeros(1, 1, 1, 2))
        whole, asked = slots_module._enlarged, []

        def small(buffer: torch.Tensor, n: int, tokens: int) -> torch.Tensor:
            asked.append((n, tokens))
            if n * tokens > 8 * 2 * BLOCK:
                raise torch.OutOfMemoryError
            return whole(buffer, n, tokens)

        monkeypatch.setattr(slots_module, "_enlarged", small)
        with pytest.raises(torch.OutOfMemoryError):
            pool.branch(lease, np.zeros(39, dtype=int))
        assert pool.held == len(others.slots)
        two = pool.take(2)
        with pytest.raises(torch.OutOfMemoryError):
            pool.reserve(4 * BLOCK)
        pool.reserve(2 * BLOCK)
        assert len(two.slots) == 2
        assert asked == [(40, BLOCK), (8, 4 * BLOCK), (8, 2 * BLOCK), (8, 2 * BLOCK)]  # keys and values

    def test_a_copy_that_does_not_fit_keeps_no_slots(self, monkeypatch) -> None:
        model = tiny("llama")
        rows = model.start(model.encode("abc")).advance(np.zeros(2, dtype=int), np.array([5, 6]))
        rows.log_probs  # noqa: B018
        pool = engine(model).pool

        def full(*args: object) -> None:
            raise MemoryError

        monkeypatch.setattr(pool, "copy", full)
        with pytest.raises(MemoryError):
            rows.fork(np.array([0, 1, 1]))
        assert pool.held == 2

    def test_buffers_grow_in_blocks_and_keep_what_they_hold(self) -> None:
        pool = SlotPool(1)
        lease = pool.take(2)
        pool.reserve(BLOCK)
        keys, _ = pool.layer(0, torch.zeros(1, 2, 1, 4))
        assert keys.shape == (8, 2, BLOCK, 4)
        keys[:] = 7.0
        more = pool.take(7)
        pool.reserve(BLOCK + 1)
        keys, _ = pool.layer(0, keys)
        assert keys.shape == (16, 2, 2 * BLOCK, 4)
        assert (keys[lease.slots, :, :BLOCK] == 7).all()
        assert more.slots.tolist() == list(range(2, 9))
        assert (keys[:, :, BLOCK:] == 0).all()


@pytest.mark.parametrize(("heads", "shared_by"), [(4, 1), (4, 2), (4, 4), (1, 1)])
def test_heads_that_share_keys_and_heads_that_do_not(heads: int, shared_by: int) -> None:
    torch.manual_seed(1)
    sizes = {**SMALL, "num_attention_heads": heads}
    config = LlamaConfig(**sizes, intermediate_size=48, num_key_value_heads=heads // shared_by)
    model = HFModel(AutoModelForCausalLM.from_config(config), byte_tokenizer(), "grouped")
    assert model.shared is not None
    rows, prefixes = model.start([5, 6]), [[5, 6]]
    for n in (2, 5, 3):
        parents, tokens = np.arange(n) % len(prefixes), np.arange(n) + 7
        rows, prefixes = (
            rows.advance(parents, tokens),
            [[*prefixes[p], t] for p, t in zip(parents, tokens.tolist(), strict=True)],
        )
        torch.testing.assert_close(rows.log_probs, recomputed(model, prefixes), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_on_every_kind_of_layer(name: str) -> None:
    """Whatever can be foretold of its memory, and whether or not its rows can share the prompt."""
    model = tiny(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # what is known to need its own attention falls back without a word
        result = SMCSampler(model, Regex("[ab]{3}"), n_particles=8, max_tokens=4, stop_fraction=0).run("abc")
    assert result.log_evidence == pytest.approx(
        enumerate_posterior(model, Regex("[ab]{3}"), "abc", max_tokens=4).log_evidence, abs=1e-4
    )


def test_a_model_that_disagrees_says_that_it_falls_back(monkeypatch) -> None:
    wrong = SharedEngine.compute
    monkeypatch.setattr(SharedEngine, "compute", lambda *args: wrong(*args) * 1.1)
    model = tiny("llama")
    with pytest.warns(UserWarning, match="cannot share prompts among rows .log probabilities differ"):
        assert model.shared is None
    assert isinstance(model.start([5]), PlainRows)


def test_rotary_frequencies_that_follow_the_longest_row_are_not_shared() -> None:
    config = LlamaConfig(
        **SMALL,
        intermediate_size=48,
        num_key_value_heads=2,
        rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0},
    )
    model = HFModel(AutoModelForCausalLM.from_config(config), byte_tokenizer(), "dynamic")
    assert model.shared is None


def test_products_of_large_keys_and_queries_fit_in_half_precision() -> None:
    query = torch.full((2, 1, 3, 64), 40.0, dtype=torch.float16)
    out, log_sum = attention(
        query, query, torch.ones_like(query), 0.125
    )  # 64 * 1600 is beyond float16, an eighth is not
    assert bool(torch.isfinite(out).all())
    torch.testing.assert_close(log_sum, torch.full_like(log_sum, 12800 + float(np.log(3))), rtol=1e-3, atol=0)


def test_no_rows_have_no_log_probs() -> None:
    model = tiny("llama")
    nobody = np.empty(0, dtype=np.int64)
    rows = model.start(model.encode("abc")).advance(nobody, nobody)
    assert tuple(rows.log_probs.shape) == (0, 264)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_rounding_is_no_reason_to_fall_back(name: str, dtype: torch.dtype) -> None:
    """Weights so large that half precision is nats off: the engine is as near to float32 as the model itself."""
    model = tiny(name, torch.float32)
    for parameter in model.model.parameters():
        parameter.data.mul_(2.0)
    half = HFModel(model.model.to(dtype), model.tokenizer, "half")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        shared = half.shared
    assert shared is not None
    tokens = [(7919 * i + 13) % 264 for i in range(8)]
    with torch.inference_mode():
        exact = torch.log_softmax(in_float32(half.model)(torch.tensor([tokens])).logits[0, -1], dim=-1)
        usual = torch.log_softmax(half.model(torch.tensor([tokens])).logits[0, -1].float(), dim=-1)
    rows = half.start(tokens[:7]).advance(np.array([0]), np.array(tokens[7:]))
    ours = rows.log_probs[0]
    assert float((ours - exact).abs().max()) <= 2 * float((usual - exact).abs().max()) + 0.05


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_that_is_a_little_wrong_is_seen_in_half_precision_too(dtype: torch.dtype, monkeypatch) -> None:
    """A scale that is off by 5%, far less than half precision is on this model."""
    right = Decode.attend
    monkeypatch.setattr(Decode, "attend", lambda self, layer, q, k, v, scale: right(self, layer, q, k, v, 1.05 * scale))
    model = tiny("llama", dtype)
    with pytest.warns(UserWarning, match="cannot share prompts among rows .log probabilities differ by"):
        assert model.shared is None


def test_float32_is_computed_from_the_same_weights_and_leaves_them_alone() -> None:
    model = tiny("gpt2", torch.bfloat16).model
    tokens = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        found = in_float32(model)(tokens).logits
        assert found.dtype == torch.float32
        assert model(tokens).logits.dtype == torch.bfloat16
        torch.testing.assert_close(found, copy.deepcopy(model).float()(tokens).logits, atol=1e-5, rtol=1e-5)


def test_weights_that_cannot_be_widened_are_compared_as_they_are(monkeypatch) -> None:
    def refuses(model: object) -> object:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(engine_module, "in_float32", refuses)
    assert tiny("llama", torch.bfloat16).shared is not None
    wrong = SharedEngine.compute
    monkeypatch.setattr(SharedEngine, "compute", lambda *args: wrong(*args) * 1.5)
    with pytest.warns(UserWarning, match="cannot share"):
        assert tiny("llama", torch.bfloat16).shared is None
