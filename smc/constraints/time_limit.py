"""Work that may take too long, with a limit that ends it."""

from __future__ import annotations

import ctypes
import multiprocessing
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Deadline:
    """A point in time by which several pieces of work must all be done.

    Args:
        seconds: from now.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, none at the least."""
        return max(0.0, self._end - time.monotonic())


class _Abandoned(BaseException):
    """Raised inside work that nobody waits for any more."""


def finish_within(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`, or a TimeoutError; then the work is ended at its next step in Python.

    It runs in a thread, which the grammar engines leave free to run by letting go of the interpreter lock. A thread cannot be
    ended in the middle of a call into an engine, but after it: what may spend very long in one belongs in `finish_or_kill`.

    Raises:
        TimeoutError: `work` was not done in time. Whatever `work` itself raises is raised here.
    """
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        with suppress(_Abandoned):
            try:
                results.append(work())
            except Exception as error:
                errors.append(error)  # raised again in the caller's thread

    thread = threading.Thread(target=run, name="compile-grammar", daemon=True)
    thread.start()
    try:
        thread.join(seconds)
    finally:
        if thread.is_alive() and thread.ident is not None:  # too late, or the wait was interrupted
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Abandoned))
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError
    return results[0]


def finish_or_kill(seconds: float, work: Callable[[], bytes]) -> bytes:
    """The bytes that `work` makes in a process of its own, which is killed when the time is over, whatever it is doing.

    The process is a fork of this one, so that it starts at once and has all that is here; it must leave devices alone.
    Where there is no fork, `finish_within` has to do.

    Raises:
        TimeoutError: `work` was not done in time. RuntimeError: `work` has failed, with its message.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        return finish_within(seconds, work)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        try:
            sender.send((True, work()))
        except Exception as error:
            sender.send((False, str(error).encode()))

    child = context.Process(target=run, daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: the child uses none of these
        child.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise TimeoutError
        done, made = receiver.recv()
    except EOFError:
        raise RuntimeError("the engine ended its process") from None
    finally:
        child.kill()
        child.join()
        receiver.close()
    if not done:
        raise RuntimeError(made.decode())
    return bytes(made)
