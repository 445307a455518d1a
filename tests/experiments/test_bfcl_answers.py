"""When tool calls are right: the scorer against the benchmark's own checker, in every category."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import random
import sys
import types
from collections import defaultdict
from typing import Any

import pytest

from experiments.tasks.bfcl import CATEGORIES
from experiments.tasks.bfcl_answers import call_is_right, calls_are_right, first_accepted
from experiments.tasks.bfcl_data import Entry, load
from experiments.tasks.bfcl_forms import Call

pytestmark = pytest.mark.skipif(importlib.util.find_spec("bfcl_eval") is None, reason="bfcl_eval is not installed")


def test_an_integer_stands_for_a_float_unless_it_is_too_large() -> None:
    parameters = {"type": "dict", "properties": {"x": {"type": "float"}}, "required": ["x"]}
    assert call_is_right(parameters, {"x": [5.0]}, {"x": 5})
    assert not call_is_right(parameters, {"x": [5.0]}, {"x": 10**400})
    assert not call_is_right(parameters, {"x": [1.0]}, {"x": True})


def test_calls_count_in_any_order_but_not_twice() -> None:
    entry = load("parallel")["parallel_0"]
    first, second = some_accepted(entry, random.Random(0))
    assert first.name == second.name
    assert calls_are_right(entry, [second, first])
    assert not calls_are_right(entry, [first])
    assert not calls_are_right(entry, [first, first])
    assert not calls_are_right(entry, [first, second, second])
    assert not calls_are_right(entry, [first, Call("another", second.arguments)])


# The benchmark's own checker


@pytest.fixture(scope="module")
def checker() -> Any:
    """The benchmark's checker. Its own imports need many packages, which only its other languages use."""
    package = "bfcl_eval"
    config = types.ModuleType(f"{package}.constants.model_config")
    config.MODEL_CONFIG_MAPPING = defaultdict(lambda: types.SimpleNamespace(underscore_to_dot=False))  # type: ignore[attr-defined]
    converters = f"{package}.eval_checker.ast_eval.type_convertor"
    java = types.ModuleType(f"{converters}.java_type_converter")
    java.java_type_converter = None  # type: ignore[attr-defined]
    script = types.ModuleType(f"{converters}.js_type_converter")
    script.js_type_converter = None  # type: ignore[attr-defined]
    before = dict(sys.modules)
    sys.modules.update({module.__name__: module for module in (config, java, script)})
    try:
        yield importlib.import_module(f"{package}.eval_checker.ast_eval.ast_checker")
    finally:
        for name in set(sys.modules) - set(before):
            if name.split(".")[0] == package:
                del sys.modules[name]


def perturbed(value: Any, rng: random.Random) -> Any:
    """A value near `value`: the same with another spelling, type, order or content."""
    if isinstance(value, bool):
        return rng.choice([not value, int(value), str(value)])
    if isinstance(value, int):
        return rng.choice([value + 1, float(value), str(value), -value, value == 1, [value]])
    if isinstance(value, float):
        return rng.choice([value + 0.5, int(value), str(value), value * 10])
    if isinstance(value, str):
        return rng.choice(
            [value.upper(), f" {value}.", value.replace(" ", "_"), value + "x", "", value[1:], 3, [value]]
        )
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        changed = [*value[:at], perturbed(value[at], rng), *value[at + 1 :]]
        return rng.choice([changed, changed, value[::-1], value[:-1], value + value[:1], [], str(value)])
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        changed = {**value, key: perturbed(value[key], rng)}
        return rng.choice([changed, changed, {k: v for k, v in value.items() if k != key}, {**value, "extra": 1}])
    return rng.choice([None, "x", 0, value])


def some_accepted(entry: Entry, rng: random.Random) -> list[Call]:
    """The expected calls with a random accepted value each."""
    calls = []
    for call in entry.calls or ():
        values = {name: rng.sample(accepted, len(accepted)) for name, accepted in call.values.items()}
        calls.append(Call(call.name, first_accepted(entry.parameters(call.name), values)))
    return calls


def changed(entry: Entry, call: Call, rng: random.Random) -> Call:
    """A call with one thing about it changed."""
    arguments = copy.deepcopy(dict(call.arguments))
    change = rng.random()
    if change < 0.15 and arguments:
        del arguments[rng.choice(list(arguments))]
    elif change < 0.25:
        name = rng.choice([*entry.parameters(call.name)["properties"], "unknown"])
        arguments[name] = rng.choice(["", 0, 1.5, True, [], {}, "some text", [""], [{}]])
    elif arguments:
        name = rng.choice(list(arguments))
        arguments[name] = perturbed(arguments[name], rng)
    return Call(call.name, arguments)


def answers(entry: Entry, rng: random.Random, n: int) -> list[list[Call]]:
    """Answers near the right ones: values, names, numbers and order of calls changed."""
    made = []
    for _ in range(n):
        calls = some_accepted(entry, rng)
        rng.shuffle(calls)
        for _ in range(rng.choice([0, 1, 1, 2])):
            at = rng.randrange(len(calls))
            calls[at] = changed(entry, calls[at], rng)
        if rng.random() < 0.1:
            calls = rng.choice([calls[1:], calls + calls[:1], [calls[0]] * len(calls)])
        if calls and rng.random() < 0.05:
            calls[0] = Call(rng.choice([f["name"] for f in entry.functions]), calls[0].arguments)
        made.append([Call(name, json.loads(json.dumps(arguments))) for name, arguments in calls])
    return made


@pytest.mark.parametrize("category", CATEGORIES)
def test_scorer_agrees_with_the_benchmarks_checker(checker: Any, category: str) -> None:
    rng = random.Random(0)
    verdicts = {True: 0, False: 0}
    rows = list(load(category).values())[:300]
    for entry in rows:
        truth = [{call.name: call.values} for call in entry.calls or ()]
        for made in answers(entry, rng, 2000 // len(rows)):
            theirs = checker.ast_checker(
                list(entry.functions),
                [{call.name: copy.deepcopy(call.arguments)} for call in made],
                truth,
                checker.Language.PYTHON,
                category,
                "any",
            )["valid"]
            ours = calls_are_right(entry, made)
            assert ours == theirs, (entry.id, made, truth)
            verdicts[ours] += 1
    assert min(verdicts.values()) > 300, verdicts
