"""Both engines and the validator on the same texts: where do they differ?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from smc.constraints.base import CompiledConstraint, Constraint, checker
from smc.constraints.caching import shortened
from smc.constraints.validated import Validated
from smc.errors import ConstraintError, OptionError
from smc.vocabulary import Vocabulary, to_bytes

Engine = Literal["xgrammar", "llguidance"]

_ENGINES: tuple[Engine, ...] = ("xgrammar", "llguidance")

_STOP = 256

BYTES = Vocabulary((*(bytes([byte]) for byte in range(256)), b"</s>"), (_STOP,), frozenset({_STOP}))
"""One token for each byte, and a stop: what an engine allows, whatever a tokenizer does."""


@dataclass(frozen=True)
class Verdict:
    """What each says of one text.

    Attributes:
        text: the text.
        xgrammar, llguidance: whether the engine's masks lead through it and let it end; None if the engine refuses the
            constraint.
        validator: whether the validator accepts it.
    """

    text: str
    xgrammar: bool | None
    llguidance: bool | None
    validator: bool

    @property
    def differs(self) -> bool:
        """Whether two of them disagree."""
        return len({self.xgrammar, self.llguidance, self.validator} - {None}) > 1


@dataclass(frozen=True)
class CrossCheck:
    """The outcome of a cross-check.

    Attributes:
        verdicts: one for each text, in order.
        refusals: for an engine that refuses the constraint, why.
    """

    verdicts: tuple[Verdict, ...]
    refusals: dict[str, str]

    @property
    def differences(self) -> tuple[Verdict, ...]:
        """The verdicts in which two disagree."""
        return tuple(verdict for verdict in self.verdicts if verdict.differs)

    def table(self) -> str:
        """The differences as a table, then a line that counts them, then the refusals."""
        head = ("text", *_ENGINES, "validator")
        rows = [
            (repr(verdict.text), *map(_word, (verdict.xgrammar, verdict.llguidance, verdict.validator)))
            for verdict in self.differences
        ]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows)] if rows else []
        lines.append(f"{len(rows)} of {len(self.verdicts)} texts differ.")
        lines += [f"{engine} refuses: {reason}" for engine, reason in self.refusals.items()]
        return "\n".join(lines)


def crosscheck(make: Callable[[Engine], Constraint], texts: Iterable[str]) -> CrossCheck:
    """Ask both engines and the validator about each text, byte by byte, without a model.

    Args:
        make: the constraint for an engine, "xgrammar" or "llguidance", as in ``lambda engine: Regex("a+", engine=engine)``.
        texts: what to ask about; bytes that are not UTF-8 by surrogateescape.

    Raises:
        ConstraintError: both engines refuse the constraint. MissingPackageError: llguidance is not installed.
        OptionError: a text with another lone surrogate, which stands for no bytes.
    """
    compiled: dict[str, CompiledConstraint] = {}
    refusals: dict[str, str] = {}
    for engine in _ENGINES:
        try:
            compiled[engine] = make(engine).compile(BYTES)
        except ConstraintError as error:
            refusals[engine] = str(error)
    if not compiled:
        raise ConstraintError(" ".join(f"{engine}: {reason}" for engine, reason in refusals.items()))
    validator = next(iter(compiled.values())).accepts
    verdicts = []
    for text in texts:
        data = _spelled(text)
        said = {engine: leads_through(constraint, data) for engine, constraint in compiled.items()}
        verdicts.append(Verdict(text, said.get("xgrammar"), said.get("llguidance"), validator(data)))
    return CrossCheck(tuple(verdicts), refusals)


def _spelled(text: str) -> bytes:
    try:
        return to_bytes(text)
    except UnicodeEncodeError as error:
        raise OptionError(
            f"The text {shortened(text)!r} holds the lone surrogate {text[error.start]!r}, which no UTF-8 text can hold: remove it."
        ) from None


def leads_through(compiled: CompiledConstraint, data: bytes) -> bool:
    """Whether the engine's masks, compiled for BYTES, allow each byte in turn, and then the stop.

    Prefix checks are left out: they are the validator's word.
    """
    rows = (compiled.compiled if isinstance(compiled, Validated) else compiled).start()
    for byte in data:
        if not checker(rows)(0, byte):
            return False
        rows = rows.advance(np.array([0]), np.array([byte]))
    return checker(rows)(0, _STOP)


def _word(said: bool | None) -> str:
    return {True: "yes", False: "no", None: "refused"}[said]
