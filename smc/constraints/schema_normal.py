"""The normal form of a JSON Schema: alternatives that hold one type's keywords each, and nothing that must be combined.

A place in a document must satisfy a *set* of subschemas: the one that stands there, what it refers to, the branches of
``allOf``, what several objects of a conjunction say of one property. Such a set is a node of a graph. There are finitely many
subschemas and so finitely many sets, which is why recursive schemas need no special care (it is the subset construction
of automata).

The normal form accepts what the schema accepts, or more: what it leaves out is a `Finding`, which names the place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from smc.constraints.ecma_regex import Untranslatable, full_match
from smc.constraints.json_drafts import REFERENCES
from smc.constraints.json_formats import checked_formats
from smc.constraints.json_patterns import found
from smc.constraints.json_subschemas import escaped
from smc.constraints.regex_tree import NOTHING, Tree, widths
from smc.constraints.schema_bounds import common_multiple, exact, has_multiple, lower
from smc.constraints.schema_formats import format_tree
from smc.constraints.schema_graph import (
    ANY,
    MEANT,
    Array,
    Finding,
    Graph,
    Key,
    Literals,
    Node,
    Number,
    Object,
    Part,
    Simple,
    String,
    Written,
)
from smc.constraints.schema_places import Document, Place
from smc.constraints.schema_values import disjoint, productive
from smc.errors import quoted

MAX_BRANCHES = 256
"""Most combinations of alternatives that hold at one place; choices beyond are left to the validator."""

MAX_NODES = 20_000
"""Most nodes of a graph; what lies beyond is left to the validator."""

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


def normalised(document: Document, validator: Any) -> Graph:
    """The normal form of a document. `validator` is one for the schema; it decides which listed values remain."""
    return _Builder(document, validator).graph()


_DEPENDENT = ("dependentRequired", "dependentSchemas", "dependencies")
_APPLICATORS = frozenset({*REFERENCES, *_DEPENDENT, "allOf", "anyOf", "oneOf"})

_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})

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
        self.formats = checked_formats(document.draft)
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
            if place.schema is True or place.name in seen:
                continue
            if place.schema is False:
                raise _Never(place.at, "the schema `false` cannot accept any value")
            seen.add(place.name)
            self.places[place.name] = place
            for keyword in place.schema:
                if keyword not in _APPLICATORS:
                    kept[place.name, ""] = None
                elif keyword in ("anyOf", "oneOf"):
                    branches = place.schema[keyword]
                    if len(branches) == 1:
                        stack.append(self.document.child(place, keyword, 0))
                    else:
                        kept[place.name, keyword] = None
                elif keyword == "allOf":
                    stack.extend(
                        self.document.child(place, keyword, i) for i in reversed(range(len(place.schema[keyword])))
                    )
                elif keyword in _DEPENDENT:
                    for name in place.schema[keyword]:
                        kept[place.name, f"{keyword}/{escaped(name)}"] = None
                else:
                    stack.append(self.document.referred(place, keyword))
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
        place, (keyword, slash, step) = self.places[atom[0]], atom[1].partition("/")
        if not slash:  # a step may be empty, as a key may
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
        for place in own:
            for keyword in place.schema.keys() - _own(place.schema).keys() - _APPLICATORS:
                self.note(place.at, keyword)
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
                if keyword in place.schema and not _says_nothing(keyword, place.schema):
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
        for tree, at in self.trees(patterns, formats):
            fewest, longest = widths(tree)
            least, most = max(least, fewest), lower(most, longest)
            if tree == NOTHING:
                raise _Never(at, "it cannot accept any value: no text matches")
            if most is not None and least > most:
                raise _Never(at, "it cannot accept any value: what it matches has other lengths than the rest asks for")
        return String(*_limits(own, "minLength", "maxLength"), tuple(patterns), tuple(formats), _of(own, "string"))

    def trees(
        self, patterns: Iterable[tuple[str, str]], formats: Iterable[tuple[str, str]]
    ) -> Iterator[tuple[Tree, str]]:
        """What is known of the texts that patterns and formats match, each with its place."""
        for pattern, at in patterns:
            tree = _tree(pattern)
            if tree is not None:
                yield tree, f"{at}/pattern"
        for name, at in formats:
            tree, _ = format_tree(name) if name in self.formats else (None, False)
            if tree is not None:
                yield tree, f"{at}/format"

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
                    bounds.append((exact(schema[keyword]), schema.get(flag) is True))
                if not isinstance(schema.get(flag, False), bool):
                    bounds.append((exact(schema[flag]), True))
                for bound in bounds:
                    if name == "low" and (low is None or bound > low):
                        low = bound
                    if name == "high" and (high is None or (-bound[0], bound[1]) > (-high[0], high[1])):
                        high = bound
            if "multipleOf" in schema:
                step = exact(schema["multipleOf"])
                multiple = step if multiple is None else common_multiple(multiple, step)
        of = _of(own, "number")
        if low is not None and high is not None and (low[0] > high[0] or (low[0] == high[0] and (low[1] or high[1]))):
            raise _Never(of[0][0], "minimum greater than maximum")
        if integer and multiple is not None:
            multiple = common_multiple(multiple, Fraction(1))
            multiple = None if multiple == 1 else multiple
        spacing = Fraction(1) if integer and multiple is None else multiple
        if spacing is not None and low is not None and high is not None and not has_multiple(spacing, low, high):
            what = "whole number" if spacing == 1 else f"multiple of {float(spacing):g}"
            raise _Never(of[0][0], f"it cannot accept any value: no {what} lies between minimum and maximum")
        return Number(integer, low, high, multiple, of)

    def array(self, own: list[Place]) -> Array:
        least, most = _limits(own, "minItems", "maxItems")
        for place in own:
            if _is_trivial(place.schema.get("contains")):
                fewest, largest = _contained(place)
                least, most = max(least, fewest), lower(most, largest)
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
        limit = (place.at for place in own if {"minItems", "contains"} & place.schema.keys())
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
                raise _Never(
                    f"{required[name]}/required", f"the required property {quoted(name)} cannot accept any value"
                )
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
            if _tree(pattern) != NOTHING:
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


def _is_trivial(schema: Any) -> bool:
    """Whether a schema accepts everything or nothing, and says so."""
    return isinstance(schema, bool) or schema == {}


def _says_nothing(keyword: str, schema: dict[str, Any]) -> bool:
    """Whether a keyword that no mask enforces leaves nothing to enforce, or nothing but a number of items."""
    if keyword == "uniqueItems":
        return schema[keyword] is False
    if keyword == "contains":
        anything_goes = schema.get("minContains", 1) == 0 and "maxContains" not in schema
        return anything_goes or _is_trivial(schema[keyword])
    return False


def _contained(place: Place) -> tuple[int, int | None]:
    """How many items an array has, by what it must contain: any item, or one that cannot be."""
    fewest, largest = int(place.schema.get("minContains", 1)), place.schema.get("maxContains")
    if place.schema["contains"] is not False:
        return fewest, None if largest is None else int(largest)
    if fewest:
        raise _Never(f"{place.at}/contains", "it cannot accept any value: an array has no item that suits `false`")
    return 0, None


def _own(schema: dict[str, Any]) -> dict[str, Any]:
    """What a subschema says by itself. Beside applicators, what is unevaluated is not for it alone to say."""
    left_out = _APPLICATORS | _UNEVALUATED if _APPLICATORS & schema.keys() else frozenset()
    return {keyword: value for keyword, value in schema.items() if keyword not in left_out}


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


def _tree(pattern: str) -> Tree | None:
    """The texts that a pattern matches, None where it cannot be followed."""
    try:
        return full_match(pattern)
    except Untranslatable:
        return None


def _required(place: Place) -> list[str]:
    wanted = place.schema.get("required", [])
    return wanted if isinstance(wanted, list) else []


def _found(pattern: str, name: str) -> bool:
    return bool(found(pattern, name))
