"""The task of information extraction: its texts, its schemas, how fields are counted, and what only a potential can check."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest

from experiments.tasks import build_task
from experiments.tasks.extract import KINDS, Document, ExtractTask, Kind, compact, documents, read_object
from experiments.tasks.extract_fields import count_leaves, field_score, same_leaf
from smc import SMCSampler, TableModel
from smc.constraints.crosscheck import BYTES, leads_through

TASK = ExtractTask()
INSTANCES = {instance.id: instance for instance in TASK.instances()}
Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every leaf with the keys and indices that lead to it."""
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from leaves(part, (*path, key))
    else:
        yield path, value


def changed(value: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """A copy with one leaf changed."""
    whole = copy.deepcopy(value)
    parent = whole
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = change(parent[path[-1]])
    return whole


def wrong(leaf: Any) -> Any:
    return leaf + 1 if isinstance(leaf, int) else leaf + "x"


def score(key: str, answer: Any) -> float:
    return TASK.score(INSTANCES[key], answer if isinstance(answer, str) else compact(answer))


def measured(key: str, answer: Any) -> dict[str, float]:
    return dict(TASK.measures(INSTANCES[key], compact(answer)))


# --- the data


def test_there_are_enough_texts_of_each_kind_in_turn() -> None:
    assert len(documents()) >= 60
    assert min(Counter(document.kind.name for document in documents().values()).values()) >= 20
    assert list(INSTANCES) == list(documents())
    assert [instance.id for instance in TASK.instances(4)] == ["order_01", "address_01", "review_01", "order_02"]
    assert len({document.text for document in documents().values()}) == len(documents())


@pytest.mark.parametrize(("key", "document"), documents().items(), ids=documents())
def test_every_text_says_what_its_gold_says(key: str, document: Document) -> None:
    assert 24 <= len(document.text.split()) <= 60
    text = document.text.casefold()
    for path, leaf in leaves(document.gold):
        if isinstance(leaf, str):
            assert leaf.casefold() in text, path
    instance = INSTANCES[key]
    assert instance.reference == compact(document.gold)
    jsonschema.validate(document.gold, document.kind.model.model_json_schema())
    assert TASK.score(instance, instance.reference) == 1.0
    assert TASK.measures(instance, instance.reference) == {"all_right": 1.0, "consistent": 1.0}
    compiled = instance.constraint.compile(BYTES)
    assert leads_through(compiled, instance.reference.encode())
    assert compiled.accepts(instance.reference.encode())


@pytest.mark.parametrize(("key", "document"), documents().items(), ids=documents())
def test_each_wrong_or_missing_field_lowers_the_score_by_its_share(key: str, document: Document) -> None:
    total = count_leaves(document.gold)
    assert total == len(list(leaves(document.gold)))
    for path, _ in leaves(document.gold):
        assert score(key, changed(document.gold, path, wrong)) == pytest.approx(1 - 1 / total)
    name = next(iter(document.gold))
    without = {field: value for field, value in document.gold.items() if field != name}
    assert score(key, without) == pytest.approx(2 * (total - 1) / (2 * total - 1))
    assert score(key, document.gold | {"extra": 1}) == pytest.approx(2 * total / (2 * total + 1))
    assert measured(key, without)["all_right"] == 0.0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_worked_example_is_consistent_and_no_instance(kind: Kind) -> None:
    text, facts = kind.example
    kind.consistent.model_validate(facts)
    assert text not in {document.text for document in documents().values()}
    prompt = INSTANCES[f"{kind.name}_01"].prompt
    assert [message["role"] for message in prompt] == ["system", "user", "assistant", "user"]
    assert prompt[2]["content"] == compact(facts)


def test_the_revision_is_a_short_hash() -> None:
    assert len(TASK.revision) == 10
    assert TASK.revision == ExtractTask(bounds=True).revision


# --- counting fields


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ({"a": 1}, {"a": 1}, 1.0),
        ({"a": " Ann "}, {"a": "ann"}, 1.0),
        ({"a": 1.0}, {"a": 1}, 1.0),
        ({"a": True}, {"a": 1}, 0.0),
        ({"a": "1"}, {"a": 1}, 0.0),
        ({"a": None}, {"a": None}, 1.0),
        ({"b": 1}, {"a": 1}, 0.0),
        ({"a": [1]}, {"a": 1}, 0.0),
        ({"a": [2, 1]}, {"a": [1, 2]}, 1.0),
        ({"a": [1, 1]}, {"a": [1]}, 2 / 3),
        ({"a": []}, {"a": [1]}, 0.0),
        ({"a": [{"b": 1, "c": 2}, {"b": 3, "c": 4}]}, {"a": [{"b": 3, "c": 4}, {"b": 1, "c": 5}]}, 3 / 4),
        # pairing the first elements would leave one leaf right, the best pairing two
        ({"a": [{"b": 1, "c": 9}, {"b": 7, "c": 7}]}, {"a": [{"b": 7, "c": 9}, {"b": 1, "c": 8}]}, 1 / 2),
        ({}, {"a": 1}, 0.0),
        ({}, {}, 1.0),
    ],
)
def test_field_score(answer: Any, gold: Any, right: float) -> None:
    assert field_score(answer, gold) == pytest.approx(right)


