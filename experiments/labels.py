"""What methods are called in tables and how they look in pictures: one place for both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

POSTERIOR_METHODS = ("smc", "smc_sample", "importance_resampling", "smc_power")
"""Methods that can speak for "the posterior", the preferred one first."""

LOCAL_LAW = "local_masking_exact_law"
"""Not a method that was run: the exact law of local masking, computed from the exact record."""

DEFAULT_BASELINES = ("greedy_masking", "local_masking")


@dataclass(frozen=True)
class Look:
    """A method's label, colour and marker."""

    label: str
    colour: str
    marker: str


# Colours of Okabe and Ito (2008), which stay apart for colour-blind readers; the marker says it a second
# time.
KNOWN: dict[str, Look] = {
    "greedy_masking": Look("Greedy masking", "#333333", "s"),
    "local_masking": Look("Local masking", "#E69F00", "o"),
    "importance_resampling": Look("Importance resampling", "#56B4E9", "^"),
    "unconstrained": Look("Unconstrained", "#8C8C8C", "x"),
    "smc": Look("SMC (enumerate)", "#0072B2", "D"),
    "smc_sample": Look("SMC (sample)", "#009E73", "v"),
    "smc_power": Look("SMC (sharpened)", "#D55E00", "P"),
    "exact": Look("Exact posterior", "#CC79A7", "*"),
    LOCAL_LAW: Look("Local masking, exact law", "#444444", "_"),
}
_SPARE_COLOURS = ("#CC79A7", "#7A5195", "#8C564B", "#117733", "#882255")
_SPARE_MARKERS = ("h", "<", ">", "p", "d")


def look(method: str) -> Look:
    """The look of a method; a method nobody listed keeps its own name and a stable spare colour."""
    if method in KNOWN:
        return KNOWN[method]
    spare = sum(method.encode()) % len(_SPARE_COLOURS)
    return Look(method, _SPARE_COLOURS[spare], _SPARE_MARKERS[spare])


def label(method: str) -> str:
    """The readable name of a method."""
    return look(method).label


def in_order(methods: Iterable[str]) -> list[str]:
    """Known methods in the order above, then the others by name."""
    order = {name: i for i, name in enumerate(KNOWN)}
    return sorted(set(methods), key=lambda name: (order.get(name, len(order)), name))
