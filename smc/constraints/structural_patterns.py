"""The regular expressions inside a structural tag, respelled before the engine sees them.

A tag is free text with grammars in it, and nothing checks its texts but the engine. So what an automaton cannot do is
refused here, where a :class:`~smc.constraints.regex.Regex` would leave it to its validator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from smc.constraints.caching import shortened
from smc.constraints.ecma_regex import NotEcma, Untranslatable, full_match
from smc.constraints.nesting import readable
from smc.constraints.regex_grammar import grammar_text
from smc.constraints.regex_rewrite import respell
from smc.constraints.regex_tree import spelled
from smc.errors import ConstraintError

_SCHEMAS = ("json_schema", "schema")
_VALUES = ("const", "enum", "default", "examples")
_MAPS = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_INSTEAD = "Use Template or ToolCalls with Regex and JSONSchema in them, which have a validator for it."


def respelled_tag(tag: Any) -> Any:
    """A structural tag (JSON) in which each regex is a grammar, and each pattern of a schema is in plain syntax.

    Raises:
        ConstraintError: a regex that is not understood, or that needs more than an automaton.
    """
    if isinstance(tag, list):
        return [respelled_tag(item) for item in tag]
    if not isinstance(tag, Mapping):
        return tag
    if tag.get("type") == "regex" and isinstance(tag.get("pattern"), str):
        return {"type": "grammar", "grammar": _as_grammar(tag["pattern"])}
    return {key: _respelled_schema(item) if key in _SCHEMAS else respelled_tag(item) for key, item in tag.items()}


def _as_grammar(pattern: str) -> str:
    named = f"The regex {shortened(pattern)!r} of the structural tag"
    with readable(named):
        respelled = respell(pattern, named)
        if respelled.notes:
            note = respelled.notes[0]
            raise ConstraintError(f"{named} uses {note.keyword} at {note.at}, which no engine can follow. {_INSTEAD}")
        return grammar_text(respelled.tree)


def _respelled_schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_respelled_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    result = {key: item if key in _VALUES else _respelled_schema(item) for key, item in schema.items()}
    for key in _MAPS & schema.keys():
        if isinstance(schema[key], Mapping):
            result[key] = {name: _respelled_schema(item) for name, item in schema[key].items()}
    if isinstance(schema.get("pattern"), str):
        result["pattern"] = _whole(schema["pattern"])
    if isinstance(schema.get("patternProperties"), Mapping):
        result["patternProperties"] = {_whole(key): item for key, item in result["patternProperties"].items()}
    return result


def _whole(pattern: str) -> str:
    """A pattern that is searched for, as one that matches whole strings: the engine reads every pattern so."""
    named = f"The pattern {shortened(pattern)!r} of the structural tag"
    try:
        with readable(named):
            plain = spelled(full_match(pattern))
    except NotEcma as error:
        raise ConstraintError(f"{named} is not a regular expression of ECMA-262: it {error}.") from None
    except Untranslatable as error:
        raise ConstraintError(f"{named} uses more than an automaton can do ({error}). {_INSTEAD}") from None
    # the engine's \\x takes all the hex digits that follow
    return "^" + re.sub(r"\\x([0-9a-f]{2})", r"\\u{\1}", plain) + "$"
