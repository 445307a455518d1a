"""Potentials in processes: endless loops are stopped, crashes stay where they are, and everything ends in the end."""

from __future__ import annotations

import math
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from smc import FiniteLanguage, SMCSampler, TableModel, TextPotential
from smc.errors import OptionError
from smc.potentials import Guarded, InProcesses, PotentialError, Predicate

NEVER = -math.inf


def judge(text: str) -> float:
    if text.startswith("loop"):
        while True:
            pass
    if text.startswith("crash"):
        os._exit(3)
    if text.startswith("raise"):
        raise KeyError("a")
    if text.startswith("child"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(text.removeprefix("child ")).write_text(str(child.pid))
        child.wait()
    if text.startswith("meet"):
        _, mine, other = text.split()
        Path(mine).touch()
        while not Path(other).exists():
            time.sleep(0.01)
    return -float(len(text))


def lost_on_the_way(name: str) -> TextPotential:
    raise ModuleNotFoundError(f"no {name} here")


class Unloadable(TextPotential):
    """Travels, but cannot be put together again."""

    def __reduce__(self) -> tuple:
        return lost_on_the_way, ("luck",)


@pytest.fixture(scope="module")
def pooled() -> Iterator[InProcesses]:
    with InProcesses(TextPotential(judge, prefix=judge), workers=2, seconds=1.0) as potential:
        assert potential.answers("complete", ["started"], "error") == [-7.0]
        yield potential


def pids(potential: InProcesses) -> set[int | None]:
    return {worker.process.pid for worker in potential._pool._workers}


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be noticed does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_every_outcome_keeps_its_place(pooled: InProcesses) -> None:
    """Ten questions at once: answers in order, each failure with its reason, and the workers after it do not suffer."""
    texts = ["a", "loop 1", "bb", "crash 1", "ccc", "raise 1", "loop 2", "dddd", "crash 2", "e"]
    answers = pooled.answers("complete", texts, "zero")
    assert [answer for answer in answers if isinstance(answer, float)] == [-1, -2, -3, -4, -1]
    reasons = [getattr(answer, "reason", "") for answer in answers]
    assert [i for i, reason in enumerate(reasons) if reason] == [1, 3, 5, 6, 8]
    assert "no answer within 1 s" in reasons[1]
    assert "exit code 3" in reasons[3]
    assert reasons[5] == "raised KeyError: 'a'"


def test_rows_are_judged_side_by_side(pooled: InProcesses, tmp_path: Path) -> None:
    """Two calls that wait for each other: one after the other, the first would never end."""
    a, b = tmp_path / "a", tmp_path / "b"
    texts = [f"meet {a} {b}", f"meet {b} {a}"]
    assert pooled.answers("complete", texts, "zero") == [-float(len(text)) for text in texts]


def test_a_loop_is_really_stopped(pooled: InProcesses) -> None:
    pooled.answers("prefix", ["warm 4", "warm 5"], "zero")
    before = pids(pooled)
    pooled.answers("prefix", ["loop 3"], "zero")
    (gone,) = before - pids(pooled)
    assert gone is not None
    assert not alive(gone)


def test_what_a_call_has_started_ends_with_it(pooled: InProcesses, tmp_path: Path) -> None:
    """A compiler that hangs, for instance."""
    note = tmp_path / "pid"
    (answer,) = pooled.answers("complete", [f"child {note}"], "zero")
    assert "no answer" in getattr(answer, "reason", "")
    child = int(note.read_text())
    deadline = time.monotonic() + 5
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)


def test_a_run(pooled: InProcesses) -> None:
    """Weight zero and counted; what failed once is remembered, so that a text has one value."""
    tokens = ["a", "loop", "crash", "raise", "<eos>"]
    model = TableModel(tokens, "<eos>", lambda prefix: {**dict.fromkeys(tokens[:-1], 0.2), "<eos>": 0.2})
    language = FiniteLanguage(["a", "aa", "loop", "crash", "raise"])
    sampler = SMCSampler(model, language, potentials=[pooled], max_tokens=2, n_particles=20, stop_fraction=0.0)
    result = sampler.run("")
    z = 0.2 * 0.2 * math.exp(-1) + 0.2**3 * math.exp(-2)
    assert result.posterior() == pytest.approx({"a": 0.2**2 * math.exp(-1) / z, "aa": 0.2**3 * math.exp(-2) / z})
    assert result.log_evidence == pytest.approx(math.log(z))
    assert result.cost.potential_failures == 6  # three texts, as prefixes and complete
    workers = pids(pooled)
    assert sampler.run("").cost.potential_failures == 6
    assert pids(pooled) == workers


