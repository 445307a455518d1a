"""Limits and steps of numbers, exact: what several subschemas ask for together."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, gcd, lcm


def exact(number: float) -> Fraction:
    """A number of a schema as its shortest decimal says it: 0.1 is a tenth."""
    return Fraction(repr(number))


def common_multiple(a: Fraction, b: Fraction) -> Fraction:
    """The least number that is a multiple of both."""
    return Fraction(lcm(a.numerator, b.numerator), gcd(a.denominator, b.denominator))


def has_multiple(step: Fraction, low: tuple[Fraction, bool], high: tuple[Fraction, bool]) -> bool:
    """Whether a multiple of `step` lies between two bounds (value, excluded)."""
    first, last = ceil(low[0] / step), floor(high[0] / step)
    first += low[1] and first * step == low[0]
    last -= high[1] and last * step == high[0]
    return first <= last


def lower(a: int | None, b: int | None) -> int | None:
    """The lower of two limits, of which each may be missing."""
    return b if a is None else a if b is None else min(a, b)
