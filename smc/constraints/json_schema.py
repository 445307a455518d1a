"""JSON that follows a JSON Schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import xgrammar as xgr

from smc.constraints import xgrammar_engine
from smc.constraints.base import CompiledConstraint
from smc.constraints.caching import CompileOnce, shortened
from smc.constraints.json_formats import checked_formats
from smc.constraints.json_numbers import rounded_number
from smc.constraints.json_prefix import PrefixChecker, prefix_checker
from smc.constraints.json_validator import read_json, schema_validator
from smc.constraints.nesting import readable, too_deep
from smc.constraints.notes import LanguageNote
from smc.constraints.schema_audit import Audit, audited, notes
from smc.constraints.schema_closed import closed
from smc.constraints.schema_grammar import written
from smc.constraints.schema_graph import Finding, Graph
from smc.constraints.schema_normal import normalised
from smc.constraints.schema_places import Document
from smc.constraints.schema_rewrite import SchemaWriter
from smc.constraints.sources import text_or_file
from smc.constraints.time_limit import Deadline, finish_within
from smc.constraints.validated import validated
from smc.constraints.xgrammar_engine import ENGINE, compile_grammar
from smc.errors import ConstraintError, EmptyLanguageError, one_of, true_or_false
from smc.vocabulary import Vocabulary

if TYPE_CHECKING:
    from pydantic import BaseModel

Whitespace = Literal["compact", "bounded", "free"]

_ENGINES = (ENGINE, "llguidance")
_WHITESPACE = ("compact", "bounded", "free")


@dataclass(frozen=True, init=False)
class JSONSchema(CompileOnce):
    """JSON that follows a schema: a dict, JSON text, the path of a file, or a Pydantic model class. Drafts 4 to 2020-12.

    Two constraints are equal if their schemas are, as JSON text (the order of keys matters: properties are written in the
    order in which the schema declares them), and so are the options.

    What the mask enforces is the schema as it was written, rewritten so that an engine can follow it: conjunctions
    merged, types split, patterns searched for and not matched whole, objects and arrays open where they are not closed.
    Where that is still not the same language, `audit` says so keyword by keyword. The terminal validator reads the schema
    as it was written: it is strict JSON (no duplicate keys, NaN or lone surrogates) and then the `jsonschema` package
    with formats checked. What the mask lets through and the validator does not is rejected, and counted, as soon as a value
    closes that breaks the schema. Whitespace is a matter of the mask alone: the validator accepts any.

    Args:
        schema: the schema. A string that is the path of an existing file means what the file holds.
        whitespace: between elements: ``"compact"`` for none; ``"bounded"`` for at most two characters on each side of an
            element (a model cannot run away into blanks); ``"free"`` for any amount. Each language holds the one before
            it, so log Z grows: from -2.6 (compact) to -2.1 and -2.1 on a prompt with compact examples, from -15.7 to -14.2
            and -12.9 on one that asks for a key a line (``python -m experiments.bench.whitespace``).
        engine: ``"xgrammar"`` or ``"llguidance"`` (an optional package).
        closed: objects hold no members but those that the schema names in ``properties`` and ``patternProperties``,
            and arrays no items but those it lists, where it does not say otherwise. That is what the user of a tool
            means and not what JSON Schema means, so the validator reads the schema so too. A value is closed once, to
            all that its subschema names with the branches of ``allOf``, ``anyOf`` and the like and what they refer to,
            as by ``unevaluatedProperties: false``. Conditions (``not``, ``if``, ``contains``) are read as written.

    Raises:
        ConstraintError: text that is not JSON, a file that cannot be read, or a schema that is not valid (the message names the place) or is nested
            too deeply.
        OptionError: an unknown `whitespace` or `engine`, a `closed` that is not True or False.
    """

    text: str
    whitespace: Whitespace
    engine_name: str
    closed: bool

    def __init__(
        self,
        schema: dict[str, Any] | bool | str | PathLike[str] | type[BaseModel],
        *,
        whitespace: Whitespace = "bounded",
        engine: Literal["xgrammar", "llguidance"] = "xgrammar",
        closed: bool = False,
    ) -> None:
        one_of("whitespace", whitespace, _WHITESPACE)
        one_of("engine", engine, _ENGINES)
        object.__setattr__(self, "text", _canonical(schema))
        object.__setattr__(self, "whitespace", whitespace)
        object.__setattr__(self, "engine_name", engine)
        object.__setattr__(self, "closed", true_or_false("closed", closed))
        _ = self._validator  # an invalid schema is refused here, before any work

    @property
    def schema(self) -> Any:
        """The schema as a fresh Python value, closed if it is to be."""
        schema = json.loads(self.text)
        return closed(schema) if self.closed else schema

    @property
    def engine(self) -> str:
        return self.engine_name

    @property
    def rewritten(self) -> Any:
        """The normal form as a JSON Schema (draft 2020-12): the same values, or more where `audit` says "wider"."""
        with readable(self._named):
            return SchemaWriter(self._graph).schema()

    def audit(self) -> Audit:
        """Each keyword of the schema where it stands: exact, wider or narrower with this engine, or unchecked. Prints as a table."""
        findings = (*self._graph.findings, *self._enforced[1])
        with readable(self._named):
            return audited(self.schema, self.engine, findings, self._document.draft)

    @cached_property
    def notes(self) -> tuple[LanguageNote, ...]:
        """Where the mask's language differs from the schema's, and what says nothing: what of `audit` is not exact."""
        return notes(self.audit())

    @cached_property
    def _validator(self) -> Any:
        with readable(self._named):
            as_written = schema_validator(json.loads(self.text))
            return schema_validator(self.schema) if self.closed else as_written

    @cached_property
    def _document(self) -> Document:
        return Document(self._validator.schema)

    @cached_property
    def _graph(self) -> Graph:
        with readable(self._named):
            return normalised(self._document, self._validator)

    @cached_property
    def _enforced(self) -> tuple[str, tuple[Finding, ...]]:
        """What the engine is given, and where that differs from the normal form."""
        if self._graph.root not in self._graph.alive:
            return "", ()
        formats = checked_formats(self._document.draft)
        with readable(self._named):
            if self.engine_name == ENGINE:
                return written(self._graph, self.whitespace, formats)
            from smc.constraints.schema_llguidance import for_llguidance

            return for_llguidance(self._graph, self.whitespace, formats)

    def is_valid(self, data: bytes) -> bool:
        """Whether `data` is strict JSON that follows the schema."""
        try:
            return bool(self._validator.is_valid(read_json(data)))
        except (ValueError, RecursionError):
            return False

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar is given it.

        Raises:
            EmptyLanguageError: no value follows the schema.
        """
        self._refuse_empty()
        if self.engine_name == ENGINE:
            return xgr.Grammar.from_ebnf(self._enforced[0])
        return JSONSchema(self.text, whitespace=self.whitespace, closed=self.closed).grammar(tokens)

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        deadline = Deadline(xgrammar_engine.COMPILE_SECONDS)  # of all together
        check = self._prepared(deadline)
        if self.engine_name == ENGINE:
            compiled: CompiledConstraint = compile_grammar(
                vocabulary, self._named, self.grammar, self.is_valid, located=False, deadline=deadline
            )
        else:
            from smc.constraints.llguidance_engine import compile_llguidance, engine_package

            read = engine_package().LLMatcher.grammar_from_json_schema
            compiled = compile_llguidance(
                vocabulary, self._named, lambda: read(self._enforced[0]), self.is_valid, deadline=deadline
            )
        return validated(compiled, vocabulary, check)

    def _prepared(self, deadline: Deadline) -> PrefixChecker | None:
        """The checker of prefixes, with all of the work that is done before an engine is asked."""

        def work() -> PrefixChecker | None:
            self._refuse_empty()
            return self.prefix_check()

        try:
            return finish_within(deadline.left, work)
        except TimeoutError:
            raise ConstraintError(
                f"{self._named} took more than {xgrammar_engine.COMPILE_SECONDS:g} s to be rewritten for an engine. Simplify it: "
                "what costs most are many alternatives (anyOf, oneOf, dependencies) of parts that hold together (allOf, $ref), "
                "and objects with very many members."
            ) from None

    def prefix_check(self) -> PrefixChecker | None:
        """What refuses a text as soon as a closed value breaks the schema; None if the mask lets no such value through."""
        return prefix_checker(self._validator, self.wider)

    def checker(self) -> PrefixChecker:
        """A reader of texts of the schema, which refuses what the mask does not."""
        return PrefixChecker(self._validator, self.wider)

    @property
    def wider(self) -> list[str]:
        """Pointers to the keywords that the mask does not enforce in full."""
        return [f"{note.at}/{note.keyword}" for note in self.notes if note.effect == "wider"]

    @property
    def _named(self) -> str:
        return f"The JSON Schema {shortened(self.text)}"

    def _refuse_empty(self) -> None:
        if self._graph.root in self._graph.alive:
            return
        if not self._graph.reasons:
            raise EmptyLanguageError(
                f"{self._named} describes no finite text: every way through it leads back into itself. "
                "Give the recursion a way to end (an alternative, an optional part or a nullable field)."
            )
        listed = list(dict.fromkeys(f"at {at or 'its root'}, {why}" for at, why in self._graph.reasons))
        more = f" (and {len(listed) - 3} more places)" if len(listed) > 3 else ""
        raise EmptyLanguageError(
            f"{self._named} describes no value: {'; '.join(listed[:3])}{more}. Change what excludes every value there."
        )


def _canonical(schema: object) -> str:
    """The schema as JSON text without whitespace, keys in the order given."""
    place = ""
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    elif isinstance(schema, str | PathLike):
        source = schema
        text = text_or_file("A JSON Schema", source, isinstance(source, str) and source.lstrip()[:1] in ("{", "["))
        place = "" if text is source else f" in the file {shortened(str(source))!r}"
        try:
            schema = json.loads(str(text), parse_float=rounded_number)
        except RecursionError:
            raise too_deep("The JSON Schema") from None
        except ValueError as error:
            raise ConstraintError(
                f"The JSON Schema{place} is not JSON: {error}. Give a dict, a Pydantic model class, the text of a schema, or the "
                "path of a file that exists and holds one."
            ) from None
    if not isinstance(schema, dict | bool):
        raise ConstraintError(
            f"A JSON Schema is an object (or true or false), not {type(schema).__name__}{place}: give a dict, JSON text, a file "
            "that holds it or a Pydantic model class."
        )
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode("utf-8")
    except RecursionError:
        raise too_deep("The JSON Schema") from None
    except (TypeError, ValueError) as error:
        raise ConstraintError(f"The JSON Schema cannot be written as JSON: {error}. Use plain JSON values.") from None
    return text
