"""A time limit ends what it limits: it is kept, and nothing goes on behind it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from constraint_tools import BYTES

from smc.constraints import JSONSchema, json_schema, xgrammar_engine
from smc.constraints.productivity import Rules, size
from smc.constraints.time_limit import Deadline, finish_or_kill, finish_within
from smc.errors import ConstraintError


def test_work_that_is_late_is_ended() -> None:
    steps = []

    def work() -> None:
        while True:
            steps.append(time.sleep(0.001))

    began = time.perf_counter()
    with pytest.raises(TimeoutError):
        finish_within(0.1, work)
    assert time.perf_counter() - began < 5
    deadline = time.monotonic() + 10
    while any(thread.name == "compile-grammar" for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.01)
    taken = len(steps)
    time.sleep(0.05)
    assert len(steps) == taken


def test_work_in_time_gives_its_result_or_its_error() -> None:
    assert finish_within(60, lambda: 3) == 3
    assert finish_or_kill(60, lambda: b"abc") == b"abc"
    with pytest.raises(KeyError):
        finish_within(60, lambda: {}[1])  # type: ignore[index]
    with pytest.raises(RuntimeError, match="here it is"):
        finish_or_kill(60, lambda: (_ for _ in ()).throw(ValueError("here it is")))  # type: ignore[arg-type]


def test_a_process_is_killed_in_the_middle_of_anything() -> None:
    began = time.perf_counter()
    with pytest.raises(TimeoutError):
        finish_or_kill(0.1, lambda: bytes(time.sleep(60) or 0))  # type: ignore[func-returns-value]
    assert time.perf_counter() - began < 5


HOPELESS = {"type": "array", "items": {"type": "string", "pattern": "^[a-z ]{1,30}$"}, "maxItems": 3}


def test_a_large_grammar_is_tried_in_a_process_first(monkeypatch: pytest.MonkeyPatch) -> None:
    here = JSONSchema(HOPELESS, whitespace="compact").compile(BYTES)
    tried: list[float] = []

    def trial(left: float, work: Any) -> bytes:
        tried.append(left)
        return finish_or_kill(left, work)

    monkeypatch.setattr(xgrammar_engine, "MAX_LIGHT", 100)
    monkeypatch.setattr(xgrammar_engine, "finish_or_kill", trial)
    there = JSONSchema(HOPELESS, whitespace="bounded").compile(BYTES)
    assert len(tried) == 1
    for text in ('["ab","c d"]', "[]", f'["{"c" * 31}"]', '["A"]'):
        assert there.generates(text.encode()) == here.generates(text.encode())  # type: ignore[attr-defined]


def test_a_large_grammar_that_is_late_is_not_begun_here(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    monkeypatch.setattr(xgrammar_engine, "MAX_LIGHT", 100)
    monkeypatch.setattr(xgrammar_engine, "_done", lambda made: time.sleep(60))
    monkeypatch.setattr(xgrammar_engine, "XGrammarConstraint", lambda *made: compiled.append(made))
    monkeypatch.setattr(xgrammar_engine, "COMPILE_SECONDS", 2.0)
    began = time.perf_counter()
    with pytest.raises(ConstraintError, match="took more than 2 s to compile"):
        JSONSchema(HOPELESS, whitespace="free").compile(BYTES)
    assert time.perf_counter() - began < 20
    assert not compiled


def test_size_counts_repetitions_nested_or_not() -> None:
    def of(pattern: str) -> int:
        import xgrammar as xgr

        return size(Rules.read(xgr.Grammar.from_regex(pattern)))

    assert of("[a-z]{1,100}") > of("[a-z]{1,10}") + 1000
    assert of("(?:[a-z]{1,100}-){1,100}") > 50 * of("[a-z]{1,100}")


def test_one_limit_holds_for_all_that_is_done_for_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*arguments: Any) -> None:
        while True:
            time.sleep(0.001)

    monkeypatch.setattr(json_schema, "normalised", slow)
    monkeypatch.setattr(xgrammar_engine, "COMPILE_SECONDS", 0.1)
    began = time.perf_counter()
    with pytest.raises(ConstraintError, match=r"took more than 0\.1 s to be rewritten"):
        JSONSchema({"type": "string", "maxLength": 6}).compile(BYTES)
    assert time.perf_counter() - began < 5


def test_a_deadline_passes_once() -> None:
    deadline = Deadline(0.05)
    assert 0 < deadline.left <= 0.05
    time.sleep(0.06)
    assert deadline.left == 0
