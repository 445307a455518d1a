"""Grammars in the dialects of xgrammar and llama.cpp, and xgrammar's structural tags.

For all of them the terminal validator is the engine itself, as a fresh matcher over the bytes of the finished text: there
is no second implementation of these dialects to ask. It still checks that the text is complete, from its first byte. To
compare one engine with the other, see ``python -m smc.crosscheck``.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import xgrammar as xgr

from smc.constraints.base import CompiledConstraint
from smc.constraints.caching import CompileOnce, shortened, text_of
from smc.constraints.gbnf import rule_names, to_ebnf
from smc.constraints.llguidance_engine import ENGINE as LLGUIDANCE
from smc.constraints.llguidance_engine import compile_llguidance
from smc.constraints.nesting import too_deep
from smc.constraints.notes import LanguageNote
from smc.constraints.scannerless import to_lark
from smc.constraints.sources import no_such_file, text_or_file
from smc.constraints.structural_patterns import respelled_tag
from smc.constraints.undefined_rules import mistaken_classes, names_of, settle, undefined, with_all_defined
from smc.constraints.xgrammar_engine import ENGINE, compile_grammar, read_rules
from smc.errors import ConstraintError, one_of, true_or_false
from smc.vocabulary import Vocabulary


class RuleGrammar(CompileOnce):
    """A grammar that can be written in xgrammar's dialect."""

    check: bool

    @property
    @abstractmethod
    def _named(self) -> str:
        """How errors call it."""

    @property
    @abstractmethod
    def _ebnf(self) -> str:
        """The grammar in xgrammar's dialect."""

    @property
    @abstractmethod
    def _written(self) -> Mapping[str, str]:
        """The user's name of each rule, by its name in `_ebnf`."""

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """What is left out for want of a rule that nobody defines, and classes that were probably meant to be rules.

        Raises:
            ConstraintError: a grammar that cannot be used.
        """
        dropped = () if self.check or not self.undefined else self._settled[1]
        return (*dropped, *mistaken_classes(self._ebnf, self._written))

    @property
    def undefined(self) -> tuple[str, ...]:
        """The names that are used and that no rule has."""
        return tuple(self._written[name] for name in undefined(self._ebnf))

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return self._settled[0]

    @property
    def _settled(self) -> tuple[xgr.Grammar, tuple[LanguageNote, ...]]:
        """The grammar without the alternatives that need an undefined rule, and a note on them."""
        missing = undefined(self._ebnf)
        grammar = xgr.Grammar.from_ebnf(with_all_defined(self._ebnf, missing))
        return settle(grammar, missing, self._named, self._written, self.check) if missing else (grammar, ())

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        named, written = self._named, self._written
        if self.engine == LLGUIDANCE:
            rules, notes = read_rules(vocabulary, named, self.grammar, written=written, check=self.check)
            return compile_llguidance(vocabulary, named, lambda: to_lark(rules, named), notes=notes)
        return compile_grammar(vocabulary, named, self.grammar, written=written, check=self.check)


@dataclass(frozen=True)
class EBNF(RuleGrammar):
    """A grammar in xgrammar's own dialect: rules ``name ::= ...``, beginning with ``root``.

    ``\\x`` takes all hex digits that follow (prefer ``\\u0041``). The validator is the engine's own acceptance.

    Attributes:
        text: the grammar; given as the path of a file, what that holds.
        engine: "xgrammar" or "llguidance" (an optional package). The language is the same; to llguidance each character is
            a terminal, so that a mask takes it milliseconds where many tokens are allowed.
        check: on `compile`, every rule that can be reached must be productive, and the vocabulary must be able to spell it.
            False leaves the checks out: ``root ::= "a" root`` then runs, and its mass ends censored; alternatives that need
            a rule which nobody defines are dropped, and a note says so.

    Raises:
        ConstraintError: text that no engine can read, or a file that cannot be read; on `compile`, a grammar that cannot be
            read, or a rule that is not defined or can never be completed (the message names it).
        EmptyLanguageError: on `compile`, no text at all.
    """

    text: str
    engine: str = field(default=ENGINE, kw_only=True)
    check: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        found = text_or_file("An EBNF grammar", self.text, isinstance(self.text, str) and "::=" in self.text)
        object.__setattr__(self, "text", text_of("An EBNF grammar", found, nul="escaped"))
        one_of("engine", self.engine, (ENGINE, LLGUIDANCE))
        true_or_false("check", self.check)

    @property
    def _named(self) -> str:
        return f"The EBNF grammar {shortened(self.text)!r}"

    @property
    def _ebnf(self) -> str:
        return self.text

    @property
    def _written(self) -> Mapping[str, str]:
        return names_of(self.text)


