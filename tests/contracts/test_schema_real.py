"""Schemas as they are found in the wild compile, and are told apart by how well they can be enforced."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from constraint_tools import BYTES

from experiments.bench.schemas import Row, measure, measure_within, sources, table

SMALL = ("changie.json", "dependabot.json", "github-actions.json", "github-discussion.json", "readthedocs.json")
LARGER = ("meltano.json", "github-workflows.json")


@pytest.mark.parametrize("name", SMALL + LARGER)
def test_they_compile_quickly_and_lose_no_value(name: str) -> None:
    row = measure(name, sources()[name], BYTES)
    assert row.outcome in ("exact", "repaired")
    assert row.values_lost == 0
    assert row.seconds < 10


def test_a_reference_to_elsewhere_is_refused_with_a_reason() -> None:
    row = measure("drone-ci.json", sources()["drone-ci.json"], BYTES)
    assert row.outcome == "refused"
    assert "never fetched" in row.reason


def test_what_takes_too_long_is_stopped_and_refused() -> None:
    began = time.perf_counter()
    row = measure_within(0.2, "renovate.json", sources()["renovate.json"], BYTES)
    assert time.perf_counter() - began < 5
    assert (row.outcome, row.seconds, row.reason) == ("refused", 0.2, "took more than 0.2 s")


def test_what_is_done_in_time_is_measured_as_ever() -> None:
    schema = json.dumps({"type": "string", "not": {"const": "a"}})
    here, there = measure("a", schema, BYTES), measure_within(60, "a", schema, BYTES)
    assert replace(there, seconds=0) == replace(here, seconds=0)


def test_the_table_counts_outcomes() -> None:
    rows = [measure("a", json.dumps(s), BYTES) for s in ({"type": "null"}, {"not": {"const": 1}}, False)]
    assert [row.outcome for row in rows] == ["exact", "repaired", "refused"]
    assert "3 schemas: 1 exact, 1 repaired, 0 narrowed, 1 refused." in table(rows)
    assert isinstance(rows[0], Row)
