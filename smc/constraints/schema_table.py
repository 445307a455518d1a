"""What each engine makes of each keyword of JSON Schema: the table behind the audit, verified by tests on instances.

A keyword without a row is enforced exactly. A row says under which circumstance it is not, and how: "wider" (repaired
by the validator), or "narrower" by scope. Rows of "both" come from the normal form, which all engines are given.
"""

from __future__ import annotations

from dataclasses import dataclass

from smc.constraints.notes import Effect, Scope


@dataclass(frozen=True)
class Row:
    """One keyword in one circumstance.

    Attributes:
        engine: "xgrammar", "llguidance", or "both".
        keyword: as JSON Schema names it.
        case: the circumstance, a word that the rewriting gives it; empty for all.
        effect, what, scope: as in :class:`smc.constraints.notes.LanguageNote`.
    """

    engine: str
    keyword: str
    case: str
    effect: Effect
    what: str
    scope: Scope = "values"


def _wider(engine: str, keywords: str, case: str, what: str) -> list[Row]:
    return [Row(engine, keyword, case, "wider", what) for keyword in keywords.split()]


def _spelling(engine: str, keywords: str, case: str, what: str) -> list[Row]:
    return [Row(engine, keyword, case, "narrower", what, "spelling") for keyword in keywords.split()]


_PATTERNS = "pattern patternProperties"
_BOUNDS = "minimum maximum exclusiveMinimum exclusiveMaximum"

ROWS: tuple[Row, ...] = (
    # the normal form
    *_wider("both", "oneOf", "", "values that suit several branches, which could not be shown to exclude one another"),
    *_wider("both", "not", "", "values that it denies: only types, and a single required key, are taken out"),
    *_wider("both", "if", "", "values that break `then` or `else`"),
    *_wider("both", "uniqueItems", "", "equal items"),
    *_wider("both", "contains", "", "arrays with too few or too many such items"),
    *_wider("both", "unevaluatedItems", "", "items that no other keyword speaks of"),
    *_wider("both", "unevaluatedProperties", "", "members that no other keyword speaks of"),
    *_wider("both", "propertyNames", "", "keys that are not declared and that it forbids"),
    *_wider(
        "both", "patternProperties", "overlap", "a key that matches, written as if it did not match or matched less"
    ),
    *_wider(
        "both", "patternProperties", "conjunction", "a key that matches, with a value that another subschema forbids"
    ),
    *_wider(
        "both",
        "anyOf oneOf dependentRequired dependentSchemas dependencies $ref",
        "size",
        "any value: there are too many combinations to write them all",
    ),
    # patterns, the same for both: what no grammar can follow is dropped
    *_wider("both", _PATTERNS, "lookaround", "any string: it looks ahead or behind"),
    *_wider("both", _PATTERNS, "backreference", "any string: it refers back to a group"),
    *_wider("both", _PATTERNS, "boundary", "any string: it uses word boundaries"),
    *_wider("both", _PATTERNS, "anchor", "any string: it has ^ or $ in its middle"),
    *_spelling("both", _PATTERNS, "spelling", "escapes where they are optional"),
    *_wider("both", "format", "wider", "strings of about this form, or any string"),
    *_spelling("both", "format", "spelling", "escapes where they are optional"),
    *_wider("both", "properties", "duplicates", "objects that write a key twice, where keys are open"),
    *_spelling("both", "properties required", "order", "keys in another order than declared, and escapes in them"),
    *_spelling("both", "type", "integer", "whole numbers with a point or an exponent"),
    *_spelling("both", "enum const", "spelling", "other spellings of the same values"),
    *_spelling("both", _BOUNDS, "exponent", "numbers with an exponent (each has a spelling without)"),
    # xgrammar
    *_spelling("xgrammar", "multipleOf", "integer", "whole numbers with a point or an exponent"),
    *_spelling("xgrammar", "multipleOf", "decimal", "numbers with an exponent (each has a spelling without)"),
    *_wider("both", "multipleOf", "", "numbers that are no multiples"),
    *_wider("xgrammar", "pattern format", "several", "strings that match only one of several patterns"),
    *_wider("xgrammar", _PATTERNS, "count", "more repetitions than the pattern counts"),
    *_wider(
        "xgrammar", "minLength maxLength", "", "strings of other lengths, if they match the rest or hold an escape"
    ),
    *_wider("xgrammar", "minProperties maxProperties", "size", "objects with fewer or more members"),
    *_wider("xgrammar", "additionalProperties", "size", "a declared key written late, with the value of any other key"),
    # llguidance
    *_spelling(
        "llguidance",
        "type",
        "string",
        "escapes as \\uXXXX where they are optional, and DEL as it is where there is a pattern",
    ),
    *_wider(
        "llguidance", "type", "controls", "backslashes and quotes that a pattern excludes, but not control characters"
    ),
    *_wider("llguidance", "patternProperties", "controls", "keys with backslashes and quotes that it excludes"),
    *_spelling(
        "llguidance", "multipleOf", "decimal", "numbers with an exponent, or with more or fewer zeros after the point"
    ),
    *_wider("llguidance", _BOUNDS, "size", "numbers beyond a bound of more than 2^53"),
    *_wider("llguidance", "enum const", "size", "other values of its type: it has a number that floating point rounds"),
    *_wider("llguidance", "minProperties maxProperties", "optional", "objects with fewer or more members"),
)

_INDEX = {(row.engine, row.keyword, row.case): row for row in ROWS}


def row(engine: str, keyword: str, case: str) -> Row:
    """The row for a keyword in a circumstance.

    Raises:
        KeyError: the table has none (a bug).
    """
    found = _INDEX.get((engine, keyword, case)) or _INDEX.get(("both", keyword, case))
    if found is None:
        raise KeyError(f"schema_table has no row for {keyword!r} in case {case!r} with {engine}")
    return found
