"""The task of several tools or prose."""

from __future__ import annotations

import importlib.util

import pytest

from experiments.bench.tool_calls import Row, Sizes, page, probability_of_calling
from experiments.errors import ExperimentError
from experiments.tasks import build_task
from experiments.tasks.bfcl_data import json_schema
from experiments.tasks.bfcl_forms import Call
from experiments.tasks.tools import EXAMPLES, ToolsTask, calls_in, entries, written
from smc import SMCSampler, TableModel, ToolCalls

pytestmark = pytest.mark.skipif(importlib.util.find_spec("bfcl_eval") is None, reason="bfcl_eval is not installed")


def test_the_first_accepted_call_is_right_and_prose_is_wrong() -> None:
    task = ToolsTask()
    assert len(entries("live_multiple")) == 1053
    instances = task.instances(30)
    assert len(instances) == len({instance.id for instance in instances}) == 30
    wrong = [i.id for i in instances if i.reference is None or task.score(i, i.reference) != 1.0]
    assert wrong == []
    drink = next(i for i in instances if "ChaFod" in i.prompt[-1]["content"])
    assert task.score(drink, "You are welcome!") == 0.0
    assert task.score(drink, "<tool_call>") == 0.0
    assert task.score(drink, str(drink.reference) * 2) == 0.0
    assert task.score(drink, f"{drink.reference}\n") == 1.0, "as in the benchmark, only the calls are looked at"
    assert task.score(drink, str(drink.reference).replace("ChaDri.change_drink", "ChaFod")) == 0.0


def test_entries_about_the_same_tools_share_one_constraint() -> None:
    """Checking the schemas of all 1,053 entries, one by one, would take most of a minute."""
    instances = ToolsTask().instances(60)
    assert len({id(i.constraint) for i in instances}) == len({str(i.constraint.tools) for i in instances}) < 60


def test_limit_and_options() -> None:
    task = build_task("tools", {"max_tokens": 10})
    assert [i.id for i in task.instances(2)] == list(entries("live_multiple"))[:2]
    assert (task.max_tokens, task.exact) == (10, False)
    assert task.revision.startswith("bfcl_eval ")
    with pytest.raises(ExperimentError, match=r"'parallel'.*live_multiple"):
        ToolsTask(category="parallel")


def test_the_examples_are_in_the_language_that_they_show() -> None:
    for functions, _, call in EXAMPLES:
        tools = ToolCalls([{"name": f["name"], "parameters": json_schema(f["parameters"])} for f in functions])
        assert tools.calls(written(call)) == [call]


# Whether to call at all

SIZES = {"irrelevance": 240, "live_irrelevance": 880, "live_relevance": 16, "mixed": 1933}
PROSE, CALL = "None of them helps.", '<tool_call>{"name":"f","arguments":{}}</tool_call>'


@pytest.mark.parametrize("category", SIZES)
def test_every_entry_is_an_instance_or_said_to_be_left_out(category: str) -> None:
    task = ToolsTask(category=category)
    assert len(entries(category)) == SIZES[category] + len(task.omitted)
    assert len(task.omitted) == (4 if category in ("live_irrelevance", "mixed") else 0)
    assert all("no function" in reason for reason in task.omitted.values())
    assert not set(task.omitted) & {instance.id for instance in task.instances(10)}


def test_requests_that_no_tool_helps_with_are_right_without_a_call() -> None:
    task = ToolsTask(category="irrelevance")
    (instance,) = task.instances(1)
    assert instance.reference is None
    assert task.score(instance, PROSE) == 1.0
    assert task.score(instance, CALL) == 0.0
    assert task.score(instance, "<tool_call>{") == 1.0, "what is not well formed is no call"
    assert task.measures(instance, CALL) == {"called": 1.0, "right_decision": 0.0}
    assert task.measures(instance, PROSE) == {"called": 0.0, "right_decision": 1.0}


def test_requests_that_some_tool_helps_with_are_right_with_any_call() -> None:
    task = ToolsTask(category="live_relevance")
    (instance,) = task.instances(1)
    assert task.score(instance, CALL) == 1.0
    assert task.score(instance, PROSE) == 0.0
    assert task.measures(instance, CALL) == {"called": 1.0, "right_decision": 1.0}


def test_mixed_asks_in_turn_for_calls_and_for_none() -> None:
    task = ToolsTask(category="mixed")
    instances = task.instances(6)
    assert [i.id.rsplit("_", 1)[0] for i in instances] == ["live_multiple", "live_irrelevance"] * 3
    decisions = [task.measures(i, i.reference or PROSE) for i in instances]
    assert [d["called"] for d in decisions] == [1.0, 0.0] * 3
    assert all(
        d["right_decision"] == task.score(i, i.reference or PROSE) == 1.0
        for d, i in zip(decisions, instances, strict=True)
    )
    wrong_arguments = '<tool_call>{"name":"f","arguments":{"x":1}}</tool_call>'
    assert task.measures(instances[0], wrong_arguments) == {"called": 1.0, "right_decision": 1.0}
    assert task.score(instances[0], wrong_arguments) == 0.0


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (CALL, [Call("f", {})]),
        (f"Sure: {CALL}", [Call("f", {})]),
        (CALL + CALL, [Call("f", {})] * 2),
        ("<tool_call></tool_call>", []),
        ("<tool_call>[1]</tool_call>", []),
        ('<tool_call>{"name":"f"}</tool_call>', []),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", []),
        ('{"name":"f","arguments":{}}', []),
    ],
)
def test_reading_calls_of_any_text(text: str, made: list[Call]) -> None:
    assert calls_in(text) == made


# The posterior


def test_the_probability_of_calling_is_that_of_the_posterior() -> None:
    """A model that says "no", calls, or tries to call and fails: P(call) is a ratio of the two that are valid."""
    call = '<tool_call>{"name":"f","arguments":{}}</tool_call>'
    table = {(): {"no": 0.3, call: 0.1, "<tool_call>": 0.6}, ("<tool_call>",): {"x": 1.0}}

    def next_probs(prefix: tuple[str, ...]) -> dict[str, float]:
        return table.get(prefix, {"</s>": 1.0})

    model = TableModel(vocab=["no", call, "<tool_call>", "x", "</s>"], eos="</s>", next_probs=next_probs)
    constraint = ToolCalls([{"name": "f"}], whitespace="compact", after="end")
    runs = [SMCSampler(model, constraint, max_tokens=4, seed=seed).run([]) for seed in range(3)]
    assert probability_of_calling(runs, constraint) == pytest.approx((0.25, 0.0), abs=1e-12)


def test_the_page_weighs_differences_by_both_errors() -> None:
    row = Row("i", -1.0, 0.5, 0.03, 100, 60, 0.9, 0.1)
    assert row.share_error == pytest.approx(0.05)
    assert row.z == pytest.approx(-0.1 / (0.03**2 + 0.05**2) ** 0.5)
    text = page([row, row], 64, Sizes())
    assert "60 / 100" in text
    assert "p = " in text
