"""Which instances are out of a method's reach, said before anything runs.

Each function takes what the method is called and gives its `Method.refuses`: from an instance, and a vocabulary or None for
what is known without a model, to a sentence or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from experiments.tasks.base import Instance
from experiments.twists import without_automaton
from smc.vocabulary import Vocabulary

Refuses = Callable[[Instance, Vocabulary | None], str | None]


def everything(instance: Instance, vocabulary: Vocabulary | None) -> str | None:
    """Nothing is out of reach."""
    return None


def bounded(method: str) -> Refuses:
    """A method that has to know how large a potential can be."""
    return partial(_bounded, method)


def boolean(method: str) -> Refuses:
    """A method that draws from the model restricted to a language, of which a potential can only be a part."""
    return partial(_boolean, method)


def with_automaton(max_states: int) -> Refuses:
    """A method that looks ahead in an automaton of the constraint."""

    def refuses(instance: Instance, vocabulary: Vocabulary | None) -> str | None:
        return without_automaton(instance.constraint, vocabulary, max_states)

    return refuses


def _bounded(method: str, instance: Instance, vocabulary: Vocabulary | None) -> str | None:
    for potential in instance.potentials:
        if not math.isfinite(potential.log_bound):
            return (
                f"{method} needs a bound on every potential, and {type(potential).__name__} declares none. Give it a log_bound, "
                "or use method=smc."
            )
    return None


def _boolean(method: str, instance: Instance, vocabulary: Vocabulary | None) -> str | None:
    for potential in instance.potentials:
        if not getattr(potential, "boolean", False):
            return (
                f"{method} only decides whether a text belongs to the language, and {type(potential).__name__} gives it a "
                "weight. Use method=rejection, asap or smc."
            )
    return None
