"""Thought in free text first, then a constrained answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import xgrammar as xgr

from smc.constraints.assembly import Assembly, Format, checked_part, either, embedded, reader, texts_of
from smc.constraints.base import Constraint
from smc.constraints.caching import shortened, text_of
from smc.constraints.notes import LanguageNote, language_of, located
from smc.constraints.regex import Regex
from smc.constraints.span_checks import AfterMarker, Behind, prefix_check_of
from smc.constraints.template import Free, Template
from smc.constraints.validated import PrefixCheck
from smc.errors import ConstraintError, quoted, true_or_false
from smc.vocabulary import to_bytes

_GAP = Regex("[ \\n\\r\\t]{0,2}")


class Reasoned(NamedTuple):
    """A finished text taken apart: what was thought (None if nothing was), and the answer."""

    thought: str | None
    answer: str


@dataclass(frozen=True)
class Reasoning(Assembly):
    """``<think> anything </think>``, up to two blanks or line breaks, and then an answer that follows a constraint.

    Nothing is masked in the thought but control tokens, the stop, and what writes `end` and then something that begins no
    answer. Evidence and weights count the thought as a part of the text; group by :meth:`split` for the answers' posterior,
    as in ``result.posterior(key=lambda text: reasoning.split(text).answer)``. (For a thought inside a JSON answer, give its
    schema a string property that comes first.)

    Attributes:
        answer: any constraint of xgrammar.
        begin, end: what stands around the thought. ``begin=""`` if the prompt has opened it already. A marker that is a
            control token of the model counts as text of that spelling; a stop token cannot be one.
        required: whether there must be a thought; without one, the text is the answer alone. Always, if `begin` is empty.
        max_chars: the most characters of thought; None for no limit.

    Raises:
        ConstraintError: an `answer` that is no constraint of xgrammar; an empty `end`; ``begin=""`` with
            ``required=False``; on `compile`, a marker that is a stop token.
    """

    answer: Constraint
    begin: str = "<think>"
    end: str = "</think>"
    required: bool = True
    max_chars: int | None = None

    def __post_init__(self) -> None:
        checked_part(self.answer, "Reasoning")
        true_or_false("required", self.required)
        text_of("begin of Reasoning", self.begin)
        if not text_of("end of Reasoning", self.end):
            raise ConstraintError("Reasoning needs a text as end: without it, thought and answer look alike.")
        if not self.begin and not self.required:
            raise ConstraintError(
                "Reasoning(begin='') says that the prompt has opened the thought, which must then be closed: leave out "
                "required=False."
            )
        _ = self._thinking  # a wrong max_chars is refused here

    @cached_property
    def _thinking(self) -> Template:
        return Template(self.begin, Free(self.end, self.max_chars), _GAP, self.answer)

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """What the answer's constraint has to say."""
        return located(language_of(self.answer).notes, "answer")

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        return (self.begin, self.end, *texts_of(self.answer))

    def format(self, tokens: xgr.TokenizerInfo) -> Format:
        thinking = self._thinking.format(tokens)
        return thinking if self.required else either(thinking, embedded(self.answer, tokens))

    def prefix_check(self) -> PrefixCheck[Any] | None:
        inner = prefix_check_of(self.answer)
        begin, end = to_bytes(self.begin), to_bytes(self.end)
        # not where the answer may come without a thought, nor where `end` could be written in two places at once
        if inner is None or not self.required or any(end.startswith(end[cut:]) for cut in range(1, len(end))):
            return None
        return Behind(len(begin), AfterMarker(end, inner))

    def holds(self, text: str) -> bool:
        return self._split(text) is not None

    def split(self, text: str) -> Reasoned:
        """Thought (without its markers) and answer of a finished text.

        Raises:
            ConstraintError: the text is not in the language.
        """
        found = self._split(text)
        if found is None:
            raise ConstraintError(
                f"The text {shortened(text)!r} is no thought followed by an answer of the constraint."
            )
        return found

    def _split(self, text: str) -> Reasoned | None:
        pieces = self._thinking.split(text)
        if pieces is not None:
            return Reasoned(pieces[1].removesuffix(self.end), pieces[3])
        return Reasoned(None, text) if not self.required and self._answers(text) else None

    @cached_property
    def _answers(self) -> Any:
        return reader(self.answer)

    @property
    def _named(self) -> str:
        return f"The Reasoning before {quoted(self.answer)}"
