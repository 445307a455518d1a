"""A short run of every fuzzer, with fixed seeds; that each finds a fault that was put there; and what becomes of a finding."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from smc.constraints.token_sets import TokenSets
from smc.resampling import ANCESTOR_SCHEMES
from tests.fuzz import __main__ as console
from tests.fuzz import workers
from tests.fuzz.engines import VOCABULARY, Disagreement, disagreement
from tests.fuzz.fuzzer import Failure, Outcome, Question, features
from tests.fuzz.kinds import FUZZERS
from tests.fuzz.recogniser import Recogniser
from tests.fuzz.rounds import Finding, Memory, play
from tests.fuzz.shrinking import smallest

EXAMPLES = {"regex": 60, "property": 40, "ecma": 60, "schema": 40, "lark": 25, "grammar": 60, "sampler": 20}


def available(kind: str) -> Any:
    fuzzer = FUZZERS[kind]
    reason = fuzzer.missing()
    if reason:
        pytest.skip(reason)
    return fuzzer


@pytest.mark.parametrize("kind", FUZZERS)
def test_nothing_is_found(kind: str) -> None:
    """In a process of its own, which an engine may end."""
    available(kind)
    turn, tally = workers.Turn(kind, 20, seconds=120.0, rounds=1, examples=EXAMPLES[kind]), Counter[str]()
    for said in workers.work(turn, Memory()):
        assert not isinstance(said, Finding), said.failure
        tally += said
    assert tally["agreed"] > EXAMPLES[kind] / 5, tally


def finds(kind: str, cause: str, seeds: range = range(20, 26)) -> bool:
    """Whether a few rounds find a failure of that cause."""
    memory = Memory()
    findings = (play(available(kind), seed, memory, Counter(), examples=EXAMPLES[kind]) for seed in seeds)
    return any(finding and cause in finding.failure.cause for finding in findings)


def _forgets_a_letter(self: TokenSets, words: np.ndarray, complete: Any) -> None:
    words &= self.text
    words[np.asarray(complete, dtype=bool)] |= self.stops
    for letter in b"a1":
        words[:, letter // 32] &= ~np.int32(1 << letter % 32)


def _ends_too_soon(self: TokenSets, words: np.ndarray, complete: Any) -> None:
    words &= self.text
    words |= self.stops


LANGUAGES = [kind for kind in FUZZERS if kind != "sampler"]


@pytest.mark.parametrize("mutant", [_forgets_a_letter, _ends_too_soon])
@pytest.mark.parametrize("kind", LANGUAGES)
def test_a_fault_in_a_mask_is_found(kind: str, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TokenSets, "settle", mutant)
    monkeypatch.setattr("tests.fuzz.rounds.SHRINK_SECONDS", 0.5)
    assert finds(kind, "mask")


def test_a_biased_resampling_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def favours_the_first(expected: np.ndarray, draws: Any) -> np.ndarray:
        copies = np.floor(expected + 1e-9).astype(np.int64)
        copies[0] += round(expected.sum()) - copies.sum()
        return copies

    for scheme in ANCESTOR_SCHEMES:
        monkeypatch.setitem(ANCESTOR_SCHEMES, scheme, favours_the_first)
    monkeypatch.setattr("tests.fuzz.rounds.SHRINK_SECONDS", 0.5)
    assert finds("sampler", "is not")


class Toy:
    """Lists of numbers, of which some are wrong."""

    name = about = "toy"

    def missing(self) -> str | None:
        return None

    def cases(self) -> st.SearchStrategy[Any]:
        return st.lists(st.integers(0, 40), max_size=8)

    def examine(self, case: Any) -> Outcome:
        if sum(case) >= 30 and 7 not in case:
            raise Failure(
                "too much",
                f"{case} has a sum of {sum(case)}",
                f"def test_it() -> None:\n    assert sum({case!r}) < 30\n",
            )
        return "agreed"


class Deadly(Toy):
    """Lists of signs."""

    def cases(self) -> st.SearchStrategy[Any]:
        return st.lists(st.sampled_from("+-!#"), max_size=8)

    def examine(self, case: Any) -> Outcome:
        if "!" in case:
            os.kill(os.getpid(), signal.SIGKILL)
        if "#" in case:
            time.sleep(60)
        return "agreed"


def test_a_finding_is_as_small_as_can_be_and_comes_once() -> None:
    memory, tally = Memory(), Counter[str]()
    finding = play(Toy(), 1, memory, tally, examples=300)
    assert finding is not None
    assert finding.case == [30]
    assert tally["failed"] == 1
    assert play(Toy(), 2, memory, tally, examples=300) is None
    assert tally["repeated"] > 0
    assert play(Toy(), 1, Memory(), Counter()).case == finding.case  # type: ignore[union-attr]


def test_what_ends_or_holds_up_its_process_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import multiprocessing

    monkeypatch.setattr(workers, "HANG_SECONDS", 4.0)
    monkeypatch.setitem(FUZZERS, "toy", Deadly())
    monkeypatch.setattr(workers, "_context", lambda: multiprocessing.get_context("fork"))
    found = [m for m in workers.work(workers.Turn("toy", 1, 30.0, rounds=4), Memory()) if isinstance(m, Finding)]
    (crash,) = [finding for finding in found if "code -9" in finding.failure.cause]
    assert crash.case == ["!"]
    assert any("hangs" in finding.failure.cause for finding in found)
    assert "FUZZERS['toy'].examine(['!'])" in crash.failure.test


def test_a_finding_becomes_a_test_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "FOLDER", tmp_path)
    with pytest.raises(Failure) as caught:
        Question("Regex('a|b', engine='xgrammar')", members=["a", "c"], others=["d"]).ask()
    path = console.save(Finding("regex", 3, (), caught.value))
    assert "'c' is a member" in path.read_text()
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", str(path)],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "Disagreement(cause='xgrammar: the validator says no of a member'" in ran.stdout


def test_what_counts_as_a_disagreement() -> None:
    def cause(*args: Any, **options: Any) -> str | None:
        found = disagreement(*args, **options)
        return found.cause if isinstance(found, Disagreement) else None

    assert cause("Regex('a+')", ["a", "aa"], ["", "b"]) is None
    assert cause("Regex('a+')", ["b"], []) == "xgrammar: the validator says no of a member"
    assert cause("Regex('a+')", [], ["aa"]) == "xgrammar: the validator says yes of no member"
    assert cause(r"Regex('(?=b)a+')", [], ["b", "a"]) is None  # wider, with a note
    assert cause("JSONSchema({'type': 'integer'})", [("1.0", "1")], []) is None  # one spelling is enough
    assert cause("JSONSchema({'type': 'integer'})", ["1.0"], []) == "xgrammar: the mask blocks it of a member"
    assert cause("Regex('[a&&b]{0}x', engine='none')", ["x"], []) is None  # refused in words
    assert "AttributeError" in str(cause("Regex('a').nothing", [], []))
    assert str(cause("__import__('os').write(2, b'Warning: odd') and Regex('a')", ["a"], [])).startswith(
        "prints Warning"
    )


def test_the_vocabulary_has_what_makes_masks_hard() -> None:
    assert {len(text) for text in VOCABULARY.tokens} >= {0, 1, 2, 3, 4}
    assert any(text and not _is_text(text) and len(text) > 1 for text in VOCABULARY.tokens)
    assert len(VOCABULARY) % 32


def _is_text(data: bytes) -> bool:
    return data.decode(errors="replace").encode() == data


def test_the_recogniser() -> None:
    balanced = Recogniser([("or", (("lit", ""), ("seq", (("ref", 0), ("lit", "("), ("ref", 0), ("lit", ")")))))])
    assert [text for text in ["", "()", "(())()", "(", ")(", "(()"] if balanced.accepts(text)] == ["", "()", "(())()"]
    counted = Recogniser([("repeat", ("or", (("class", "^", (("b", "d"),)), ("lit", ""))), 2, 3)])
    assert [len(text) for text in ["", "a", "aa", "aee", "aaaa", "ab"] if counted.accepts(text)] == [0, 1, 2, 3]
    assert not Recogniser([("seq", (("lit", "a"), ("ref", 0)))]).accepts("a")


def test_inputs_that_hypothesis_cannot_shrink_are_shrunk() -> None:
    case = {"rules": (("seq", (("lit", "abc"), ("repeat", ("lit", "x"), 0, 2))),), "engine": "e"}
    found = smallest(case, lambda less: "repeat" in repr(less.get("rules")), seconds=5.0)
    assert found == {"rules": ("repeat",)} or len(repr(found)) < 40
    assert features(("seq", (("lit", "a-1"),))) == {">seq", "seq>lit", "lit=a-0"}
