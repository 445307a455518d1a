"""`tools`: several tools to choose from, or an answer in words; from the Berkeley function-calling set (`live_multiple`).

The constraint is :class:`smc.ToolCalls`: free text in which the tag of a call switches on the schemas of the tools. So the
model may also answer in prose, and the posterior probability of calling at all is a result. The set accepts exactly one
call for each request; prose is valid, and wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from experiments.tasks import bfcl
from experiments.tasks.base import Instance
from experiments.tasks.bfcl_answers import call_is_right, first_accepted
from experiments.tasks.bfcl_data import compact, in_words, json_schema, read
from smc import ToolCalls
from smc.errors import ConstraintError

CATEGORY = "live_multiple"

SYSTEM = (
    "You can use tools. Either call one of the tools listed with the request, written as "
    '<tool_call>{"name":...,"arguments":{...}}</tool_call> and nothing else, or, if none of them helps, answer in one short '
    "sentence. Leave out optional parameters that the request does not mention."
)

_WEATHER = bfcl.EXAMPLES[0][0]
_TIMER = {
    "name": "set_timer",
    "description": "Set a kitchen timer.",
    "parameters": {
        "type": "dict",
        "properties": {"minutes": {"type": "integer", "description": "How long."}},
        "required": ["minutes"],
    },
}

# Turns of our own making that show the form of a call. With examples of prose beside them a small model hardly ever calls.
EXAMPLES: tuple[tuple[tuple[dict[str, Any], ...], str, str], ...] = (
    (
        (_WEATHER, _TIMER),
        "What will the weather be like in Paris for the next 3 days?",
        '<tool_call>{"name":"get_weather","arguments":{"city":"Paris","days":3}}</tool_call>',
    ),
    (
        (_TIMER, _WEATHER),
        "Set a timer for 12 minutes.",
        '<tool_call>{"name":"set_timer","arguments":{"minutes":12}}</tool_call>',
    ),
    (
        (_WEATHER, _TIMER),
        "Is it going to rain in Oslo tomorrow?",
        '<tool_call>{"name":"get_weather","arguments":{"city":"Oslo","days":1}}</tool_call>',
    ),
)


@dataclass(frozen=True)
class Entry:
    """One row of the set: the question, the functions, the one that is right and the values accepted for it."""

    id: str
    question: str
    functions: tuple[Mapping[str, Any], ...]
    right: str
    accepted: Mapping[str, list[Any]]

    def parameters(self, name: str) -> Mapping[str, Any]:
        """The set's description of a function's parameters."""
        return next(f["parameters"] for f in self.functions if f["name"] == name)


@dataclass(frozen=True)
class ToolsTask:
    """One tool call, or prose."""

    max_tokens: int = 64
    name: str = "tools"
    exact: bool = False

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` entries of `live_multiple` (1,053 in all), in the set's order.

        Raises ExperimentError if the data package is missing or does not hold the files.
        """
        return [to_instance(entry) for entry in list(load().values())[:limit]]

    def score(self, instance: Instance, text: str) -> float:
        """1 if the text makes the one call that the set accepts, else 0."""
        entry = load()[instance.id]
        try:
            made = instance.constraint.calls(text)
        except ConstraintError:
            return 0.0
        if len(made) != 1 or made[0][0] != entry.right:
            return 0.0
        return float(call_is_right(entry.parameters(entry.right), entry.accepted, made[0][1]))


def to_instance(entry: Entry) -> Instance:
    """The prompt, constraint and reference answer of one entry."""
    tools = [{"name": f["name"], "parameters": json_schema(f["parameters"])} for f in entry.functions]
    arguments = first_accepted(entry.parameters(entry.right), entry.accepted)
    return Instance(
        id=entry.id,
        prompt=prompt(entry.functions, entry.question),
        constraint=ToolCalls(tools, after="end", whitespace="compact"),
        display=entry.question,
        reference=f"<tool_call>{compact({'name': entry.right, 'arguments': arguments})}</tool_call>",
    )


def prompt(functions: Sequence[Mapping[str, Any]], question: str) -> list[dict[str, str]]:
    """Chat messages: what to do, three worked examples, then the tools and the request."""
    messages = [{"role": "system", "content": SYSTEM}]
    for shown, asked, answer in EXAMPLES:
        messages += [{"role": "user", "content": request(shown, asked)}, {"role": "assistant", "content": answer}]
    return [*messages, {"role": "user", "content": request(functions, question)}]


def request(functions: Sequence[Mapping[str, Any]], question: str) -> str:
    """Tools in plain words, each with the outline of a call and its parameters, and the user's question.

    Without the outlines a small model makes names of tools up.
    """
    lines = []
    for function in functions:
        parameters = function["parameters"]
        lines.append(f"{function['name']}: {_first_sentence(function['description'])}")
        for name, spec in parameters["properties"].items():
            optional = "" if name in parameters.get("required", ()) else ", optional"
            lines.append(f"- {name} ({in_words(spec)}{optional})")
        lines.append(f"Call: {outline(function)}")
    return "\n".join([*lines, f"Request: {question}"])


def outline(function: Mapping[str, Any]) -> str:
    """A call with dots in place of values."""
    arguments = ",".join(f'"{name}":...' for name in function["parameters"]["properties"])
    return f'<tool_call>{{"name":"{function["name"]}","arguments":{{{arguments}}}}}</tool_call>'


def _first_sentence(text: str) -> str:
    """Descriptions of the set run to paragraphs, and a small model reads a short prompt better."""
    return text.split(". ")[0].rstrip(".").strip() + "."


@lru_cache
def load() -> dict[str, Entry]:
    """The entries by id, in the set's order."""
    entries = {}
    for row, truth in read(CATEGORY):
        ((right, accepted),) = truth.items()
        question = row["question"][0][-1]["content"]
        entries[row["id"]] = Entry(row["id"], question, tuple(row["function"]), right, accepted)
    return entries
