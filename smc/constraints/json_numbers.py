"""Numbers as JSON writes them, exact: decimals of any length, and not what a float makes of them."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isfinite

MAX_DIGITS = 4_000
"""Longest decimal that is read exactly, its exponent written out; beyond, a number is what a float makes of it."""


def read_number(text: str) -> int | float | Fraction:
    """The value of a number with a point or an exponent: a float, or where a float stands for another value, that value."""
    value = float(text)
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) < 16 and 1e-290 < abs(value) < inf:
        return value  # so few digits are always kept
    if len(exponent) > 6 or len(mantissa) + abs(int(exponent or 0)) > MAX_DIGITS:
        return value
    exact = Fraction(text)
    if isfinite(value) and exact_value(value) == exact:
        return value
    return int(exact) if exact.denominator == 1 else exact


def rounded_number(text: str) -> int | float:
    """As `read_number`, but a fraction that no float stands for is rounded to one: for what must be plain JSON."""
    value = read_number(text)
    return float(text) if isinstance(value, Fraction) else value


def exact_value(number: float | Fraction) -> float | Fraction:
    """A number as its shortest decimal says it: 0.1 is a tenth, and 1e23 a one with 23 zeros. Infinite ones stay floats."""
    if isinstance(number, float):
        return Fraction(repr(number)) if isfinite(number) else number
    return Fraction(number)
