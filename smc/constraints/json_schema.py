"""JSON that follows a JSON Schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import xgrammar as xgr

from smc.constraints.base import CompiledConstraint
from smc.constraints.caching import CompileOnce, shortened
from smc.constraints.json_validator import read_json, schema_validator
from smc.constraints.xgrammar_engine import ENGINE, compile_grammar
from smc.errors import ConstraintError, one_of
from smc.vocabulary import Vocabulary

if TYPE_CHECKING:
    from pydantic import BaseModel

Whitespace = Literal["compact", "bounded", "free"]

_LAYOUT: dict[str, dict[str, Any]] = {
    "compact": {"any_whitespace": False, "separators": (",", ":")},
    "bounded": {"any_whitespace": True, "max_whitespace_cnt": 2},
    "free": {"any_whitespace": True},
}


@dataclass(frozen=True, init=False)
class JSONSchema(CompileOnce):
    """JSON that follows a schema: a dict, JSON text, or a Pydantic model class.

    Two constraints are equal if their schemas are, as JSON text (the order of keys matters: the engine writes
    properties in the order in which the schema declares them), and so is `whitespace`:

    - ``"compact"``: none at all between elements;
    - ``"bounded"``: at most two characters on each side of an element (a model cannot run away into blanks);
    - ``"free"``: any amount.

    The mask is xgrammar's, which reads some keywords more widely than the specification (``uniqueItems``, ``not``, ...) and
    some more narrowly (properties in declared order; objects and arrays closed to what the schema does not name). The
    terminal validator is strict JSON (no duplicate keys, NaN or lone surrogates) and then the `jsonschema` package with
    formats checked where the package for the format is installed; what the mask lets through and the validator
    does not is rejected, and counted. Whitespace is a matter of the mask alone: the validator accepts any. A regex
    in ``patternProperties`` is the one part of a schema whose validation has no time limit.

    Raises:
        ConstraintError: text that is not JSON, or a schema that is not valid (the message names the place).
        OptionError: an unknown `whitespace`.
    """

    text: str
    whitespace: Whitespace

    def __init__(
        self,
        schema: dict[str, Any] | bool | str | type[BaseModel],
        *,
        whitespace: Whitespace = "bounded",
    ) -> None:
        one_of("whitespace", whitespace, _LAYOUT)
        object.__setattr__(self, "text", _canonical(schema))
        object.__setattr__(self, "whitespace", whitespace)
        _ = self._validator  # an invalid schema is refused here, before any work

    @property
    def schema(self) -> Any:
        """The schema as a fresh Python value."""
        return json.loads(self.text)

    @property
    def engine(self) -> str:
        return ENGINE

    @cached_property
    def _validator(self) -> Any:
        return schema_validator(self.schema)

    def is_valid(self, data: bytes) -> bool:
        """Whether `data` is strict JSON that follows the schema."""
        try:
            return bool(self._validator.is_valid(read_json(data)))
        except (ValueError, RecursionError):
            return False

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_json_schema(self.text, **_LAYOUT[self.whitespace])

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return compile_grammar(
            vocabulary,
            f"The JSON Schema {shortened(self.text)}",
            self.grammar,
            self.is_valid,
            located=False,
        )


def _canonical(schema: object) -> str:
    """The schema as JSON text without whitespace, keys in the order given."""
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    elif isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError as error:
            raise ConstraintError(
                f"The JSON Schema is not JSON: {error}. Give a dict, a Pydantic model class or the text of a schema "
                "(for a file, read it first)."
            ) from None
    if not isinstance(schema, dict | bool):
        raise ConstraintError(
            f"A JSON Schema is an object (or true or false), not {type(schema).__name__}: give a dict, JSON text or a Pydantic model class."
        )
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise ConstraintError(f"The JSON Schema cannot be written as JSON: {error}. Use plain JSON values.") from None
    return text
