"""Schemas as they are found in the wild compile, and are told apart by how well they can be enforced."""

from __future__ import annotations

import json

import pytest
from constraint_tools import BYTES

from experiments.bench.schemas import Row, measure, sources, table

SMALL = ("changie.json", "dependabot.json", "github-actions.json", "github-discussion.json", "readthedocs.json")


@pytest.mark.parametrize("name", SMALL)
def test_small_ones_compile_quickly_and_lose_no_value(name: str) -> None:
    row = measure(name, sources()[name], BYTES)
    assert row.outcome in ("exact", "repaired")
    assert row.values_lost == 0
    assert row.seconds < 10


def test_a_reference_to_elsewhere_is_refused_with_a_reason() -> None:
    row = measure("drone-ci.json", sources()["drone-ci.json"], BYTES)
    assert row.outcome == "refused"
    assert "never fetched" in row.reason


def test_the_table_counts_outcomes() -> None:
    rows = [measure("a", json.dumps(s), BYTES) for s in ({"type": "null"}, {"not": {"const": 1}}, False)]
    assert [row.outcome for row in rows] == ["exact", "repaired", "refused"]
    assert "3 schemas: 1 exact, 1 repaired, 0 narrowed, 1 refused." in table(rows)
    assert isinstance(rows[0], Row)
