"""How tool calls are written as JSON: the arguments of the one function, one call of several functions, several calls.

Each form has a schema, a way to write calls and a way to read them. With `reasoning`, an object that begins with a string
of a few words holds them: the same answers, after room to think.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from experiments.tasks.bfcl_data import compact, json_schema, parse

Content = Literal["arguments", "call", "calls"]

REASONING_CHARACTERS = 160


class Call(NamedTuple):
    """A call that was made."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Form:
    """What an answer holds.

    Attributes:
        content: "arguments": the arguments object of the only function; "call": ``{"name":...,"arguments":{...}}`` of one
            of the functions; "calls": an array of such calls.
        reasoning: whether a string ``"reasoning"`` of at most `REASONING_CHARACTERS` characters comes first. Arguments and
            calls are then members beside it, under these names.
    """

    content: Content
    reasoning: bool = False

    def schema(self, functions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The JSON Schema of answers that use these functions."""
        if self.content == "arguments":
            (function,) = functions
            content = json_schema(function["parameters"])
            return _closed({**_REASONING, "arguments": content}) if self.reasoning else content
        if self.content == "calls":
            content = {"type": "array", "items": _one_of(functions, {}), "minItems": 1}
            return _closed({**_REASONING, "calls": content}) if self.reasoning else content
        return _one_of(functions, _REASONING if self.reasoning else {})

    def write(self, calls: Sequence[Call], reasoning: str = "") -> str:
        """An answer as the constraint spells it. `reasoning` is left out where the form has none."""
        members: dict[str, Any] = {"reasoning": reasoning} if self.reasoning else {}
        if self.content == "calls":
            written = [{"name": call.name, "arguments": call.arguments} for call in calls]
            return compact({**members, "calls": written} if self.reasoning else written)
        (call,) = calls
        if self.content == "call":
            return compact({**members, "name": call.name, "arguments": call.arguments})
        return compact({**members, "arguments": call.arguments} if self.reasoning else call.arguments)

    def read(self, text: str, functions: Sequence[Mapping[str, Any]]) -> list[Call] | None:
        """The calls of any text, None if it is not of this form. Whether they fit the functions is not looked at."""
        value = parse(text)
        if self.reasoning:
            if not isinstance(value, dict) or not isinstance(value.pop("reasoning", None), str):
                return None
            if self.content != "call":
                if set(value) != {self.content}:
                    return None
                value = value[self.content]
        if self.content == "arguments":
            return [Call(functions[0]["name"], value)] if isinstance(value, dict) else None
        made = value if self.content == "calls" else [value]
        return [Call(item["name"], item["arguments"]) for item in made] if _are_calls(made) else None


_REASONING: dict[str, Any] = {"reasoning": {"type": "string", "maxLength": REASONING_CHARACTERS}}


def _one_of(functions: Sequence[Mapping[str, Any]], first: Mapping[str, Any]) -> dict[str, Any]:
    """One call of one of the functions; the members `first` come before."""
    schemas = [
        _closed({**first, "name": {"const": f["name"]}, "arguments": json_schema(f["parameters"])}) for f in functions
    ]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _are_calls(values: Any) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, dict)
        and set(value) == {"name", "arguments"}
        and isinstance(value["name"], str)
        and isinstance(value["arguments"], dict)
        for value in values
    )
