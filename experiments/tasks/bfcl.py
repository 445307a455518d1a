"""`bfcl`: tool calls from the Berkeley function-calling set, read from the installed package `bfcl_eval`.

The prompt shows one function and a user's request; the constraint is the JSON Schema of the function's
arguments; the score is the set's own (see `bfcl_answers`). Only the category `simple_python` is known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from experiments.errors import ExperimentError
from experiments.tasks.base import Instance
from experiments.tasks.bfcl_answers import call_is_right, first_accepted
from experiments.tasks.bfcl_data import compact, in_words, json_schema, parse_object, read
from smc import JSONSchema

CATEGORIES = ("simple_python",)

SYSTEM = (
    "You turn a request into a function call. Answer with the arguments of the function only, as one compact JSON "
    "object. Leave out optional parameters that the request does not mention."
)

# Turns of our own making that show the form: without them a small model writes prose, and nearly all of its mass is
# lost to the first brace.
EXAMPLES: tuple[tuple[dict[str, Any], str, dict[str, Any]], ...] = (
    (
        {
            "name": "get_weather",
            "description": "Get the weather forecast of a city.",
            "parameters": {
                "type": "dict",
                "properties": {
                    "city": {"type": "string", "description": "The city."},
                    "days": {"type": "integer", "description": "How many days."},
                },
                "required": ["city"],
            },
        },
        "What will the weather be like in Paris for the next 3 days?",
        {"city": "Paris", "days": 3},
    ),
    (
        {
            "name": "convert_currency",
            "description": "Convert an amount of money.",
            "parameters": {
                "type": "dict",
                "properties": {
                    "amount": {"type": "integer", "description": "The amount."},
                    "from": {"type": "string", "description": "Source currency."},
                    "to": {"type": "string", "description": "Target currency."},
                },
                "required": ["amount", "from", "to"],
            },
        },
        "How much are 250 US dollars in euros?",
        {"amount": 250, "from": "USD", "to": "EUR"},
    ),
    (
        {
            "name": "set_timer",
            "description": "Set a kitchen timer.",
            "parameters": {
                "type": "dict",
                "properties": {
                    "minutes": {"type": "integer", "description": "How long."},
                    "label": {"type": "string", "description": "A name for the timer."},
                },
                "required": ["minutes"],
            },
        },
        "Set a timer for 12 minutes.",
        {"minutes": 12},
    ),
)


@dataclass(frozen=True)
class Entry:
    """One row of the set: the question, the function as the set describes it, the accepted arguments."""

    id: str
    question: str
    function: Mapping[str, Any]
    accepted: Mapping[str, list[Any]]


@dataclass(frozen=True)
class BfclTask:
    """Arguments of one function call as compact JSON."""

    max_tokens: int = 96  # the longest accepted answer of the set takes 78 of SmolLM2's tokens
    category: str = "simple_python"
    name: str = "bfcl"
    exact: bool = False

    def __post_init__(self) -> None:
        if self.category not in CATEGORIES:
            raise ExperimentError(
                f"task.category={self.category!r} of the task bfcl is not supported: "
                f"choose one of {', '.join(CATEGORIES)}."
            )

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` entries of the category (400 in all), in the set's order.

        Raises ExperimentError if the data package is missing or does not hold the files.
        """
        return [to_instance(entry) for entry in list(load(self.category).values())[:limit]]

    def score(self, instance: Instance, text: str) -> float:
        """1 if the text is a JSON object that the set accepts as arguments, else 0."""
        entry = load(self.category)[instance.id]
        arguments = parse_object(text)
        if arguments is None:
            return 0.0
        return float(call_is_right(entry.function["parameters"], entry.accepted, arguments))


def to_instance(entry: Entry) -> Instance:
    """The prompt, constraint and reference answer of one entry."""
    parameters = entry.function["parameters"]
    return Instance(
        id=entry.id,
        prompt=prompt(entry.function, entry.question),
        constraint=JSONSchema(json_schema(parameters), whitespace="compact"),
        display=entry.question,
        reference=compact(first_accepted(parameters, entry.accepted)),
    )


def prompt(function: Mapping[str, Any], question: str) -> list[dict[str, str]]:
    """Chat messages: what to do, three worked examples, then the function and the request."""
    messages = [{"role": "system", "content": SYSTEM}]
    for shown, asked, arguments in EXAMPLES:
        messages += [
            {"role": "user", "content": request(shown, asked)},
            {"role": "assistant", "content": compact(arguments)},
        ]
    return [*messages, {"role": "user", "content": request(function, question)}]


def request(function: Mapping[str, Any], question: str) -> str:
    """A function in plain words, one parameter a line, and the user's question."""
    parameters = function["parameters"]
    lines = [f"Function {function['name']}: {function['description']}"]
    for name, spec in parameters["properties"].items():
        optional = "" if name in parameters.get("required", ()) else ", optional"
        lines.append(f"- {name} ({in_words(spec)}{optional}): {spec.get('description', '')}")
    return "\n".join([*lines, f"Request: {question}"])


@lru_cache
def load(category: str) -> dict[str, Entry]:
    """The entries of a category by id, in the set's order."""
    entries = {}
    for row, truth in read(category):
        (function,) = row["function"]
        ((message,),) = row["question"]
        entries[row["id"]] = Entry(row["id"], message["content"], function, truth[function["name"]])
    return entries
