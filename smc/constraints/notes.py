"""How the language that is enforced differs from the one that was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from smc.constraints.base import CompiledConstraint, Constraint
from smc.errors import NarrowedLanguageError

Effect = Literal["wider", "narrower", "unchecked"]
Scope = Literal["values", "spelling", "tokens"]


@dataclass(frozen=True)
class LanguageNote:
    """One difference between the mask's language and the user's.

    Attributes:
        effect: "wider" (the mask lets more through; the validator refuses it with weight zero, so that the posterior is
            right), "narrower" (the mask leaves something out, which no weight can bring back) or "unchecked" (neither looks
            at it: it is written and says nothing).
        at: where: a JSON pointer into the schema as it was written ("" is its root), a grammar's rule, a part's name.
        keyword: what stands there.
        what: what is let through or left out, in words.
        scope: of a "narrower" note, what is lost: "values" (some values cannot be produced at all), "spelling" (every
            value can, though not in every spelling: another order of keys, optional escapes) or "tokens" (every
            spelling can, though not in every tokenisation).
    """

    effect: Effect
    at: str
    keyword: str
    what: str
    scope: Scope = "values"

    def __str__(self) -> str:
        place = f"{self.at or 'the root'} ({self.keyword})"
        lost = {"values": "", "spelling": " [spelling only]", "tokens": " [tokenisation only]"}[self.scope]
        return f"{self.effect} at {place}: {self.what}{lost if self.effect == 'narrower' else ''}"


@dataclass(frozen=True)
class Language:
    """What was enforced in a run.

    Attributes:
        engine: which engine made the masks; Z_t depends on it.
        notes: where its language differs from the one that was written; empty if it is the same, as far as is known.
    """

    engine: str = ""
    notes: tuple[LanguageNote, ...] = ()

    @property
    def wider(self) -> tuple[LanguageNote, ...]:
        """What the mask lets through and the validator refuses (`log_rejected_mass`)."""
        return tuple(note for note in self.notes if note.effect == "wider")

    @property
    def narrower(self) -> tuple[LanguageNote, ...]:
        """Warnings: what the posterior leaves out."""
        return tuple(note for note in self.notes if note.effect == "narrower")

    @property
    def loses_values(self) -> tuple[LanguageNote, ...]:
        """The narrower notes that leave out values, and not only other spellings of them."""
        return tuple(note for note in self.narrower if note.scope == "values")


def language_of(constraint: Constraint, compiled: CompiledConstraint | None = None) -> Language:
    """The engine and the notes of a constraint, and, if it is given compiled, what the vocabulary adds to them.

    What has no attribute `notes` has nothing to say.
    """
    own: tuple[LanguageNote, ...] = tuple(getattr(constraint, "notes", ()))
    return Language(constraint.engine, own if compiled is None else (*own, *compiled_notes(compiled)))


def compiled_notes(compiled: CompiledConstraint) -> tuple[LanguageNote, ...]:
    """What of a language is left out for one vocabulary."""
    return tuple(getattr(compiled, "notes", ()))


def located(notes: Sequence[LanguageNote], part: str) -> tuple[LanguageNote, ...]:
    """The notes of one part of a larger constraint, placed under the part's name."""
    return tuple(replace(note, at=f"{part}: {note.at}" if note.at else part) for note in notes)


def refuse_narrowing(constraint: Constraint, compiled: CompiledConstraint | None = None) -> None:
    """For callers that want the whole language or nothing. Without `compiled`, the vocabulary's part is not known.

    Raises:
        NarrowedLanguageError: some values of the language cannot be produced. Other spellings of values that can be
            (order of keys, optional escapes) and other tokenisations do not count.
    """
    lost = language_of(constraint, compiled).loses_values
    if lost:
        listed = "; ".join(map(str, lost))
        raise NarrowedLanguageError(
            f"strict_language: the engine {constraint.engine} cannot produce the whole language: {listed}. "
            "Change what the notes name, try another engine, or accept the narrower language (strict_language=False)."
        )
