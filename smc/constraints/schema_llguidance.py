"""The normal form of a JSON Schema as a schema that llguidance reads without refusing any of it."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

from smc.constraints.ecma_regex import Untranslatable, full_match
from smc.constraints.json_patterns import found
from smc.constraints.llguidance_engine import engine_package
from smc.constraints.regex_tree import Alt, Chars, Repeat, Seq, Tree, either, sequence, spelled
from smc.constraints.schema_formats import condition_trees
from smc.constraints.schema_graph import Finding, Graph, Literals, Number, Object, Part, String, Written, findings_of
from smc.constraints.schema_rewrite import SchemaWriter, joined
from smc.constraints.schema_values import has_spellings, productive

MAX_BOUND = 2**53
"""Largest bound of a number that the engine is given: it computes with floating point."""

MAX_STATES = 50_000
"""Largest multiple, in units of its last decimal, that the engine is given: it makes a state of each remainder. It also
refuses some of more than four decimals, which its floats write with too many digits."""

_BOUNDS = "minimum maximum exclusiveMinimum exclusiveMaximum"
_SEPARATORS = {
    "compact": {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"},
    "bounded": {"whitespace_flexible": True, "whitespace_pattern": r"[\x20\x0A\x0D\x09]{1,2}"},
    "free": {"whitespace_flexible": True},
}


def for_llguidance(graph: Graph, whitespace: str, formats: frozenset[str]) -> tuple[str, tuple[Finding, ...]]:
    """A schema in the engine's terms, as JSON text, and where it differs from the normal form.

    Args:
        whitespace: "compact", "bounded" or "free".
        formats: those that the validator checks; others are annotations.
    """
    graph = _without_empty_strings(graph, formats)
    writer = _Writer(graph, formats)
    schema = {**writer.schema(), "x-guidance": _SEPARATORS[whitespace]}
    if writer.overlaps and _refusal(schema):
        writer = _Writer(graph, formats, merges=False)
        schema = {**writer.schema(), "x-guidance": _SEPARATORS[whitespace]}
    return json.dumps(schema, ensure_ascii=False), tuple(writer.findings)


def _without_empty_strings(graph: Graph, formats: frozenset[str]) -> Graph:
    """The normal form without strings whose conditions exclude one another: the engine refuses a schema that holds one."""
    writer = _Writer(graph, formats)

    def kept(part: Part) -> bool:
        if not isinstance(part, String) or not (part.patterns or part.formats):
            return True
        return "nsatisfiable" not in _refusal(writer.string(part))

    nodes = {key: replace(node, parts=tuple(filter(kept, node.parts))) for key, node in graph.nodes.items()}
    alive = productive(nodes)
    return replace(graph, nodes=nodes, alive=alive) if graph.root in alive else graph  # else the engine says so


class _Writer(SchemaWriter):
    """Writes a graph for the engine.

    The engine merges what is declared of a key with what patterns say of it, which it cannot do in every schema. Without
    `merges`, an object with such a key has no patterns: any key that is not declared may have any of their values.

    Attributes:
        overlaps: whether there is an object with such a key.
    """

    def __init__(self, graph: Graph, formats: frozenset[str], merges: bool = True) -> None:
        super().__init__(graph)
        self.formats = formats
        self.merges = merges
        self.overlaps = False
        self.findings: dict[Finding, None] = {}

    def note(self, of: Written, keywords: str, case: str = "") -> None:
        self.findings.update(dict.fromkeys(findings_of(of, keywords, case)))

    def part(self, part: Part) -> Any:
        if isinstance(part, Literals):
            if has_spellings(part):
                self.note(part.of, "enum const", "spelling")
            return self.literals(part)
        return super().part(part)

    def literals(self, part: Literals) -> Any:
        """Those with numbers that the engine would round are written by their type alone: the validator keeps them apart."""
        rounded = [value for value in part.values if not _keeps_its_numbers(value)]
        if not rounded:
            return super().part(part)
        self.note(part.of, "enum const", "size")
        types = dict.fromkeys({"[": "array", "{": "object"}.get(value[0], "number") for value in rounded)
        kept = replace(part, values=tuple(value for value in part.values if value not in rounded))
        others = [super().part(kept)] if kept.values else []
        return {"anyOf": [*others, *({"type": name} for name in types)]}

    def number(self, part: Number) -> dict[str, Any]:
        large = [bound for bound in (part.low, part.high) if bound is not None and abs(bound[0]) > MAX_BOUND]
        if large:
            self.note(part.of, _BOUNDS, "size")
            part = replace(
                part,
                low=None if part.low in large else part.low,
                high=None if part.high in large else part.high,
            )
        if part.multiple is not None and (part.multiple.numerator > MAX_STATES or part.multiple.denominator > 10_000):
            self.note(part.of, "multipleOf")
            part = replace(part, multiple=None)
        if part.integer:
            self.note(part.of, "type", "integer")
        elif part.multiple is not None:
            self.note(part.of, "multipleOf", "decimal")
        elif part.low is not None or part.high is not None:
            self.note(part.of, _BOUNDS, "exponent")
        return super().number(part)

    def string(self, part: String) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string"}
        if part.least:
            schema["minLength"] = part.least
        if part.most is not None:
            schema["maxLength"] = part.most
        self.note(part.of, "type", "string")
        trees = condition_trees(part, self.formats, self.note)
        if any(map(_lets_escapes_in, trees)):
            self.note(part.of, "type", "controls")
        return joined(schema, [{"pattern": f"^(?:{spelled(tree)})$"} for tree in trees])

    def object(self, part: Object) -> dict[str, Any]:
        schema = super().object(part)
        open_keys = schema["additionalProperties"] is not False or "patternProperties" in schema
        if len(part.declared) > 1 or (part.declared and open_keys):
            self.note(part.of, "properties required", "order")
        if open_keys:
            self.findings[Finding("", "properties", "duplicates")] = None
        optional = [name for name, key in part.declared if key in self.graph.alive and name not in part.required]
        if optional and (part.least or part.most is not None):
            self.note(part.of, "minProperties maxProperties", "optional")
            schema = {k: v for k, v in schema.items() if k not in ("minProperties", "maxProperties")}
        overlapping = any(
            found(pattern, name) is not False for pattern, _ in part.patterns for name, _ in part.declared
        )
        self.overlaps |= overlapping
        if overlapping and not self.merges:
            self.note(part.of, "patternProperties", "overlap")
            values = [*schema.pop("patternProperties").values(), schema["additionalProperties"]]
            schema["additionalProperties"] = (
                True if True in values else {"anyOf": [v for v in values if v is not False]}
            )
        if "patternProperties" in schema:
            schema["patternProperties"], readable = self.by_pattern(part, schema["patternProperties"])
            if not readable:  # any key may be one of them
                del schema["patternProperties"]
                schema["additionalProperties"] = True
        return schema

    def by_pattern(self, part: Object, values: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """The patterns in the engine's syntax: as one if they may overlap. False if one cannot be written."""
        trees: list[Tree] = []
        for pattern in values:
            try:
                trees.append(full_match(pattern))
            except Untranslatable as error:
                self.note(part.of, "patternProperties", str(error))
                return {}, False
        self.note(part.of, "patternProperties", "spelling")
        if any(map(_lets_escapes_in, trees)):
            self.note(part.of, "patternProperties", "controls")
        apart = {f"^(?:{spelled(tree)})$": value for tree, value in zip(trees, values.values(), strict=True)}
        if _readable(tuple(apart)):
            return apart, True
        self.note(part.of, "patternProperties", "overlap")
        return {
            f"^(?:{spelled(either([sequence([tree]) for tree in trees]))})$": {"anyOf": list(values.values())}
        }, True


