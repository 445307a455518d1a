"""Work that may take too long, with a limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def finish_within(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`, or a TimeoutError.

    Both grammar engines let go of the interpreter lock while they compile, so a thread can wait for it. A compiler cannot
    be interrupted: after a timeout it goes on in the background, where it no longer holds anyone up.

    Raises:
        TimeoutError: `work` was not done in time. Whatever `work` itself raises is raised here.
    """
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:
            errors.append(error)  # raised again in the caller's thread

    thread = threading.Thread(target=run, name="compile-grammar", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError
    return results[0]
