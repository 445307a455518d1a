"""The tool-call task: the schemas, the prompts, and the scorer against the benchmark's own checker."""

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

import jsonschema
import pytest

from experiments.errors import ExperimentError
from experiments.tasks import bfcl, build_task
from experiments.tasks.bfcl import BfclTask, load
from experiments.tasks.bfcl_answers import call_is_right, first_accepted
from experiments.tasks.bfcl_data import compact, json_schema, parse_object

pytestmark = pytest.mark.skipif(importlib.util.find_spec("bfcl_eval") is None, reason="bfcl_eval is not installed")


def entries() -> list[bfcl.Entry]:
    return list(load("simple_python").values())


def test_the_first_accepted_answer_of_every_entry_is_right_and_valid() -> None:
    task = BfclTask()
    instances = task.instances()
    assert len(instances) == len({instance.id for instance in instances}) == 400
    for instance, entry in zip(instances, entries(), strict=True):
        assert instance.reference is not None
        assert task.score(instance, instance.reference) == 1.0, instance.id
        schema = json_schema(entry.function["parameters"])
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(json.loads(instance.reference), schema)


def test_the_grammar_engine_accepts_every_reference() -> None:
    xgrammar = pytest.importorskip("xgrammar")
    testing = pytest.importorskip("xgrammar.testing")
    for instance, entry in zip(BfclTask().instances(60), entries(), strict=False):
        schema = json.dumps(json_schema(entry.function["parameters"]))
        grammar = xgrammar.Grammar.from_json_schema(schema, any_whitespace=False, separators=(",", ":"))
        assert testing._is_grammar_accept_string(grammar, instance.reference), instance.id


def test_schema_conversion() -> None:
    spec = {
        "type": "dict",
        "properties": {
            "size": {"type": "float", "description": "in m", "default": 1.0, "optional": True},
            "pair": {"type": "tuple", "items": {"type": "integer"}},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "data": {"type": "any"},
            "free": {"type": "dict", "description": "anything"},
            "rows": {"type": "array", "items": {"type": "dict", "properties": {"n": {"type": "boolean"}}}},
        },
        "required": ["mode"],
    }
    assert json_schema(spec) == {
        "type": "object",
        "properties": {
            "size": {"type": "number"},
            "pair": {"type": "array", "items": {"type": "integer"}},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "data": {"type": "string"},
            "free": {"type": "object"},
            "rows": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"n": {"type": "boolean"}},
                    "required": [],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["mode"],
        "additionalProperties": False,
    }
    with pytest.raises(ExperimentError, match="'HashMap'"):
        json_schema({"type": "HashMap"})


def test_the_prompt_shows_function_and_question() -> None:
    (instance,) = BfclTask().instances(1)
    assert [message["role"] for message in instance.prompt] == ["system", *["user", "assistant"] * 3, "user"]
    last = instance.prompt[-1]["content"]
    assert last.startswith("Function calculate_triangle_area: ")
    assert "- base (integer): The base of the triangle." in last
    assert "- unit (string, optional): " in last
    assert last.endswith(f"Request: {instance.display}")
    assert instance.reference == '{"base":10,"height":5,"unit":"units"}'


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('{"base":10,"height":5}', 1.0),
        ('{"height": 5, "base": 10}', 1.0),
        ('{"base":10,"height":5,"unit":"UNITS."}', 1.0),
        ('{"base":10,"height":5,"unit":"metres"}', 0.0),
        ('{"base":10.0,"height":5}', 0.0),
        ('{"base":"10","height":5}', 0.0),
        ('{"base":true,"height":5}', 0.0),
        ('{"base":10}', 0.0),
        ('{"base":10,"height":5,"depth":1}', 0.0),
        ('{"base":10,"height":', 0.0),
        ("[10,5]", 0.0),
        ('{"base":NaN,"height":5}', 0.0),
        ('{"base":' + "1" * 5000 + ',"height":5}', 0.0),
        ("[" * 100_000, 0.0),
        ("", 0.0),
    ],
)
def test_scores(text: str, score: float) -> None:
    task = BfclTask()
    (instance,) = task.instances(1)
    assert task.score(instance, text) == score


def test_an_integer_stands_for_a_float_unless_it_is_too_large() -> None:
    parameters = {"type": "dict", "properties": {"x": {"type": "float"}}, "required": ["x"]}
    assert call_is_right(parameters, {"x": [5.0]}, {"x": 5})
    assert not call_is_right(parameters, {"x": [5.0]}, {"x": 10**400})
    assert not call_is_right(parameters, {"x": [1.0]}, {"x": True})


def test_parse_object() -> None:
    assert parse_object('{"a":1}') == {"a": 1}
    assert parse_object("3") is None
    assert parse_object("{") is None
    assert parse_object('{"a":Infinity}') is None


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


def some_accepted(entry: bfcl.Entry, rng: random.Random) -> dict[str, Any]:
    """Arguments with a random accepted value each."""
    shuffled = copy.deepcopy(dict(entry.accepted))
    for values in shuffled.values():
        rng.shuffle(values)
    return first_accepted(entry.function["parameters"], shuffled)


def answers(entry: bfcl.Entry, rng: random.Random, n: int) -> list[dict[str, Any]]:
    made = []
    for _ in range(n):
        arguments = some_accepted(entry, rng)
        for _ in range(rng.choice([0, 1, 1, 2])):
            change = rng.random()
            if change < 0.15 and arguments:
                del arguments[rng.choice(list(arguments))]
            elif change < 0.25:
                name = rng.choice([*entry.function["parameters"]["properties"], "unknown"])
                arguments[name] = rng.choice(["", 0, 1.5, True, [], {}, "some text", [""], [{}]])
            elif arguments:
                name = rng.choice(list(arguments))
                arguments[name] = perturbed(arguments[name], rng)
        made.append(json.loads(compact(arguments)))
    return made


def test_scorer_agrees_with_the_benchmarks_checker(checker: Any) -> None:
    rng = random.Random(0)
    verdicts = {True: 0, False: 0}
    for entry in entries():
        name = entry.function["name"]
        for arguments in answers(entry, rng, 25):
            theirs = checker.ast_checker(
                [entry.function],
                [{name: copy.deepcopy(arguments)}],
                [{name: entry.accepted}],
                checker.Language.PYTHON,
                "simple_python",
                "any",
            )["valid"]
            ours = call_is_right(entry.function["parameters"], entry.accepted, arguments)
            assert ours == theirs, (entry.id, arguments, entry.accepted)
            verdicts[ours] += 1
    assert min(verdicts.values()) > 2000, verdicts


# Bad input


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    load.cache_clear()
    with pytest.raises(ExperimentError, match=r"not installed.*pip install --no-deps bfcl-eval=="):
        BfclTask().instances(1)


def test_unknown_category_and_task() -> None:
    with pytest.raises(ExperimentError, match=r"'parallel'.*simple_python"):
        BfclTask(category="parallel")
    with pytest.raises(ExperimentError, match=r"'nope'.*bfcl, dates"):
        build_task("nope")
