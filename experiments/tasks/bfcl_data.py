"""The files of the Berkeley function-calling set, read from the installed package `bfcl_eval`, and its types as JSON Schema."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from experiments.errors import ExperimentError
from experiments.tasks.sets import spread

PACKAGE, VERSION = "bfcl_eval", "2026.3.23"
WITHOUT_ANSWERS = ("irrelevance", "live_irrelevance", "live_relevance")

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

_PYTHON: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "integer": int,
    "number": (int, float),
    "string": str,
    "boolean": bool,
    "array": list,
}


@dataclass(frozen=True)
class Accepted:
    """One call that the set expects: the function's name and the values accepted for each parameter."""

    name: str
    values: Mapping[str, list[Any]]


@dataclass(frozen=True)
class Entry:
    """One row of the set: the question, the functions as the set describes them, the calls that it expects.

    `calls` is None where the set names none: in the categories that ask only whether a call is made at all.
    """

    id: str
    question: str
    functions: tuple[Mapping[str, Any], ...]
    calls: tuple[Accepted, ...] | None

    def parameters(self, name: str) -> Mapping[str, Any]:
        """The set's description of a function's parameters."""
        return next(function["parameters"] for function in self.functions if function["name"] == name)


@lru_cache
def load(category: str) -> dict[str, Entry]:
    """The entries of a category by id, spread evenly over the set (see `sets.spread`): its neighbours are much alike.

    Raises ExperimentError if the data package is missing or does not hold the files.
    """
    folder = data_folder()
    answers = {}
    if category not in WITHOUT_ANSWERS:
        rows = _read_lines(folder / "possible_answer" / f"BFCL_v4_{category}.json")
        answers = {row["id"]: _accepted(row["ground_truth"]) for row in rows}
    entries = {}
    for row in spread(_read_lines(folder / f"BFCL_v4_{category}.json")):
        (messages,) = row["question"]
        entries[row["id"]] = Entry(row["id"], _asked(messages), tuple(row["function"]), answers.get(row["id"]))
    return entries


def revision() -> str:
    """The data package and its version.

    Raises ExperimentError if it is not installed.
    """
    data_folder()
    return f"{PACKAGE} {metadata.version(PACKAGE)}"


def _accepted(calls: Sequence[Mapping[str, Mapping[str, list[Any]]]]) -> tuple[Accepted, ...]:
    return tuple(Accepted(name, values) for call in calls for name, values in call.items())


def _asked(messages: Sequence[Mapping[str, str]]) -> str:
    """The user's message; where a system's instructions or earlier turns belong to it, all of them by role."""
    if len(messages) == 1:
        return messages[0]["content"]
    return "\n".join(f"{message['role'].capitalize()}: {message['content'].strip()}" for message in messages)


def in_words(spec: Mapping[str, Any]) -> str:
    """The type of a parameter in words."""
    kind = JSON_TYPES.get(spec["type"], spec["type"])
    if "enum" in spec:
        listed = f"one of {', '.join(map(compact, spec['enum']))}"
        return listed if kind != "array" else f"array of {listed}"
    if "items" in spec:
        return f"{kind} of {in_words(spec['items'])}"
    if "properties" in spec:
        return f"{kind} with " + ", ".join(f"{name} ({in_words(inner)})" for name, inner in spec["properties"].items())
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
    if "items" in spec:
        schema["items"] = json_schema(spec["items"])
    if "enum" in spec:
        _list_values(schema, spec["enum"])
    if "properties" in spec:
        schema["properties"] = {k: json_schema(v) for k, v in spec["properties"].items()}
        schema["required"] = list(spec.get("required", ()))
        schema["additionalProperties"] = False
    return schema


def _list_values(schema: dict[str, Any], values: Sequence[Any]) -> None:
    """Restrict a schema to listed values.

    The live categories list strings for an array (its items are meant) and for a boolean or an integer ("True", "dontcare":
    what is listed is meant). Read by the letter, such a parameter would have no value at all.
    """
    if any(isinstance(value, _PYTHON[schema["type"]]) for value in values):
        schema["enum"] = values
    elif schema["type"] == "array":
        schema["items"] = {"enum": values}
    else:
        del schema["type"]
        schema["enum"] = values


def compact(value: Any) -> str:
    """JSON without spaces, as the constraint writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def parse(text: str) -> Any:
    """The JSON value that `text` is, None if it is none. NaN and Infinity are no JSON."""
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return None


def _not_json(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def data_folder() -> Path:
    """Where the installed package keeps its data. The package itself is never imported: it needs much else."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ExperimentError(
            f"The tasks bfcl and tools read their data from the package {PACKAGE}, which is not installed here. Install it with "
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
