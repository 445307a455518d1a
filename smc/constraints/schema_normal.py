"""The normal form of a JSON Schema: alternatives that hold one type's keywords each, and nothing that must be combined.

A place in a document must satisfy a *set* of subschemas: the one that stands there, what it refers to, the branches of
``allOf``, what several objects of a conjunction say of one property. Such a set is a node of a graph. There are finitely many
subschemas and so finitely many sets, which is why recursive schemas need no special care (it is the subset construction
of automata). A node is a union of other nodes (``anyOf``), or a few parts of one type each.

The normal form accepts what the schema accepts, or more: what it leaves out is a `Finding`, which names the place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, lcm
from typing import Any

from smc.constraints.json_patterns import found
from smc.constraints.schema_places import Document, Place, escape

MAX_BRANCHES = 256
"""Most combinations of alternatives that hold at one place; choices beyond are left to the validator."""

MAX_NODES = 20_000
"""Most nodes of a graph; what lies beyond is left to the validator."""

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")

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


def normalised(document: Document, validator: Any) -> Graph:
    """The normal form of a document. `validator` is one for the schema; it decides which listed values remain."""
    return _Builder(document, validator).graph()


_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DEPENDENT = ("dependentRequired", "dependentSchemas", "dependencies")
_APPLICATORS = frozenset({*_REFERENCES, *_DEPENDENT, "allOf", "anyOf", "oneOf"})

_TYPE_OF = {
    "object": "properties patternProperties additionalProperties required minProperties maxProperties propertyNames "
    "unevaluatedProperties",
    "array": "items prefixItems additionalItems minItems maxItems uniqueItems contains minContains maxContains unevaluatedItems",
    "string": "pattern minLength maxLength format",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
}
_OF_TYPE = {keyword: kind for kind, keywords in _TYPE_OF.items() for keyword in keywords.split()}

_UNENFORCED = {
    "array": ("uniqueItems", "contains", "unevaluatedItems"),
    "object": ("unevaluatedProperties",),
}


class _Never(Exception):
    """No value satisfies this."""

    def __init__(self, at: str, why: str) -> None:
        self.at, self.why = at, why


class _Builder:
    def __init__(self, document: Document, validator: Any) -> None:
        self.document = document
        self.validator = validator
        self.places: dict[str, Place] = {}
        self.nodes: dict[Key, Node] = {ANY: Node(parts=(Simple("any"),))}
        self.findings: dict[Finding, None] = {}
        self.reasons: list[tuple[str, str]] = []
        self.waiting: list[Key] = []
        self.overlaps: list[tuple[str, tuple[Key, ...]]] = []

    def graph(self) -> Graph:
        try:
            root = self.key([self.document.root])
        except _Never as never:
            return Graph(ANY, {}, (), ((never.at, never.why),))
        while self.waiting:
            key = self.waiting.pop()
            self.nodes[key] = self.node(key)
        alive = productive(self.nodes)
        graph = Graph(root, self.nodes, (), tuple(self.reasons), alive)
        for at, branches in self.overlaps:
            living = [branch for branch in branches if branch in alive]
            pairs = ((a, b) for i, a in enumerate(living) for b in living[:i])
            if len(living) > 40 or not all(disjoint(graph, a, b) for a, b in pairs):
                self.note(at, "oneOf")
        graph.findings = tuple(self.findings)
        return graph

    def note(self, at: str, keyword: str, case: str = "") -> None:
        self.findings[Finding(at.partition(MEANT)[0], keyword, case)] = None

    def reason(self, never: _Never) -> None:
        self.reasons.append((never.at.partition(MEANT)[0], never.why))

    # Conjunctions: from places to atoms.

    def key(self, places: Iterable[Place], atoms: Iterable[tuple[str, str]] = ()) -> Key:
        """The node for a conjunction, to be built if it is new. Raises _Never for what is plainly unsatisfiable."""
        kept = dict.fromkeys(atoms)
        stack, seen = list(places)[::-1], set()
        while stack:
            place = stack.pop()
            if place.schema is True or place.at in seen:
                continue
            if place.schema is False:
                raise _Never(place.at, "the schema `false` cannot accept any value")
            seen.add(place.at)
            self.places[place.at] = place
            for keyword in place.schema:
                if keyword not in _APPLICATORS:
                    kept[place.at, ""] = None
                elif keyword in ("anyOf", "oneOf"):
                    branches = place.schema[keyword]
                    if len(branches) == 1:
                        stack.append(self.document.child(place, keyword, 0))
                    else:
                        kept[place.at, keyword] = None
                elif keyword == "allOf":
                    stack.extend(
                        self.document.child(place, keyword, i) for i in reversed(range(len(place.schema[keyword])))
                    )
                elif keyword in _DEPENDENT:
                    for name in place.schema[keyword]:
                        kept[place.at, f"{keyword}/{escape(name)}"] = None
                else:
                    target = self.document.referred(place, keyword)
                    if target is None:
                        self.note(place.at, keyword)
                    else:
                        stack.append(target)
        key = tuple(sorted(kept, key=lambda atom: (self.places[atom[0]].order, atom)))
        if key not in self.nodes:
            if len(self.nodes) >= MAX_NODES:
                self.note(next((at for at, _ in key), ""), "$ref", "size")
                return ANY
            self.nodes[key] = Node()
            self.waiting.append(key)
        return key

    def node(self, key: Key) -> Node:
        own = [atom for atom in key if not atom[1]]
        choices = [atom for atom in key if atom[1]]
        if not choices:
            return Node(parts=tuple(self.parts([self.places[at] for at, _ in own])))
        kept: list[tuple[tuple[str, str], list[list[Place]]]] = []
        combinations = 1
        for atom in choices:
            branches = self.branches(atom)
            combinations *= len(branches)
            if combinations > MAX_BRANCHES and kept:
                self.note(atom[0], atom[1].partition("/")[0], "size")
                combinations //= len(branches)
            else:
                kept.append((atom, branches))
        (first, branches), later = kept[0], [atom for atom, _ in kept[1:]]
        keys: list[Key] = []
        for branch in branches:
            try:
                keys.append(self.key(branch, [*own, *later]))
            except _Never as never:
                self.reason(never)
        if first[1] == "oneOf":
            self.overlaps.append((first[0], tuple(keys)))
        return Node(either=tuple(dict.fromkeys(keys)))

    def branches(self, atom: tuple[str, str]) -> list[list[Place]]:
        """The alternatives of one choice."""
        place, (keyword, _, step) = self.places[atom[0]], atom[1].partition("/")
        if not step:
            return [[self.document.child(place, keyword, i)] for i in range(len(place.schema[keyword]))]
        name = step.replace("~1", "/").replace("~0", "~")
        wanted = place.schema[keyword][name]
        at = f"{place.at}{MEANT}{keyword}/{step}"
        without = self.document.synthetic(place, f"{at}/absent", {"properties": {name: False}})
        needed = wanted if isinstance(wanted, list) else []
        present = self.document.synthetic(place, f"{at}/present", {"required": list(dict.fromkeys([name, *needed]))})
        return [[without], [present] if needed == wanted else [present, self.document.child(place, keyword, name)]]

    # One conjunction without choices: its parts.

    def parts(self, own: list[Place]) -> Iterator[Part]:
        if not own:
            yield Simple("any")
            return
        listed = next((place for place in own if {"enum", "const"} & place.schema.keys()), None)
        try:
            if listed is not None:
                yield self.literals(own, listed)
                return
            kinds, forbidden = self.kinds(own)
        except _Never as never:
            self.reason(never)
            return
        if set(kinds) == set(TYPES) - {"integer"} and not any(
            keyword in _OF_TYPE for place in own for keyword in place.schema
        ):
            yield Simple("any")
            return
        for kind in kinds:
            try:
                yield self.part(kind, own, forbidden)
            except _Never as never:
                self.reason(never)

    def literals(self, own: list[Place], listed: Place) -> Literals:
        schema = listed.schema
        values = [schema["const"]] if "const" in schema else schema["enum"]
        tests = [self.validator.evolve(schema=_own(place.schema), _resolver=place.resolver) for place in own]
        kept = [value for value in values if all(test.is_valid(value) for test in tests)]
        if not kept:
            why = "its values must not be empty" if not values else "it cannot accept any value: none suits the rest"
            raise _Never(f"{listed.at}/{'const' if 'const' in schema else 'enum'}", why)
        texts = (json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in kept)
        of = tuple((listed.at, word) for word in ("const", "enum") if word in schema)
        return Literals(tuple(dict.fromkeys(texts)), of)

    def kinds(self, own: list[Place]) -> tuple[list[str], list[tuple[str, str]]]:
        """The types that remain, in the order of TYPES, and keys that ``not`` forbids with their places."""
        kinds = set(TYPES)
        forbidden: list[tuple[str, str]] = []
        for place in own:
            wanted = place.schema.get("type")
            if wanted is not None:
                names = {name for name in ([wanted] if isinstance(wanted, str) else wanted) if isinstance(name, str)}
                names |= {"integer"} if "number" in names else set()
                narrowed = kinds & names if names else kinds
                if not narrowed:
                    raise _Never(f"{place.at}/type", "it cannot accept any value: the types exclude one another")
                kinds = narrowed
            if "not" in place.schema:
                kinds = self.negated(place, kinds, forbidden)
            if "if" in place.schema and ({"then", "else"} & place.schema.keys()):
                self.note(place.at, "if")
        if "number" in kinds:
            kinds.discard("integer")
        return [kind for kind in TYPES if kind in kinds], forbidden

    def negated(self, place: Place, kinds: set[str], forbidden: list[tuple[str, str]]) -> set[str]:
        """What ``not`` leaves of the types, where it speaks of types or of one key; else it is noted."""
        denied = place.schema["not"]
        if denied is True or denied == {}:
            raise _Never(f"{place.at}/not", "it cannot accept any value")
        if denied is False:
            return kinds
        only = denied.keys() - {"description", "title", "$comment"}
        if only == {"type"}:
            names = {denied["type"]} if isinstance(denied["type"], str) else set(denied["type"])
            names |= {"integer"} if "number" in names else set()
            if "integer" in names and "number" not in names and "number" in kinds:
                self.note(place.at, "not")  # numbers that are no integers are not a type
                names.discard("integer")
            if not kinds - names:
                raise _Never(f"{place.at}/not", "it cannot accept any value: no type remains")
            return kinds - names
        if only == {"required"} and len(denied["required"]) == 1:
            forbidden.append((denied["required"][0], f"{place.at}/not"))
            if "object" not in kinds:
                raise _Never(f"{place.at}/not", "it cannot accept any value: only an object can lack a key")
            return {"object"}
        self.note(place.at, "not")
        return kinds

    def part(self, kind: str, own: list[Place], forbidden: list[tuple[str, str]]) -> Part:
        for keyword in _UNENFORCED.get(kind, ()):
            for place in own:
                if place.schema.get(keyword, False) is not False or (
                    keyword.startswith("unevaluated") and keyword in place.schema
                ):
                    self.note(place.at, keyword)
        if kind in ("boolean", "null"):
            return Simple(kind)
        if kind == "string":
            return self.string(own)
        if kind == "array":
            return self.array(own)
        if kind == "object":
            return self.object(own, forbidden)
        return self.number(own, kind == "integer")

    def string(self, own: list[Place]) -> String:
        least, most = _limits(own, "minLength", "maxLength")
        patterns = {(p.schema["pattern"], p.at): None for p in own if "pattern" in p.schema}
        formats = {(p.schema["format"], p.at): None for p in own if "format" in p.schema}
        return String(least, most, tuple(patterns), tuple(formats), _of(own, "string"))

    def number(self, own: list[Place], integer: bool) -> Number:
        low = high = None
        multiple: Fraction | None = None
        for place in own:
            schema = place.schema
            for name, keyword, flag in (
                ("low", "minimum", "exclusiveMinimum"),
                ("high", "maximum", "exclusiveMaximum"),
            ):
                bounds = []
                if keyword in schema:  # draft 4 says with a flag that a bound is excluded
                    bounds.append((_exact(schema[keyword]), schema.get(flag) is True))
                if not isinstance(schema.get(flag, False), bool):
                    bounds.append((_exact(schema[flag]), True))
                for bound in bounds:
                    if name == "low" and (low is None or bound > low):
                        low = bound
                    if name == "high" and (high is None or (-bound[0], bound[1]) > (-high[0], high[1])):
                        high = bound
            if "multipleOf" in schema:
                step = _exact(schema["multipleOf"])
                multiple = step if multiple is None else _common_multiple(multiple, step)
        of = _of(own, "number")
        if low is not None and high is not None and (low[0] > high[0] or (low[0] == high[0] and (low[1] or high[1]))):
            raise _Never(of[0][0], "minimum greater than maximum")
        if integer and multiple is not None:
            multiple = _common_multiple(multiple, Fraction(1))
            multiple = None if multiple == 1 else multiple
        return Number(integer, low, high, multiple, of)

    def array(self, own: list[Place]) -> Array:
        least, most = _limits(own, "minItems", "maxItems")
        heads: list[list[Place]] = []
        tails: list[Place | None] = []
        for place in own:
            schema, head, tail = place.schema, [], None
            listed = "prefixItems" if "prefixItems" in schema else "items"
            if isinstance(schema.get(listed), list):
                head = [self.document.child(place, listed, i) for i in range(len(schema[listed]))]
                other = "items" if listed == "prefixItems" else "additionalItems"
            else:
                other = "items"
            if other in schema:
                tail = self.document.child(place, other)
            heads.append(head)
            tails.append(tail)
        width = max(map(len, heads))
        prefix: list[Key] = []
        limit = (place.at for place in own if "minItems" in place.schema)
        for i in range(width):
            here = [head[i] if i < len(head) else tail for head, tail in zip(heads, tails, strict=True)]
            key = self.maybe([place for place in here if place is not None])
            if key is None:
                most = i if most is None else min(most, i)
                break
            prefix.append(key)
        rest = self.maybe([tail for tail in tails if tail is not None])
        if rest is None:
            most = len(prefix) if most is None else min(most, len(prefix))
        if most is not None and least > most:
            raise _Never(next(limit, own[0].at), f"minItems asks for {least} items, greater than max {most}")
        if most is not None and most <= len(prefix):
            prefix, rest = prefix[:most], None
        return Array(tuple(prefix), rest, least, most, _of(own, "array"))

    def object(self, own: list[Place], forbidden: list[tuple[str, str]]) -> Object:
        least, most = _limits(own, "minProperties", "maxProperties")
        required = {name: place.at for place in own for name in _required(place)}
        named = self.property_names(own)
        names = dict.fromkeys(name for place in own for name in place.schema.get("properties", ()))
        names.update(dict.fromkeys(required))
        names.update(dict.fromkeys(name for name, _ in forbidden))
        listed = self.listed_names(named)
        names.update(dict.fromkeys(listed or ()))
        declared: list[tuple[str, Key | None]] = []
        for name in names:
            places = [child for place in own for child in self.at_key(place, name)]
            key = self.maybe(places)
            if any(not test.is_valid(name) for test in self.name_tests(named)) or name in dict(forbidden):
                key = None
            if key is None and name in required:
                raise _Never(f"{required[name]}/required", f"the required property {name!r} cannot accept any value")
            declared.append((name, key))
        patterns = [] if listed is not None else list(self.by_pattern(own))
        rest = None if listed is not None else self.maybe(self.others(own))
        if listed is None:
            for place in named:
                self.note(place.at.removesuffix("/propertyNames"), "propertyNames")
        speaking = [place for place in own if "patternProperties" in place.schema]
        if listed is None and len(speaking) > 1 and any("additionalProperties" in place.schema for place in speaking):
            for place in speaking:
                self.note(place.at, "patternProperties", "conjunction")
        living = sum(key is not None for _, key in declared)
        keyed = any(key is not None for _, key in patterns)
        if rest is None and not keyed:
            most = living if most is None else min(most, living)
        least = max(least, len(required))
        if most is not None and least > most:
            at = next((place.at for place in own if "minProperties" in place.schema), own[0].at)
            raise _Never(at, f"it asks for {least} properties, greater than max {most}")
        if most is not None and rest is None and not keyed and most >= living:
            most = None  # the declared keys are the limit
        if least <= len(required):
            least = 0
        return Object(tuple(declared), frozenset(required), tuple(patterns), rest, least, most, _of(own, "object"))

    def at_key(self, place: Place, name: str) -> Iterator[Place]:
        """What one subschema says of the value under `name`."""
        schema, spoken = place.schema, False
        if name in schema.get("properties", ()):
            spoken = True
            yield self.document.child(place, "properties", name)
        for pattern in schema.get("patternProperties", ()):
            if _found(pattern, name):
                spoken = True
                yield self.document.child(place, "patternProperties", pattern)
        if not spoken and "additionalProperties" in schema:
            yield self.document.child(place, "additionalProperties")

    def by_pattern(self, own: list[Place]) -> Iterator[tuple[str, Key | None]]:
        for pattern in dict.fromkeys(p for place in own for p in place.schema.get("patternProperties", ())):
            places = []
            for place in own:
                schema = place.schema
                if pattern in schema.get("patternProperties", ()):
                    places.append(self.document.child(place, "patternProperties", pattern))
                elif "patternProperties" not in schema and "additionalProperties" in schema:
                    places.append(self.document.child(place, "additionalProperties"))
            yield pattern, self.maybe(places)

    def others(self, own: list[Place]) -> list[Place]:
        return [self.document.child(p, "additionalProperties") for p in own if "additionalProperties" in p.schema]

    def property_names(self, own: list[Place]) -> list[Place]:
        return [self.document.child(p, "propertyNames") for p in own if p.schema.get("propertyNames", True) is not True]

    def name_tests(self, named: list[Place]) -> list[Any]:
        return [self.validator.evolve(schema=place.schema, _resolver=place.resolver) for place in named]

    def listed_names(self, named: list[Place]) -> list[str] | None:
        """All keys that there can be, if ``propertyNames`` lists them."""
        for place in named:
            if place.schema is False:
                return []
            for values in (place.schema.get("enum"), [place.schema["const"]] if "const" in place.schema else None):
                if values is not None:
                    return [value for value in values if isinstance(value, str)]
        return None

    def maybe(self, places: list[Place]) -> Key | None:
        """The node of a conjunction, None if it is plainly unsatisfiable."""
        try:
            return self.key(places)
        except _Never as never:
            self.reason(never)
            return None


def _own(schema: dict[str, Any]) -> dict[str, Any]:
    return {keyword: value for keyword, value in schema.items() if keyword not in _APPLICATORS}


def _of(own: list[Place], kind: str) -> Written:
    """The keywords that speak of a type."""
    return tuple((p.at, word) for p in own for word in p.schema if word == "type" or _OF_TYPE.get(word) == kind)


def _limits(own: list[Place], low: str, high: str) -> tuple[int, int | None]:
    least = max((int(place.schema[low]) for place in own if low in place.schema), default=0)
    most = min((int(place.schema[high]) for place in own if high in place.schema), default=None)
    if most is not None and least > most:
        at = next(place.at for place in own if low in place.schema)
        raise _Never(at, f"{low} {least} is greater than max ({high} {most})")
    return least, most


def _required(place: Place) -> list[str]:
    wanted = place.schema.get("required", [])
    return wanted if isinstance(wanted, list) else []


def _exact(number: float) -> Fraction:
    return Fraction(repr(number))


def _common_multiple(a: Fraction, b: Fraction) -> Fraction:
    """The least number that is a multiple of both."""
    return Fraction(lcm(a.numerator, b.numerator), gcd(a.denominator, b.denominator))


def _found(pattern: str, name: str) -> bool:
    return bool(found(pattern, name))


def findings_of(of: Written, keywords: str, case: str = "") -> Iterator[Finding]:
    """A finding at each of `keywords` (separated by blanks) that a part was made of, or at the place of the part."""
    wanted = keywords.split()
    for at, word in [(at, word) for at, word in of if word in wanted] or [(of[0][0] if of else "", wanted[0])]:
        yield Finding(at.partition(MEANT)[0], word, case)


def has_spellings(part: Literals) -> bool:
    """Whether JSON has more than one spelling for a listed value: not for null and the booleans."""
    return any(type_of(json.loads(value)) not in ("null", "boolean") for value in part.values)


# What no value satisfies.


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
