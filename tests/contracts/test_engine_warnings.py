"""What an engine only prints would pass unseen, so the tests fail on it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import xgrammar as xgr

from smc import Lark, Regex, StructuralTag
from smc.constraints.base import Constraint
from smc.constraints.crosscheck import BYTES
from smc.errors import ConstraintError


def outcome(printed: str) -> str:
    """What the hook of the tests' conftest makes of a test that passed and printed this."""
    spec = importlib.util.spec_from_file_location("root_conftest", Path(__file__).parents[1] / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    report = pytest.TestReport(
        "a", ("a", 1, "a"), {}, "passed", None, "call", sections=[("Captured stderr call", printed)]
    )
    hook = conftest.pytest_runtest_makereport()
    next(hook)
    with pytest.raises(StopIteration) as ended:
        hook.send(report)
    return str(ended.value.value.outcome)


def test_a_warning_of_an_engine_fails_a_test(capfd: pytest.CaptureFixture[str]) -> None:
    xgr.Grammar.from_regex("ab")
    assert outcome(capfd.readouterr().err) == "passed"
    xgr.Grammar.from_regex(r"a\zb")
    assert outcome(capfd.readouterr().err) == "failed"


UPPER = {"type": "string", "pattern": r"^\p{Lu}$"}


def tag(format: dict[str, object]) -> StructuralTag:
    return StructuralTag({"type": "structural_tag", "format": format})


def regex_tag(pattern: str) -> StructuralTag:
    return tag({"type": "regex", "pattern": pattern})


def schema_tag(pattern: str) -> StructuralTag:
    return tag({"type": "json_schema", "json_schema": {"type": "string", "pattern": pattern}})


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (Regex(r"[\p{L}]+"), "Zoé", "L{"),
        (Regex(r"ab\z"), "ab", "abz"),
        (regex_tag(r"[\p{L}]+"), "Zoé", "L{"),
        (regex_tag(r"ab\z"), "ab", "abz"),
        (regex_tag(r"[.\-_]"), "-", "A"),
        (regex_tag(r"(?i)é"), "É", "e"),
        (schema_tag(r"^[\p{L}.\-_]{2}$"), '"Z-"', '"p{"'),
        (schema_tag(r"a\.b"), '"xa.by"', '"acb"'),
        (
            tag({"type": "json_schema", "json_schema": {"type": "object", "properties": {"const": UPPER}}}),
            '{"const": "É"}',
            '{"const": "p"}',
        ),
        (Lark(r"start: /[\p{L}]+\z/"), "Zoé", "L{"),
        (Lark(r"start: A" + "\n" + r"A: /(?x: [.\-_] \d )/"), "-\u0663", "A1"),
        (Lark(r"start: /[\p{L}]+\z/", engine="llguidance"), "Zoé", "L{"),
        (Lark(r"start: /a/s " + "/[^a]./ims", engine="llguidance"), "ab\n", "aab"),
    ],
)
def test_what_an_engine_would_read_in_its_own_way_is_respelled(constraint: Constraint, good: str, bad: str) -> None:
    compiled = constraint.compile(BYTES)
    assert compiled.generates(good.encode())  # type: ignore[attr-defined]
    assert not compiled.generates(bad.encode())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (Regex(r"a\qb"), r"uses \\q at character 1: Python's re does not have it"),
        (regex_tag(r"a\qb"), r"uses \\q at character 1"),
        (regex_tag("a(?=b)b"), r"uses \(\?=\.\.\) at character 1, which no engine can follow. Use Template"),
        (schema_tag(r"a\qb"), r"uses \\q at character 1: ECMA-262 does not have it"),
        (schema_tag(r"\bab"), r"more than an automaton can do \(boundary\)"),
        (Lark("start: A\nA: /a\\qb/"), r"line 2, column 4: the regex .* uses \\q at character 1"),
        (Lark(r'start: /a(?=b)/ %json {"const": 1}'), r"uses \(\?=\.\.\) at character 1"),
        (Lark(r"start: /a\qb/", engine="llguidance"), r"uses \\q at character 1"),
    ],
)
def test_what_no_engine_knows_is_refused_in_words(constraint: Constraint, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        constraint.compile(BYTES)
