"""Errors that speak to the user: what was wrong, where, what to do."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np


class SMCError(ValueError):
    """Base of every error that bad input can raise. The message is one paragraph fit for the command line.

    Attributes:
        job: key of the job that it befell, where several were run.
    """

    job: str | None = None


class OptionError(SMCError):
    """An option has a value that does not exist or does not go with another option."""


class ConstraintError(SMCError):
    """A schema, regex or grammar cannot be parsed or compiled."""


class EmptyLanguageError(ConstraintError):
    """A constraint that no sequence of the model's tokens can satisfy."""


class NarrowedLanguageError(ConstraintError):
    """The engine leaves out part of the language, and the caller asked for all of it or nothing."""


class PromptError(SMCError):
    """A prompt that the model cannot take: wrong kind, or longer than its context."""


class ModelError(SMCError):
    """A model that is missing, has no matching tokenizer, or returns logits that are not numbers."""


class MissingPackageError(SMCError):
    """An optional package that the call needs is not installed."""


class MemoryLimitError(SMCError):
    """A run that does not fit in memory, even alone."""


class MemoryLimitWarning(UserWarning):
    """Several runs did not fit in memory together, so fewer go on at a time. Results stay the same."""


def about_job(key: str, error: SMCError) -> SMCError:
    """An error of the same class that also says which of several jobs it befell; `error` is its cause."""
    if not key:
        return error
    try:
        named = type(error)(f"Job {quoted(key)}: {error}")
    except TypeError:  # a class that takes something else than a message
        named = SMCError(f"Job {quoted(key)}: {error}")
    named.job, named.__cause__ = key, error
    return named


def shortened(text: str, width: int = 80) -> str:
    """`text` on one line, cut for a message."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 3] + "..."


def quoted(value: object, width: int = 80) -> str:
    """A caller's value as Python writes it, cut for a message; even if its own way to write itself fails."""
    if type(value) is str or type(value) is bytes:
        mark = "..." if isinstance(value, str) else b"..."
        return repr(value if len(value) <= width else value[: width - 3] + mark)  # type: ignore[operator]
    try:
        return shortened(repr(value), width)
    except Exception:
        return f"a {type(value).__name__} (whose repr fails)"


def one_of(option: str, value: Any, choices: Iterable[str]) -> str:
    """Return `value` if it is among `choices`; raise an OptionError that lists them otherwise, the nearest
    one first."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise OptionError(
            f"{option}={quoted(value)} is not known: {_nearest(value, choices)}choose one of {', '.join(map(repr, choices))}."
        )
    return value


def _nearest(value: Any, choices: list[str]) -> str:
    """What a misspelt value was probably meant to be, as a question."""
    near = difflib.get_close_matches(value.strip().lower(), choices, n=1) if isinstance(value, str) else []
    return f"did you mean {near[0]!r}? Else " if near else ""


def true_or_false(option: str, value: Any) -> bool:
    """A truth value, or an OptionError: "no" is a text, and texts count as True in Python."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    word = str(value).strip().lower() if isinstance(value, (str, int, float)) else ""
    meant = "True" if word in _YES else "False" if word in _NO else None
    raise OptionError(
        f"{option} must be True or False, not {quoted(value)}{f': write {option}={meant}' if meant else ''}."
    )


_YES, _NO = ("true", "yes", "y", "on", "1", "1.0"), ("false", "no", "n", "off", "0", "0.0", "none", "")


def without_effect(given: dict[str, Any], reason: str) -> None:
    """Raise an OptionError that names the options that were given (are not None) and would be ignored.

    Args:
        reason: why they would be, as a sentence that says what to do.
    """
    if named := [f"{option}={quoted(value)}" for option, value in given.items() if value is not None]:
        raise OptionError(f"{' and '.join(named)} {'has' if len(named) == 1 else 'have'} no effect here. {reason}")


def function_of(option: str, value: Any, argument: str) -> None:
    """Raise an OptionError unless `value` can be called; `argument` says with what, as in "a text"."""
    if not callable(value):
        raise OptionError(f"{option} must be a function of {argument}, not {quoted(value)}.")


def at_least(option: str, value: Any, least: int) -> int:
    """A whole number of at least `least`, or an OptionError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise OptionError(f"{option} must be a whole number of at least {least}, not {quoted(value)}.")
    return int(value)


def within(
    option: str, value: Any, low: float, high: float, *, without_low: bool = False, without_high: bool = False
) -> float:
    """A finite number between two bounds, or an OptionError that states them."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool) and _is_finite(value)
    if not number or value < low or value > high or (without_low and value == low) or (without_high and value == high):
        if high == math.inf:
            allowed = f"a finite number {'above' if without_low else 'of at least'} {low:g}"
        else:
            allowed = f"a number in {'(' if without_low else '['}{low:g}, {high:g}{')' if without_high else ']'}"
        raise OptionError(f"{option} must be {allowed}, not {quoted(value)}.")
    return float(value)


def _is_finite(value: numbers.Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond what a float holds
        return False
