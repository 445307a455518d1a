"""What the normal form of a JSON Schema is made of: nodes, their parts, and what was found on the way.

A node is what must hold at one place of a document. It is a union of other nodes, or of a few parts of one type each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

Key = tuple[tuple[str, str], ...]
"""A node's name: the atoms (pointer, aspect) that must all hold."""

ANY: Key = ()

MEANT = "\0"
"""Stands in the pointer of a subschema that was not written but is meant by another."""

Written = tuple[tuple[str, str], ...]
"""The keywords (pointer of the subschema, name) that a part was made of."""


@dataclass(frozen=True)
class Finding:
    """A keyword that is not enforced as it was written: `case` is a row of the table of `schema_table`."""

    at: str
    keyword: str
    case: str = ""


@dataclass(frozen=True)
class Literals:
    """Values that were listed, as JSON texts."""

    values: tuple[str, ...]
    of: Written = ()
    kind = "literals"


@dataclass(frozen=True)
class Simple:
    """Any value of a type: "boolean", "null", or "any" JSON at all."""

    kind: str


@dataclass(frozen=True)
class Number:
    """A number, with bounds (value, excluded) and what it is a multiple of, where it has them."""

    integer: bool
    low: tuple[Fraction, bool] | None = None
    high: tuple[Fraction, bool] | None = None
    multiple: Fraction | None = None
    of: Written = ()

    @property
    def kind(self) -> str:
        return "integer" if self.integer else "number"


@dataclass(frozen=True)
class String:
    """A string: lengths in code points, searched patterns and formats with the pointers of their subschemas."""

    least: int = 0
    most: int | None = None
    patterns: tuple[tuple[str, str], ...] = ()
    formats: tuple[tuple[str, str], ...] = ()
    of: Written = ()
    kind = "string"


@dataclass(frozen=True)
class Array:
    """An array: the nodes of its first items, and of the others (None: there are none)."""

    prefix: tuple[Key, ...] = ()
    rest: Key | None = ANY
    least: int = 0
    most: int | None = None
    of: Written = ()
    kind = "array"


@dataclass(frozen=True)
class Object:
    """An object: declared keys in order, those required, keys by pattern, and all others; None where they are forbidden."""

    declared: tuple[tuple[str, Key | None], ...] = ()
    required: frozenset[str] = frozenset()
    patterns: tuple[tuple[str, Key | None], ...] = ()
    rest: Key | None = ANY
    least: int = 0
    most: int | None = None
    of: Written = ()
    kind = "object"


Part = Literals | Simple | Number | String | Array | Object


@dataclass(frozen=True)
class Node:
    """A union: of parts, or of other nodes."""

    parts: tuple[Part, ...] = ()
    either: tuple[Key, ...] = ()


@dataclass
class Graph:
    """The nodes that the root reaches, without those that no value satisfies."""

    root: Key
    nodes: dict[Key, Node]
    findings: tuple[Finding, ...]
    reasons: tuple[tuple[str, str], ...] = ()
    alive: frozenset[Key] = field(default_factory=frozenset)

    def parts(self, key: Key) -> tuple[Part, ...]:
        """All parts of a node, those of the nodes it is a union of included."""
        found: dict[Part, None] = {}
        seen, stack = {key}, [key]
        while stack:
            node = self.nodes[stack.pop()]
            found.update(dict.fromkeys(node.parts))
            for other in node.either:
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        return tuple(found)


def findings_of(of: Written, keywords: str, case: str = "") -> Iterator[Finding]:
    """A finding at each of `keywords` (separated by blanks) that a part was made of, or at the place of the part."""
    wanted = keywords.split()
    for at, word in [(at, word) for at, word in of if word in wanted] or [(of[0][0] if of else "", wanted[0])]:
        yield Finding(at.partition(MEANT)[0], word, case)