def test_failures_may_be_errors(pooled: InProcesses) -> None:
    strict = InProcesses(TextPotential(judge), on_failure="error")
    model = TableModel(["crash", "<eos>"], "<eos>", lambda prefix: {"crash": 0.5, "<eos>": 0.5})
    sampler = SMCSampler(model, FiniteLanguage(["crash"]), potentials=[strict], max_tokens=1)
    with strict, pytest.raises(PotentialError, match=r"ended its process \(exit code 3\), for the text 'crash'"):
        sampler.run("")


def test_close_ends_processes_and_a_question_starts_them_again() -> None:
    potential = InProcesses(TextPotential(judge), workers=1)
    assert "_pool" not in potential.__dict__  # nothing starts before the first question
    with potential:
        potential.answers("complete", ["a"], "zero")
        (first,) = pids(potential)
        assert alive(first or 0)
    assert not alive(first or 0)
    assert potential.answers("complete", ["bb"], "zero") == [-2.0]
    assert pids(potential) != {first}
    again = pickle.loads(pickle.dumps(potential))  # travels without its processes
    assert again == potential
    assert "_pool" not in again.__dict__
    potential.close()
    potential.close()


def test_a_worker_that_was_ended_meanwhile_costs_no_answer(pooled: InProcesses) -> None:
    """By the kernel, short of memory, for instance."""
    pooled.answers("complete", ["warm 6", "warm 7"], "zero")
    for pid in pids(pooled):
        os.kill(pid or 0, signal.SIGKILL)
    for worker in pooled._pool._workers:
        worker.process.join()
    assert pooled.answers("complete", ["ff", "ggg"], "zero") == [-2, -3]


def test_promises_are_those_of_the_potential() -> None:
    inside = InProcesses(Predicate(str.isalpha))
    assert inside.boolean
    assert inside.log_bound == 0
    assert not inside.judges_prefixes
    assert InProcesses(TextPotential(judge, prefix=judge)).judges_prefixes


def test_what_cannot_travel_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match=r"prefix=<function .*lambda.* of TextPotential cannot be sent.*top level"):
        InProcesses(TextPotential(judge, prefix=lambda text: 0.0))
    with pytest.raises(OptionError, match="reads text"):
        InProcesses(judge)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="reads text"):
        InProcesses(Guarded(TextPotential(judge)))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="workers"):
        InProcesses(TextPotential(judge), workers=0)
    with pytest.raises(OptionError, match="seconds"):
        InProcesses(TextPotential(judge), seconds=0)
    InProcesses(TextPotential(partial(judge)))


def test_a_worker_that_cannot_start_is_an_error() -> None:
    with pytest.raises(PotentialError, match=r"could not start: it raised ModuleNotFoundError: no luck here.*__main__"):
        InProcesses(Unloadable(judge)).answers("complete", ["a"], "zero")


class Mute(Exception):
    """It cannot even say what is wrong."""

    def __str__(self) -> str:
        raise ValueError("no words")


ENDS = {"mute": Mute(), "interrupt": KeyboardInterrupt(), "exit": SystemExit(5)}


def end(text: str) -> float:
    if text in ENDS:
        raise ENDS[text]
    return float(os.getpid())


def test_workers_outlive_whatever_is_raised() -> None:
    with InProcesses(TextPotential(end), workers=1, seconds=60.0) as pooled:
        answers = pooled.answers("complete", ["first", *ENDS, "last"], "zero")
    assert answers[0] == answers[-1]  # one process all along
    reasons = [getattr(answer, "reason", answer) for answer in answers[1:-1]]
    assert reasons == ["raised Mute: (no str: it raises)", "raised KeyboardInterrupt: ", "raised SystemExit: 5"]
