"""`bfcl`: tool calls from the Berkeley function-calling set, read from the installed package `bfcl_eval`.

The prompt shows the functions and a user's request; the constraint is the JSON Schema of the answer (see `bfcl_forms`);
the score is the set's own (see `bfcl_answers`). The categories are those of the set whose calls are Python's: one function,
several to choose from, several calls, several of both, each also in the "live" kind that users sent in.
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.errors import ExperimentError
from experiments.tasks import bfcl_data
from experiments.tasks.base import Instance, Task
from experiments.tasks.bfcl_answers import calls_are_right, first_accepted
from experiments.tasks.bfcl_data import Entry, load
from experiments.tasks.bfcl_forms import Call, Content, Form
from experiments.tasks.bfcl_prompts import prompt
from smc import JSONSchema

CATEGORIES: dict[str, Content] = {
    "simple_python": "arguments",
    "multiple": "call",
    "parallel": "calls",
    "parallel_multiple": "calls",
    "live_simple": "arguments",
    "live_multiple": "call",
    "live_parallel": "calls",
    "live_parallel_multiple": "calls",
}
"""The categories, and what an answer of each holds."""


@dataclass(frozen=True)
class BfclTask(Task):
    """Function calls as compact JSON.

    A few rows of the set accept no answer that their own function description allows, for example a value of another type
    than declared. They stay, as in the benchmark, and count as wrong for every method.
    """

    max_tokens: int = 96  # the longest accepted answer of simple_python takes 78 of SmolLM2's tokens
    category: str = (
        "simple_python"  # simple_python | multiple | parallel | parallel_multiple, or one of these as live_*
    )
    reasoning: bool = False  # a short free string before the answer
    name: str = "bfcl"
    exact: bool = False

    def __post_init__(self) -> None:
        if self.category not in CATEGORIES:
            raise ExperimentError(
                f"task.category={self.category!r} of the task bfcl is not supported: "
                f"choose one of {', '.join(CATEGORIES)}."
            )

    @property
    def form(self) -> Form:
        """How an answer is written."""
        return Form(CATEGORIES[self.category], self.reasoning)

    @property
    def revision(self) -> str:
        return bfcl_data.revision()

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` entries of the category, spread evenly over it.

        Raises ExperimentError if the data package is missing or does not hold the files.
        """
        return [self._instance(entry) for entry in list(load(self.category).values())[:limit]]

    def score(self, instance: Instance, text: str) -> float:
        """1 if the text makes the calls that the set accepts, else 0. Reasoning is not looked at."""
        entry = load(self.category)[instance.id]
        made = self.form.read(text, entry.functions)
        return float(made is not None and calls_are_right(entry, made))

    def _instance(self, entry: Entry) -> Instance:
        """The prompt, constraint and reference answer of one entry."""
        calls = [
            Call(call.name, first_accepted(entry.parameters(call.name), call.values)) for call in entry.calls or ()
        ]
        return Instance(
            id=entry.id,
            prompt=prompt(self.form, entry.functions, entry.question),
            constraint=JSONSchema(self.form.schema(entry.functions), whitespace="compact"),
            display=entry.question,
            reference=self.form.write(calls),
        )
