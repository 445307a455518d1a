"""Potentials that read text: what they are asked, what they remember, and what becomes of failures."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import random
from typing import Any

import numpy as np
import pytest
import regex
from pydantic import BaseModel, TypeAdapter, field_validator

from smc import AtBoundaries, Everything, FiniteLanguage, SMCError, SMCSampler, TableModel, TextPotential, baselines
from smc.errors import OptionError
from smc.exact import branch_and_bound, enumerate_posterior
from smc.potentials import Guarded, Incremental, Matches, ModelCritic, PotentialError, Predicate, ProductRows, Validates
from smc.potentials.memo import Memo
from smc.vocabulary import Vocabulary

NEVER = -math.inf
LANGUAGE = FiniteLanguage(["aa", "ab", "ba", "b"])


def model() -> TableModel:
    tokens = {"a": 0.3, "b": 0.2, "aa": 0.2, "ab": 0.1, "<eos>": 0.2}
    return TableModel(list(tokens), "<eos>", lambda prefix: tokens)


# ---------------------------------------------------------------- memory


def test_a_memo_keeps_the_latest() -> None:
    memo: Memo[str, str] = Memo(2)
    asked: list[str] = []

    def ask(questions: list[str]) -> list[str]:
        asked.extend(questions)
        return [question.upper() for question in questions]

    assert memo.answers(["a", "b", "a"], ask) == ["A", "B", "A"]
    assert memo.answers(["a"], ask) == ["A"]
    assert memo.answers(["c"], ask) == ["C"]  # "b" was asked for longest ago
    assert memo.answers(["a", "c", "b"], ask) == ["A", "C", "B"]
    assert asked == ["a", "b", "c", "b"]
    assert len(memo) == 2
    none: Memo[str, str] = Memo(0)
    assert none.answers(["a", "a", "b"], ask) == ["A", "A", "B"]
    assert not len(none)


def test_a_text_is_asked_about_once() -> None:
    """Across tokenisations ("a" "a" and "aa"), steps and runs."""
    completes: list[str] = []
    prefixes: list[str] = []

    def complete(text: str) -> float:
        completes.append(text)
        return 0.0

    def prefix(text: str) -> float:
        prefixes.append(text)
        return 0.0

    potential = TextPotential(complete, prefix=prefix)
    sampler = SMCSampler(model(), LANGUAGE, n_particles=16, potentials=[potential], max_tokens=2, stop_fraction=0.0)
    first = sampler.run("")
    assert sorted(completes) == ["aa", "ab", "b", "ba"]
    assert sorted(prefixes) == sorted(set(prefixes))
    assert sampler.run("").posterior() == first.posterior()
    assert len(completes) == 4
    forgetful = TextPotential(complete, memo=0)
    for _ in range(2):
        SMCSampler(model(), LANGUAGE, potentials=[forgetful], max_tokens=2, stop_fraction=0.0).run("")
    assert len(completes) > 4 + 4


def test_what_is_remembered_stays_home() -> None:
    potential = Matches("a+")
    assert potential.answers("complete", ["aa", "b"], "error") == [0.0, NEVER]
    assert len(potential._memory) == 2
    again = pickle.loads(pickle.dumps(potential))
    assert again == potential
    assert not len(again._memory)
    with pytest.raises(OptionError, match="memo"):
        Matches("a", memo=-1)


def test_nobody_without_an_opinion_is_asked_for_one() -> None:
    assert not TextPotential(lambda text: 0.0).judges_prefixes
    assert not Predicate(lambda text: True).judges_prefixes
    assert not Validates(int).judges_prefixes
    assert Predicate(lambda text: True, prefix=lambda text: True).judges_prefixes


# ---------------------------------------------------------------- failures


def no_b(text: str) -> float:
    if "b" in text:
        raise KeyError("b")
    return -1.0


METHODS = {
    "smc": lambda p: SMCSampler(model(), LANGUAGE, potentials=[p], max_tokens=2, n_particles=32).run(""),
    "smc, sample": lambda p: SMCSampler(
        model(), LANGUAGE, potentials=[p], max_tokens=2, n_particles=32, branching="sample"
    ).run(""),
    "at boundaries": lambda p: SMCSampler(
        model(), LANGUAGE, potentials=[AtBoundaries(p, lambda text: True)], max_tokens=2, n_particles=32
    ).run(""),
    "exact": lambda p: enumerate_posterior(model(), LANGUAGE, "", potentials=[p], max_tokens=2),
    "branch and bound": lambda p: branch_and_bound(model(), LANGUAGE, "", potentials=[p], max_tokens=2, max_rows=99),
    "beam": lambda p: baselines.beam(model(), LANGUAGE, "", potentials=[p], max_tokens=2, n_particles=9),
    "rejection": lambda p: baselines.rejection(model(), LANGUAGE, "", potentials=[p], max_tokens=2, n_particles=30),
    "asap": lambda p: baselines.asap(model(), LANGUAGE, "", potentials=[p], max_tokens=2, n_particles=30),
    "mcmc": lambda p: baselines.mcmc(model(), LANGUAGE, "", potentials=[p], max_tokens=2, n_particles=9),
    "particle Gibbs": lambda p: baselines.particle_gibbs(model(), LANGUAGE, "", potentials=[p], max_tokens=2),
    "importance": lambda p: baselines.importance_resampling(model(), LANGUAGE, "", potentials=[p], max_tokens=2),
}


@pytest.mark.parametrize("name", METHODS)
def test_failures_weigh_nothing_and_are_counted(name: str) -> None:
    """Each of the four sequences with a "b" is refused, by every method; and the count says that it was no verdict."""
    result = METHODS[name](Guarded(TextPotential(no_b, log_bound=0.0)))
    assert {s.text for s in result.sequences} == {"aa"}
    assert result.cost.potential_failures > 0
    assert METHODS[name](TextPotential(lambda text: 0.0, log_bound=0.0)).cost.potential_failures == 0


@pytest.mark.parametrize("name", METHODS)
def test_without_a_guard_a_failure_is_an_error(name: str) -> None:
    with pytest.raises(PotentialError, match=r"raised KeyError: 'b', for the text '(b|ab|ba)'.*Guarded") as caught:
        METHODS[name](TextPotential(no_b, log_bound=0.0))
    assert isinstance(caught.value.__cause__, KeyError)
    assert isinstance(caught.value, SMCError)


def test_failures_are_counted_row_by_row() -> None:
    """Complete: "b", "ba", "ab" twice (two tokenisations). Their prefixes too: "b", "ab" and, after two tokens, "ab", "ba"."""
    silent = Guarded(TextPotential(no_b))
    opinionated = Guarded(TextPotential(no_b, prefix=no_b))
    options = dict(n_particles=99, max_tokens=2, stop_fraction=0.0)
    assert SMCSampler(model(), LANGUAGE, potentials=[silent], **options).run("").cost.potential_failures == 4
    assert SMCSampler(model(), LANGUAGE, potentials=[opinionated], **options).run("").cost.potential_failures == 8
    assert SMCSampler(model(), LANGUAGE, potentials=[silent, silent], **options).run("").cost.potential_failures == 8


def test_a_failed_running_value_is_the_last_one() -> None:
    rows = Guarded(TextPotential(no_b, prefix=lambda text: no_b(text) * len(text))).start(model().vocabulary)
    assert rows.log_prefix.tolist() == [0.0]
    rows = rows.advance(np.array([0, 0]), np.array([0, 2]))
    assert rows.log_prefix.tolist() == [-1.0, -2.0]
    rows = rows.advance(np.array([0, 1, 1]), np.array([1, 1, 0]))  # "ab", "aab", "aaa"
    assert rows.fork(np.array([2, 1])).log_prefix.tolist() == [-3.0, -2.0]
    assert rows.log_prefix.tolist() == [-1.0, -2.0, -3.0]
    assert rows.log_complete(np.array([2, 0])).tolist() == [-1.0, NEVER]
    assert ProductRows([rows], 3).failures == 1 + 2 + 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [(None, "is a return missing"), (True, "Predicate"), ("0", "'0'"), (math.nan, "nan"), (math.inf, "inf")],
)
def test_what_is_no_log_value(value: Any, reason: str) -> None:
    potential = TextPotential(lambda text: value)
    with pytest.raises(PotentialError, match=reason):
        SMCSampler(model(), LANGUAGE, potentials=[potential], max_tokens=2).run("")
    assert SMCSampler(model(), LANGUAGE, potentials=[Guarded(potential)], max_tokens=2).run("").status == "rejected"


def test_a_long_text_is_not_shown_whole() -> None:
    with pytest.raises(PotentialError) as caught:
        TextPotential(no_b).answers("complete", ["b" * 10_000], "error")
    assert len(str(caught.value)) < 500


def test_an_error_is_not_remembered() -> None:
    """A service that was down may be up again; what has been given an outcome keeps it."""
    down = [True]

    def service(text: str) -> float:
        if down[0]:
            raise ConnectionError("down")
        return -1.0

    potential = TextPotential(service)
    with pytest.raises(PotentialError, match="ConnectionError: down"):
        potential.answers("complete", ["a"], "error")
    down[0] = False
    assert potential.answers("complete", ["a"], "error") == [-1.0]


def test_a_guard_keeps_promises_and_refuses_what_it_cannot_hold() -> None:
    assert Guarded(Predicate(lambda text: True)).boolean
    assert Guarded(TextPotential(no_b, log_bound=0.5)).log_bound == 0.5
    with pytest.raises(OptionError, match="made of functions"):
        Guarded(ModelCritic(model(), ""))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="on_failure"):
        Guarded(TextPotential(no_b), on_failure="ignore")  # type: ignore[arg-type]


# ---------------------------------------------------------------- conditions


def test_a_predicate_says_true_or_false() -> None:
    assert Predicate(lambda text: np.bool_(text == "a")).answers("complete", ["a", "b"], "error") == [0.0, NEVER]
    with pytest.raises(PotentialError, match="is a return missing"):
        Predicate(lambda text: None).answers("complete", ["a"], "error")  # type: ignore[arg-type, return-value]
    assert Predicate(lambda text: True).boolean
    assert Predicate(lambda text: True).log_bound == 0


def test_a_predicate_is_part_of_the_language() -> None:
    """Methods that only decide membership take it."""
    even = Predicate(lambda text: len(text) == 2)
    result = baselines.cars(model(), LANGUAGE, "", potentials=[even], max_tokens=2, n_particles=20)
    assert set(result.posterior()) <= {"aa", "ab", "ba"}


class Point(BaseModel):
    x: int
    y: int

    @field_validator("y")
    @classmethod
    def not_thirteen(cls, value: int) -> int:
        if value == 13:
            raise ValueError("unlucky")
        if value == 99:
            raise RuntimeError("broken")
        return value


def test_pydantic() -> None:
    accepts = Validates(Point)
    assert accepts.holds('{"x": 1, "y": "2"}')
    assert not Validates(Point, strict=True).holds('{"x": 1, "y": "2"}')
    assert not accepts.holds('{"x": 1, "y": 13}')
    assert not accepts.holds('{"x": 1}')
    assert not accepts.holds('{"x": 1, "y"')
    assert not accepts.holds('{"x": "\udcff"}')
    assert Validates(TypeAdapter(list[int])).holds("[1, 2]")
    assert Validates(list[int], read=lambda text: text.split(",")).holds("1,2")
    assert not Validates(list[int], read=int).holds("one")
    with pytest.raises(PotentialError, match="RuntimeError: broken"):
        accepts.answers("complete", ['{"x": 1, "y": 99}'], "error")
    with pytest.raises(OptionError, match="read must be a function"):
        Validates(Point, read=json)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="cannot check"):
        Validates(Vocabulary.spelling)
    assert pickle.loads(pickle.dumps(accepts)).holds('{"x": 1, "y": 2}')


# ---------------------------------------------------------------- patterns


PIECES = [
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    "(a|ab)",
    "(?:b|ba)?",
    "a*",
    "b+?",
    "(a*b)*",
    "(ab){1,2}",
    "(?P<x>a)?",
    "$",
    "^",
]


def test_no_prefix_of_a_match_is_refused() -> None:
    """Random patterns of every admitted construct over all strings of a and b up to length 6."""
    source = random.Random(0)
    strings = ["".join(s) for n in range(7) for s in itertools.product("ab", repeat=n)]
    refused = 0
    for _ in range(150):
        pieces = source.choices(PIECES, k=source.randint(1, 5))
        pattern = "".join(p for i, p in enumerate(pieces) if p != "(?P<x>a)?" or p not in pieces[:i])
        if source.random() < 0.3:
            pattern = f"(?:{pattern}|{source.choice(PIECES[:11])})b*"
        potential = Matches(pattern)
        assert potential.judges_prefixes, pattern
        matched = {s for s in strings if potential.holds(s)}
        beginnings = {s[:n] for s in matched for n in range(len(s) + 1)}
        viable = {s for s in strings if potential.viable(s)}
        assert beginnings <= viable, pattern
        refused += len(strings) - len(viable)
    assert refused > 1000


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"a(?!$)b", "ab"),
        (r"a\B.", "ab"),
        (r"-\bword", "-word"),
        (r"(?!a$)a.*", "ab"),
        (r"(?r)ab", "ab"),
        (r"a++b", "ab"),
        (r"(?>a|ab)c", "ac"),
        (r"(?:foo){e<=1}", "fo"),
        (r"(a)(?(1)b|c)", "ab"),
        (r"\X", "e\u0301"),
        (r"(a)\1", "aa"),
        (r"[a-z&&[^b]]", "a"),
        (r"(?<=a)b|ab", "ab"),
    ],
)
def test_where_the_end_of_a_prefix_misleads_there_is_no_opinion(pattern: str, text: str) -> None:
    """The package's own partial match refuses some prefixes of these, although they go on to match."""
    potential = Matches(pattern)
    assert not potential.judges_prefixes
    if regex.fullmatch(pattern, text):
        assert potential.holds(text)
    rows = potential.start(Vocabulary((b"a", b"<eos>"), (1,))).advance(np.array([0]), np.array([0]))
    assert rows.log_prefix.tolist() == [0.0]


