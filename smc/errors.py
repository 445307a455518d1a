"""Errors that speak to the user: what was wrong, where, what to do."""

from __future__ import annotations

from collections.abc import Iterable


class SMCError(ValueError):
    """Base of every error that bad input can raise. The message is one paragraph fit for the command line."""


class OptionError(SMCError):
    """An option has a value that does not exist or does not go with another option."""


class ConstraintError(SMCError):
    """A schema, regex or grammar cannot be parsed or compiled."""


class EmptyLanguageError(ConstraintError):
    """A constraint that no sequence of the model's tokens can satisfy."""


class PromptError(SMCError):
    """A prompt that the model cannot take: wrong kind, or longer than its context."""


class ModelError(SMCError):
    """A model that is missing, has no matching tokenizer, or returns logits that are not numbers."""


class MissingPackageError(SMCError):
    """An optional package that the call needs is not installed."""


def one_of(option: str, value: str, choices: Iterable[str]) -> str:
    """Return `value` if it is among `choices`; raise an OptionError that lists them otherwise."""
    choices = list(choices)
    if value not in choices:
        raise OptionError(f"{option}={value!r} is not known: choose one of {', '.join(map(repr, choices))}.")
    return value
