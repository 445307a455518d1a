"""What the model is shown of functions: in plain words, with worked examples of our own making.

Without the examples a small model writes prose, and nearly all of its mass is lost to the first brace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.tasks.bfcl_data import in_words
from experiments.tasks.bfcl_forms import Call, Content, Form

_ANSWER: dict[Content, str] = {
    "arguments": "You turn a request into a function call. Answer with the arguments of the function only, as one compact "
    "JSON object.",
    "call": "You turn a request into a call of one of the functions. Answer with its name and its arguments only, as one "
    "compact JSON object.",
    "calls": "You turn a request into function calls. Answer with the list of all calls that the request needs, each with "
    "name and arguments, as one compact JSON array.",
}
_REASONING = ' Say in a few words under "reasoning" which values the request gives, then answer.'
_OPTIONAL = " Leave out optional parameters that the request does not mention."


def _function(name: str, description: str, required: Sequence[str], **parameters: tuple[str, str]) -> dict[str, Any]:
    """A function as the set describes one; each parameter is (type, description)."""
    return {
        "name": name,
        "description": description,
        "parameters": {
            "type": "dict",
            "properties": {key.rstrip("_"): {"type": t, "description": text} for key, (t, text) in parameters.items()},
            "required": list(required),
        },
    }


WEATHER = _function(
    "get_weather",
    "Get the weather forecast of a city.",
    ["city"],
    city=("string", "The city."),
    days=("integer", "How many days."),
)
CURRENCY = _function(
    "convert_currency",
    "Convert an amount of money.",
    ["amount", "from", "to"],
    amount=("integer", "The amount."),
    from_=("string", "Source currency."),
    to=("string", "Target currency."),
)
TIMER = _function(
    "set_timer",
    "Set a kitchen timer.",
    ["minutes"],
    minutes=("integer", "How long."),
    label=("string", "A name for the timer."),
)


@dataclass(frozen=True)
class Example:
    """A turn that shows the form: functions, a request, the reasoning and the calls that answer it."""

    functions: tuple[Mapping[str, Any], ...]
    request: str
    reasoning: str
    calls: tuple[Call, ...]


_PARIS = Example(
    (WEATHER,),
    "What will the weather be like in Paris for the next 3 days?",
    "The city is Paris, the days are 3.",
    (Call("get_weather", {"city": "Paris", "days": 3}),),
)
_EUROS = Example(
    (CURRENCY,),
    "How much are 250 US dollars in euros?",
    "The amount is 250, from USD to EUR.",
    (Call("convert_currency", {"amount": 250, "from": "USD", "to": "EUR"}),),
)
_KITCHEN = Example(
    (TIMER,),
    "Set a timer for 12 minutes.",
    "The minutes are 12, no label is given.",
    (Call("set_timer", {"minutes": 12}),),
)

EXAMPLES: dict[Content, tuple[Example, ...]] = {
    "arguments": (_PARIS, _EUROS, _KITCHEN),
    "call": (
        Example((WEATHER, TIMER), _PARIS.request, "It asks for the weather in Paris for 3 days.", _PARIS.calls),
        Example((CURRENCY, WEATHER), _EUROS.request, "It asks to convert 250 USD to EUR.", _EUROS.calls),
        Example((WEATHER, TIMER), _KITCHEN.request, "It asks for a timer of 12 minutes.", _KITCHEN.calls),
    ),
    "calls": (
        Example(
            (WEATHER,),
            "What will the weather be like in Paris and in Rome tomorrow?",
            "Two cities, Paris and Rome, 1 day each.",
            (Call("get_weather", {"city": "Paris", "days": 1}), Call("get_weather", {"city": "Rome", "days": 1})),
        ),
        Example(
            (CURRENCY, TIMER),
            "How much are 250 US dollars in euros? And set timers for 5, 8 and 12 minutes.",
            "One conversion of 250 USD to EUR, three timers: 5, 8 and 12 minutes.",
            (*_EUROS.calls, *(Call("set_timer", {"minutes": minutes}) for minutes in (5, 8, 12))),
        ),
        Example(
            (TIMER, WEATHER),
            "Set a timer called tea for 4 minutes and tell me the weather in Oslo for 2 days.",
            "A timer of 4 minutes with the label tea, the weather in Oslo for 2 days.",
            (Call("set_timer", {"minutes": 4, "label": "tea"}), Call("get_weather", {"city": "Oslo", "days": 2})),
        ),
    ),
}


def prompt(form: Form, functions: Sequence[Mapping[str, Any]], question: str) -> list[dict[str, str]]:
    """Chat messages: what to do, three worked examples, then the functions and the request."""
    system = _ANSWER[form.content] + (_REASONING if form.reasoning else "") + _OPTIONAL
    messages = [{"role": "system", "content": system}]
    for example in EXAMPLES[form.content]:
        messages += [
            {"role": "user", "content": request(example.functions, example.request)},
            {"role": "assistant", "content": form.write(example.calls, example.reasoning)},
        ]
    return [*messages, {"role": "user", "content": request(functions, question)}]


def request(functions: Sequence[Mapping[str, Any]], question: str) -> str:
    """Functions in plain words, one parameter a line, and the user's question.

    A single function is described in full; of several only the first sentence and the types are shown, because a small
    model reads a short prompt better.
    """
    brief = len(functions) > 1
    lines = (line for function in functions for line in _described(function, brief))
    return "\n".join([*lines, f"Request: {question}"])


def first_sentence(text: str) -> str:
    """Descriptions of the set run to paragraphs."""
    return text.split(". ")[0].rstrip(".").strip() + "."


def _described(function: Mapping[str, Any], brief: bool) -> list[str]:
    parameters, description = function["parameters"], function["description"]
    lines = [f"Function {function['name']}: {first_sentence(description) if brief else description}"]
    for name, spec in parameters["properties"].items():
        optional = "" if name in parameters.get("required", ()) else ", optional"
        lines.append(f"- {name} ({in_words(spec)}{optional})" + ("" if brief else f": {spec.get('description', '')}"))
    return lines
