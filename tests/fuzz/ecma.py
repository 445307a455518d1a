"""A schema's `pattern`, and what a key must match, against the regular expressions of JavaScript as node has them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.fuzzer import Outcome, Question
from tests.fuzz.patterns import ALPHABET, SUFFIXES, Dialect, spellings, texts, written

_FORMS = ["\\x{:02x}", "\\u{:04x}", "\\u{{{:x}}}"]
_SYNTAX = "^$\\.*+?()[]{}|/"

ECMA = Dialect(
    plain=[
        *spellings("".join(char for char in ALPHABET if char not in "\0" + _SYNTAX), _FORMS),
        *[f"\\{char}" for char in _SYNTAX],
        *[rf"\{letter}" for letter in "dDwWsS"] * 4,
        *[r"\t", r"\n", r"\r", r"\f", r"\v", r"\cA", r"\cj", r"\0"],
        *[r"\p{L}", r"\P{Lu}", r"\p{Script=Greek}", r"\p{Nd}", r"\ud83d\ude00"],
    ],
    outside=[".", ".", "^", "$", r"\b", r"\B", r"\1", r"\k<n>", r"\-", "a-z"],
    inside=["-", r"\-", "a-z", "0-9", "&&", "[", r"\b", "^", "(?:", "--", "."],
    openings=["(?:", "(", "(?:", "(", "(?<n>", "(?=", "(?!", "(?<=", "(?<!", "^(?:", "^("],
    suffixes=[suffix for suffix in SUFFIXES if suffix != "{,2}"],
)

# One line in, one line out: for each text whether the pattern is found in it; null if it is no pattern. JSON Schema asks for
# Unicode regular expressions; what only the older syntax reads is no portable pattern, and is not held against anyone.
_SERVER = """
require('readline').createInterface({input: process.stdin}).on('line', line => {
  const [pattern, texts] = JSON.parse(line)
  let said = null
  try { const found = new RegExp(pattern, 'u'); said = texts.map(text => found.test(text)) } catch (error) {}
  console.log(JSON.stringify(said))
})
"""


class Ecma:
    """Patterns for Unicode regular expressions."""

    name = "ecma"
    about = "JSON Schema patterns against node's regular expressions"

    def missing(self) -> str | None:
        return None if shutil.which("node") else "node is not installed"

    def cases(self) -> st.SearchStrategy[Any]:
        # anchored patterns are what people write, and what is not anchored matches nearly everything
        tree = ECMA.trees()
        anchored = st.builds(lambda inner: ("seq", (("one", "^"), inner, ("one", "$"))), tree)
        return st.tuples(st.one_of(tree, anchored), st.sampled_from(["xgrammar", "llguidance"]), st.booleans())

    def examine(self, case: Any) -> Outcome:
        tree, engine, as_key = case
        pattern, tried = written(tree), texts(tree)
        said = found(pattern, tried)
        if said is None:
            return "invalid"
        members = [_spelled(text, as_key) for text, member in zip(tried, said, strict=True) if member]
        others = [_spelled(text, as_key) for text, member in zip(tried, said, strict=True) if not member]
        others += [(member[0][:-1],) for member in members[:1]]  # whose last quote or bracket is missing
        if as_key:
            schema: Any = {
                "type": "object",
                "patternProperties": {pattern: {"const": 1}},
                "additionalProperties": False,
                "minProperties": 1,
            }
        else:
            schema = {"type": "string", "pattern": pattern}
        return Question(f"JSONSchema({schema!r}, whitespace='compact', engine={engine!r})", members, others).ask()


def found(pattern: str, tried: Sequence[str]) -> list[bool] | None:
    """Whether node finds a pattern in each text; None if it is none."""
    node = _node()
    assert node.stdin is not None
    assert node.stdout is not None
    node.stdin.write(json.dumps([pattern, list(tried)]) + "\n")
    node.stdin.flush()
    said: list[bool] | None = json.loads(node.stdout.readline())
    return said


@cache
def _node() -> subprocess.Popen[str]:
    return subprocess.Popen(["node", "-e", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _spelled(text: str, as_key: bool) -> tuple[str, ...]:
    """The JSON of a text: without optional escapes, with the one that llguidance wants, and with all."""
    plain = json.dumps(text, ensure_ascii=False)
    spelled = dict.fromkeys([plain, plain.replace("\x7f", "\\u007f"), json.dumps(text)])
    return tuple(f"{{{one}:1}}" if as_key else one for one in spelled)


ECMA_PATTERNS = Ecma()
