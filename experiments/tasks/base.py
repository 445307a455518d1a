"""What a task is: a list of prompts, each with its constraint and potentials, and measures of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

Prompt = str | Sequence[dict[str, str]]
"""Plain text, or chat messages with the keys `role` and `content`."""


@dataclass(frozen=True)
class Instance:
    """One prompt of a task.

    `display` is what a reader of the report sees of the prompt, `reference` an accepted answer as text (None
    where there is none to show). `constraint` is any constraint value of `smc`, `potentials` are values of `smc.potentials`.
    """

    id: str
    prompt: Prompt
    constraint: Any
    display: str
    reference: str | None
    potentials: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Answer:
    """One finished text of a method, as `Task.together` sees it: its share of the weight, and how often it was drawn."""

    text: str
    weight: float
    count: int


class Task:
    """A set of instances and how answers are judged. Tasks hold no state of a run: runs and processes may share one.

    A task is a frozen dataclass that extends this class; its fields are the options of its config group.

    Attributes:
        name: the task's name in records and reports.
        max_tokens: tokens allowed before the stop.
        exact: whether the languages are small enough for the exact posterior by enumeration.
        stops: texts that end an answer beside the model's own stop tokens, for prompts that are continued rather than answered.
    """

    name: str
    max_tokens: int
    exact: bool
    stops: ClassVar[tuple[str, ...]] = ()

    @property
    def revision(self) -> str:
        """Which data the instances are made from: a package with its version, a hub revision, or a hash of own files."""
        raise NotImplementedError

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` instances, all of them by default, always in the same order."""
        raise NotImplementedError

    def score(self, instance: Instance, text: str) -> float:
        """How right `text` is, from 0 to 1. Any text may be given; what cannot be read is wrong, not an error."""
        raise NotImplementedError

    def measures(self, instance: Instance, text: str) -> Mapping[str, float]:
        """Further qualities of one text by name, the same names for every text; records keep their expectations."""
        return {}

    def together(self, instance: Instance, answers: Sequence[Answer]) -> Mapping[str, float]:
        """Qualities of all that a method returned for an instance, by name: diversity, say. `answers` may be empty."""
        return {}

    def places(self, instance: Instance, text: str) -> list[tuple[int, str]] | None:
        """The parts of `text`, each as (offset of its first character, name), in order; None for the parts of JSON or plain text.

        Names are few and the same over instances ("year", "string value"): the report says where the mask removes mass by them.
        """
        return None
