"""The tool-call task: the schemas, the prompts, and the scorer against the benchmark's own checker."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jsonschema
import numpy as np
import pytest

from experiments.errors import ExperimentError
from experiments.tasks import build_task
from experiments.tasks.bfcl import CATEGORIES, BfclTask
from experiments.tasks.bfcl_answers import calls_are_right, first_accepted
from experiments.tasks.bfcl_data import WITHOUT_ANSWERS, Entry, json_schema, load, parse, revision
from experiments.tasks.bfcl_forms import REASONING_CHARACTERS, Call, Content, Form
from experiments.tasks.bfcl_prompts import EXAMPLES
from smc.constraints import unpack
from smc.vocabulary import Vocabulary

pytestmark = pytest.mark.skipif(importlib.util.find_spec("bfcl_eval") is None, reason="bfcl_eval is not installed")

SIZES = {
    "simple_python": 400,
    "multiple": 200,
    "parallel": 200,
    "parallel_multiple": 200,
    "live_simple": 258,
    "live_multiple": 1053,
    "live_parallel": 16,
    "live_parallel_multiple": 24,
}
# Rows that accept nothing that their own description allows, or nothing at all.
NEVER_RIGHT = {"live_simple_106-63-0", "live_simple_112-68-0", "live_multiple_862-181-3", "live_multiple_964-207-0"}
BYTES = Vocabulary((*(bytes([byte]) for byte in range(256)), b"</s>"), (256,), frozenset({256}))
FORMS = [Form(content, reasoning) for content in EXAMPLES for reasoning in (False, True)]


def entries(category: str = "simple_python") -> list[Entry]:
    return list(load(category).values())


def expected(entry: Entry) -> list[Call]:
    """The calls that a row expects, with the first accepted value of each parameter."""
    assert entry.calls is not None
    return [Call(call.name, first_accepted(entry.parameters(call.name), call.values)) for call in entry.calls]


def is_written(constraint: Any, text: str) -> bool:
    """Whether the mask lets every byte of the text pass, and the stop at its end."""
    rows = constraint.compile(BYTES).start()
    for byte in [*text.encode(), 256]:
        if not unpack(rows.allowed, len(BYTES))[0, byte]:
            return False
        if byte < 256:
            rows = rows.advance(np.array([0]), np.array([byte]))
    return True


# Every row


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_first_accepted_answer_of_every_row_is_right(category: str) -> None:
    form, wrong = Form(CATEGORIES[category]), set()
    assert len(load(category)) == SIZES[category]
    for entry in entries(category):
        calls = expected(entry)
        assert form.read(form.write(calls), entry.functions) == calls, entry.id
        if not calls_are_right(entry, calls):
            wrong.add(entry.id)
    assert wrong == {name for name in NEVER_RIGHT if name.rsplit("_", 1)[0] == category}


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_row_names_functions_of_its_own_once(category: str) -> None:
    for entry in entries(category):
        names = [function["name"] for function in entry.functions]
        assert len(names) == len(set(names))
        assert {call.name for call in entry.calls or ()} <= set(names)
        assert entry.calls
        if CATEGORIES[category] != "calls":
            assert len(entry.calls) == 1


# Schemas and masks


@pytest.mark.parametrize("reasoning", [False, True])
@pytest.mark.parametrize("category", CATEGORIES)
def test_masks_let_the_references_pass(category: str, reasoning: bool) -> None:
    task = BfclTask(category=category, reasoning=reasoning)
    for instance in task.instances(3):
        schema = instance.constraint.schema
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(json.loads(instance.reference or ""), schema)
        assert is_written(instance.constraint, instance.reference or ""), instance.id
        assert task.score(instance, instance.reference or "") == 1.0
        assert {note.scope for note in instance.constraint.notes if note.effect == "narrower"} <= {"spelling"}


def has_values(schema: dict[str, Any]) -> bool:
    """Whether a schema of the kind that `json_schema` makes describes any value."""
    if "enum" in schema:
        typed = {"type": schema["type"]} if "type" in schema else {}
        return any(jsonschema.Draft202012Validator(typed).is_valid(value) for value in schema["enum"])
    inner = schema.get("properties", {})
    return all(name in inner and has_values(inner[name]) for name in schema.get("required", ()))


@pytest.mark.parametrize("category", [*CATEGORIES, *WITHOUT_ANSWERS])
def test_every_function_of_every_row_can_be_called(category: str) -> None:
    """So no row is left out for its schema; not even optional parameters are without values."""

    def places(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield schema
        for inner in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
            yield from places(inner)

    distinct = {json.dumps(f["parameters"]): f["parameters"] for e in entries(category) for f in e.functions}
    assert distinct
    for parameters in distinct.values():
        schema = json_schema(parameters)
        assert schema["type"] == "object"
        assert all(map(has_values, places(schema))), parameters


def test_lists_of_values_that_contradict_the_type_are_read_as_what_they_mean() -> None:
    assert json_schema({"type": "array", "items": {"type": "string"}, "enum": ["a", "b"]}) == {
        "type": "array",
        "items": {"enum": ["a", "b"]},
    }
    assert json_schema({"type": "boolean", "enum": ["True", "dontcare"]}) == {"enum": ["True", "dontcare"]}
    assert json_schema({"type": "float", "enum": [1, 2.5]}) == {"type": "number", "enum": [1, 2.5]}
    assert not has_values({"type": "boolean", "enum": ["True", "dontcare"]})


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


# Forms


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_examples_are_in_the_language_that_they_show(form: Form) -> None:
    for example in EXAMPLES[form.content]:
        text = form.write(example.calls, example.reasoning)
        assert len(example.reasoning) <= REASONING_CHARACTERS
        jsonschema.validate(json.loads(text), form.schema(example.functions))
        assert form.read(text, example.functions) == list(example.calls)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("arguments", '{"reasoning":"r","arguments":{"a":1}}'),
        ("call", '{"reasoning":"r","name":"f","arguments":{"a":1}}'),
        ("calls", '{"reasoning":"r","calls":[{"name":"f","arguments":{"a":1}}]}'),
    ],
)
def test_reasoning_comes_first_and_does_not_count(content: Content, text: str) -> None:
    form, functions = Form(content, reasoning=True), [{"name": "f"}]
    calls = [Call("f", {"a": 1})]
    assert form.write(calls, "r") == text
    assert form.read(text, functions) == calls
    assert form.read(text.replace('"r"', '"something else"'), functions) == calls
    assert form.read(text.replace('"r"', "1"), functions) is None
    assert form.read(Form(content).write(calls), functions) is None
    assert form.read(text[:-1], functions) is None


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("arguments", "[1]"),
        ("call", '{"name":"f"}'),
        ("call", '{"name":1,"arguments":{}}'),
        ("call", '{"name":"f","arguments":{},"more":1}'),
        ("call", '[{"name":"f","arguments":{}}]'),
        ("calls", '{"name":"f","arguments":{}}'),
        ("calls", '[{"name":"f","arguments":[]}]'),
        ("calls", "nothing"),
    ],
)
def test_what_is_not_of_the_form_is_no_call(content: Content, text: str) -> None:
    assert Form(content).read(text, [{"name": "f"}]) is None


def test_reasoning_is_bounded() -> None:
    (instance,) = BfclTask(reasoning=True).instances(1)
    answer = '{"reasoning":"%s","arguments":{"base":10,"height":5}}'
    assert is_written(instance.constraint, answer % ("x" * REASONING_CHARACTERS))
    assert not is_written(instance.constraint, answer % ("x" * (REASONING_CHARACTERS + 1)))
    assert BfclTask(reasoning=True).score(instance, answer % "The base is 10.") == 1.0


# Prompts and order


def test_the_prompt_shows_function_and_question() -> None:
    (instance,) = BfclTask().instances(1)
    assert [message["role"] for message in instance.prompt] == ["system", *["user", "assistant"] * 3, "user"]
    last = instance.prompt[-1]["content"]
    assert last.startswith("Function calculate_triangle_area: ")
    assert "- base (integer): The base of the triangle." in last
    assert "- unit (string, optional): " in last
    assert last.endswith(f"Request: {instance.display}")
    assert instance.reference == '{"base":10,"height":5,"unit":"units"}'


def test_several_functions_are_shown_in_few_words() -> None:
    (instance,) = BfclTask(category="multiple").instances(1)
    last = instance.prompt[-1]["content"]
    assert last.count("Function ") == len(load("multiple")[instance.id].functions) == 2
    assert "- side1 (integer)\n" in last
    assert json.loads(instance.reference or "")["name"] == "triangle_properties.get"


def test_a_small_limit_meets_the_whole_set() -> None:
    numbers = [int(instance.id.rsplit("_", 1)[1]) for instance in BfclTask().instances(12)]
    quarters = Counter(number // 100 for number in numbers)
    assert set(quarters) == {0, 1, 2, 3}
    assert max(quarters.values()) <= 4
    assert [i.id for i in BfclTask().instances(5)] == [i.id for i in BfclTask().instances(12)][:5]


def test_instructions_of_a_system_belong_to_the_question() -> None:
    question = load("live_simple")["live_simple_59-28-0"].question
    assert question.startswith("System: You are an AI chatbot")
    assert question.endswith("User: What movies are playing today in Mumbai?")


# Scores


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


def test_parse() -> None:
    assert parse('{"a":1}') == {"a": 1}
    assert parse("3") == 3
    assert parse("{") is None
    assert parse('{"a":Infinity}') is None


# The data and bad input


def test_revision() -> None:
    assert BfclTask().revision == revision()
    assert revision().startswith("bfcl_eval 20")


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    load.cache_clear()
    with pytest.raises(ExperimentError, match=r"not installed.*pip install --no-deps bfcl-eval=="):
        BfclTask().instances(1)
    with pytest.raises(ExperimentError, match="not installed"):
        _ = BfclTask().revision


def test_unknown_category_and_task() -> None:
    with pytest.raises(ExperimentError, match=r"'simple_java'.*simple_python"):
        BfclTask(category="simple_java")
    with pytest.raises(ExperimentError, match=r"'nope'.*bfcl, "):
        build_task("nope")
