"""A JSON Schema keyword by keyword: which the mask enforces exactly, where it differs, and what nothing checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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


def audited(schema: Any, engine: str, findings: Iterable[Finding], draft: Draft) -> tuple[AuditEntry, ...]:
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
    return (*result, *(entry for entries in by_place.values() for entry in entries))


def notes(entries: Iterable[AuditEntry]) -> tuple[LanguageNote, ...]:
    """The entries that are not exact."""
    return tuple(
        LanguageNote(entry.effect, entry.at, entry.keyword, entry.what, entry.scope)
        for entry in entries
        if entry.effect != "exact"
    )
