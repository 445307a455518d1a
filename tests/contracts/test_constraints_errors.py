"""Bad constraints raise the right error, and say what to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from constraint_tools import AB, BYTES

from smc.constraints import (
    EBNF,
    GBNF,
    Choice,
    Constraint,
    Everything,
    FiniteLanguage,
    Intersection,
    JSONSchema,
    Lark,
    Regex,
    StructuralTag,
    xgrammar_engine,
)
from smc.errors import ConstraintError, EmptyLanguageError, OptionError, SMCError
from smc.vocabulary import Vocabulary

SELF = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
TOKEN = {"type": "structural_tag", "format": {"type": "token", "token": 258}}

UNREADABLE: list[tuple[Callable[[], Constraint], str]] = [
    (lambda: Regex("a("), r"regex 'a\(' opens a group and does not close it with \) at character 1"),
    (lambda: Regex("a(?V1)b"), r"uses \(\?V at character 1"),
    (lambda: Regex("[z-a]"), "range z-a at character 1"),
    (lambda: Regex("a{3,1}"), "at least 3 and at most 1 times"),
    (lambda: Regex(r"\p{Lx}"), "property 'Lx' at character 0"),
    (lambda: Regex("\ud800"), "lone surrogate"),
    (lambda: EBNF('root ::= "a\0"'), r"NUL character at position 11: write the escape \\u0000"),
    (lambda: Regex(5), "must be a string or a compiled pattern, not int"),  # type: ignore[arg-type]
    (lambda: EBNF('root ::= "a'), "line 1, column 12"),
    (lambda: EBNF("root ::= b"), "names rule 'b' in rule 'root', which nobody defines"),
    (lambda: EBNF('a ::= "b"'), 'root rule with name "root"'),
    (lambda: GBNF('root ::= "a'), "line 1: unexpected"),
    (lambda: GBNF("root ::= b\nb ::= c"), "names rule 'c' in rule 'b', which nobody defines"),
    (lambda: GBNF('root ::= "a"\n  <think>'), "token <think> at line 2"),
    (lambda: GBNF("missing.gbnf"), "nor a file that exists.*check the path"),
    (lambda: GBNF(Path("no/such/file.gbnf")), "No such file"),
    (lambda: Lark("start: foo"), "names rule 'foo' in rule 'start', which nobody defines"),
    (lambda: StructuralTag("{"), "not JSON"),
    (lambda: StructuralTag({"type": "structural_tag", "format": {"type": "x"}}), "not recognized: x"),
    (lambda: JSONSchema('{"type":'), "not JSON.*column 9"),
    (lambda: JSONSchema({"properties": {"a/b": {"type": "integr"}}}), "invalid at /properties/a~1b/type"),
    (lambda: JSONSchema({"type": "string", "pattern": "["}), "invalid at /pattern"),
    (lambda: JSONSchema({"$ref": "#/$defs/x"}), r"refers to '#/\$defs/x'"),
    (lambda: JSONSchema({"not": {"$ref": "http://example.org/s"}}), "never fetched"),
    (lambda: JSONSchema({"const": {1}}), "plain JSON"),
    (lambda: JSONSchema("[]"), "not list"),
    (lambda: Choice("abc"), r"Choice\(\['abc'\]\)"),
    (lambda: Choice([1]), "not int"),  # type: ignore[list-item]
    (lambda: FiniteLanguage("abc"), "takes a list"),
    (lambda: FiniteLanguage([1]), "not int"),  # type: ignore[list-item]
    (lambda: FiniteLanguage(["\ud800"]), "lone surrogate"),
    (lambda: Intersection(), "no parts"),
    (lambda: Intersection("a"), "one by one, .* not 'a'"),  # type: ignore[arg-type]
    (lambda: Intersection([Regex("a"), Regex("b")]), "one by one"),  # type: ignore[arg-type]
    (lambda: Intersection(Regex), "one by one"),  # type: ignore[arg-type]
    (lambda: Everything(Regex), "Everything takes a constraint"),  # type: ignore[arg-type]
]

EMPTY: list[tuple[Callable[[], Constraint], str]] = [
    (lambda: EBNF('root ::= "a" root'), "no finite text.*a way to end"),
    (lambda: EBNF('root ::= a\na ::= b{1,3}\nb ::= "x" a'), "no finite text"),
    (lambda: GBNF("root ::= root"), "no finite text"),
    (lambda: Lark('start: "a" start'), "no finite text"),
    (lambda: JSONSchema(SELF), "no finite text"),
    (lambda: JSONSchema(False), "cannot accept any value"),
    (lambda: JSONSchema({"enum": []}), "must not be empty"),
    (lambda: JSONSchema({"type": "integer", "minimum": 5, "maximum": 3}), "minimum greater"),
    (lambda: JSONSchema({"type": "string", "minLength": 3, "maxLength": 1}), "greater than max"),
    (lambda: StructuralTag(TOKEN), "token 258, a stop or special token"),
    (lambda: Choice([]), "no options"),
    (lambda: FiniteLanguage([]), "no members"),
    (lambda: Intersection(Regex("a"), Regex("b")), "No first token"),
]


@pytest.mark.parametrize(("make", "message"), UNREADABLE)
def test_unreadable_constraints(make: Callable[[], Constraint], message: str) -> None:
    with pytest.raises(ConstraintError, match=message) as caught:
        make().compile(BYTES)
    assert not isinstance(caught.value, EmptyLanguageError)
    _is_one_clean_paragraph(caught.value)


@pytest.mark.parametrize(("make", "message"), EMPTY)
def test_empty_languages(make: Callable[[], Constraint], message: str) -> None:
    with pytest.raises(EmptyLanguageError, match=message) as caught:
        make().compile(BYTES)
    _is_one_clean_paragraph(caught.value)


def _is_one_clean_paragraph(error: SMCError) -> None:
    assert "\n" not in str(error)
    assert ".cc:" not in str(error)
    assert "Check failed" not in str(error)
    assert str(error).endswith((".", ")", "]"))


@pytest.mark.parametrize(
    "constraint",
    [Regex("c"), EBNF('root ::= "c"'), Choice(["c"]), FiniteLanguage(["c", "bc"]), Regex("\u00e9")],
    ids=["regex", "ebnf", "choice", "finite", "utf8"],
)
def test_languages_that_the_vocabulary_cannot_spell(constraint: Constraint) -> None:
    with pytest.raises(EmptyLanguageError, match="vocabulary"):
        constraint.compile(AB)


@pytest.mark.parametrize("constraint", [Regex("a"), FiniteLanguage(["a"]), Everything()])
def test_a_vocabulary_without_stop_tokens(constraint: Constraint) -> None:
    with pytest.raises(EmptyLanguageError, match="no stop token"):
        constraint.compile(Vocabulary((b"a", b"</s>"), ()))


def test_unknown_whitespace() -> None:
    with pytest.raises(OptionError, match="'compact', 'bounded', 'free'"):
        JSONSchema(True, whitespace="none")  # type: ignore[arg-type]


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "g.gbnf").write_bytes(b'root ::= "\xff"')
    with pytest.raises(ConstraintError, match="not UTF-8"):
        GBNF(tmp_path / "g.gbnf")


def test_a_recursive_schema_that_can_end_is_not_empty() -> None:
    tree = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["next"],
    }
    assert JSONSchema(tree).compile(BYTES).accepts(b'{"next": {"next": null}}')


def test_compiling_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Vocabulary((*BYTES.tokens, *(f"{i:x}".encode() for i in range(4000))), BYTES.stop_ids, BYTES.special_ids)
    monkeypatch.setattr(xgrammar_engine, "COMPILE_SECONDS", 0.05)
    pattern = "".join(f"[a-f0-9]{{1,{150 + i}}}[A-Z]" for i in range(8))
    began = time.perf_counter()
    with pytest.raises(ConstraintError, match=r"took more than 0.05 s.*Simplify"):
        Regex(pattern).compile(slow)
    assert time.perf_counter() - began < 5


def test_a_stop_in_the_middle_is_refused() -> None:
    with pytest.raises(RuntimeError, match="stop tokens never"):
        Regex("ab").compile(AB).start().advance(np.array([0]), np.array([6]))
