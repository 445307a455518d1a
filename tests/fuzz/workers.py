"""Fuzzing in processes of its own, so that a hang or a crash of an engine is a finding and not the end."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from tests.fuzz.fuzzer import Failure
from tests.fuzz.kinds import FUZZERS
from tests.fuzz.rounds import EXAMPLES, Finding, Memory, play
from tests.fuzz.shrinking import smallest

HANG_SECONDS = 60.0
"""How long one input may take. The limit on compiling is 30 s, so nothing that keeps its promises takes as long."""

SHRINK_SECONDS = 20.0
"""How long an input that ends its process is made smaller."""

Message = Finding | Counter[str]


@dataclass(frozen=True)
class Turn:
    """What a process is to do: rounds of a kind, with one seed after the other.

    Attributes:
        seconds: for how long. rounds: at most so many. examples: inputs of each.
    """

    kind: str
    seed: int
    seconds: float
    rounds: int = 1_000_000
    examples: int = EXAMPLES


def work(turn: Turn, memory: Memory) -> Iterator[Message]:
    """Do a turn in processes of its own. Gives each finding, and about once a second what is to be added to the tally.

    What is found is added to `memory`, and not found again.
    """
    end = time.monotonic() + turn.seconds
    while True:
        here, there = multiprocessing.Pipe(duplex=False)
        process = _context().Process(target=_serve, args=(there, turn, memory), daemon=True)
        process.start()
        there.close()
        case, seed = None, turn.seed
        try:
            while here.poll(HANG_SECONDS):
                said, value = here.recv()
                if said == "case":
                    seed, case = value
                elif said == "end":
                    return
                else:
                    if isinstance(value, Finding):
                        memory.add(value.failure.cause, value.case)
                    yield value
            lost = f"hangs: not done after {HANG_SECONDS:g} s"
        except EOFError:
            process.join()
            lost = f"the process ended with code {process.exitcode}"
            case = _shrunk(turn.kind, case, process.exitcode)
        finally:
            process.kill()
            process.join()
            here.close()
        memory.fatal(lost, case)
        yield Finding(turn.kind, seed, case, Failure(lost, repr(case), _test(turn.kind, case)))
        rounds = turn.rounds - (seed - turn.seed) - 1
        turn = replace(turn, seed=seed + 1, seconds=end - time.monotonic(), rounds=rounds)
        if turn.seconds <= 0 or turn.rounds <= 0:
            return


def _test(kind: str, case: Any) -> str:
    return (
        f"from tests.fuzz.kinds import FUZZERS\n\n\ndef test_it() -> None:\n    FUZZERS[{kind!r}].examine({case!r})\n"
    )


def _shrunk(kind: str, case: Any, code: int | None) -> Any:
    return smallest(case, lambda less: _ends(kind, less, code), SHRINK_SECONDS)


def _ends(kind: str, case: Any, code: int | None) -> bool:
    """Whether a case ends its process, with the same exit code."""
    process = _context().Process(target=_once, args=(kind, case), daemon=True)
    process.start()
    process.join(HANG_SECONDS)
    ended = process.exitcode
    process.kill()
    process.join()
    return ended is not None and ended == code


def _once(kind: str, case: Any) -> None:
    try:
        FUZZERS[kind].examine(case)
    except Exception:  # a failure of its own, or a case that is none
        return


def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.fuzz.kinds", "tests.fuzz.rounds"])
    return context


def _serve(pipe: Connection, turn: Turn, memory: Memory) -> None:
    end, reported = time.monotonic() + turn.seconds, 0.0
    tally: Counter[str] = Counter()

    def report(now: float) -> None:
        nonlocal reported
        if now > reported + 1:
            pipe.send(("tally", Counter(tally)))
            tally.clear()
            reported = now

    for seed in range(turn.seed, turn.seed + turn.rounds):

        def trying(case: Any, seed: int = seed) -> None:
            pipe.send(("case", (seed, case)))
            report(time.monotonic())

        finding = play(FUZZERS[turn.kind], seed, memory, tally, examples=turn.examples, trying=trying, end=end)
        if finding:
            pipe.send(("finding", finding))
        if time.monotonic() > end:
            break
    report(float("inf"))
    pipe.send(("end", None))
