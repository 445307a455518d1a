"""Both engines and the validator on the same texts."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest

from smc.constraints import Lark, Regex
from smc.constraints.crosscheck import BYTES, crosscheck, leads_through
from smc.crosscheck import main
from smc.errors import ConstraintError, OptionError


def test_verdicts() -> None:
    outcome = crosscheck(lambda engine: Regex("ab(?!c).*", engine=engine), ["ab", "abc", "x", "\udcff", ""])
    assert [(v.text, v.xgrammar, v.llguidance, v.validator) for v in outcome.verdicts] == [
        ("ab", True, True, True),
        ("abc", True, True, False),
        ("x", False, False, False),
        ("\udcff", False, False, False),
        ("", False, False, False),
    ]
    assert [verdict.text for verdict in outcome.differences] == ["abc"]
    assert outcome.table().splitlines() == [
        "text   xgrammar  llguidance  validator",
        "'abc'  yes       yes         no",
        "1 of 5 texts differ.",
    ]


def test_engines_that_differ() -> None:
    grammar = 'start: ("a" | "aa") "a" | %json {"type": "null"}'
    outcome = crosscheck(lambda engine: Lark(grammar, engine=engine), ["aa", "aaa"])
    assert [(v.text, v.xgrammar, v.llguidance) for v in outcome.differences] == [("aa", True, False)]


def test_an_engine_that_refuses_is_no_difference() -> None:
    grammar = "start: A\nA: /[a-z]/ & /[^b]/"  # an addition of llguidance
    outcome = crosscheck(lambda engine: Lark(grammar, engine=engine), ["a", "1"])
    assert [(v.xgrammar, v.llguidance, v.validator) for v in outcome.verdicts] == [
        (None, True, True),
        (None, False, False),
    ]
    assert outcome.differences == ()
    assert outcome.table().splitlines()[0] == "0 of 2 texts differ."
    assert "xgrammar refuses: The Lark grammar" in outcome.table()
    with pytest.raises(ConstraintError, match=r"xgrammar: The regex .* llguidance: The regex"):
        crosscheck(lambda engine: Regex("(", engine=engine), [])


def test_leads_through_asks_the_masks() -> None:
    compiled = Regex("a{2}").compile(BYTES)
    assert [leads_through(compiled, text) for text in (b"", b"a", b"aa", b"aaa")] == [False, False, True, False]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = tmp_path / "texts"
    texts.write_text("ab\nabc\n")
    assert main(["--regex", "ab(?!c).*", "--strings", str(texts)]) == 1
    assert "'abc'  yes       yes         no" in capsys.readouterr().out
    assert main(["--regex", "abc?", "--strings", str(texts)]) == 0
    assert capsys.readouterr().out == "0 of 2 texts differ.\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'"a\\nb"\n""\n')))
    assert main(["--regex", "a\\n(?=c)b|", "--strings", "-", "--quoted"]) == 1
    assert r"'a\nb'  yes" in capsys.readouterr().out
    grammar = tmp_path / "grammar.lark"
    grammar.write_text('start: "a" "b" "c"?')
    assert main(["--lark", str(grammar), "--strings", str(texts)]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--regex", "(", "--strings", "TEXTS"], "opens a group and does not close it"),
        (["--regex", "a", "--strings", "missing.txt"], "missing.txt cannot be read: No such file"),
        (["--schema", "missing.json", "--strings", "TEXTS"], "missing.json cannot be read"),
        (["--schema", "TEXTS", "--strings", "TEXTS"], "not JSON"),
        (["--regex", "a", "--strings", "TEXTS", "--quoted"], "Line 1 of .* is not a JSON string"),
        (["--regex", "(" * 400 + ")" * 400, "--strings", "TEXTS"], "nested too deeply"),
        (["--ebnf", "TEXTS", "--strings", "TEXTS"], "texts holds no rule `name ::= ...`, so it is no grammar in ebnf"),
        (["--gbnf", "TEXTS", "--strings", "TEXTS"], "texts holds no rule `name ::= ...`, so it is no grammar in gbnf"),
        (["--gbnf", os.devnull, "--strings", "TEXTS"], "null holds no rule"),
    ],
)
def test_bad_input_is_one_paragraph(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts"
    texts.write_text("ab\n")
    assert main([str(texts) if argument == "TEXTS" else argument for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1
    assert re.search(message, captured.err)


def test_a_lone_surrogate_is_refused_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts"
    texts.write_text('"ab"\n"a\\ud83d\\ude00"\n"a\\ud800"\n')
    assert main(["--regex", "a.*", "--strings", str(texts), "--quoted"]) == 2
    assert re.search(r"Line 3 of .*texts holds the lone surrogate '\\ud800'", capsys.readouterr().err)
    with pytest.raises(OptionError, match="holds the lone surrogate"):
        crosscheck(lambda engine: Regex("a.*", engine=engine), ["a\ud800"])


def test_no_language_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--strings", "-"])
    assert caught.value.code == 2
    assert "--schema" in capsys.readouterr().err


def test_schemas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the engines cannot do, the validator refuses, whether or not prefix checks would have stopped it before."""
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"type": "array", "items": {"enum": [1, 2]}, "minItems": 1, "uniqueItems": True}))
    texts = tmp_path / "texts"
    texts.write_text("[1]\n[1, 2]\n[1, 1]\n[]\n[3]\n")
    assert main(["--schema", str(schema), "--whitespace", "bounded", "--strings", str(texts)]) == 1
    printed = capsys.readouterr().out
    assert "'[1, 1]'" in printed
    assert "1 of 5 texts differ." in printed
