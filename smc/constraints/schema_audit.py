"""A JSON Schema keyword by keyword: which the mask enforces exactly, and where it differs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from smc.constraints.notes import LanguageNote, Scope
from smc.constraints.schema_graph import Finding
from smc.constraints.schema_places import subschemas
from smc.constraints.schema_table import row


@dataclass(frozen=True)
class AuditEntry:
    """One keyword where it stands.

    Attributes:
        at: JSON pointer of its subschema, in the schema as it was written.
        keyword: its name.
        effect: "exact", or as in :class:`smc.constraints.notes.LanguageNote`.
        what, scope: as there; empty and "values" if it is exact.
    """

    at: str
    keyword: str
    effect: Literal["exact", "wider", "narrower"]
    what: str = ""
    scope: Scope = "values"


def audited(schema: Any, engine: str, findings: Iterable[Finding], keywords: Iterable[str]) -> tuple[AuditEntry, ...]:
    """One entry for each of `keywords` at each place of a schema; several for one that differs in several ways.

    Entries come in the order of the document. Keywords that only the engine's reading brings in stand at the end.
    """
    known = set(keywords)
    by_place: dict[tuple[str, str], list[AuditEntry]] = {}
    for finding in findings:
        found = row(engine, finding.keyword, finding.case)
        entry = AuditEntry(finding.at, finding.keyword, found.effect, found.what, found.scope)
        entries = by_place.setdefault((finding.at, finding.keyword), [])
        if entry not in entries:
            entries.append(entry)
    result: list[AuditEntry] = []
    for at, part in subschemas(schema):
        for keyword in part:
            if keyword in known:
                result += by_place.pop((at, keyword), [AuditEntry(at, keyword, "exact")])
    return (*result, *(entry for entries in by_place.values() for entry in entries))


def notes(entries: Iterable[AuditEntry]) -> tuple[LanguageNote, ...]:
    """The entries that are not exact."""
    return tuple(
        LanguageNote(entry.effect, entry.at, entry.keyword, entry.what, entry.scope)
        for entry in entries
        if entry.effect != "exact"
    )
