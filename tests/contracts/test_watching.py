"""Long calls say where they are, to whoever asks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from portable_values import PROMPT, bits, table

import smc
from smc import Job, Progress, SMCSampler, baselines
from smc.errors import OptionError
from smc.exact import branch_and_bound, enumerate_posterior

CALLS: dict[str, Callable[[], Any]] = {
    name: partial(lambda method: method(table(), bits(), PROMPT, max_tokens=4), getattr(baselines, name))
    for name in baselines.__all__
    if not name.endswith("_sampler")
} | {
    "enumerate_posterior": lambda: enumerate_posterior(table(), bits(), PROMPT, max_tokens=4),
    "branch_and_bound": lambda: branch_and_bound(table(), bits(), PROMPT, max_tokens=4),
    "run": lambda: SMCSampler(table(), bits(), max_tokens=4).run(PROMPT),
}


def watched(call: Callable[[], Any]) -> tuple[Any, list[Progress]]:
    seen: list[Progress] = []
    with smc.watch(seen.append):
        result = call()
    return result, seen


@pytest.mark.parametrize("name", CALLS)
def test_every_method_says_where_it_is(name: str) -> None:
    result, seen = watched(CALLS[name])
    assert seen
    for now in seen:
        assert now.done >= 0
        assert now.total is None or now.done <= now.total
    assert result.posterior() == CALLS[name]().posterior()  # who listens changes nothing


def test_many_jobs_count_as_they_end() -> None:
    sampler = SMCSampler(table(), bits(), max_tokens=4)
    _, seen = watched(lambda: sampler.run_many([Job(PROMPT, key=str(i)) for i in range(5)], batch_rows=1))
    assert [now.done for now in seen][-1] == 5
    assert {(now.method, now.unit, now.total) for now in seen} == {("smc", "runs", 5)}


def test_lines_are_printed_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("smc.watching.SECONDS", 0.0)
    with smc.watch():
        CALLS["cars"]()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("cars: 1 of at most 1000 draws, ")
    CALLS["cars"]()
    assert capsys.readouterr().err == ""


def test_a_listener_that_raises_ends_the_call() -> None:
    def enough(now: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), smc.watch(enough):
        CALLS["cars"]()
    CALLS["cars"]()  # nobody listens any more
    with pytest.raises(OptionError, match="listener must be a function"), smc.watch(3):  # type: ignore[arg-type]
        pass


def test_baselines_have_no_other_way() -> None:
    assert not any("progress" in inspect.signature(getattr(baselines, name)).parameters for name in baselines.__all__)
