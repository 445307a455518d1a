"""What the grammar engine enforced on a task, against what its constraints say: the warnings of the records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from experiments import text
from experiments.analysis.metrics import Record

ORDER = (("narrower", "values"), ("narrower", "spelling"), ("narrower", "tokens"), ("wider", ""), ("unchecked", ""))
"""What a reader must know first."""

LABELS = {
    ("narrower", "values"): "left out",
    ("narrower", "spelling"): "left out, other spellings only",
    ("narrower", "tokens"): "left out, other tokenisations only",
    ("wider", ""): "let through, then refused",
    ("unchecked", ""): "written, and looked at by nothing",
}


@dataclass(frozen=True)
class Deviation:
    """One way in which a mask differs from its constraint, on however many instances of a task."""

    effect: str
    scope: str
    keyword: str
    what: str
    places: tuple[str, ...]
    instances: int

    @property
    def label(self) -> str:
        """The effect in the reader's words."""
        return LABELS[self.effect, self.scope]


def engines(records: Iterable[Record]) -> tuple[str, ...]:
    """The engines that made the masks."""
    return tuple(sorted({r["language"]["engine"] for r in records if r.get("language")}))


def deviations(records: Iterable[Record]) -> tuple[Deviation, ...]:
    """The notes of all constraints, equal ones together, what is lost first."""
    places: dict[tuple[str, str, str, str], dict[str, None]] = defaultdict(dict)
    instances: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    for record in records:
        for note in (record.get("language") or {}).get("notes", ()):
            scope = note["scope"] if note["effect"] == "narrower" else ""
            key = (note["effect"], scope, note["keyword"], note["what"])
            places[key][note["at"]] = None
            instances[key].add(record["instance"])
    found = [Deviation(*key, tuple(places[key]), len(instances[key])) for key in places]
    return tuple(sorted(found, key=lambda d: (ORDER.index((d.effect, d.scope)), -d.instances, d.keyword, d.what)))


def sentence(records: Iterable[Record]) -> str | None:
    """One sentence on what was enforced; None where no record says it."""
    records = list(records)
    names = engines(records)
    if not names:
        return None
    made = f"The masks are those of {text.listed(list(names))}"
    if not (found := deviations(records)):
        return f"{made}; no difference to the constraints as they were written is known."
    lost = sum(d.effect == "narrower" and d.scope == "values" for d in found)
    if lost:
        return f"{made}. Some of what the constraints allow can never be produced: see the first {text.counted(lost, 'line', 'lines')}."
    return f"{made}. Every value that the constraints allow can be produced; the differences are these."
