"""Larger constraints put together from smaller ones and from free text, as one grammar.

The pieces are xgrammar's structural formats: nested dicts, so that a constraint inside a constraint inside a constraint is
still one grammar, one matcher and one mask.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import xgrammar as xgr

from smc.constraints.base import CompiledConstraint, Constraint
from smc.constraints.caching import CompileOnce, per_vocabulary
from smc.constraints.json_schema import JSONSchema
from smc.constraints.validated import PrefixCheck, validated
from smc.constraints.xgrammar_engine import ENGINE, compile_grammar
from smc.errors import ConstraintError, quoted
from smc.vocabulary import Vocabulary, byte_vocabulary, to_bytes, to_text

Format = dict[str, Any]
"""A structural format of xgrammar."""

_ANY_BYTES = "root ::= TagDispatch(loop_after_dispatch=true, excludes=())"
_NO_CHARACTER = "\U0010ffff"


# ------------------------------------------------------------------ pieces


def fixed(text: str) -> Format:
    """Exactly `text`."""
    return {"type": "const_string", "value": text}


def free(without: str | None = None, max_chars: int | None = None) -> Format:
    """Any bytes in which `without` does not occur. In a matcher this is a small automaton, so masks are looked up.

    The engine's free text is UTF-8 only, unless something is excluded from it: hence the grammar of its own, and the
    code point that is no character.
    """
    if without is None and max_chars is None:
        return {"type": "grammar", "grammar": _ANY_BYTES}
    return {"type": "any_text", "excludes": [without or _NO_CHARACTER], "max_chars": max_chars}


def pattern(regex: str) -> Format:
    """What matches a regular expression from beginning to end."""
    return {"type": "regex", "pattern": regex}


def sequence(*formats: Format) -> Format:
    """One after the other."""
    return {"type": "sequence", "elements": list(formats)}


def either(*formats: Format) -> Format:
    """One of several."""
    return {"type": "or", "elements": list(formats)}


def repeated(format: Format) -> Format:
    """Once or more often."""
    return {"type": "plus", "content": format}


def embedded(constraint: Constraint, tokens: xgr.TokenizerInfo) -> Format:
    """A whole constraint as a piece."""
    if isinstance(constraint, Assembly):
        return constraint.format(tokens)
    grammar = constraint.grammar(tokens)  # type: ignore[attr-defined]  # `checked_part` has seen that it is there
    return {"type": "grammar", "grammar": str(_without_lookahead(grammar))}


def _without_lookahead(grammar: xgr.Grammar) -> xgr.Grammar:
    """The grammar without what it expects of the text that follows.

    A JSON string expects a comma, a colon or a closing bracket, for faster masks. In front of other text this would forbid
    every token that holds both the closing quote and the beginning of that text.
    """
    source = json.loads(grammar.serialize_json())
    source["rules"] = [[name, body, -1, *rest] for name, body, _, *rest in source["rules"]]
    return xgr.Grammar.deserialize_json(json.dumps(source))


# ------------------------------------------------------------------ the whole


class Assembly(CompileOnce):
    """A constraint made of pieces: one grammar for the mask, and a reader of its own that takes finished texts apart.

    Where a fixed text spells a control token of the model (as ``<think>`` is one in some vocabularies), that token counts as
    text of that spelling, throughout the constraint.
    """

    @property
    def engine(self) -> str:
        return ENGINE

    @property
    @abstractmethod
    def fixed_texts(self) -> tuple[str, ...]:
        """All texts that are spelled out in the constraint, those of inner assemblies included."""

    @abstractmethod
    def format(self, tokens: xgr.TokenizerInfo) -> Format:
        """The language as a structural format."""

    @abstractmethod
    def holds(self, text: str) -> bool:
        """Whether a finished text (bytes that are not UTF-8 by surrogateescape) is in the language."""

    @property
    @abstractmethod
    def _named(self) -> str:
        """How errors call it."""

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_structural_tag(
            json.dumps({"type": "structural_tag", "format": self.format(tokens)}, ensure_ascii=False)
        )

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        vocabulary = spoken(self.fixed_texts, vocabulary, self._named)
        compiled = compile_grammar(
            vocabulary, self._named, self.grammar, lambda data: self.holds(to_text(data)), located=False
        )
        return validated(compiled, vocabulary, self.prefix_check())

    def prefix_check(self) -> PrefixCheck[Any] | None:
        """What refuses a text before its end; None where that is left to the validator of finished texts."""
        return None


def checked_part(part: object, of: str) -> Constraint:
    """`part` if a grammar can be made of it.

    Raises:
        ConstraintError: not a constraint, or one that another engine enforces.
    """
    if isinstance(part, type) or not isinstance(part, Constraint):
        raise ConstraintError(
            f"{of} takes texts, Free(...) and constraints, not {quoted(part)}: wrap it, as in Regex(...) or JSONSchema(...)."
        )
    if part.engine != ENGINE or not hasattr(part, "grammar"):
        raise ConstraintError(
            f"{of} cannot hold {type(part).__name__} enforced by {part.engine!r}: its parts become one grammar of {ENGINE}. "
            "Use Choice, Regex, JSONSchema, EBNF, GBNF, Lark, StructuralTag, Template, ToolCalls or Reasoning with that engine."
        )
    return part


def reader(part: Constraint) -> Callable[[str], bool]:
    """The validator of a part, as a function of text. It needs no model."""
    if isinstance(part, Assembly):
        return part.holds
    accepts = part.is_valid if isinstance(part, JSONSchema) else part.compile(byte_vocabulary()).accepts
    return lambda text: accepts(to_bytes(text))


def texts_of(part: object) -> tuple[str, ...]:
    """The fixed texts inside a part, if it is made of parts."""
    texts: tuple[str, ...] = getattr(part, "fixed_texts", ())
    return texts


def spoken(texts: Sequence[str], vocabulary: Vocabulary, what: str) -> Vocabulary:
    """The vocabulary in which the control tokens that `texts` spell out are text.

    Args:
        what: names the constraint in errors.

    Raises:
        ConstraintError: a fixed text spells a stop token, which can only ever end the text.
    """
    control = _spoken_control_tokens(texts, vocabulary, what)
    if not control:
        return vocabulary
    return per_vocabulary(vocabulary, f"with text {control}", lambda v: v.with_text(control))


def _spoken_control_tokens(texts: Sequence[str], vocabulary: Vocabulary, what: str) -> tuple[int, ...]:
    """The control tokens that some fixed text spells and no ordinary token does.

    Raises:
        ConstraintError: a fixed text spells a stop token, which can only ever end the text.
    """
    ordinary = {token for token, spells in zip(vocabulary.tokens, vocabulary.spelling, strict=True) if spells}
    spelled = [text.encode("utf-8") for text in texts]
    control = [
        token
        for token in sorted(vocabulary.special_ids.union(vocabulary.stop_ids))
        if (name := vocabulary.tokens[token]) and name not in ordinary and any(name in text for text in spelled)
    ]
    for token in control:
        if token in vocabulary.stop_ids:
            raise ConstraintError(
                f"{what} spells out {quoted(vocabulary.tokens[token].decode())}, which is a stop token of this model: the text ends "
                "there, so nothing can follow and the token is never part of the text. Leave it out at the end, and choose "
                "another marker elsewhere."
            )
    return tuple(control)
