"""SQL as text: its words and what they are, without a parser, so that unfinished and broken queries can be read too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_WORD = re.compile(
    r"""(?P<string>'(?:[^']|'')*'?) | (?P<quoted>"(?:[^"]|"")*"?) | (?P<number>\d+(?:\.\d*)?)
      | (?P<word>[^\W\d]\w*) | (?P<sign><=|>=|!=|<>|\s+|.)""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORD_LIST = (
    "SELECT DISTINCT FROM WHERE JOIN LEFT ON AND OR NOT IN IS NULL LIKE BETWEEN GROUP BY HAVING ORDER ASC DESC LIMIT"
)
_KEYWORDS = frozenset(_KEYWORD_LIST.split())
_FUNCTIONS = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
_CLAUSES = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")


@dataclass(frozen=True)
class Word:
    """A word of a query: its kind ("keyword", "function", "table", "column", "string", "number", "sign"), where it begins,
    its text, in how many brackets it stands, and the character that follows (none at the end)."""

    kind: str
    offset: int
    text: str
    depth: int
    following: str


def words(query: str) -> Iterator[Word]:
    """The words of a query in order, spaces left out. A name is a table after FROM or JOIN and before a dot."""
    depth, before = 0, ""
    for match in _WORD.finditer(query):
        text = match[0]
        if text.isspace():
            continue
        depth -= text == ")"
        following = query[match.end() : match.end() + 1]
        kind = _kind(match.lastgroup or "", text.upper(), before, following)
        yield Word(kind, match.start(), text, depth, following)
        depth += text == "("
        before = text.upper()


def places(query: str) -> list[tuple[int, str]]:
    """The parts of a query by kind. A space belongs to the word that follows, as it does in the tokens of most models."""
    parts: list[tuple[int, str]] = []
    end = 0  # of the word before: the spaces after it are the next word's
    for word in words(query):
        parts.append((end, word.kind))
        end = word.offset + len(word.text)
    return parts


def is_ordered(query: str) -> bool:
    """Whether the rows of a query come in an order: it has an ORDER BY of its own, outside brackets."""
    return any(word.kind == "keyword" and word.text.upper() == "ORDER" and word.depth == 0 for word in words(query))


def without_distinct(query: str) -> str:
    """The query without the word DISTINCT, wherever it stands."""
    kept = query
    for word in reversed(list(words(query))):
        if word.kind == "keyword" and word.text.upper() == "DISTINCT":
            kept = kept[: word.offset] + kept[word.offset + len(word.text) :].lstrip()
    return kept


def settled(prefix: str) -> str | None:
    """The longest beginning of a prefix that is a query by itself if any continuation is: what stands before the last
    WHERE, GROUP BY, HAVING, ORDER BY or LIMIT outside brackets. None before the first of them.

    No later clause brings in a table, so that names which cannot be resolved there never can. A word at the very end does
    not count: it may yet become a longer one.
    """
    starts = [
        word.offset
        for word in words(prefix)
        if word.kind == "keyword" and word.depth == 0 and word.following and word.text.upper() in _CLAUSES
    ]
    return prefix[: starts[-1]].rstrip() if starts else None


def _kind(group: str, word: str, before: str, following: str) -> str:
    if group == "word" and word in _KEYWORDS:
        return "keyword"
    if group == "word" and word in _FUNCTIONS and following == "(":
        return "function"
    if group in ("word", "quoted"):
        return "table" if before in ("FROM", "JOIN") or following == "." else "column"
    return group
