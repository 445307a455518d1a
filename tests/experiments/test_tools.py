"""The task of several tools or prose."""

from __future__ import annotations

import importlib.util
import json

import pytest

from experiments.bench.tool_calls import Row, page, probability_of_calling
from experiments.tasks import build_task
from experiments.tasks.tools import EXAMPLES, ToolsTask, load
from smc import SMCSampler, TableModel, ToolCalls

pytestmark = pytest.mark.skipif(importlib.util.find_spec("bfcl_eval") is None, reason="bfcl_eval is not installed")


def test_the_first_accepted_call_is_right_and_prose_is_wrong() -> None:
    task = ToolsTask()
    assert len(load()) == 1053
    instances = task.instances(100)
    assert len(instances) == len({instance.id for instance in instances}) == 100
    wrong = [i.id for i in instances if i.reference is None or task.score(i, i.reference) != 1.0]
    assert wrong == ["live_multiple_87-38-4"]  # accepted values that are not of the type that the function declares
    first = instances[0]
    assert task.score(first, "You are welcome!") == 0.0
    assert task.score(first, "<tool_call>") == 0.0
    assert task.score(first, str(first.reference) * 2) == 0.0
    assert task.score(first, str(first.reference).replace("ChaDri.change_drink", "ChaFod")) == 0.0


def test_limit_and_options() -> None:
    task = build_task("tools", {"max_tokens": 10})
    assert [i.id for i in task.instances(2)] == list(load())[:2]
    assert (task.max_tokens, task.exact) == (10, False)


def test_the_examples_are_in_the_language_that_they_show() -> None:
    for functions, _, answer in EXAMPLES:
        names = [function["name"] for function in functions]
        written = json.loads(answer.removeprefix("<tool_call>").removesuffix("</tool_call>"))
        assert written["name"] in names


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
    text = page([row, row], 64)
    assert "60 / 100" in text
    assert "p = " in text
