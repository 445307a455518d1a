"""The files of the Berkeley function-calling set, read from the installed package `bfcl_eval`, and its types as JSON Schema."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.errors import ExperimentError

PACKAGE, VERSION = "bfcl_eval", "2026.3.23"

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


def read(category: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each row of a category in the set's order, with its one accepted call {function name: {parameter: accepted values}}.

    Raises ExperimentError if the data package is missing or does not hold the files.
    """
    folder = data_folder()
    answers = {row["id"]: row for row in _read_lines(folder / "possible_answer" / f"BFCL_v4_{category}.json")}
    for row in _read_lines(folder / f"BFCL_v4_{category}.json"):
        (truth,) = answers[row["id"]]["ground_truth"]
        yield row, truth


def in_words(spec: Mapping[str, Any]) -> str:
    """The type of a parameter in words."""
    if "enum" in spec:
        return f"one of {', '.join(map(compact, spec['enum']))}"
    kind = JSON_TYPES.get(spec["type"], spec["type"])
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
