"""The normal form of a JSON Schema as a grammar in EBNF, which xgrammar enforces.

The grammar is written here and not by the engine's own reader of schemas, which drops or narrows much more: what this
grammar leaves out of the normal form is in its findings.

Rules recurse to the right wherever a choice repeats. The engine follows such rules in microseconds a mask, and a starred
choice in tens of milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor
from typing import Any

from smc.constraints.ecma_regex import Untranslatable, full_match
from smc.constraints.json_patterns import found
from smc.constraints.regex_tree import ANY_TEXT, sequence, widths, within
from smc.constraints.schema_formats import condition_trees
from smc.constraints.schema_graph import (
    ANY,
    Array,
    Finding,
    Graph,
    Key,
    Literals,
    Number,
    Object,
    Part,
    Simple,
    String,
    Written,
    findings_of,
)
from smc.constraints.schema_numbers import at_least_zero, decimals, integers
from smc.constraints.schema_strings import PatternWriter, Rules, any_string, bounded_string, literal, other_keys
from smc.constraints.schema_values import has_spellings, lives

MAX_COUNTED = 2_000
"""Most rules that an object may take to count its properties."""

MAX_LISTED = 500
"""Most multiples of a number that are listed one by one."""

MAX_KEY_PREFIXES = 100
"""Most prefixes of declared keys, in all objects of a schema, that other keys are kept apart from: each takes a rule, and
about 25 ms to compile for 49,152 tokens."""

DUPLICATES = Finding("", "properties", "duplicates")
"""Any key may be written twice where keys are open."""

_WHITESPACE = {"compact": "", "bounded": "[ \\n\\t\\r]{0,2}", "free": "[ \\n\\t\\r]*"}


def written(graph: Graph, whitespace: str, formats: frozenset[str]) -> tuple[str, tuple[Finding, ...]]:
    """The grammar of a normal form, and where it differs from it.

    Args:
        whitespace: "compact", "bounded" or "free".
        formats: those that the validator checks; others are annotations.
    """
    writer = _Writer(graph, whitespace, formats)
    start = writer.node(graph.root)
    return writer.rules.text(start), tuple(writer.findings)


class _Writer:
    def __init__(self, graph: Graph, whitespace: str, formats: frozenset[str]) -> None:
        self.graph = graph
        self.formats = formats
        self.rules = Rules()
        self.findings: dict[Finding, None] = {}
        self.names: dict[Key, str] = {}
        self.waiting: list[Key] = []
        self.prefixes_left = MAX_KEY_PREFIXES
        self.kept_apart: set[tuple[str, ...]] = set()
        self.space = _WHITESPACE[whitespace]
        self.colon = self.around('":"')
        self.comma = self.around('","')

    def around(self, mark: str) -> str:
        return f"{self.space} {mark} {self.space}" if self.space else mark

    def note(self, of: Written, keywords: str, case: str = "") -> None:
        self.findings.update(dict.fromkeys(findings_of(of, keywords, case)))

    def node(self, root: Key) -> str:
        start = self.reference(root)
        while self.waiting:
            key = self.waiting.pop()
            node, name = self.graph.nodes[key], self.names[key]
            ways = [self.reference(other) for other in node.either if other in self.graph.alive]
            ways += [self.part(part) for part in node.parts if lives(part, self.graph.alive)]
            self.rules.bodies[name] = " | ".join(dict.fromkeys(ways))
        return start

    def reference(self, key: Key) -> str:
        if key == ANY:
            return self.any()
        if key not in self.names:
            self.names[key] = self.rules.reserve()
            self.waiting.append(key)
        return self.names[key]

    def part(self, part: Part) -> str:
        if isinstance(part, Literals):
            if has_spellings(part):
                self.note(part.of, "enum const", "spelling")
            return f"({' | '.join(self.value(json.loads(value)) for value in part.values)})"
        if isinstance(part, Simple):
            return self.any() if part.kind == "any" else '("true" | "false")' if part.kind == "boolean" else '"null"'
        if isinstance(part, Number):
            return self.number(part)
        if isinstance(part, String):
            return self.string(part)
        return self.array(part) if isinstance(part, Array) else self.object(part)

    # Values that are listed, and any value.

    def value(self, value: Any) -> str:
        """One value; its strings and numbers in one spelling."""
        if isinstance(value, dict) and value:
            members = f" {self.comma} ".join(f"{_text(k)} {self.colon} {self.value(v)}" for k, v in value.items())
            return f'"{{" {self.space} {members} {self.space} "}}"'
        if isinstance(value, list) and value:
            return f'"[" {self.space} {f" {self.comma} ".join(map(self.value, value))} {self.space} "]"'
        if isinstance(value, dict | list):
            return (
                f'"{"{" if isinstance(value, dict) else "["}" {self.space} "{"}" if isinstance(value, dict) else "]"}"'
            )
        return _text(value)

    def any(self) -> str:
        """Any JSON value."""
        if "any" not in self.rules.bodies:
            self.rules.bodies["any"] = ""
            self.findings[DUPLICATES] = None
            string, space = any_string(self.rules), self.space
            pair = self.rules.rule(f"{string} {self.colon} any")
            members = self.rules.loop([f"{self.comma} {pair}"])
            values = self.rules.loop([f"{self.comma} any"])
            ways = [
                f'"{{" {space} "}}" | "{{" {space} {pair} {members} {space} "}}"',
                f'"[" {space} "]" | "[" {space} any {values} {space} "]"',
                string,
                self.any_number(),
                '"true" | "false" | "null"',
            ]
            self.rules.bodies["any"] = " | ".join(ways)
        return "any"

    def any_number(self) -> str:
        return self.rules.rule('"-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?')

    # Numbers.

    def number(self, part: Number) -> str:
        multiple, bounded = part.multiple, part.low is not None or part.high is not None
        whole = part.integer or (multiple is not None and multiple.denominator == 1)
        if whole:
            self.note(part.of, "type" if part.integer else "multipleOf", "integer")
            if multiple not in (None, 1):
                listed = self.multiples(part)
                if listed is not None:
                    return listed
                self.note(part.of, "multipleOf")
            found = integers(part.low, part.high) if bounded else '"-"? ("0" | [1-9] [0-9]*)'
            assert found is not None, "the normal form has no number without values"
            return self.rules.rule(found)
        places = _decimal_places(multiple)
        if places is not None and not bounded:
            self.note(part.of, "multipleOf", "decimal")
            return self.rules.rule(f'"-"? ("0" | [1-9] [0-9]*) ("." [0-9]{{1,{places}}} "0"*)?')
        if multiple is not None:
            self.note(part.of, "multipleOf")
        if not bounded:
            return self.any_number()
        if part.low == (Fraction(0), False) and part.high is None:
            return self.rules.rule(at_least_zero())
        self.note(part.of, "minimum maximum exclusiveMinimum exclusiveMaximum", "exponent")
        between = decimals(part.low, part.high)
        assert between is not None, "the normal form has no number without values"
        return self.rules.rule(between)

    def multiples(self, part: Number) -> str | None:
        """The whole multiples in a short range, one by one."""
        step = part.multiple
        if step is None or part.low is None or part.high is None or (part.high[0] - part.low[0]) / step > MAX_LISTED:
            return None
        values = (step * i for i in range(ceil(part.low[0] / step), floor(part.high[0] / step) + 1))
        kept = [
            v for v in values if not (part.low[1] and v == part.low[0]) and not (part.high[1] and v == part.high[0])
        ]
        return self.rules.rule(" | ".join(f'"{int(v)}"' for v in kept)) if kept else None

    # Strings.

    def string(self, part: String) -> str:
        trees = condition_trees(part, self.formats, self.note)
        if not trees:
            if part.least == 0 and part.most is None:
                return any_string(self.rules)
            body, exact = bounded_string(self.rules, part.least, part.most)
            if not exact:
                self.note_lengths(part)
            return self.rules.rule(body)
        chosen = min(trees, key=lambda tree: (widths(tree)[1] is None, trees.index(tree)))
        if len(trees) > 1:
            self.note(part.of, "pattern format", "several")
        clipped = within(chosen, part.least, part.most)
        if clipped is None:
            self.note_lengths(part)
            clipped = chosen
        writer = PatternWriter(self.rules)
        body = writer.write(clipped)
        if not writer.exact:
            self.note(part.of, "pattern", "count")
        return self.rules.rule(f'"\\"" {body} "\\""')

    def note_lengths(self, part: String) -> None:
        self.note(part.of, "minLength maxLength")

    # Arrays and objects.

    def array(self, part: Array) -> str:
        alive = self.graph.alive
        prefix = list(part.prefix)
        rest = part.rest if part.rest in alive else None
        for i, key in enumerate(prefix):
            if key not in alive:
                prefix, rest = prefix[:i], None
                break
        items = [self.reference(key) for key in prefix]
        more = self.reference(rest) if rest is not None else None
        least, most = part.least, part.most
        if more is None:
            most = len(items) if most is None else min(most, len(items))
        ways = [f'"[" {self.space} "]"'] if least == 0 else []
        after = ""  # what may follow the items so far, from the last one backwards
        if more is not None:
            low, high = max(0, least - max(1, len(items))), None if most is None else most - max(1, len(items))
            after = self.repeated(f"{self.comma} {more}", low, high)
        if not items and more is not None and most != 0:
            ways.append(f'"[" {self.space} {more} {after} {self.space} "]"')
        for i in reversed(range(1, len(items))):
            if most is not None and i >= most:
                continue
            this = f"{self.comma} {items[i]} {after}"
            after = self.rules.rule(this if i < least else f'"" | {this}')
        if items and most != 0:
            ways.append(f'"[" {self.space} {items[0]} {after} {self.space} "]"')
        return self.rules.rule(" | ".join(ways))

    def repeated(self, item: str, least: int, most: int | None) -> str:
        if most is not None and most <= 0:
            return ""
        if most is None and least <= 8:
            return " ".join([item] * least + [self.rules.loop([item])])
        return f"{self.rules.rule(item)}{{{least},{'' if most is None else most}}}"

    def object(self, part: Object) -> str:
        alive = self.graph.alive
        declared = [(name, key) for name, key in part.declared if key is not None and key in alive]
        pairs = list(self.other_pairs(part))
        least, most = part.least, part.most
        if not least and most is not None and not pairs and most >= len(declared):
            most = None
        if (len(declared) + 1) * max(least, most or 0) > MAX_COUNTED and declared:
            self.note(part.of, "minProperties maxProperties", "size")
            least, most = 0, None
        if len(declared) > 1 or (declared and pairs):
            self.note(part.of, "properties required", "order")
        if pairs:
            self.findings[DUPLICATES] = None
        members = [
            (f"{_text(name)} {self.colon} {self.reference(key)}", name in part.required) for name, key in declared
        ]
        body = self.members(members, pairs, least, most)
        ways = [f'"{{" {self.space} "}}"'] if not part.required and least == 0 else []
        if body is not None:
            ways.append(f'"{{" {self.space} {body} {self.space} "}}"')
        return self.rules.rule(" | ".join(ways))

    def members(self, members: list[tuple[str, bool]], pairs: list[str], least: int, most: int | None) -> str | None:
        """At least one member: the declared ones in order, then others. States count the members so far up to a cap."""
        cap = max(1, least, most or 0)
        after = [self.tail(pairs, count, least, most) for count in range(cap + 1)]
        for member, needed in reversed(members):
            before: list[str | None] = []
            for count in range(cap + 1):
                follow = after[min(count + 1, cap)]
                ways: list[str] = []
                if follow is not None and (most is None or count < most):
                    ways.append(f"{f'{self.comma} ' if count else ''}{member} {follow}".rstrip())
                skip = after[count]
                if not needed and skip is not None:
                    ways.append(skip or '""')
                before.append(self.rules.rule(" | ".join(ways)) if ways else None)
            after = before
        return after[0]

    def tail(self, pairs: list[str], count: int, least: int, most: int | None) -> str | None:
        """Members that are not declared, after `count` others; None if there is no way to end."""
        low, high = max(0, least - count), None if most is None else most - count
        if not pairs:
            return "" if count and low == 0 else None
        pair = self.rules.rule(" | ".join(pairs))
        if count:
            return self.repeated(f"{self.comma} {pair}", low, high)
        if high is not None and high < 1:
            return None
        return f"{pair} {self.repeated(f'{self.comma} {pair}', max(0, low - 1), None if high is None else high - 1)}".rstrip()

    def other_pairs(self, part: Object) -> Iterator[str]:
        """Members whose keys are not declared, by the pattern of the key and the others."""
        alive = self.graph.alive
        names = [name for name, _ in part.declared]
        matched = any(found(pattern, name) for pattern, _ in part.patterns for name in names)
        if matched or (part.patterns and (len(part.patterns) > 1 or part.rest in alive)):
            self.note(part.of, "patternProperties", "overlap")
        for pattern, key in part.patterns:
            if key is None or key not in alive:
                continue
            try:
                tree = full_match(pattern)
            except Untranslatable as error:
                self.note(part.of, "patternProperties", str(error))
                tree = ANY_TEXT
            if tree in (ANY_TEXT, sequence([ANY_TEXT, ANY_TEXT])):
                yield self.other_pair(part, names, key)
                continue
            writer = PatternWriter(self.rules)
            body = writer.write(tree)
            self.note(part.of, "patternProperties", "spelling" if writer.exact else "count")
            yield f'"\\"" {body} "\\"" {self.colon} {self.reference(key)}'
        if part.rest is not None and part.rest in alive:
            yield self.other_pair(part, names, part.rest)

    def other_pair(self, part: Object, names: list[str], key: Key) -> str:
        kept_apart = tuple(sorted(names))
        if kept_apart not in self.kept_apart:
            prefixes = len({name[:width] for name in names for width in range(len(name) + 1)})
            if prefixes > self.prefixes_left:
                self.note(part.of, "additionalProperties", "size")
                kept_apart = ()
            else:
                self.prefixes_left -= prefixes
                self.kept_apart.add(kept_apart)
        return f"{other_keys(self.rules, kept_apart)} {self.colon} {self.reference(key)}"


def _text(value: Any) -> str:
    return literal(json.dumps(value, ensure_ascii=False))


def _decimal_places(multiple: Fraction | None) -> int | None:
    """k if a number is a multiple of 10^-k, k > 0."""
    if multiple is None or multiple.numerator != 1:
        return None
    digits = str(multiple.denominator)
    return len(digits) - 1 if len(digits) > 1 and digits == "1" + "0" * (len(digits) - 1) else None
