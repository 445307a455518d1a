"""What can be told of the values of a normal form: whether there are any, and whether two nodes share one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from smc.constraints.schema_graph import Array, Graph, Key, Literals, Node, Number, Object, Part


def productive(nodes: dict[Key, Node]) -> frozenset[Key]:
    """The nodes that some finite value satisfies: the least fixed point."""
    alive: set[Key] = set()
    users: dict[Key, list[Key]] = {}
    for key, node in nodes.items():
        for below in _below(node):
            users.setdefault(below, []).append(key)
    waiting = list(nodes)
    while waiting:
        key = waiting.pop()
        if key not in alive and _lives(nodes[key], alive):
            alive.add(key)
            waiting.extend(user for user in users.get(key, ()) if user not in alive)
    return frozenset(alive)


def _below(node: Node) -> Iterator[Key]:
    yield from node.either
    for part in node.parts:
        yield from children(part)


def children(part: Part) -> Iterator[Key]:
    """The nodes of the values inside a value."""
    if isinstance(part, Array):
        yield from part.prefix
        if part.rest is not None:
            yield part.rest
    elif isinstance(part, Object):
        yield from (key for _, key in part.declared if key is not None)
        yield from (key for _, key in part.patterns if key is not None)
        if part.rest is not None:
            yield part.rest


def _lives(node: Node, alive: set[Key]) -> bool:
    return any(key in alive for key in node.either) or any(lives(part, alive) for part in node.parts)


def lives(part: Part, alive: set[Key] | frozenset[Key]) -> bool:
    """Whether a value of this part exists, given the nodes that have one."""
    if isinstance(part, Array):
        needed = list(part.prefix[: part.least])
        if part.least > len(part.prefix):
            if part.rest is None:
                return False
            needed.append(part.rest)
        return all(key in alive for key in needed)
    if isinstance(part, Object):
        if not all(key is not None and key in alive for name, key in part.declared if name in part.required):
            return False
        more = any(key in alive for _, key in part.patterns) or (part.rest is not None and part.rest in alive)
        return more or sum(key in alive for _, key in part.declared if key is not None) >= part.least
    return True


def disjoint(graph: Graph, left: Key, right: Key, depth: int = 3) -> bool:
    """Whether two nodes provably have no value in common."""
    if not depth or left == right:
        return False
    return all(_apart(graph, a, b, depth) for a in graph.parts(left) for b in graph.parts(right))


def _apart(graph: Graph, a: Part, b: Part, depth: int) -> bool:
    if "any" in (a.kind, b.kind):
        return False
    if isinstance(a, Literals) and isinstance(b, Literals):
        return not any(_same(json.loads(x), json.loads(y)) for x in a.values for y in b.values)
    if isinstance(a, Literals) or isinstance(b, Literals):
        listed, other = (a, b) if isinstance(a, Literals) else (b, a)
        assert isinstance(listed, Literals)
        return all(type_of(json.loads(value)) != _broad(other.kind) for value in listed.values)
    if _broad(a.kind) != _broad(b.kind):
        return True
    if isinstance(a, Object) and isinstance(b, Object):
        return (
            _lacks(a, b)
            or _lacks(b, a)
            or any(
                x is not None and y is not None and disjoint(graph, x, y, depth - 1)
                for name, x in a.declared
                if name in a.required & b.required
                for y in [dict(b.declared)[name]]
            )
        )
    if isinstance(a, Number) and isinstance(b, Number):
        return _below_of(a, b) or _below_of(b, a)
    return False


def _same(a: Any, b: Any) -> bool:
    """Equality of JSON values: true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return bool(a == b)


def _lacks(a: Object, b: Object) -> bool:
    """Whether `a` requires a key that `b` forbids."""
    allowed = dict(b.declared)
    closed = b.rest is None and all(key is None for _, key in b.patterns)
    return any(allowed[name] is None if name in allowed else closed for name in a.required)


def _below_of(a: Number, b: Number) -> bool:
    if a.high is None or b.low is None:
        return False
    return a.high[0] < b.low[0] or (a.high[0] == b.low[0] and (a.high[1] or b.low[1]))


def _broad(kind: str) -> str:
    return "number" if kind == "integer" else kind


def type_of(value: Any) -> str:
    """The JSON type of a Python value, numbers taken together."""
    if value is None:
        return "null"
    for kind, types in (("boolean", bool), ("number", (int, float)), ("string", str), ("array", list)):
        if isinstance(value, types):
            return kind
    return "object"


def has_spellings(part: Literals) -> bool:
    """Whether JSON has more than one spelling for a listed value: not for null and the booleans."""
    return any(type_of(json.loads(value)) not in ("null", "boolean") for value in part.values)