def test_not_a_number_equals_nothing() -> None:
    assert not same_leaf(math.nan, math.nan)


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "3", '{"customer":', "{" * 3000, "[" * 100_000, "\udcff"])
def test_what_is_no_object_is_wrong_and_no_error(text: str) -> None:
    assert read_object(text) is None
    assert score("order_01", text) == 0.0
    assert TASK.measures(INSTANCES["order_01"], text) == {"all_right": 0.0, "consistent": 0.0}


def test_an_object_nested_deeply_is_scored() -> None:
    assert score("order_01", '{"a":' * 400 + "1" + "}" * 400) == 0.0


# --- bounds


def test_no_schema_says_what_the_consistent_models_check() -> None:
    for kind in KINDS:
        plain, consistent = kind.model.model_json_schema(), kind.consistent.model_json_schema()
        for schema in (plain, consistent):
            schema.pop("title")
            schema.pop("description")
        assert plain == consistent


@pytest.mark.parametrize(
    ("key", "path", "value"),
    [
        ("order_01", ("total",), 31),
        ("order_03", ("items", 1, "quantity"), 5),
        ("address_01", ("closes",), 9),
        ("address_01", ("closes",), 8),
        ("review_01", ("overall",), 3),
        ("review_01", ("overall",), 5),
        ("review_01", ("ratings", 1, "aspect"), "food"),
    ],
)
def test_values_that_contradict_each_other_fit_the_schema_and_are_not_consistent(
    key: str, path: Path, value: Any
) -> None:
    answer = changed(documents()[key].gold, path, lambda _: value)
    jsonschema.validate(answer, documents()[key].kind.model.model_json_schema())
    found = measured(key, answer)
    assert found["all_right"] == 0.0
    # 5 and 3 stars make 4; 3 and 5 are off by one
    assert found["consistent"] == 0.0


def test_a_mean_may_be_rounded_up_or_down() -> None:
    gold = dict(documents()["review_14"].gold)  # 5 and 4 stars
    assert measured("review_14", gold | {"overall": 5})["consistent"] == 1.0
    assert measured("review_14", gold | {"overall": 4})["consistent"] == 1.0
    assert measured("review_14", gold | {"overall": 3})["consistent"] == 0.0


def test_only_the_task_with_bounds_has_potentials() -> None:
    bounded = build_task("extract", {"bounds": True}).instances()
    assert all(len(instance.potentials) == 1 for instance in bounded)
    assert all(instance.potentials == () for instance in INSTANCES.values())
    assert [instance.constraint for instance in bounded] == [instance.constraint for instance in INSTANCES.values()]


def test_the_posterior_under_bounds_holds_only_sums_that_add_up() -> None:
    """Two totals, .8 and .2, of which the likelier one is not the sum."""
    reference = INSTANCES["order_01"].reference
    assert reference is not None
    head, total = reference.rsplit("30", 1)
    printable = [chr(code) for code in range(32, 127)]
    vocab = [head, f"31{total}", f"30{total}", *printable, "<eos>"]

    def next_probs(prefix: tuple[str, ...]) -> dict[str, float]:
        steps = {0: {vocab[0]: 1.0}, 1: {vocab[1]: 0.8, vocab[2]: 0.2}}
        return steps.get(len(prefix), {"<eos>": 1.0})

    model = TableModel(vocab=vocab, eos="<eos>", next_probs=next_probs)
    found = {}
    for bounds in (False, True):
        instance = ExtractTask(bounds=bounds).instances(1)[0]
        sampler = SMCSampler(model, instance.constraint, n_particles=4, potentials=instance.potentials, max_tokens=4)
        found[bounds] = sampler.run("")
    assert found[False].posterior() == pytest.approx({f"{head}31{total}": 0.8, reference: 0.2})
    assert found[True].posterior() == {reference: 1.0}
    assert found[True].log_evidence == pytest.approx(math.log(0.2))
    assert json.loads(found[True].best().text)["total"] == 30
