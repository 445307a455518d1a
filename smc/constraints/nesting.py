"""What is nested too deeply to be read: the readers of patterns and schemas are recursive, and Python's stack has an end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from smc.errors import ConstraintError


def too_deep(what: str) -> ConstraintError:
    """The error for something that is nested too deeply; `what` names it, as in "The regex '((('"."""
    return ConstraintError(
        f"{what} is nested too deeply to be read. Flatten it: drop brackets that change nothing, or give the inner parts names "
        "of their own, where that is possible (rules in a grammar, $defs in a schema)."
    )


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Where the end of the stack means that `what` is nested too deeply.

    Raises:
        ConstraintError: it is.
    """
    try:
        yield
    except RecursionError:
        raise too_deep(what) from None
