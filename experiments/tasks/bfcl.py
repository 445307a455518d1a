"""`bfcl`: tool calls from the Berkeley function-calling set, read from the installed package `bfcl_eval`.

The prompt shows one function and a user's request; the constraint is the JSON Schema of the function's
arguments; the score is the set's own (see `bfcl_answers`). Only the category `simple_python` is known here.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from experiments.errors import ExperimentError
from experiments.tasks.base import Instance
from experiments.tasks.bfcl_answers import call_is_right, first_accepted
from smc import JSONSchema

PACKAGE, VERSION = "bfcl_eval", "2026.3.23"
CATEGORIES = ("simple_python",)

# The set's type names are Python's. `any` becomes a string, because the set itself checks it as one.
JSON_TYPES = {
    "dict": "object",
    "integer": "integer",
    "float": "number",
    "string": "string",
    "boolean": "boolean",
    "array": "array",
    "tuple": "array",
    "any": "string",
}

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
        lines.append(f"- {name} ({_kind(spec)}{optional}): {spec.get('description', '')}")
    return "\n".join([*lines, f"Request: {question}"])


def _kind(spec: Mapping[str, Any]) -> str:
    """The type of a parameter in words."""
    if "enum" in spec:
        return f"one of {', '.join(map(compact, spec['enum']))}"
    kind = JSON_TYPES.get(spec["type"], spec["type"])
    if "items" in spec:
        return f"{kind} of {_kind(spec['items'])}"
    if "properties" in spec:
        return f"{kind} with " + ", ".join(f"{name} ({_kind(inner)})" for name, inner in spec["properties"].items())
    return kind


def json_schema(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The set's description of a value as JSON Schema.

    Keys that are not JSON Schema (`optional`) or only describe are dropped. Objects with declared properties are
    closed; a dict without any stays a free object.
    """
    kind = spec["type"]
    if kind not in JSON_TYPES:
        raise ExperimentError(
            f"The type {kind!r} in the bfcl data is not known: use {PACKAGE} {VERSION}, which this task is written for."
        )
    schema: dict[str, Any] = {"type": JSON_TYPES[kind]}
    if "enum" in spec:
        schema["enum"] = spec["enum"]
    if "items" in spec:
        schema["items"] = json_schema(spec["items"])
    if "properties" in spec:
        schema["properties"] = {k: json_schema(v) for k, v in spec["properties"].items()}
        schema["required"] = list(spec.get("required", ()))
        schema["additionalProperties"] = False
    return schema


def compact(value: Any) -> str:
    """JSON without spaces, as the constraint writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def parse_object(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is, or None. NaN and Infinity are no JSON."""
    try:
        value = json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _not_json(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


@lru_cache
def load(category: str) -> dict[str, Entry]:
    """The entries of a category by id, in the set's order."""
    folder = data_folder()
    questions = _read_lines(folder / f"BFCL_v4_{category}.json")
    answers = {row["id"]: row for row in _read_lines(folder / "possible_answer" / f"BFCL_v4_{category}.json")}
    entries = {}
    for row in questions:
        (function,) = row["function"]
        ((message,),) = row["question"]
        (truth,) = answers[row["id"]]["ground_truth"]
        entries[row["id"]] = Entry(row["id"], message["content"], function, truth[function["name"]])
    return entries


def data_folder() -> Path:
    """Where the installed package keeps its data. The package itself is never imported: it needs much else."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ExperimentError(
            f"The task bfcl reads its data from the package {PACKAGE}, which is not installed here. Install it with "
            f"`pip install --no-deps bfcl-eval=={VERSION}` (only its data files are used), or choose another task."
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ExperimentError(
            f"The bfcl data file {path.name} is not in the installed {PACKAGE} ({error.strerror}): "
            f"this task is written for version {VERSION}, install that one."
        ) from error
    return [json.loads(line) for line in lines if line.strip()]
