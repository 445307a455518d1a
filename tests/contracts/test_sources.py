"""Constraints from files, and what is said of files that hold none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smc import EBNF, GBNF, JSONSchema, Lark
from smc.errors import ConstraintError

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TEXTS: dict[Callable[[Any], Any], str] = {
    JSONSchema: json.dumps(SCHEMA, indent=2),
    GBNF: 'root ::= "a"\n',
    EBNF: 'root ::= "a"\n',
    Lark: 'start: "a"\n',
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("kind", TEXTS)
def test_a_file_means_what_it_holds(kind: Callable[[Any], Any], encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "here it is"
    path.write_text(TEXTS[kind], encoding=encoding)
    assert kind(path) == kind(str(path)) == kind(TEXTS[kind])


@pytest.mark.parametrize("kind", TEXTS)
def test_what_is_no_file_of_text_is_said_in_a_sentence(kind: Callable[[Any], Any], tmp_path: Path) -> None:
    def refused(source: Any, reason: str) -> None:
        with pytest.raises(ConstraintError, match=reason):
            kind(source)

    refused("", "this is empty")
    refused(" \n", "this is empty")
    refused(str(tmp_path), "is a folder")
    refused(tmp_path, "is a folder")
    refused(tmp_path / "missing", "cannot be read .No such file")
    (tmp_path / "latin").write_bytes('root ::= "é"'.encode("latin-1"))
    refused(tmp_path / "latin", "is not UTF-8 text")
    refused(str(tmp_path / "latin"), "is not UTF-8 text")
    (tmp_path / "nothing").write_text("\n")
    refused(tmp_path / "nothing", "is empty")
    (tmp_path / "nul").write_text("a\0b")
    refused(tmp_path / "nul", "NUL|not JSON|no rule|Unknown|does not know|reads")


def test_paths_that_lead_nowhere() -> None:
    with pytest.raises(ConstraintError, match=r"'missing\.gbnf' is neither text .* nor a file that exists"):
        GBNF("missing.gbnf")
    with pytest.raises(ConstraintError, match=r"is not JSON: .* path of a file that exists"):
        JSONSchema("missing.json")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("[1, 2]", "not list in the file"), ("{", "in the file .* is not JSON"), ('"a"', "not str in the file")],
)
def test_a_json_file_that_is_no_schema(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(text)
    with pytest.raises(ConstraintError, match=reason):
        JSONSchema(path)


def test_an_audit_prints_as_a_table_and_stays_a_sequence() -> None:
    long = "a_name_" * 12
    audit = JSONSchema({"properties": {long: {"multipleOf": 0.01, "uniqueItems": True}}, "required": [long]}).audit()
    lines = str(audit).splitlines()
    assert lines[0].split() == ["where", "keyword", "mask", "difference"]
    assert max(map(len, lines)) <= 100
    for entry in audit:
        assert any(entry.keyword in line and entry.effect in line for line in lines)
    effects = [entry.effect for entry in audit]
    assert (
        repr(audit)
        == f"<Audit: 5 entries, 0 exact, {effects.count('wider')} wider, {effects.count('narrower')} narrower, 0 unchecked>"
    )
    assert audit[0].keyword == "properties"
    assert "<td>multipleOf</td>" in audit._repr_html_()
