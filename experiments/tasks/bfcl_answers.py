"""When are tool calls right? The rules of the Berkeley function-calling set for Python calls.

Behaviour follows that benchmark's checker, its quirks included, so that accuracies can be compared: the tests
run both on the same answers. Each parameter has a list of accepted values, in which the empty string means that
the parameter may be left out. Types are compared exactly (True is not 1), but an int may stand for a float.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.tasks.bfcl_data import Entry
from experiments.tasks.bfcl_forms import Call

PYTHON_TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
OMITTED = ""
_IGNORED = re.compile(r"[ ,./\-_*^]")


def calls_are_right(entry: Entry, made: Sequence[Call]) -> bool:
    """Whether the benchmark accepts these calls: as many as it expects, in any order.

    Each expected call takes the first of the calls made that it accepts, as there, and no other assignment is tried.
    """
    expected = entry.calls or ()
    left = list(made)
    if len(left) != len(expected):
        return False
    for call in expected:
        parameters = entry.parameters(call.name)
        fitting = (
            place
            for place, (name, arguments) in enumerate(left)
            if name == call.name and call_is_right(parameters, call.values, arguments)
        )
        place = next(fitting, None)
        if place is None:
            return False
        del left[place]
    return True


def call_is_right(
    parameters: Mapping[str, Any], accepted: Mapping[str, Sequence[Any]], arguments: Mapping[str, Any]
) -> bool:
    """Whether the benchmark accepts these arguments.

    `parameters` is the function's own description of them, `accepted` the values it takes for each.
    """
    declared = parameters["properties"]
    if any(name not in arguments for name in parameters.get("required", ())):
        return False
    if any(name not in declared or name not in accepted for name in arguments):
        return False
    if any(name not in arguments and OMITTED not in values for name, values in accepted.items()):
        return False
    return all(_value_is_right(declared[name], accepted[name], value) for name, value in arguments.items())


def fold(value: Any) -> Any:
    """A string without spaces, punctuation and case, as the benchmark compares strings; other values as they are."""
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def _value_is_right(spec: Mapping[str, Any], accepted: Sequence[Any], value: Any) -> bool:
    expected = PYTHON_TYPES[spec["type"]]
    if expected is float and type(value) is int:
        try:
            value = float(value)
        except OverflowError:  # an integer of hundreds of digits
            return False
    item_type = PYTHON_TYPES[spec["items"]["type"]] if expected is list and "items" in spec else None

    # The set may accept a value of another type than declared (it means the name of a variable). Such values,
    # and every value of a parameter whose accepted values are of another type, are compared as they stand.
    answer_type = _answer_type(accepted)
    given: type = type(value)
    if given is not expected:
        return given is answer_type and value in accepted
    if item_type is not None and not any(_items_fit(item_type, answer, value) for answer in accepted):
        return False
    if answer_type not in (None, expected):
        return value in accepted

    if expected is dict:
        return any(_dict_is_right(answer, value) for answer in accepted)
    if item_type is dict:
        return any(_dicts_are_right(answer, value) for answer in accepted)
    if expected is str:
        return fold(value) in [fold(answer) for answer in accepted if isinstance(answer, str)]
    if expected is list:
        return [fold(item) for item in value] in [[fold(item) for item in answer] for answer in accepted]
    return value in accepted


def _answer_type(accepted: Sequence[Any]) -> type | None:
    """The type of the first accepted value that is not the mark of omission."""
    return next((type(answer) for answer in accepted if answer != OMITTED), None)


def _items_fit(item_type: type, answer: Any, value: list[Any]) -> bool:
    """Whether every item has the declared type, or that of the accepted list's items."""
    if not isinstance(answer, list):
        return True
    types = (item_type, _answer_type(answer))
    return all(type(item) in types for item in value)


def _dict_is_right(answer: Any, value: Mapping[str, Any]) -> bool:
    """`answer` maps each key to the list of its accepted values, like a call's parameters."""
    if answer == OMITTED:
        return False
    if any(key not in value and OMITTED not in values for key, values in answer.items()):
        return False
    return all(key in answer and fold(item) in [fold(a) for a in answer[key]] for key, item in value.items())


def _dicts_are_right(answer: Any, value: list[Any]) -> bool:
    return len(value) == len(answer) and all(map(_dict_is_right, answer, value))


def first_accepted(parameters: Mapping[str, Any], accepted: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The arguments that take the first accepted value of each parameter, in declared order.

    A parameter whose first accepted value is the mark of omission is left out, unless it is required.
    """
    required = parameters.get("required", ())
    arguments: dict[str, Any] = {}
    for name, spec in parameters["properties"].items():
        values = list(accepted.get(name) or (OMITTED,))
        if values[0] == OMITTED and name in required:
            values = [value for value in values if value != OMITTED] or values
        if values[0] != OMITTED or (name in required and spec["type"] == "string"):
            arguments[name] = _first_value(spec, values[0])
    return arguments


def _first_value(spec: Mapping[str, Any], answer: Any) -> Any:
    """An accepted value as the model would write it: inside dicts each key's list gives its first entry."""
    if isinstance(answer, dict):
        first = {key: values[0] for key, values in answer.items() if values[0] != OMITTED}
        order = [key for key in spec.get("properties", {}) if key in first]
        return {key: first[key] for key in order + [key for key in first if key not in order]}
    if isinstance(answer, list) and "items" in spec:
        return [_first_value(spec["items"], item) for item in answer]
    return answer
