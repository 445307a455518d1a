"""Many runs in one batch.

Every round, one forward pass computes what the runs that take part in it need (:func:`smc.models.base.evaluate`), and
each of them then takes a step of its own. A run that ends leaves, and a waiting one takes its place at once. What a run does
depends on its own rows and random numbers alone, so results are those of one run after the other (on neural models up to
the rounding of a larger batch, which may flip a draw).

Rows that are live vary from step to step. A waiting run joins as soon as the rows that it and the others are expected to
need fit in `batch_rows`: as many as the runs that have ended needed at their widest (n_particles, as long as none has), or,
once a run has been that wide, as many as it has now. If more turn out to be live than fit in one pass, the oldest runs go first and
the others sit the round out; so no pass is wider than `batch_rows`, unless a single run is.

When memory runs out, passes become narrower; if that does not help, the youngest runs go back to the queue, to start again
from their own seeds when there is room.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from smc.anticipation import Ahead, anticipate
from smc.draws import Draws
from smc.errors import MemoryLimitError, MemoryLimitWarning, OptionError, SMCError, about_job, at_least
from smc.learned_twist import LearnedTwist
from smc.memory import is_out_of_memory
from smc.models.base import KnowsMemory, Prompt, evaluate
from smc.result import Cost, SMCResult, combine
from smc.watching import report

if TYPE_CHECKING:
    from smc.sampler import SMCSampler, State

BATCH_ROWS = 64
"""Rows of one pass where the caller does not say: many times the speed of one row, on the CPU too."""


@dataclass(frozen=True)
class Request:
    """One prompt for one sampler.

    Attributes:
        sampler: what runs; its `replicates` runs are combined when the last of them ends.
        prompt, key: as for :meth:`smc.SMCSampler.run`.
        draws: another source of randomness than the sampler's own.
    """

    sampler: SMCSampler
    prompt: Prompt
    key: str = ""
    draws: Draws | None = None

    @property
    def keeps_order(self) -> bool:
        """Whether its runs depend on what ran before them: they share their draws, or what a twist has learned."""
        return self.draws is not None or isinstance(self.sampler.twist, LearnedTwist)


Outcome = SMCResult | SMCError


def stream(requests: Sequence[Request], batch_rows: int | None = None) -> Iterator[tuple[Request, SMCResult]]:
    """Requests and their results, in the order in which they end.

    If one fails, no waiting one starts any more; those under way end and are handed out before the error is raised.

    Raises:
        SMCError: the first failure, in its own class, naming the key.
        MemoryLimitError: a run does not fit in memory, even alone.
    """
    return _raising(requests, outcomes(requests, batch_rows))


def _raising(requests: Sequence[Request], ends: Iterator[tuple[int, Outcome]]) -> Iterator[tuple[Request, SMCResult]]:
    failures: list[tuple[Request, SMCError]] = []
    for at, outcome in ends:
        if isinstance(outcome, SMCError):
            failures.append((requests[at], outcome))
        else:
            yield requests[at], outcome
    if failures:
        request, error = failures[0]
        raise about_job(request.key, error)


def outcomes(requests: Sequence[Request], batch_rows: int | None = None) -> Iterator[tuple[int, Outcome]]:
    """Which request ended, and its result or the error that it failed with. After an error, no waiting request starts.

    Args:
        requests: all for one model, each key once.
        batch_rows: rows of one forward pass, over all runs; None for 64, or the most particles of any sampler if that is more.
            A single run is never refused for being wider.
    """
    if len({id(request.sampler.model) for request in requests}) > 1:
        raise OptionError("Only runs of one model can share a batch. Stream the samplers of each model by themselves.")
    if batch_rows is None:
        batch_rows = max([BATCH_ROWS, *(request.sampler.n_particles for request in requests)])
    at_least("batch_rows", batch_rows, 1)
    model = requests[0].sampler.model if requests else None
    if isinstance(model, KnowsMemory):  # rather narrow batches than running out of memory
        fitting = model.rows_that_fit(max(request.sampler.max_tokens for request in requests))
        batch_rows = batch_rows if fitting is None else min(batch_rows, fitting)
    if any(request.keeps_order for request in requests):
        batch_rows = 1
    return _Batch(requests, batch_rows).outcomes()


@dataclass(eq=False)
class _Run:
    """One replicate of a request.

    Attributes:
        state: None while it waits, and once it has ended.
        widest: the most rows that it had at a time. seconds: its shares of shared passes, and steps that were undone.
    """

    request: int
    replicate: int
    sampler: SMCSampler
    state: State | None = None
    widest: int = 0
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        return 0 if self.state is None else len(self.state.population)


class _Batch:
    """The runs under way, oldest first, and those that wait."""

    def __init__(self, requests: Sequence[Request], batch_rows: int):
        self._requests = requests
        self._waiting = deque(
            _Run(at, replicate, request.sampler)
            for at, request in enumerate(requests)
            for replicate in range(request.sampler.replicates)
        )
        self._n_runs, self._method = len(self._waiting), " and ".join(dict.fromkeys(r.sampler.method for r in requests))
        self._active: list[_Run] = []
        self._begun: set[int] = set()
        self._results: dict[int, dict[int, SMCResult]] = {}  # of requests whose other replicates are still to end
        self._batch_rows = batch_rows
        self._room = batch_rows  # rows that all runs under way may claim
        self._width = batch_rows  # rows of one pass
        self._share, self._n_ended = 1.0, 0  # of n_particles: the rows that ended runs had at their widest, on average
        self._warned = False

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        while self._waiting or self._active:
            # 1. whoever fits joins
            while self._waiting and self._has_room_for(self._waiting[0]):
                run = self._waiting.popleft()
                self._active.append(run)
                self._begun.add(run.request)
                yield from self._moved(run, self._start)

            # 2. one pass for as many as it can hold
            together = self._together()
            if (shortage := self._evaluated(together)) is not None:
                yield from self._relieved(together, shortage)
                continue

            # 3. each takes its step; whoever ends leaves
            for run in together:
                if run.state is not None:  # it may have been sent back meanwhile
                    yield from self._moved(run, self._step)
            self._report()

    def _report(self) -> None:
        """Say how far the batch is."""
        rows = f"{sum(run.rows for run in self._active)} live rows"
        runs = [run for run in self._active if run.state is not None]
        if self._n_runs > 1:
            report(self._method, self._n_ended, "runs", self._n_runs, f"{len(runs)} under way, {rows}")
        elif runs:
            run = runs[0]
            assert run.state is not None
            report(self._method, run.state.step, "steps", run.sampler.max_tokens + 1, rows)

    # ------------------------------------------------------------------ rows

    def _expected(self, run: _Run) -> int:
        """Rows that a run is expected to have at its widest."""
        return max(1, math.ceil(self._share * run.sampler.n_particles - 1e-9))  # whatever the mean was rounded to

    def _claim(self, run: _Run) -> int:
        expected = self._expected(run)
        return run.rows if run.widest >= expected else expected

    def _claimed(self) -> int:
        return sum(map(self._claim, self._active))

    def _has_room_for(self, run: _Run) -> bool:
        return not self._active or self._claimed() + self._claim(run) <= self._room

    def _together(self) -> list[_Run]:
        """The runs of the next pass: the oldest, and of the others whoever still fits."""
        chosen: list[_Run] = []
        rows = 0
        for run in self._active:
            if not chosen or rows + run.rows <= self._width:
                chosen.append(run)
                rows += run.rows
        return chosen

    # ------------------------------------------------------------------ runs

    def _start(self, run: _Run) -> State:
        request = self._requests[run.request]
        return run.sampler.init(request.prompt, request.key, run.replicate, request.draws)

    def _step(self, run: _Run) -> State:
        assert run.state is not None
        return run.sampler.step(run.state)

    def _moved(self, run: _Run, move: Callable[[_Run], State]) -> Iterator[tuple[int, Outcome]]:
        """Start or step a run; the outcome of its request, if that has one now."""
        shortage = None
        outcome: Outcome | None = None
        try:
            run.state = move(run)
            run.widest = max(run.widest, run.rows)
            if run.sampler.done(run.state):
                outcome = self._ended(run, run.sampler.result(run.state))
        except SMCError as error:
            self._failed(run)
            outcome = error
        except (MemoryError, RuntimeError) as error:
            shortage = _shortage(error)
        if shortage is not None:  # out here the error is gone, and the memory that its traceback held on to
            yield from self._relieved([run], shortage, spoiled=True)
        elif outcome is not None:
            yield run.request, outcome

    def _ended(self, run: _Run, result: SMCResult) -> SMCResult | None:
        """The result of a request whose last replicate this was."""
        self._active.remove(run)
        run.state = None
        share = run.widest / run.sampler.n_particles
        self._share = (self._share * self._n_ended + share) / (self._n_ended + 1)
        self._n_ended += 1
        # after a shortage: what has ended has left room
        self._room, self._width = (min(2 * rows, self._batch_rows) for rows in (self._room, self._width))
        results = self._results.setdefault(run.request, {})
        results[run.replicate] = replace(result, cost=result.cost + Cost(seconds=run.seconds))
        if len(results) < run.sampler.replicates:
            return None
        del self._results[run.request]
        return combine([results[replicate] for replicate in sorted(results)])

    def _failed(self, run: _Run) -> None:
        """Forget the request of a run, and every request that has not begun."""
        for other in [r for r in self._active if r.request == run.request]:
            self._active.remove(other)
            other.state = None
        self._results.pop(run.request, None)
        self._waiting = deque(r for r in self._waiting if r.request in self._begun and r.request != run.request)

    # ------------------------------------------------------------------ passes and their memory

    def _evaluated(self, runs: Sequence[_Run]) -> str | None:
        """Compute the log probabilities of some runs together; what the allocator says if they do not fit."""
        if not runs:
            return None
        started = time.perf_counter()
        shortage = None
        model, states = runs[0].sampler.model, [(run.sampler, run.state) for run in runs if run.state is not None]
        try:
            anticipate(
                model, [Ahead(s.model_rows, s.constraint_rows, sampler.max_tokens - s.step) for sampler, s in states]
            )
            evaluate(model, [state.model_rows for _, state in states])
        except SMCError:
            pass  # each run now asks for itself, and the one at fault says so
        except (MemoryError, RuntimeError) as error:
            shortage = _shortage(error)
        seconds, rows = time.perf_counter() - started, sum(run.rows for run in runs)
        for run in runs:
            run.seconds += seconds * run.rows / rows
        return shortage

    def _relieved(
        self, runs: Sequence[_Run], shortage: str, spoiled: bool = False
    ) -> Iterator[tuple[int, MemoryLimitError]]:
        """Make do with less memory after a failed pass or step of `runs`; `spoiled` ones must start again.

        Narrower passes come first, then fewer runs: each time half the rows or less, until one run is left at a time.
        """
        rows, n_active = sum(run.rows for run in runs), len(self._active)
        if n_active == 1:
            (run,) = runs
            error = MemoryLimitError(
                f"A run with {max(rows, 1)} rows does not fit in memory, even alone ({shortage}). Lower n_particles or "
                "max_tokens, shorten the prompt, load the model in a smaller dtype, or use a device with more memory."
            )
            self._failed(run)
            yield run.request, error
            return
        if len(runs) > 1:
            self._width = max(1, rows // 2)
        else:
            self._room = self._width = max(1, min(self._room, self._claimed()) // 2)
            for run in self._active[:0:-1]:  # the youngest first; the oldest stays
                if self._claimed() > self._room:
                    self._put_back(run)
            if spoiled and runs[0] in self._active:
                self._put_back(runs[0])
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{n_active} runs of a batch do not fit in memory together ({shortage}): going on with at most {self._width} rows a pass, "
                f"and {len(self._active)} runs. Results stay the same; batch_rows={self._width} saves the attempt.",
                MemoryLimitWarning,
                stacklevel=2,
            )

    def _put_back(self, run: _Run) -> None:
        """Undo a run; it comes next."""
        self._active.remove(run)
        if run.state is not None:
            run.seconds += run.state.cost.seconds
        run.state, run.widest = None, 0
        self._waiting.appendleft(run)


def _shortage(error: MemoryError | RuntimeError) -> str:
    """The first line of what an allocator says; any other error is raised."""
    if not is_out_of_memory(error):
        raise error
    return (str(error) or type(error).__name__).splitlines()[0]
