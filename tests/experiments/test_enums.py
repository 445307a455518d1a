"""The classification task: labels that share beginnings, one right label a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations

import pytest

from experiments.tasks import build_task
from experiments.tasks.enums import KINDS, EnumsTask, Kind
from smc import TableModel
from smc.exact import enumerate_posterior


def test_every_text_has_one_of_its_labels() -> None:
    task = EnumsTask()
    instances = task.instances()
    assert len(instances) == len({i.id for i in instances}) == len({i.display for i in instances}) == 35
    for instance in instances:
        assert instance.reference in instance.constraint.options
        assert [task.score(instance, label) for label in instance.constraint.options].count(1.0) == 1
        assert task.score(instance, f"{instance.reference} ") == 0.0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_labels_share_beginnings_and_are_used(kind: Kind) -> None:
    shared = [(a, b) for a, b in combinations(kind.labels, 2) if a.split()[0].strip(",:") == b.split()[0].strip(",:")]
    assert len(shared) >= 2
    assert len(set(kind.labels)) == len(kind.labels)
    assert len({label for _, label in kind.texts}) >= 5
    assert kind.example[1] in kind.labels
    assert kind.example[0] not in [text for text, _ in kind.texts]


def test_the_prompt_shows_text_question_and_labels() -> None:
    first = EnumsTask().instances(1)[0]
    assert [message["role"] for message in first.prompt] == ["system", "user", "assistant", "user"]
    asked = first.prompt[-1]["content"]
    assert "Best concert of my life" in asked
    assert all(label in asked for label in first.constraint.options)
    assert str(first.reference) != first.prompt[2]["content"]


def test_limit_meets_every_kind() -> None:
    task = build_task("enums", {"name": "labels", "max_tokens": 9})
    assert (task.name, task.max_tokens, task.exact) == ("labels", 9, True)
    assert [i.id for i in task.instances(5)] == [f"{kind.name}_1" for kind in KINDS]


def test_masking_settles_on_a_shared_beginning() -> None:
    """A model sure of "card" and then of a label that does not exist: what masking gives to the cards is not theirs."""
    instance = next(i for i in EnumsTask().instances() if i.id == "intent_1")
    table: dict[tuple[str, ...], Mapping[str, float]] = {
        (): {"card ": 0.8, "sent late": 0.2},
        ("card ",): {"eaten": 0.9, "stolen": 0.1},
    }
    model = TableModel(
        vocab=["card ", "sent late", "eaten", "stolen", "</s>"],
        eos="</s>",
        next_probs=lambda prefix: table.get(prefix, {"</s>": 1.0}),
    )
    posterior = enumerate_posterior(model, instance.constraint, "", max_tokens=3)
    masked = {sequence.text: sequence.log_q for sequence in posterior.sequences}
    assert posterior.posterior() == pytest.approx({"card stolen": 0.08 / 0.28, "sent late": 0.2 / 0.28})
    assert masked["card stolen"] > masked["sent late"]


def test_revision_is_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    before = EnumsTask().revision
    assert re.fullmatch("[0-9a-f]{10}", before)
    monkeypatch.setattr("experiments.tasks.enums.KINDS", KINDS[1:])
    assert EnumsTask().revision != before
