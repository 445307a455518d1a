"""The dialects: regexes and grammars as their users mean them."""

from __future__ import annotations

from pathlib import Path

import pytest
import xgrammar as xgr
from constraint_tools import BYTES, allowed_ids, spell

from smc.constraints import EBNF, GBNF, Constraint, Lark, Regex, StructuralTag
from smc.constraints.gbnf import to_ebnf

CHAT = r"""
# A list of steps, each with an optional note.
root      ::= step (newline step){0,4} # up to five
step      ::= bullet-1 text ( " [" note "]" )?
bullet-1  ::= [-*] " "
text      ::= word (" " word)*
word      ::= [a-zA-Z0-9_]+ | "\"" [^"\\\x7F\x00-\x1F]* "\""
note      ::= (
    "todo"
  | "done"
  | ("in"
     "-progress")
)
newline   ::= "\n"
"""

SETTINGS = r"""root ::= line+
line ::= key sp "=" sp value "\n"
key ::= [a-z] [a-z0-9.-]*
value ::= signed | switch | list-of-values
signed ::= [+-]? ("0" | [1-9] [0-9]*) ("." [0-9]+)?
switch ::= "on" | "off"
list-of-values ::= "(" sp value (sp "," sp value)* sp ")"
sp ::= [ \t]*
"""

QUERY = r"""
root   ::= "find " column (", " column)* " in " [A-Z] [a-z]* filter? [;.]
column ::= ("max" | "min") "(" name ")" | name
filter ::= " where " name [<>=!]{1,2} value (" and " name "=" value)*
name   ::= [a-z_]{1,12}
value  ::= [0-9]{1,4} | "'" [^'\n]* "'"
"""

# (grammar, what it takes, what it does not)
GBNFS: list[tuple[str, list[str], list[str]]] = [
    (
        CHAT,
        ['- buy milk [todo]\n* "caf\u00e9 au lait" now [in-progress]', "- a"],
        ["- ", "- a [later]", "- a\n" * 6, '- "\x01"'],
    ),
    (SETTINGS, ["a.b-c = -1.50\n", "x=(on,\t( 2 , off))\ny=0\n"], ["x = 01\n", "x=1", "x=()\n", "Y=1\n"]),
    (
        QUERY,
        ["find max(age), name in People where a_b>=12 and c='d e';", "find x in T."],
        ["find in T.", "find x in T where a='\n'."],
    ),
    (r'root ::= "\x41B" "\u00e9" "\U0001F600"', ["AB\u00e9\U0001f600"], ["\u041b\u00e9\U0001f600"]),
    (r"root ::= [\x41-\x43\u00e9\]\[\\-]", ["A", "C", "\u00e9", "]", "[", "\\", "-"], ["D", "x"]),
    (r'root ::= "\[\]\"\\\r\t"', ['[]"\\\r\t'], ["\\[\\]"]),
    ('root ::= "a" . "b"', ["axb", "a\u00e9b", "a\nb", "a\U0001f600b"], ["ab", "axxb"]),
    ('root ::= x.x\nx ::= "a"', ["aba"], ["aa"]),  # a dot is no part of a name
    ('root ::= "a" ( | "b") c\nc ::= | "c"', ["a", "ab", "abc", "ac"], ["b", "abcc"]),
    ('root ::= 1st-part | \n1st-part ::= "x"{2,3}', ["", "xx", "xxx"], ["x", "xxxx"]),
    ('root ::= x\r\nx ::= "c"{2} | "d"{1,} | "e"{0,1}\r\n', ["cc", "ddd", "e", ""], ["c", "ee"]),
    ('root ::= "#" [#"] # not "this"', ["##", '#"'], ["#"]),
    ('root ::= "say ""hi" "::=" | "|" ")"', ["say hi::=", "|)"], ["say "]),
]


@pytest.mark.parametrize(("grammar", "good", "bad"), GBNFS)
def test_gbnf(grammar: str, good: list[str], bad: list[str]) -> None:
    compiled = GBNF(grammar).compile(BYTES)
    assert [text for text in good if not compiled.accepts(text.encode())] == []
    assert [text for text in bad if compiled.accepts(text.encode())] == []
    for text in good:
        assert allowed_ids(spell(compiled.start(), text), BYTES) >= set(BYTES.stop_ids)


def test_gbnf_from_a_file_equals_its_text(tmp_path: Path) -> None:
    file = tmp_path / "query.gbnf"
    file.write_text(QUERY)
    assert GBNF(file) == GBNF(str(file)) == GBNF(QUERY)


def test_gbnf_keeps_lines_so_that_errors_point_home() -> None:
    for grammar, _, _ in GBNFS:
        assert to_ebnf(grammar).count("\n") == grammar.count("\n")


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("[0-9]{4}-[0-9]{2}", ["2024-01"], ["2024-1", "2024-01 ", ""]),
        ("^ab$", ["ab"], ["ab\n"]),
        ("a|", ["a", ""], ["aa"]),
        ("", [""], ["a"]),
        (r"\x41B\x2d\\x41", ["AB-\\x41"], ["\u041b-\\x41"]),
        ("(?<year>[0-9]+)(?:ad|bc)?", ["12ad", "1"], ["ad"]),
        (r"[\w.]+@\w+\.com", ["a.b@c.com"], ["a@b", "a b@c.com"]),
        ("\u00e9+", ["\u00e9\u00e9"], ["e"]),
        ("a.b", ["axb"], ["a\nb"]),  # the mask lets the newline through, Python does not
    ],
)
def test_regex(pattern: str, good: list[str], bad: list[str]) -> None:
    compiled = Regex(pattern).compile(BYTES)
    for text in good:
        assert compiled.accepts(text.encode())
        assert allowed_ids(spell(compiled.start(), text), BYTES) >= set(BYTES.stop_ids)
    assert not any(compiled.accepts(text.encode()) for text in bad)
    assert not compiled.accepts(b"\xff")


def test_a_pattern_that_only_the_engine_reads_is_validated_by_the_engine() -> None:
    compiled = Regex(r"\u{41}+").compile(BYTES)
    assert compiled.accepts(b"AA")
    assert not compiled.accepts(b"uu")


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (EBNF('root ::= "a" root | "b"'), ["b", "aab"], ["a", "bb", ""]),
        (Lark('start: "(" start? ")"'), ["()", "(())"], ["(", "())"]),
        (
            StructuralTag(
                {
                    "type": "structural_tag",
                    "format": {
                        "type": "triggered_tags",
                        "triggers": ["<n"],
                        "tags": [{"begin": "<n>", "content": {"type": "regex", "pattern": "[0-9]+"}, "end": "</n>"}],
                    },
                }
            ),
            ["plain", "a <n>12</n> b"],
            ["<n>x</n>", "<n>1"],
        ),
    ],
    ids=["ebnf", "lark", "tag"],
)
def test_other_dialects(constraint: Constraint, good: list[str], bad: list[str]) -> None:
    compiled = constraint.compile(BYTES)
    assert [text for text in good if not compiled.accepts(text.encode())] == []
    assert [text for text in bad if compiled.accepts(text.encode())] == []


def test_structural_tags_are_equal_by_their_json() -> None:
    tag = {"type": "structural_tag", "format": {"type": "const_string", "value": "hi"}}
    same = StructuralTag('{"type": "structural_tag",  "format": {"type": "const_string", "value": "hi"}}')
    assert StructuralTag(tag) == same
    made = StructuralTag(xgr.StructuralTag.model_validate(tag)).compile(BYTES)
    assert made.accepts(b"hi")
