"""The runner of the official test suite finds what differs, on a suite of our own in its format."""

from __future__ import annotations

import json
from pathlib import Path

from tests.official_schema_suite import run


def test_it_tells_agreement_from_difference(tmp_path: Path) -> None:
    right = [("a", True), (1, False), ({"b": 1, "a": 2}, False)]
    wrong = [("a", False)]
    cases = [
        {
            "description": "text",
            "schema": {"type": "string"},
            "tests": [{"description": str(data), "data": data, "valid": valid} for data, valid in right],
        },
        {
            "description": "mistaken",
            "schema": {"const": "a"},
            "tests": [{"description": "a", "data": data, "valid": valid} for data, valid in wrong],
        },
        {"description": "away", "schema": {"$ref": "http://localhost/x"}, "tests": []},
    ]
    (tmp_path / "draft7").mkdir()
    (tmp_path / "draft7" / "type.json").write_text(json.dumps(cases))
    found, counts = run(tmp_path, "draft7", ["xgrammar"])
    assert [(difference.kind, difference.about[:11]) for difference in found] == [
        ("validator", "mistaken: a"),
        ("refused", "away: The J"),
    ]
    assert counts["tests"] == 4
