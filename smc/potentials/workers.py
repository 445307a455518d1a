"""A pool of processes that answer questions under a time limit; a call that does not come back is really ended."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from smc.potentials.failures import Answer, Failure, PotentialError

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext
    from multiprocessing.process import BaseProcess

    from smc.potentials.text import Question

_START_SECONDS = 300.0  # for a worker to import what it needs
_WAITING_TO_START = -1


@dataclass(eq=False)
class _Worker:
    """One process.

    Attributes:
        asked: index of the question that it is at; -1 while it starts, None while it is idle.
        deadline: when to give it up, by `time.monotonic`.
    """

    process: BaseProcess
    connection: Connection
    asked: int | None
    deadline: float

    def end(self) -> None:
        """Kill it and every process that it has started."""
        if hasattr(os, "killpg") and self.asked != _WAITING_TO_START and self.process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        self.connection.close()


class WorkerPool:
    """Up to `size` processes, each with a copy of a potential, started when they are first needed.

    Args:
        potential: pickled; has ``answer(question, text)``.
        size: processes.
        seconds: time limit of one question.
    """

    def __init__(self, potential: bytes, size: int, seconds: float):
        self._potential, self._size, self._seconds = potential, size, seconds
        self._workers: list[_Worker] = []
        self._end = weakref.finalize(self, _end_all, self._workers)  # when the pool is collected, or at exit

    def close(self) -> None:
        """End all processes. The pool is of no use afterwards."""
        self._end()

    def answers(self, asked: Sequence[tuple[Question, str]]) -> list[Answer]:
        """[N] answers, computed in parallel. Questions that time out or end their process are failures.

        Raises:
            PotentialError: a worker cannot start.
        """
        answers: dict[int, Answer] = {}
        waiting = deque(range(len(asked)))
        for worker in [worker for worker in self._workers if not worker.process.is_alive()]:
            self._dismiss(worker)  # something else has ended it since the last question
        try:
            while len(answers) < len(asked):
                self._hire(len(asked) - len(answers))
                for worker in self._workers:
                    if worker.asked is None and waiting:
                        self._give(worker, waiting.popleft(), asked)
                answers |= self._hear()
        except BaseException:  # an interrupt, for instance: nobody may answer a question that is no longer asked
            _end_all(self._workers)
            raise
        return [answers[i] for i in range(len(asked))]

    def _hire(self, wanted: int) -> None:
        while len(self._workers) < min(self._size, wanted):
            here, there = _context().Pipe()
            process = _context().Process(target=_serve, args=(there, self._potential), daemon=True)
            process.start()
            there.close()
            self._workers.append(_Worker(process, here, _WAITING_TO_START, time.monotonic() + _START_SECONDS))

    def _give(self, worker: _Worker, index: int, asked: Sequence[tuple[Question, str]]) -> None:
        worker.asked, worker.deadline = index, time.monotonic() + self._seconds
        with suppress(BrokenPipeError):  # it has ended meanwhile, as is found when its answer is read
            worker.connection.send(asked[index])

    def _hear(self) -> dict[int, Answer]:
        """Wait for an answer or a deadline, and see to everything that is due: index of question to answer."""
        busy = [worker for worker in self._workers if worker.asked is not None]
        left = min(worker.deadline for worker in busy) - time.monotonic()
        ready = wait([worker.connection for worker in busy], timeout=max(left, 0))
        heard: dict[int, Answer] = {}
        for worker in busy:
            assert worker.asked is not None
            if worker.connection in ready:
                answer = self._read(worker)
            elif time.monotonic() >= worker.deadline:
                limit = _START_SECONDS if worker.asked == _WAITING_TO_START else self._seconds
                self._dismiss(worker)
                answer = Failure(f"gave no answer within {limit:g} s and was stopped")
            else:
                continue
            if worker.asked != _WAITING_TO_START:
                heard[worker.asked] = answer
            elif answer != _READY:
                assert isinstance(answer, Failure)
                raise PotentialError(f"A worker process of a potential could not start: it {answer.reason}. {_REMEDY}")
            worker.asked = None
        return heard

    def _read(self, worker: _Worker) -> Answer:
        try:
            return worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(1.0)  # so that the exit code is its own
            self._dismiss(worker)
            return Failure(f"ended its process (exit code {worker.process.exitcode})")

    def _dismiss(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.end()


_READY = 0.0  # a worker's first message
_REMEDY = (
    "Define the potential's functions at the top level of a module that can be imported (not in a notebook cell), and start "
    "scripts under `if __name__ == '__main__':`."
)


def _end_all(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().end()


def _serve(connection: Connection, pickled: bytes) -> None:
    """What a worker does."""
    if hasattr(os, "setsid"):
        os.setsid()  # a group of its own: it ends with all that it starts, and by its parent alone
    try:
        potential = pickle.loads(pickled)
    except BaseException as error:
        connection.send(Failure(Failure.of(error).reason))
        return
    connection.send(_READY)
    with suppress(EOFError):  # the parent has gone
        while True:
            question = connection.recv()
            try:
                answer = potential.answer(*question)
            except BaseException as error:  # an exit or an interrupt is an answer too, not the end of the worker
                answer = Failure.of(error)
            connection.send(Failure(answer.reason) if isinstance(answer, Failure) else answer)


@cache
def _context() -> ForkServerContext | SpawnContext:
    """Processes without this one's threads and devices, forked from a server that has imported this module once."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context
