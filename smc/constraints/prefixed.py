"""A language with a fixed text in front of every member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import xgrammar as xgr

from smc.constraints.assembly import Assembly, Format, embedded, fixed, reader, sequence, texts_of
from smc.constraints.base import Constraint
from smc.constraints.caching import shortened
from smc.constraints.checked import Checked
from smc.constraints.combine import Intersection
from smc.constraints.finite import FiniteLanguage
from smc.constraints.notes import LanguageNote, language_of
from smc.constraints.span_checks import Behind, prefix_check_of
from smc.constraints.validated import PrefixCheck
from smc.constraints.xgrammar_engine import ENGINE
from smc.errors import ConstraintError, quoted
from smc.vocabulary import to_bytes


def prefixed(text: str, constraint: Constraint) -> Constraint:
    """`text` and then a member of `constraint`, in every tokenisation: tokens may run from the one into the other.

    Raises:
        ConstraintError: a kind of constraint for which this cannot be written down.
    """
    if isinstance(constraint, FiniteLanguage):
        return FiniteLanguage(to_bytes(text) + member for member in constraint.members)
    if isinstance(constraint, Intersection):
        return Intersection(*(prefixed(text, part) for part in constraint.parts))
    if isinstance(constraint, Checked):
        return _checked(text, constraint)
    if constraint.engine == ENGINE and hasattr(constraint, "grammar"):
        return Prefixed(text, constraint)
    raise ConstraintError(
        f"No text can be put in front of {type(constraint).__name__} (engine {constraint.engine!r}), which token_healing needs. "
        f"Constraints of {ENGINE}, Choice, FiniteLanguage, Checked and an Intersection of these can be used with it."
    )


@dataclass(frozen=True)
class Prefixed(Assembly):
    """A fixed text before a constraint of xgrammar, as one grammar."""

    text: str
    constraint: Constraint

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """What the constraint has to say."""
        return language_of(self.constraint).notes

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        return texts_of(self.constraint)  # the text in front is ordinary, whatever it looks like

    def format(self, tokens: xgr.TokenizerInfo) -> Format:
        return sequence(fixed(self.text), embedded(self.constraint, tokens))

    def holds(self, text: str) -> bool:
        return text.startswith(self.text) and reader(self.constraint)(text[len(self.text) :])

    def prefix_check(self) -> PrefixCheck[Any] | None:
        inner = prefix_check_of(self.constraint)
        return None if inner is None else Behind(len(to_bytes(self.text)), inner)

    @property
    def _named(self) -> str:
        return f"The text {shortened(self.text)!r} before {quoted(self.constraint)}"


def _checked(text: str, constraint: Checked) -> Checked:
    def prefix(written: str) -> bool:
        # in bytes, since a token may end inside a character
        data, front = to_bytes(written), to_bytes(text)
        return front.startswith(data) or (data.startswith(front) and constraint.prefix(written[len(text) :]))

    def complete(written: str) -> bool:
        return written.startswith(text) and constraint.complete(written[len(text) :])

    return Checked(prefix, complete)