@pytest.mark.parametrize(
    "pattern", [r"\d+\.\d{2}", r"(?i)yes|no", r"[\]a\-]+", r"\p{Lu}\p{L}*", r"[[:alpha:]]+", r"\{\w\}"]
)
def test_ordinary_patterns_judge_prefixes(pattern: str) -> None:
    assert Matches(pattern).judges_prefixes
    assert not Matches(pattern, where="search").judges_prefixes


def test_a_match_that_takes_too_long_is_a_failure() -> None:
    slow = Matches("(a|aa)+b", seconds=0.05)
    with pytest.raises(PotentialError, match="TimeoutError"):
        slow.answers("complete", ["a" * 60], "error")
    rows = Guarded(slow).start(Vocabulary((b"a" * 60, b"<eos>"), (1,))).advance(np.array([0]), np.array([0]))
    assert rows.log_complete(np.array([0])).tolist() == [NEVER]


def test_bad_patterns_are_refused() -> None:
    for bad in ("(a", 3):
        with pytest.raises(OptionError, match="Matches"):
            Matches(bad)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="where"):
        Matches("a", where="anywhere")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="seconds"):
        Matches("a", seconds=0)


# ---------------------------------------------------------------- folds


def test_each_piece_is_read_once() -> None:
    fed: list[tuple[str, str]] = []

    def feed(state: str, piece: str) -> str:
        fed.append((state, piece))
        return state + piece

    fold = Incremental(
        "", feed, complete=lambda state: float(state.count("b")), prefix=lambda state: -float(len(state))
    )
    rows = fold.start(model().vocabulary)
    rows = rows.advance(np.array([0, 0, 0]), np.array([0, 2, 0]))
    assert rows.log_prefix.tolist() == [-1, -2, -1]
    assert fed == [("", "a"), ("", "aa")]
    rows = rows.fork(np.array([1, 0])).advance(np.array([0, 1]), np.array([1, 3]))
    assert fed[2:] == [("aa", "b"), ("a", "ab")]
    assert rows.log_complete(np.array([1, 0])).tolist() == [1, 1]
    assert rows.log_prefix.tolist() == [-3, -3]


