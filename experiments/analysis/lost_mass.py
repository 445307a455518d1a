"""Where in a text the mask removes mass: nats lost by grammatical place, from the samples of local masking.

The lost nats of a sample are -sum log Z_t, the log of what its importance weight pays; a place takes the part of the
tokens that begin there. Samples that did not finish leave no path, and do not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.analysis.metrics import Record, log_value
from experiments.places import END
from experiments.text import number, percent

_NAMES = {END: "the stop", "start": "the first token", "inside": "the tokens after the first"}


@dataclass(frozen=True)
class PlaceLoss:
    """One place: the mean nats that a sample loses there, and the share of samples that pass it."""

    place: str
    nats: float
    share: float


def by_place(records: Iterable[Record]) -> list[PlaceLoss]:
    """The places of a task's samples, the largest loss first; none where records do not name places.

    Samples count as often as they were drawn, and instances alike, however many of their samples finished.
    """
    samples: dict[str, list[tuple[dict[str, float], int]]] = defaultdict(list)
    for record in records:
        for s in record["sequences"]:
            if s["count"] and s.get("places") and len(s["places"]) == len(s["kept_path"]):
                samples[record["instance"]].append((_lost(s["places"], s["kept_path"]), int(s["count"])))
    if not samples:
        return []
    nats: dict[str, list[float]] = defaultdict(list)
    share: dict[str, list[float]] = defaultdict(list)
    for drawn in samples.values():
        total = sum(count for _, count in drawn)
        for place in {place for lost, _ in drawn for place in lost}:
            nats[place].append(sum(lost.get(place, 0.0) * count for lost, count in drawn) / total)
            share[place].append(sum(count for lost, count in drawn if place in lost) / total)
    n = len(samples)
    found = [PlaceLoss(place, sum(nats[place]) / n, sum(share[place]) / n) for place in nats]
    return sorted(found, key=lambda loss: (-loss.nats, loss.place))


def _lost(places: Sequence[str], path: Sequence[float | None]) -> dict[str, float]:
    lost: dict[str, float] = defaultdict(float)
    for place, log_kept in zip(places, path, strict=True):
        lost[place] += max(0.0, -log_value(log_kept))  # Z_t may exceed 1 by rounding
    return dict(lost)


def total(losses: Sequence[PlaceLoss]) -> float:
    """The nats that a sample loses on average, all places together."""
    return float(np.sum([loss.nats for loss in losses]))


def sentence(losses: Sequence[PlaceLoss]) -> str | None:
    """How much a sample loses and where most of it goes; None where no places are known."""
    if not losses:
        return None
    nats = total(losses)
    if nats < 0.005:
        return "The mask removes next to nothing (less than 0.01 nats a sample): the model stays inside the language by itself."
    worst = losses[0]
    return (
        f"The mask removes {number(nats)} nats a sample, {percent(worst.nats / nats, 0)} of it at {named(worst.place)}"
        + (f" and {percent(losses[1].nats / nats, 0)} at {named(losses[1].place)}." if len(losses) > 1 else ".")
    )


def named(place: str) -> str:
    """A place as a part of a sentence."""
    return _NAMES.get(place, f"“{place}”")
