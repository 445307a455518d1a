"""A JSON Schema keyword by keyword: which the mask enforces exactly, where it differs, and what nothing checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from textwrap import wrap
from typing import Any, Literal

from smc.constraints.json_drafts import Draft, named_draft, read_keywords
from smc.constraints.notes import Effect, LanguageNote, Scope
from smc.constraints.schema_graph import Finding
from smc.constraints.schema_places import subschemas
from smc.constraints.schema_table import row
from smc.constraints.schema_unchecked import borrowed, unchecked


@dataclass(frozen=True)
class AuditEntry:
    """One keyword where it stands.

    Attributes:
        at: JSON pointer of its subschema, in the schema as it was written.
        keyword: its name.
        effect: "exact", or as in :class:`smc.constraints.notes.LanguageNote`.
        what, scope: as there. If it is exact, `what` is empty, or says by which draft it is read if not the schema's own.
    """

    at: str
    keyword: str
    effect: Literal["exact"] | Effect
    what: str = ""
    scope: Scope = "values"

    @property
    def verdict(self) -> str:
        """The effect, with what is lost where that is not values."""
        return self.effect if self.scope == "values" else f"{self.effect} ({self.scope})"


class Audit(tuple[AuditEntry, ...]):
    """The entries of a schema, in order. Printed, a table of at most 100 columns; in a notebook, an HTML one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Audit: {self._counts}>"

    def __str__(self) -> str:
        return "\n".join([*_table(self._cells), "", f"{self._counts}."])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _HEADS)
        rows = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>" for cells in self._cells)
        return f"<table><tr>{head}</tr>{rows}</table><p>{self._counts}</p>"

    @property
    def _cells(self) -> list[tuple[str, str, str, str]]:
        return [(entry.at or "(root)", entry.keyword, entry.verdict, entry.what) for entry in self]

    @property
    def _counts(self) -> str:
        of = Counter(entry.effect for entry in self)
        return f"{len(self)} entries, {of['exact']} exact, {of['wider']} wider, {of['narrower']} narrower, {of['unchecked']} unchecked"


_HEADS = ("where", "keyword", "mask", "difference")
_WIDTH = 100
_MOST = (34, 24, 22)  # of the first columns; what is longer goes on in the next line


def _table(cells: Sequence[tuple[str, ...]]) -> list[str]:
    """Aligned lines; long cells are wrapped."""
    rows = [_HEADS, *cells]
    widths = [min(most, max(len(line[i]) for line in rows)) for i, most in enumerate(_MOST)]
    widths.append(_WIDTH - sum(widths) - 2 * len(widths))
    lines = []
    for line in rows:
        wrapped = [wrap(cell, width) or [""] for cell, width in zip(line, widths, strict=True)]
        for pieces in zip_longest(*wrapped, fillvalue=""):
            lines.append("  ".join(p.ljust(width) for p, width in zip(pieces, widths, strict=True)).rstrip())
    lines.insert(1, "  ".join("-" * max(width, 1) for width in widths))
    return lines


def audited(schema: Any, engine: str, findings: Iterable[Finding], draft: Draft) -> Audit:
    """One entry for each keyword at each place of a schema; several for one that differs in several ways.

    Entries come in the order of the document. Keywords that only the engine's reading brings in stand at the end.

    Args:
        draft: the one that the schema is read in.
    """
    by_place: dict[tuple[str, str], list[AuditEntry]] = {}
    for finding in findings:
        found = row(engine, finding.keyword, finding.case)
        entry = AuditEntry(finding.at, finding.keyword, found.effect, found.what, found.scope)
        entries = by_place.setdefault((finding.at, finding.keyword), [])
        if entry not in entries:
            entries.append(entry)
    named, result = named_draft(schema), list[AuditEntry]()
    for at, part in subschemas(schema):
        idle, lent = dict(unchecked(part, draft)), dict(borrowed(part, named))
        for keyword in part:
            if keyword in idle:
                result.append(AuditEntry(at, keyword, "unchecked", idle[keyword]))
            elif keyword in read_keywords(draft):
                exact = AuditEntry(at, keyword, "exact", lent.get(keyword, ""))
                result += by_place.pop((at, keyword), [exact])
    return Audit((*result, *(entry for entries in by_place.values() for entry in entries)))


def notes(entries: Iterable[AuditEntry]) -> tuple[LanguageNote, ...]:
    """The entries that are not exact."""
    return tuple(
        LanguageNote(entry.effect, entry.at, entry.keyword, entry.what, entry.scope)
        for entry in entries
        if entry.effect != "exact"
    )
