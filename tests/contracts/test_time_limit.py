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


def test_a_large_grammar_is_compiled_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 40}, "b": {"enum": ["x", "yé"]}}}
    here = JSONSchema(schema, whitespace="compact").compile(BYTES)
    called = []
    monkeypatch.setattr(xgrammar_engine, "MAX_LIGHT", 0)
    monkeypatch.setattr(
        xgrammar_engine, "finish_or_kill", lambda left, work: called.append(left) or finish_or_kill(left, work)
    )
    there = JSONSchema(schema, whitespace="bounded").compile(BYTES)
    assert len(called) == 1
    for text in ('{"a":"bc","b":"x"}', '{"b":"yé"}', '{"b":"z"}', f'{{"a":"{"c" * 41}"}}', "{}", "[]"):
        assert there.generates(text.encode()) == here.generates(text.encode())  # type: ignore[attr-defined]


def test_a_large_grammar_that_is_late_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xgrammar_engine, "MAX_LIGHT", 0)
    monkeypatch.setattr(xgrammar_engine, "finish_or_kill", lambda left, work: finish_or_kill(0.01, lambda: forever()))

    def forever() -> bytes:
        while True:
            time.sleep(1)

    with pytest.raises(ConstraintError, match="to compile"):
        JSONSchema({"type": "string", "maxLength": 7}).compile(BYTES)


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
    with pytest.raises(ConstraintError, match="took more than 0.1 s to be rewritten"):
        JSONSchema({"type": "string", "maxLength": 6}).compile(BYTES)
    assert time.perf_counter() - began < 5


def test_a_deadline_passes_once() -> None:
    deadline = Deadline(0.05)
    assert 0 < deadline.left <= 0.05
    time.sleep(0.06)
    assert deadline.left == 0
