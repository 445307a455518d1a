"""Errors that speak to the user: what was wrong, where, what to do."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any


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
        named = type(error)(f"Job {key!r}: {error}")
    except TypeError:  # a class that takes something else than a message
        named = SMCError(f"Job {key!r}: {error}")
    named.job, named.__cause__ = key, error
    return named


def one_of(option: str, value: Any, choices: Iterable[str]) -> str:
    """Return `value` if it is among `choices`; raise an OptionError that lists them otherwise."""
    choices = list(choices)
    if value not in choices:
        raise OptionError(f"{option}={value!r} is not known: choose one of {', '.join(map(repr, choices))}.")
    return str(value)


def function_of(option: str, value: Any, argument: str) -> None:
    """Raise an OptionError unless `value` can be called; `argument` says with what, as in "a text"."""
    if not callable(value):
        raise OptionError(f"{option} must be a function of {argument}, not {value!r}.")


def at_least(option: str, value: Any, least: int) -> int:
    """A whole number of at least `least`, or an OptionError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise OptionError(f"{option} must be a whole number of at least {least}, not {value!r}.")
    return int(value)


def within(
    option: str, value: Any, low: float, high: float, *, without_low: bool = False, without_high: bool = False
) -> float:
    """A finite number between two bounds, or an OptionError that states them."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < low or value > high or (without_low and value == low) or (without_high and value == high):
        if high == math.inf:
            allowed = f"a finite number {'above' if without_low else 'of at least'} {low:g}"
        else:
            allowed = f"a number in {'(' if without_low else '['}{low:g}, {high:g}{')' if without_high else ']'}"
        raise OptionError(f"{option} must be {allowed}, not {value!r}.")
    return float(value)
