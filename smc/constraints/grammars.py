"""Context-free grammars in the dialects that users bring.

For all of them the terminal validator is the engine itself, as a fresh matcher over the bytes of the finished text: there
is no second implementation of these dialects to ask. It still checks that the text is complete, from its first byte.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import xgrammar as xgr

from smc.constraints.base import CompiledConstraint
from smc.constraints.caching import CompileOnce, shortened, text_of
from smc.constraints.gbnf import to_ebnf
from smc.constraints.xgrammar_engine import ENGINE, compile_grammar
from smc.errors import ConstraintError
from smc.vocabulary import Vocabulary


@dataclass(frozen=True)
class EBNF(CompileOnce):
    """A grammar in xgrammar's own dialect: rules ``name ::= ...``, beginning with ``root``.

    ``\\x`` takes all hex digits that follow (prefer ``\\u0041``). The validator is the engine's own acceptance.
    """

    text: str

    def __post_init__(self) -> None:
        text_of("An EBNF grammar", self.text)

    @property
    def engine(self) -> str:
        return ENGINE

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_ebnf(self.text)

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return compile_grammar(vocabulary, f"The EBNF grammar {shortened(self.text)!r}", self.grammar)


@dataclass(frozen=True, init=False)
class GBNF(CompileOnce):
    """A grammar in llama.cpp's dialect: its text, or the path of a file that holds it.

    A string that holds ``::=`` is text, any other is a path. Two constraints are equal if their texts are, wherever these
    came from. The validator is the engine's own acceptance.

    Raises:
        ConstraintError: a file that does not exist or is not UTF-8; a character that GBNF does not know; a reference to a
            token (``<think>``).
    """

    text: str

    def __init__(self, source: str | PathLike[str]) -> None:
        text = text_of("A GBNF grammar", _read(source))
        to_ebnf(text)  # what the dialect does not know is refused here, before any work
        object.__setattr__(self, "text", text)

    @property
    def engine(self) -> str:
        return ENGINE

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_ebnf(to_ebnf(self.text))

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return compile_grammar(vocabulary, f"The GBNF grammar {shortened(self.text)!r}", self.grammar)


@dataclass(frozen=True)
class Lark(CompileOnce):
    """A grammar in Lark's syntax, beginning with ``start``. The validator is the engine's own acceptance.

    Special tokens named in it are never allowed by the mask.
    """

    text: str

    def __post_init__(self) -> None:
        text_of("A Lark grammar", self.text)

    @property
    def engine(self) -> str:
        return ENGINE

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_lark(self.text, tokenizer_info=tokens)

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return compile_grammar(vocabulary, f"The Lark grammar {shortened(self.text)!r}", self.grammar)


@dataclass(frozen=True, init=False)
class StructuralTag(CompileOnce):
    """Free text in which tags switch on a grammar: xgrammar's structural tag as a dict, JSON text or its own class.

    Two constraints are equal if their JSON texts are. Formats that name special tokens by id can never match, since
    special tokens are never allowed by a mask. The validator is the engine's own acceptance.

    Raises:
        ConstraintError: text that is not JSON, or a value that is no JSON object.
    """

    text: str

    def __init__(self, tag: dict[str, Any] | str | xgr.StructuralTag) -> None:
        object.__setattr__(self, "text", _tag_text(tag))

    @property
    def engine(self) -> str:
        return ENGINE

    def grammar(self, tokens: xgr.TokenizerInfo) -> xgr.Grammar:
        """The language as xgrammar reads it."""
        return xgr.Grammar.from_structural_tag(self.text)

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
    except (TypeError, ValueError) as error:
        raise ConstraintError(
            f"The structural tag is not JSON: {error}. Give a dict, JSON text or a StructuralTag."
        ) from None
    if not isinstance(value, dict):
        raise ConstraintError(f"A structural tag is a JSON object, not {type(value).__name__}.")
    return text