def _keeps_its_numbers(text: str) -> bool:
    """Whether all numbers in a JSON text come out of floating point as they went in."""
    numbers: list[Decimal] = []

    def read(number: str) -> None:
        numbers.append(Decimal(number))

    json.loads(text, parse_int=read, parse_float=read)
    return all(abs(number) <= MAX_BOUND and Decimal(repr(float(number))) == number for number in numbers)


def _lets_escapes_in(tree: Tree) -> bool:
    """Whether some class has the first and the last control character, in whose place the engine takes any escape of one
    letter, but not the backslash or the quote."""
    if isinstance(tree, Chars):
        return all(_within(tree, char) for char in "\x00\x1f") and not all(_within(tree, char) for char in '\\"')
    if isinstance(tree, Repeat):
        return _lets_escapes_in(tree.item)
    assert isinstance(tree, Seq | Alt), tree
    return any(map(_lets_escapes_in, tree.items if isinstance(tree, Seq) else tree.options))


def _within(chars: Chars, char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in chars.ranges)


def _readable(patterns: tuple[str, ...]) -> bool:
    """Whether the engine takes these patterns side by side: it refuses those that may match one key."""
    if len(patterns) == 1:
        return True
    return not _refusal({"type": "object", "patternProperties": dict.fromkeys(patterns, True)})


def _refusal(schema: dict[str, Any]) -> str:
    """Why the engine does not take a schema; empty if it does."""
    matcher = engine_package().LLMatcher
    return str(matcher.validate_grammar(matcher.grammar_from_json_schema(json.dumps(schema, ensure_ascii=False))))
