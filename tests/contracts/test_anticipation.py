"""Tokens fed in advance where text is forced: fewer passes, the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_models_huggingface import keep_global_randomness, recomputed, tiny  # noqa: F401  (a fixture of every test here)

from smc import EBNF, Job, Regex, SMCSampler, Template, anticipation
from smc.constraints.base import ForetellingRows
from smc.models.attention import Decode

FORCED = Regex("(left|right)-hand side: [xy]; done")


def runs(monkeypatch: pytest.MonkeyPatch, make, room: int):
    monkeypatch.setattr(anticipation, "ROOM", room)
    return make()


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize(
    "constraint",
    [FORCED, Template("The answer: ", Regex("[ab]"), ". Because ", Regex("[cd]"), "so it is.")],
    ids=["regex", "template"],
)
def test_fewer_passes_and_the_same_numbers(monkeypatch, constraint, branching: str) -> None:
    def make():
        sampler = SMCSampler(
            tiny("llama"), constraint, n_particles=3, branching=branching, max_tokens=40, seed=5, stop_fraction=0
        )
        return sampler.run("which?")

    plain, ahead = runs(monkeypatch, make, 0), runs(monkeypatch, make, 16)
    assert ahead.cost.passes < 0.6 * plain.cost.passes
    assert plain.cost.forward_rows == plain.cost.tokens - 5
    assert ahead.cost.forward_rows < plain.cost.forward_rows
    assert len(ahead.trace) == len(plain.trace)
    assert [s.tokens for s in ahead.sequences] == [s.tokens for s in plain.sequences]
    for a, b in zip(ahead.sequences, plain.sequences, strict=True):
        np.testing.assert_allclose(
            [a.log_prob, a.log_weight, a.log_kept_mass], [b.log_prob, b.log_weight, b.log_kept_mass], atol=2e-4
        )
        np.testing.assert_allclose(a.kept_path, b.kept_path, atol=1e-4)  # every skipped token's mass is in Z_t


def test_several_runs_in_one_pass(monkeypatch) -> None:
    jobs = [Job("one", key="a"), Job("another prompt", constraint=Regex("[pq]{4} and the rest"), key="b")]

    def make():
        return SMCSampler(tiny("llama"), FORCED, n_particles=3, max_tokens=40, stop_fraction=0).run_many(jobs)

    plain, ahead = runs(monkeypatch, make, 0), runs(monkeypatch, make, 16)
    for a, b in zip(ahead, plain, strict=True):
        assert a.cost.passes < b.cost.passes
        assert a.log_evidence == pytest.approx(b.log_evidence, abs=2e-4)


def test_no_token_is_fed_beyond_max_tokens() -> None:
    """Up to the last place of the context, and not one further."""
    model = tiny("gpt2")
    constraint = Template("ab", Regex("[xy]"), "a much longer fixed text than what fits")
    result = SMCSampler(model, constraint, n_particles=2, max_tokens=12).run([5] * 116)
    assert result.status == "censored"


def test_room_is_that_of_the_whole_pass(monkeypatch) -> None:
    model = tiny("llama")
    assert model.shared is not None
    widths, compute = [], model.shared._forward

    def counted(tokens: np.ndarray, positions: np.ndarray, over: object, keep: np.ndarray) -> torch.Tensor:
        if isinstance(over, Decode):
            widths.append(len(tokens))
        return compute(tokens, positions, over, keep)

    monkeypatch.setattr(model.shared, "_forward", counted)
    jobs = [Job(f"prompt {i}", key=str(i)) for i in range(8)]
    SMCSampler(model, FORCED, n_particles=1, branching="sample", max_tokens=40).run_many(jobs)
    assert max(widths) <= anticipation.ROOM


def test_rows_that_go_another_way_lose_nothing() -> None:
    model = tiny("llama")
    prompt = list(model.encode("abc"))
    rows = model.start(prompt).advance(np.zeros(2, dtype=int), np.array([5, 6]))
    rows.anticipate({0: (7, 8, 9), 1: (7,)})
    torch.testing.assert_close(rows.log_probs, recomputed(model, [[*prompt, 5], [*prompt, 6]]), atol=1e-4, rtol=1e-4)
    assert rows.fed == (2, 6)
    copy = rows.fork(np.array([1, 0]))
    # 5 7 was foreseen, 5 9 and 6 8 were not
    rows = rows.advance(np.array([0, 0, 1]), np.array([9, 7, 8]))
    assert rows.unknown.tolist() == [0, 2]
    expected = recomputed(model, [[*prompt, 5, 9], [*prompt, 5, 7], [*prompt, 6, 8]])
    torch.testing.assert_close(rows.log_probs, expected, atol=1e-4, rtol=1e-4)
    assert rows.fed == (2, 2)
    # one child of 5 7 goes on as foreseen, the other does not
    rows = rows.advance(np.array([1, 1, 0]), np.array([4, 8, 8]))
    assert rows.unknown.tolist() == [0, 2]
    expected = recomputed(model, [[*prompt, 5, 7, 4], [*prompt, 5, 7, 8], [*prompt, 5, 9, 8]])
    torch.testing.assert_close(rows.log_probs, expected, atol=1e-4, rtol=1e-4)
    rows = rows.advance(np.array([1]), np.array([9]))
    assert not len(rows.unknown)
    torch.testing.assert_close(rows.log_probs, recomputed(model, [[*prompt, 5, 7, 8, 9]]), atol=1e-4, rtol=1e-4)
    assert rows.fed == (0, 0)
    # and the copy has foreseen it too
    copy = copy.advance(np.array([1]), np.array([7]))
    assert not len(copy.unknown)
    torch.testing.assert_close(copy.log_probs, recomputed(model, [[*prompt, 5, 7]]), atol=1e-4, rtol=1e-4)


def test_what_a_grammar_forces() -> None:
    vocabulary = tiny("llama").vocabulary
    rows = FORCED.compile(vocabulary).start()
    assert isinstance(rows, ForetellingRows)
    assert rows.forced_text(0) == ""
    rows = rows.advance(np.array([0]), np.array([vocabulary.tokens.index(b"l")]))
    assert rows.forced_text(0) == "eft-hand side: "


def test_text_that_is_forced_without_end_is_not_asked_for() -> None:
    """The engine would write it all down; such grammars run with check=False alone."""
    vocabulary = tiny("llama").vocabulary
    rows = EBNF('root ::= "a" root', check=False).compile(vocabulary).start()
    assert isinstance(rows, ForetellingRows)
    assert rows.forced_text(0) == ""