def test_pieces_of_characters() -> None:
    """A character in two tokens comes with its last; bytes that never make one come at the end, and raw bytes as they are."""
    euro = "€".encode()
    vocabulary = Vocabulary((euro[:2], euro[2:], b"\xff", b"ab", b"<eos>"), (4,))
    seen: list[str] = []
    fold = Incremental((), lambda state, piece: (*state, piece), complete=lambda state: seen.append(state) or 0.0)

    def read(*tokens: int, reads: str = "text") -> Any:
        rows = Incremental(fold.initial, fold.feed, fold.complete, reads=reads).start(vocabulary)  # type: ignore[arg-type]
        for token in tokens:
            rows = rows.advance(np.array([0]), np.array([token]))
        rows.log_complete(np.array([0]))
        return seen.pop()

    assert read(0, 1) == ("€",)
    assert read(3, 0, 1, 3) == ("ab", "€", "ab")
    assert read(0) == ("\udce2\udc82",)
    assert read(0, 3) == ("\udce2\udc82ab",)
    assert read(2, 3) == ("\udcff", "ab")
    assert read(0, 1, reads="bytes") == (euro[:2], euro[2:])


def test_where_a_fold_breaks_all_that_follows_has_failed() -> None:
    def feed(state: int, piece: str) -> int:
        if "b" in piece:
            raise ZeroDivisionError("b")
        return state + len(piece)

    fold = Incremental(0, feed, complete=float, prefix=float, log_bound=5.0)
    rows = Guarded(fold).start(model().vocabulary)
    assert rows.log_prefix.tolist() == [0.0]
    rows = rows.advance(np.array([0, 0]), np.array([0, 1]))  # "a", "b"
    assert rows.log_prefix.tolist() == [1.0, 0.0]
    rows = rows.advance(np.array([0, 1]), np.array([0, 0]))  # "aa", "ba"
    assert rows.log_prefix.tolist() == [2.0, 0.0]
    assert rows.log_complete(np.array([0, 1])).tolist() == [2.0, NEVER]
    assert rows.failures == 3
    with pytest.raises(PotentialError, match="ZeroDivisionError: b, for the text 'b'"):
        fold.start(model().vocabulary).advance(np.array([0]), np.array([1]))
    assert Incremental(0, feed, complete=float, boolean=True).log_bound == 0
    with pytest.raises(OptionError, match="reads"):
        Incremental(0, feed, complete=float, reads="lines")  # type: ignore[arg-type]


def test_potentials_multiply_in_free_text() -> None:
    """Three kinds at once on an infinite language."""
    potentials = [Predicate(lambda text: len(text) < 3), Matches("a*b*"), TextPotential(lambda text: -float(len(text)))]
    result = SMCSampler(
        model(), Everything(), potentials=potentials, max_tokens=3, n_particles=200, stop_fraction=0.0
    ).run("")
    assert set(result.posterior()) == {"", "a", "b", "aa", "ab", "bb"}
