"""The date task: well-formed questions with right answers."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest

from experiments.tasks import build_task
from experiments.tasks.dates import ISO_DATE, QUESTIONS, DatesTask


def test_every_reference_is_a_date_of_the_language() -> None:
    instances = DatesTask().instances()
    assert len(instances) == len({instance.id for instance in instances}) >= 24
    assert len({instance.display for instance in instances}) == len(instances)
    for instance in instances:
        assert instance.reference is not None
        assert re.fullmatch(ISO_DATE, instance.reference), instance.id
        assert 2020 <= date.fromisoformat(instance.reference).year <= 2024
        assert instance.reference not in instance.display, "the answer must not be in the question"


def test_the_language_has_the_promised_size() -> None:
    dates = [f"{y}-{m:02}-{d:02}" for y in range(2019, 2026) for m in range(14) for d in range(33)]
    assert sum(re.fullmatch(ISO_DATE, text) is not None for text in dates) == 5 * 12 * 31 == 1860


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("day_before_leap", date(2024, 3, 1) - timedelta(days=1)),
        ("week_after", date(2021, 12, 28) + timedelta(weeks=1)),
        ("last_of_february", date(2023, 3, 1) - timedelta(days=1)),
        ("invoice_due", date(2024, 4, 1) + timedelta(days=30)),
        ("meeting_moved", date(2023, 6, 12) + timedelta(days=1)),
        ("ten_days_before", date(2021, 1, 5) - timedelta(days=10)),
        ("month_end_sum", date(2022, 6, 29) + timedelta(days=2)),
    ],
)
def test_sums(key: str, answer: date) -> None:
    assert {k: reference for k, _, reference in QUESTIONS}[key] == answer.isoformat()


def test_weekdays_named_in_the_questions() -> None:
    assert date(2023, 6, 12).strftime("%A") == "Monday"
    assert date(2024, 2, 6).strftime("%a") == "Tue"
    assert date(2022, 7, 30).strftime("%A") == "Saturday"


def test_scores_and_limit() -> None:
    task = build_task("dates", {"max_tokens": 12})
    first, second = task.instances(2)
    assert task.exact
    assert task.max_tokens == 12
    assert task.score(first, "2022-11-14") == 1.0
    assert task.score(first, "2022-11-15") == 0.0
    assert task.score(second, "2022-11-14") == 0.0
    assert [instance.id for instance in task.instances()][:2] == [first.id, second.id]


def test_places_and_revision() -> None:
    task = DatesTask()
    (instance,) = task.instances(1)
    assert task.places(instance, "2022-11-14") == [(0, "year"), (5, "month"), (8, "day")]
    assert task.places(instance, "14 November") is None
    assert re.fullmatch("[0-9a-f]{10}", task.revision)
