"""`tools`: call one of the tools, or answer in words; from the Berkeley function-calling set.

The constraint is :class:`smc.ToolCalls`: free text in which the tag of a call switches on the schemas of the tools. So the
model may also answer in prose, and the posterior probability of calling at all is a result. In `live_multiple` exactly one
call is right; in `irrelevance` and `live_irrelevance` no tool helps, and any answer without a call is right; in
`live_relevance` any call is. `mixed` puts the first and the third of these to the model in turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from experiments.errors import ExperimentError
from experiments.tasks import bfcl_data
from experiments.tasks.base import Instance, Task
from experiments.tasks.bfcl_answers import calls_are_right, first_accepted
from experiments.tasks.bfcl_data import Entry, compact, in_words, json_schema
from experiments.tasks.bfcl_forms import Call
from experiments.tasks.bfcl_prompts import TIMER, WEATHER, first_sentence
from experiments.tasks.sets import in_turn
from smc import ToolCalls

CATEGORIES: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("live_multiple", "irrelevance", "live_irrelevance", "live_relevance")},
    "mixed": ("live_multiple", "live_irrelevance"),
}
"""The categories of the task, and those of the set that each takes its entries from in turn."""

BEGIN, END = "<tool_call>", "</tool_call>"
NO_FUNCTIONS = "The set lists no function for it, so there is no call to allow."

SYSTEM = (
    "You can use tools. Either call one of the tools listed with the request, written as "
    f'{BEGIN}{{"name":...,"arguments":{{...}}}}{END} and nothing else, or, if none of them helps, answer in one short '
    "sentence. Leave out optional parameters that the request does not mention."
)


def written(call: Call) -> str:
    """A call as the constraint spells it."""
    return f"{BEGIN}{compact({'name': call.name, 'arguments': call.arguments})}{END}"


# Turns of our own making that show the form of a call. With examples of prose beside them a small model hardly ever calls.
EXAMPLES: tuple[tuple[tuple[dict[str, Any], ...], str, Call], ...] = (
    (
        (WEATHER, TIMER),
        "What will the weather be like in Paris for the next 3 days?",
        Call("get_weather", {"city": "Paris", "days": 3}),
    ),
    ((TIMER, WEATHER), "Set a timer for 12 minutes.", Call("set_timer", {"minutes": 12})),
    ((WEATHER, TIMER), "Is it going to rain in Oslo tomorrow?", Call("get_weather", {"city": "Oslo", "days": 1})),
)


@dataclass(frozen=True)
class ToolsTask(Task):
    """One tool call, or prose. Each request is right with a call or without one, never with either."""

    max_tokens: int = 96  # 99 in 100 accepted calls take at most 80 of SmolLM2's tokens
    category: str = "live_multiple"  # live_multiple | irrelevance | live_irrelevance | live_relevance | mixed
    name: str = "tools"
    exact: bool = False

    def __post_init__(self) -> None:
        if self.category not in CATEGORIES:
            raise ExperimentError(
                f"task.category={self.category!r} of the task tools is not supported: "
                f"choose one of {', '.join(CATEGORIES)}."
            )

    @property
    def revision(self) -> str:
        return bfcl_data.revision()

    @property
    def omitted(self) -> dict[str, str]:
        """Entries of the category that are no instances, and why, by id."""
        return {entry.id: NO_FUNCTIONS for entry in entries(self.category).values() if not entry.functions}

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` entries of the category, spread evenly over it.

        Raises ExperimentError if the data package is missing or does not hold the files.
        """
        asked = [entry for entry in entries(self.category).values() if entry.functions]
        return [to_instance(entry) for entry in asked[:limit]]

    def score(self, instance: Instance, text: str) -> float:
        """1 for the one call that the set accepts, or where it names none, for calling or not calling; else 0.

        As in the benchmark, what is not well formed is no call.
        """
        entry = entries(self.category)[instance.id]
        made = calls_in(text)
        if entry.calls is None:
            return float(bool(made) == calls_for(entry))
        return float(calls_are_right(entry, made))

    def measures(self, instance: Instance, text: str) -> Mapping[str, float]:
        """`called`: whether a call was made; `right_decision`: whether one should have been, if so, and not if not."""
        called = bool(calls_in(text))
        wanted = calls_for(entries(self.category)[instance.id])
        return {"called": float(called), "right_decision": float(called == wanted)}


def entries(category: str) -> dict[str, Entry]:
    """The entries of a category of the task by id, in the order of the instances."""
    return _entries(CATEGORIES[category])


@lru_cache
def _entries(sources: tuple[str, ...]) -> dict[str, Entry]:
    return {entry.id: entry for entry in in_turn([list(bfcl_data.load(source).values()) for source in sources])}


def calls_for(entry: Entry) -> bool:
    """Whether the set wants a call for this entry."""
    return "irrelevance" not in entry.id


def calls_in(text: str) -> list[Call]:
    """The well-formed calls in any text, whatever their tools are."""
    made = []
    for content in re.findall(f"{re.escape(BEGIN)}(.*?){re.escape(END)}", text, re.DOTALL):
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("name"), str) and isinstance(value.get("arguments"), dict):
            made.append(Call(value["name"], value["arguments"]))
    return made


def to_instance(entry: Entry) -> Instance:
    """The prompt, constraint and reference answer of one entry."""
    tools = [{"name": f["name"], "parameters": json_schema(f["parameters"])} for f in entry.functions]
    accepted = [Call(call.name, first_accepted(entry.parameters(call.name), call.values)) for call in entry.calls or ()]
    return Instance(
        id=entry.id,
        prompt=prompt(entry.functions, entry.question),
        constraint=_constraint(compact(tools)),
        display=entry.question,
        reference=written(accepted[0]) if accepted else None,
    )


@lru_cache(maxsize=4096)
def _constraint(tools: str) -> ToolCalls:
    """Calls of these tools, given as JSON. Many entries ask about the same tools, whose schemas take long to check."""
    return ToolCalls(json.loads(tools), after="end", whitespace="compact")


def prompt(functions: Sequence[Mapping[str, Any]], question: str) -> list[dict[str, str]]:
    """Chat messages: what to do, three worked examples, then the tools and the request."""
    messages = [{"role": "system", "content": SYSTEM}]
    for shown, asked, call in EXAMPLES:
        messages += [
            {"role": "user", "content": request(shown, asked)},
            {"role": "assistant", "content": written(call)},
        ]
    return [*messages, {"role": "user", "content": request(functions, question)}]


def request(functions: Sequence[Mapping[str, Any]], question: str) -> str:
    """Tools in few words, each with the outline of a call and its parameters, and the user's question.

    Without the outlines a small model makes names of tools up.
    """
    lines = []
    for function in functions:
        parameters = function["parameters"]
        lines.append(f"{function['name']}: {first_sentence(function['description'])}")
        for name, spec in parameters["properties"].items():
            optional = "" if name in parameters.get("required", ()) else ", optional"
            lines.append(f"- {name} ({in_words(spec)}{optional})")
        lines.append(f"Call: {outline(function)}")
    return "\n".join([*lines, f"Request: {question}"])


def outline(function: Mapping[str, Any]) -> str:
    """A call with dots in place of values."""
    arguments = ",".join(f'"{name}":...' for name in function["parameters"]["properties"])
    return f'{BEGIN}{{"name":"{function["name"]}","arguments":{{{arguments}}}}}{END}'
