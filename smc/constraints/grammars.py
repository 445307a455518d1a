"""Context-free grammars in the dialects that users bring.

For all of them the terminal validator is the engine itself, as a fresh matcher over the bytes of the finished text: there
is no second implementation of these dialects to ask. It still checks that the text is complete, from its first byte. To
compare one engine with the other, see ``python -m smc.crosscheck``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import xgrammar as xgr

from smc.constraints.base import CompiledConstraint
from smc.constraints.caching import CompileOnce, shortened, text_of
from smc.constraints.gbnf import rule_name, to_ebnf
from smc.constraints.lark_patterns import plain_patterns
from smc.constraints.llguidance_engine import ENGINE as LLGUIDANCE
from smc.constraints.llguidance_engine import compile_llguidance
from smc.constraints.nesting import too_deep
from smc.constraints.notes import LanguageNote
from smc.constraints.scannerless import to_lark
from smc.constraints.structural_patterns import respelled_tag
from smc.constraints.xgrammar_engine import ENGINE, check_readable, compile_grammar, read_rules
from smc.errors import ConstraintError, one_of
from smc.vocabulary import Vocabulary


@dataclass(frozen=True)
class EBNF(CompileOnce):
    """A grammar in xgrammar's own dialect: rules ``name ::= ...``, beginning with ``root``.

    ``\\x`` takes all hex digits that follow (prefer ``\\u0041``). The validator is the engine's own acceptance.

    Attributes:
        text: the grammar.
        engine: "xgrammar" or "llguidance" (an optional package). The language is the same; to llguidance each character is
            a terminal, so that a mask takes it milliseconds where many tokens are allowed.
        check: on `compile`, every rule that can be reached must be productive, and the vocabulary must be able to spell it.
            False leaves the checks out: ``root ::= "a" root`` then runs, and its mass ends censored.

    Raises:
        ConstraintError: text that no engine can read; on `compile`, a grammar that cannot be read, or a rule that can never
            be completed (the message names it).
        EmptyLanguageError: on `compile`, no text at all.
    """

    text: str
    engine: str = field(default=ENGINE, kw_only=True)
    check: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        text_of("An EBNF grammar", self.text, nul="escaped")
        one_of("engine", self.engine, (ENGINE, LLGUIDANCE))

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_ebnf(self.text)

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return _compile_rules(self, vocabulary, "EBNF", _rule_names(self.text))


@dataclass(frozen=True, init=False)
class GBNF(CompileOnce):
    """A grammar in llama.cpp's dialect: its text, or the path of a file that holds it.

    A string that holds ``::=`` is text, any other is a path. Two constraints are equal if their texts are, wherever these
    came from. The validator is the engine's own acceptance. `engine` and `check` are those of :class:`EBNF`.

    Raises:
        ConstraintError: a file that does not exist or is not UTF-8; a character that GBNF does not know; a reference to a
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
        object.__setattr__(self, "check", check)

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_ebnf(to_ebnf(self.text))

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return _compile_rules(self, vocabulary, "GBNF", _rule_names(self.text, rule_name))


@dataclass(frozen=True)
class Lark(CompileOnce):
    """A grammar in Lark's syntax, beginning with ``start``. The validator is the engine's own acceptance.

    The engines read different parts of Lark's syntax and cut texts in different ways. xgrammar takes a terminal as any text
    that matches it; llguidance, like Lark itself, gives each terminal the longest match, so that
    ``start: /[a-z]+/ "x"`` has no text at all, and offers ``%json`` and ``&`` and ``~`` between terminals.

    Special tokens named in a grammar (``<|im_end|>``) are never allowed by the mask.

    Attributes:
        text: the grammar.
        engine: "xgrammar" or "llguidance" (an optional package).
        check: that of :class:`EBNF`; with llguidance, as far as xgrammar can read the grammar too.

    Raises:
        ConstraintError: on `compile`, what :class:`EBNF` raises. OptionError: an unknown engine.
    """

    text: str
    engine: str = field(default=ENGINE, kw_only=True)
    check: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        text_of("A Lark grammar", self.text, nul="escaped")
        one_of("engine", self.engine, (ENGINE, LLGUIDANCE))

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """That llguidance gives each terminal the longest match."""
        return (_LONGEST_MATCH,) if self.engine == LLGUIDANCE else ()

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_lark(plain_patterns(self.text, self._named), tokenizer_info=tokens)

    @property
    def _named(self) -> str:
        return f"The Lark grammar {shortened(self.text)!r}"

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        named, written = self._named, _lark_names(self.text)
        if self.engine == LLGUIDANCE:
            notes = check_readable(vocabulary, named, self.grammar, written) if self.check else ()
            return compile_llguidance(
                vocabulary, named, lambda: plain_patterns(self.text, named), located=True, notes=notes
            )
        return compile_grammar(vocabulary, named, self.grammar, written=written, check=self.check)


_LONGEST_MATCH = LanguageNote(
    "narrower",
    "",
    "terminals",
    "each terminal takes the longest match, so that texts which need a shorter one are left out",
)


def _compile_rules(
    constraint: EBNF | GBNF, vocabulary: Vocabulary, dialect: str, written: dict[str, str]
) -> CompiledConstraint:
    named = f"The {dialect} grammar {shortened(constraint.text)!r}"
    if constraint.engine == LLGUIDANCE:
        rules, notes = read_rules(vocabulary, named, constraint.grammar, written=written, check=constraint.check)
        return compile_llguidance(vocabulary, named, lambda: to_lark(rules, named), notes=notes)
    return compile_grammar(vocabulary, named, constraint.grammar, written=written, check=constraint.check)


def _rule_names(text: str, spelled: Callable[[str], str] = str) -> dict[str, str]:
    """The rules that a text defines: the user's name of each, by the engine's spelling of it."""
    return {spelled(name): name for name in re.findall(r"([A-Za-z0-9_-]+)\s*::=", text)}


def _lark_names(text: str) -> dict[str, str]:
    names = re.findall(r"^[?!]*([A-Za-z_][A-Za-z0-9_-]*)[^:\n]*:", text, re.MULTILINE)
    return {name: name for name in names} | {"root": "start"}


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
    if isinstance(source, str) and "::=" in source:
        return source
    if not isinstance(source, str | PathLike):
        raise ConstraintError(f"A GBNF grammar is its text or the path of a file, not {type(source).__name__}.")
    try:
        return Path(source).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConstraintError(f"The grammar file {str(source)!r} is not UTF-8 text: save it as UTF-8.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConstraintError(
            f"The GBNF grammar {shortened(str(source))!r} is neither text (no rule `name ::= ...` in it) nor a file that "
            f"can be read ({reason}): check the path, or give the grammar itself."
        ) from None


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
