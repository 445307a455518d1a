"""The normal form of a JSON Schema written as a JSON Schema again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from smc.constraints.schema_graph import ANY, Array, Graph, Key, Literals, Number, Object, Part, Simple, String
from smc.constraints.schema_values import lives


class SchemaWriter:
    """Writes a graph as a schema (draft 2020-12): every node that is used more than once, or recurs, is a definition.

    Engines that read schemas subclass it to leave out what they cannot read.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names: dict[Key, str] = {}
        self.waiting: list[Key] = []

    def schema(self) -> dict[str, Any]:
        """The whole schema; it accepts nothing if the graph does not."""
        if self.graph.root not in self.graph.alive:
            return {"not": {}}
        start = self.reference(self.graph.root)
        definitions: dict[str, Any] = {}
        while self.waiting:
            key = self.waiting.pop()
            definitions[self.names[key]] = self.node(key)
        return {**start, "$defs": definitions} if isinstance(start, dict) else {"$defs": definitions}

    def reference(self, key: Key) -> Any:
        """What stands for a node where it is used."""
        if key == ANY:
            return True
        if key not in self.names:
            self.names[key] = f"n{len(self.names)}"
            self.waiting.append(key)
        return {"$ref": f"#/$defs/{self.names[key]}"}

    def node(self, key: Key) -> Any:
        node, alive = self.graph.nodes[key], self.graph.alive
        ways = [self.reference(other) for other in node.either if other in alive]
        ways += [self.part(part) for part in node.parts if lives(part, alive)]
        return ways[0] if len(ways) == 1 else {"anyOf": ways}

    def part(self, part: Part) -> Any:
        if isinstance(part, Literals):
            return {"enum": [json.loads(value) for value in part.values]}
        if isinstance(part, Simple):
            return True if part.kind == "any" else {"type": part.kind}
        if isinstance(part, Number):
            return self.number(part)
        if isinstance(part, String):
            return self.string(part)
        return self.array(part) if isinstance(part, Array) else self.object(part)

    def number(self, part: Number) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": part.kind}
        for bound, included, excluded in (
            (part.low, "minimum", "exclusiveMinimum"),
            (part.high, "maximum", "exclusiveMaximum"),
        ):
            if bound is not None:
                schema[excluded if bound[1] else included] = _plain(bound[0])
        if part.multiple is not None:
            schema["multipleOf"] = _plain(part.multiple)
        return schema

    def string(self, part: String) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string"}
        _limit(schema, "minLength", part.least, "maxLength", part.most)
        conditions = [{"pattern": pattern} for pattern, _ in part.patterns]
        conditions += [{"format": name} for name, _ in part.formats]
        return joined(schema, conditions)

    def array(self, part: Array) -> dict[str, Any]:
        alive = self.graph.alive
        schema: dict[str, Any] = {"type": "array"}
        if part.prefix:
            schema["prefixItems"] = [self.reference(key) if key in alive else False for key in part.prefix]
        schema["items"] = self.reference(part.rest) if part.rest is not None and part.rest in alive else False
        _limit(schema, "minItems", part.least, "maxItems", part.most)
        return schema

    def object(self, part: Object) -> dict[str, Any]:
        alive = self.graph.alive
        schema: dict[str, Any] = {"type": "object"}
        schema["properties"] = {
            name: self.reference(key) if key is not None and key in alive else False for name, key in part.declared
        }
        if part.required:
            schema["required"] = [name for name, _ in part.declared if name in part.required]
        if part.patterns:
            schema["patternProperties"] = {
                p: self.reference(key) if key is not None and key in alive else False for p, key in part.patterns
            }
        schema["additionalProperties"] = (
            self.reference(part.rest) if part.rest is not None and part.rest in alive else False
        )
        _limit(schema, "minProperties", part.least, "maxProperties", part.most)
        return schema


def joined(schema: dict[str, Any], conditions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A schema with further conditions, under ``allOf`` if they are several."""
    listed = list(conditions)
    return {**schema, **listed[0]} if len(listed) == 1 else {**schema, "allOf": listed} if listed else schema


def _limit(schema: dict[str, Any], low: str, least: int, high: str, most: int | None) -> None:
    if least:
        schema[low] = least
    if most is not None:
        schema[high] = most


def _plain(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)