@dataclass(frozen=True, init=False)
class GBNF(RuleGrammar):
    """A grammar in llama.cpp's dialect: its text, or the path of a file that holds it.

    A string that holds ``::=`` is text, any other is a path. Two constraints are equal if their texts are, wherever these
    came from. The validator is the engine's own acceptance. `engine` and `check` are those of :class:`EBNF`.

    Raises:
        ConstraintError: a file that does not exist, is empty, a folder or not UTF-8; a character that GBNF does not know; a reference to a
            token (``<think>``); on `compile`, what :class:`EBNF` raises.
    """

    text: str
    engine: str = field(default=ENGINE, kw_only=True)
    check: bool = field(default=True, kw_only=True)

    def __init__(self, source: str | PathLike[str], *, engine: str = ENGINE, check: bool = True) -> None:
        text = text_of("A GBNF grammar", _read(source), nul="escaped")
        to_ebnf(text)  # what the dialect does not know is refused here, before any work
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "engine", one_of("engine", engine, (ENGINE, LLGUIDANCE)))
        object.__setattr__(self, "check", true_or_false("check", check))

    @property
    def _named(self) -> str:
        return f"The GBNF grammar {shortened(self.text)!r}"

    @property
    def _ebnf(self) -> str:
        return to_ebnf(self.text)

    @property
    def _written(self) -> Mapping[str, str]:
        return rule_names(self.text)


@dataclass(frozen=True, init=False)
class StructuralTag(CompileOnce):
    """Free text in which tags switch on a grammar: xgrammar's structural tag as a dict, JSON text or its own class.

    Two constraints are equal if their JSON texts are. Formats that name special tokens by id can never match, since
    special tokens are never allowed by a mask. The validator is the engine's own acceptance.

    A ``regex`` in it is in the dialect of :class:`~smc.constraints.regex.Regex`, but for what needs a validator of its own
    (lookaround, back-references and the like). A ``json_schema`` is read by the engine and not as
    :class:`~smc.constraints.json_schema.JSONSchema` reads it; its patterns are searched for, as JSON Schema says.

    Raises:
        ConstraintError: text that is not JSON, or a value that is no JSON object; on `compile`, a regex that is not
            understood or needs more than an automaton.
    """

    text: str

    def __init__(self, tag: dict[str, Any] | str | xgr.StructuralTag) -> None:
        object.__setattr__(self, "text", _tag_text(tag))

    @property
    def engine(self) -> str:
        return ENGINE

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_structural_tag(json.dumps(respelled_tag(json.loads(self.text)), ensure_ascii=False))

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return compile_grammar(vocabulary, f"The structural tag {shortened(self.text)}", self.grammar, located=False)


def _read(source: object) -> str:
    found = text_or_file("A GBNF grammar", source, isinstance(source, str) and "::=" in source)
    if not isinstance(found, str):
        raise ConstraintError(f"A GBNF grammar is its text or the path of a file, not {type(found).__name__}.")
    if found is source and "::=" not in found:
        raise no_such_file("A GBNF grammar", found, "no rule `name ::= ...` in it")
    return found


def _tag_text(tag: object) -> str:
    if isinstance(tag, xgr.StructuralTag):
        tag = tag.model_dump_json()
    try:
        value = json.loads(tag) if isinstance(tag, str) else tag
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise too_deep("The structural tag") from None
    except (TypeError, ValueError) as error:
        raise ConstraintError(
            f"The structural tag is not JSON: {error}. Give a dict, JSON text or a StructuralTag."
        ) from None
    if not isinstance(value, dict):
        raise ConstraintError(f"A structural tag is a JSON object, not {type(value).__name__}.")
    return text
