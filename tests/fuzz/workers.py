"""Fuzzing in processes of its own, so that a hang or a crash of an engine is a finding and not the end."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from tests.fuzz.fuzzer import Failure
from tests.fuzz.kinds import FUZZERS
from tests.fuzz.rounds import Finding, Memory, play

HANG_SECONDS = 60.0
"""How long one input may take. The limit on compiling is 30 s, so nothing that keeps its promises takes as long."""

Message = Finding | Counter[str]


def work(kind: str, seed: int, seconds: float, memory: Memory) -> Iterator[Message]:
    """Fuzz in a process for about so many seconds. Gives each finding, and the tally about once a second (what was added to it)."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = _context().Process(target=_serve, args=(there, kind, seed, seconds, memory), daemon=True)
    process.start()
    there.close()
    case: Any = None
    try:
        while True:
            if not here.poll(HANG_SECONDS):
                yield _lost(kind, seed, case, f"hangs: not done after {HANG_SECONDS:g} s", memory)
                return
            said, value = here.recv()
            if said == "case":
                case = value
            elif said == "end":
                return
            else:
                if isinstance(value, Finding):
                    memory.add(value.failure.cause, value.case)
                yield value
    except EOFError:
        process.join(5)
        yield _lost(kind, seed, case, f"the process ended with code {process.exitcode}", memory)
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        here.close()


def _lost(kind: str, seed: int, case: Any, what: str, memory: Memory) -> Finding:
    """A case that no process came back from, as it is: shrinking it would take for ever."""
    test = f"from tests.fuzz.kinds import FUZZERS\n\n\ndef test_it() -> None:\n    FUZZERS[{kind!r}].examine({case!r})\n"
    memory.add(what, case)
    return Finding(kind, seed, case, Failure(what, repr(case), test))


def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.fuzz.kinds", "tests.fuzz.rounds"])
    return context


def _serve(pipe: Connection, kind: str, seed: int, seconds: float, memory: Memory) -> None:
    end, reported = time.monotonic() + seconds, 0.0
    tally: Counter[str] = Counter()

    def report(now: float) -> None:
        nonlocal reported
        if now > reported + 1:
            pipe.send(("tally", Counter(tally)))
            tally.clear()
            reported = now

    def trying(case: Any) -> None:
        pipe.send(("case", case))
        report(time.monotonic())

    while time.monotonic() < end:
        finding = play(FUZZERS[kind], seed, memory, tally, trying=trying)
        if finding:
            pipe.send(("finding", finding))
        seed += 1
    report(float("inf"))
    pipe.send(("end", os.getpid()))
