"""How far a long call is: one way to ask for all of them, and nothing to pass along.

    with smc.watch():                    # lines on standard error
        baselines.cars(model, constraint, prompt)
    with smc.watch(seen.append):         # or whatever is to be done with a `Progress`
        sampler.run_many(jobs)

Samplers, all baselines and the exact methods say after each round (a step, a draw, an iteration) where they are. Nothing that they
compute depends on who listens. What a listener raises ends the call, as Ctrl-C does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from smc.errors import function_of

SECONDS = 2.0
"""Between two printed lines."""


@dataclass(frozen=True)
class Progress:
    """Where a call is.

    Attributes:
        method: what runs.
        done, unit: how much of what has been done, as in 12 "draws".
        total: how much there will be at most; None if that is not known.
        note: what else there is to say, as in "3 of 10 accepted".
    """

    method: str
    done: int
    unit: str
    total: int | None = None
    note: str = ""

    def __str__(self) -> str:
        of = "" if self.total is None else f" of at most {self.total}"
        return f"{self.method}: {self.done}{of} {self.unit}" + (f", {self.note}" if self.note else "")


Listener = Callable[[Progress], object]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def watch(listener: Listener | None = None) -> Iterator[None]:
    """Within the block, long calls of this thread tell `listener` where they are.

    Args:
        listener: gets a :class:`Progress` after each round; None prints one to standard error every two seconds.

    Raises:
        OptionError: a listener that is no function.
    """
    if listener is not None:
        function_of("listener", listener, "a Progress")
    token = _listener.set(listener or _Printed())
    try:
        yield
    finally:
        _listener.reset(token)


def report(method: str, done: int, unit: str, total: int | None = None, note: str = "") -> None:
    """Tell whoever listens where a call is."""
    listener = _listener.get()
    if listener is not None:
        listener(Progress(method, done, unit, total, note))


class _Printed:
    """Lines on standard error, each with the seconds since the block began."""

    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()

    def __call__(self, now: Progress) -> None:
        seconds = time.perf_counter()
        if seconds - self._last >= SECONDS:
            self._last = seconds
            print(f"{now} ({seconds - self._started:.0f} s)", file=sys.stderr, flush=True)
