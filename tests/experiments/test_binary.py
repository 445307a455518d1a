"""The task of small languages: its answers, its sizes, and that masking goes wrong in it as the textbook says."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import pytest

from experiments.tasks import build_task
from experiments.tasks.binary import EXAMPLES, BinaryTask, Language, languages
from smc import TableModel, baselines
from smc.exact import enumerate_posterior

SIZES = {
    "aaa_aab_aba_baa": 4,
    "000_1xx": 5,
    "00000_1xxxx": 17,
    "zeros_or_1_8": 2**7 + 1,
    "zeros_or_1_10": 2**9 + 1,
    "as_many_ones_8": math.comb(8, 4),
    "no_11_8": 55,  # a Fibonacci number
    "even_parity_8": 2**7,
}


def test_sizes_of_the_languages() -> None:
    assert {language.name: len(set(language.strings)) for language in languages()} == SIZES
    assert len({len(text) for language in languages() for text in language.strings}) == 4


def test_every_question_has_right_answers_and_wrong_ones_in_its_language() -> None:
    task = BinaryTask()
    instances = task.instances()
    assert len(instances) == len({instance.id for instance in instances}) == 26
    for instance in instances:
        members = [member.decode() for member in instance.constraint.members]
        scores = {text: task.score(instance, text) for text in members}
        assert set(scores.values()) == {0.0, 1.0}, instance.id
        assert scores[str(instance.reference)] == 1.0
        assert task.score(instance, "") == 0.0


@pytest.mark.parametrize(
    ("key", "text", "score"),
    [
        ("00000_1xxxx.spelled", "10011", 1.0),
        ("00000_1xxxx.two_ones", "10001", 1.0),
        ("00000_1xxxx.two_ones", "01001", 0.0),  # two ones, but not of the language
        ("00000_1xxxx.two_ones", "00000", 0.0),
        ("zeros_or_1_8.palindrome", "10000001", 1.0),
        ("zeros_or_1_8.palindrome", "00000000", 0.0),
        ("zeros_or_1_8.spelled", "11001000", 1.0),
        ("no_11_8.four_ones", "10010101", 1.0),
        ("no_11_8.four_ones", "11010100", 0.0),
        ("even_parity_8.begins_with_three", "11100100", 1.0),
        ("aaa_aab_aba_baa.one_b", "BAA", 1.0),
    ],
)
def test_scores(key: str, text: str, score: float) -> None:
    task = BinaryTask()
    instance = next(i for i in task.instances() if i.id == key)
    assert task.score(instance, text) == score


def test_the_trap_is_never_right() -> None:
    """All zeros, which the mask runs into, answers no question of the languages that are made of it."""
    trapped = [i for i in BinaryTask().instances() if i.id.startswith(("000", "zeros_or"))]
    assert len(trapped) == 14
    assert not any(BinaryTask().score(i, "0" * len(str(i.reference))) for i in trapped)


def _fair_bits(length: int) -> TableModel:
    def next_probs(prefix: tuple[str, ...]) -> Mapping[str, float]:
        return {"<eos>": 1.0} if len(prefix) == length else {"0": 0.5, "1": 0.5}

    return TableModel(vocab=["0", "1", "<eos>"], eos="<eos>", next_probs=next_probs)


@pytest.mark.parametrize("length", [3, 5, 8, 10])
def test_masking_a_fair_coin_gives_the_trap_half_of_the_mass(length: int) -> None:
    """p* of all zeros is one over the size of the language, local masking gives it 1/2."""
    name = {3: "000_1xx", 5: "00000_1xxxx"}.get(length, f"zeros_or_1_{length}")
    instance = next(i for i in BinaryTask().instances() if i.id.startswith(f"{name}."))
    posterior = enumerate_posterior(_fair_bits(length), instance.constraint, "", max_tokens=length)
    zeros = "0" * length
    assert posterior.posterior()[zeros] == pytest.approx(1 / SIZES[name], rel=1e-12)
    (sequence,) = (sequence for sequence in posterior.sequences if sequence.text == zeros)
    assert math.exp(sequence.log_q) == pytest.approx(0.5, rel=1e-12)


def test_local_masking_runs_into_the_trap() -> None:
    task = BinaryTask()
    instance = next(i for i in task.instances() if i.id == "00000_1xxxx.two_ones")
    result = baselines.local_masking(_fair_bits(5), instance.constraint, "", n_particles=400, max_tokens=5, seed=0)
    drawn = sum(sequence.count for sequence in result.sequences if sequence.text == "00000")
    assert 150 < drawn < 250


def test_limit_meets_every_language() -> None:
    task = build_task("binary", {"name": "bits", "max_tokens": 11})
    assert (task.name, task.max_tokens, task.exact) == ("bits", 11, True)
    names = [instance.id.split(".")[0] for instance in task.instances(8)]
    assert names == list(SIZES)


def test_examples_ask_nothing_that_is_asked() -> None:
    assert not {asked for asked, _ in EXAMPLES} & {i.display for i in BinaryTask().instances()}
    assert not {answer for _, answer in EXAMPLES} & {text for language in languages() for text in language.strings}


def test_bits_in_words() -> None:
    asked = {i.display: i.reference for i in BinaryTask().instances() if i.id.endswith(".spelled")}
    assert len(asked) == 5
    assert asked["Write in bits: one, zero, zero, one, one."] == "10011"


def test_revision_is_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    before = BinaryTask().revision
    assert re.fullmatch("[0-9a-f]{10}", before)
    fewer: tuple[Language, ...] = languages()[1:]
    monkeypatch.setattr("experiments.tasks.binary.languages", lambda: fewer)
    assert BinaryTask().revision != before
