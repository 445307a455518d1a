"""Many comparisons at once: p-values adjusted so that few of the claims are false."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from scipy import stats

from experiments.analysis.differences import Difference
from experiments.analysis.significance import LEVEL

FAMILY = "one method, one baseline and one quantity, over all tasks of the study"


class Compared(Protocol):
    """What holds paired differences by quantity: `summary.Comparison`, `matched.Matched`. A frozen dataclass."""

    @property
    def method(self) -> str: ...
    @property
    def baseline(self) -> str: ...
    @property
    def differences(self) -> dict[str, Difference]: ...


AnyCompared = TypeVar("AnyCompared", bound=Compared)


def adjust(comparisons: Sequence[AnyCompared]) -> list[AnyCompared]:
    """The comparisons of a study with `q`, the p-value adjusted for the false discovery rate, in their order.

    Benjamini and Hochberg (1995), within a family: one method against one baseline in one quantity, over all tasks. Of the
    claims "higher" and "lower" of a family at most 5% are then false on average; so a claim whose q exceeds 5% is
    taken back to "cannot tell". What has no p-value (too few instances) is no part of a family.
    """
    families: dict[tuple[str, str, str], list[tuple[int, float]]] = defaultdict(list)
    for index, compared in enumerate(comparisons):
        for name, d in compared.differences.items():
            if d.p is not None:
                families[compared.method, compared.baseline, name].append((index, d.p))
    found: list[dict[str, Difference]] = [dict(c.differences) for c in comparisons]
    for (*_, name), members in families.items():
        adjusted = stats.false_discovery_control([p for _, p in members], method="bh")
        for (index, _), q in zip(members, adjusted, strict=True):
            found[index][name] = _judged(found[index][name], float(q), len(members))
    return [replace(c, differences=d) for c, d in zip(comparisons, found, strict=True)]  # type: ignore[type-var]


def _judged(d: Difference, q: float, family: int) -> Difference:
    d = replace(d, q=q, family=family)
    return replace(d, verdict="cannot tell") if d.verdict in ("higher", "lower") and q > LEVEL else d
