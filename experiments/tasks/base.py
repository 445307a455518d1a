"""What a task is: a list of prompts, each with its constraint, and a way to score an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Prompt = str | Sequence[dict[str, str]]
"""Plain text, or chat messages with the keys `role` and `content`."""


@dataclass(frozen=True)
class Instance:
    """One prompt of a task.

    `display` is what a reader of the report sees of the prompt, `reference` an accepted answer as text (None
    where there is none to show). `constraint` is any constraint value of `smc`.
    """

    id: str
    prompt: Prompt
    constraint: Any
    display: str
    reference: str | None


class Task(Protocol):
    """A set of instances and their scorer. Tasks hold no state of a run: runs and processes may share one."""

    @property
    def name(self) -> str:
        """The task's name in records and reports."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens allowed before the stop."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the language is small enough for the exact posterior by enumeration."""
        ...

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` instances, all of them by default, always in the same order."""
        ...

    def score(self, instance: Instance, text: str) -> float:
        """How right `text` is, from 0 to 1. Any text may be given; what cannot be read is wrong, not an error."""
        ...
