"""Numbers between bounds, as expressions of a grammar over their decimal digits.

A number is spelled without an exponent: minus, whole part, fraction of any length. Every finite decimal has such a spelling.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

Bound = tuple[Fraction, bool]
"""A value, and whether it is excluded."""

DIGIT = "[0-9]"


def integers(low: Bound | None, high: Bound | None) -> str | None:
    """The whole numbers between two bounds; None if there are none."""
    least = None if low is None else (floor(low[0]) + 1 if low[1] else ceil(low[0]))
    most = None if high is None else (ceil(high[0]) - 1 if high[1] else floor(high[0]))
    if least is not None and most is not None and least > most:
        return None
    ways = []
    if most is None or most >= 0:
        ways.append(_whole(max(least or 0, 0), most))
    if least is None or least <= 0:  # minus zero is zero
        start = 0 if most is None or most >= 0 else -most
        ways.append(f'"-" {_whole(start, None if least is None else -least)}')
    return _either(ways)


def decimals(low: Bound | None, high: Bound | None) -> str | None:
    """The decimals between two bounds; None if there are none."""
    ways = [_magnitudes(low if low and low[0] >= 0 else None, high, low is not None and low[0] >= 0)]
    mirrored = _magnitudes(
        None if high is None or high[0] > 0 else (-high[0], high[1]),
        None if low is None else (-low[0], low[1]),
        high is not None and high[0] <= 0,
    )
    if mirrored is not None:
        ways.append(f'"-" {mirrored}')
    found = [way for way in ways if way is not None]
    return _either(found) if found else None


def at_least_zero() -> str:
    """Every number that is not negative, exponents included."""
    tail = '("." [0-9]+)? ([eE] [+-]? [0-9]+)?'
    return f'(("0" | [1-9] [0-9]*) {tail} | "-0" ("." "0"+)? ([eE] [+-]? [0-9]+)?)'


def _magnitudes(low: Bound | None, high: Bound | None, bounded: bool) -> str | None:
    """Decimals without a sign, from `low` (zero, included, if not `bounded`) to `high`."""
    least, open_low = low if bounded and low is not None else (Fraction(0), False)
    if high is not None and (high[0] < least or (high[0] == least and (open_low or high[1]))):
        return None
    base, digits = _split(least)
    if high is None:
        ways = [_joined(_whole(base, base), _above(digits, open_low)), f"{_whole(base + 1, None)} {_FREE}"]
        return _either([way for way in ways if way])
    top, top_digits = _split(high[0])
    if base == top:
        return _joined(_whole(base, base), _between(digits, open_low, top_digits, high[1]))
    ways = [_joined(_whole(base, base), _above(digits, open_low))]
    if top - base > 1:
        ways.append(f"{_whole(base + 1, top - 1)} {_FREE}")
    ways.append(_joined(_whole(top, top), _below(top_digits, high[1])))
    return _either([way for way in ways if way])


_FREE = f'("." {DIGIT}+)?'

# Digits after the point, as (may they be missing, the ways in which they are not). They stand for 0.digits.
Tail = tuple[bool, list[str]]
_ANY: Tail = (True, [f"{DIGIT}+"])
_ZERO: Tail = (True, ['"0"+'])
_POSITIVE: Tail = (False, [f'"0"* [1-9] {DIGIT}*'])
_NONE: Tail = (False, [])


def _joined(whole: str, tail: Tail) -> str | None:
    missing, ways = tail
    if not ways:
        return whole if missing else None
    fraction = f'"." {_either(ways)}'
    return f"{whole} ({fraction})?" if missing else f"{whole} {fraction}"


def _then(digit: str, tail: Tail) -> list[str]:
    missing, ways = tail
    if not ways:
        return [digit] if missing else []
    return [f"{digit} ({_either(ways)})?" if missing else f"{digit} {_either(ways)}"]


def _range(low: int, high: int) -> str | None:
    if low > high:
        return None
    return f'"{low}"' if low == high else f"[{low}-{high}]"


def _above(digits: str, excluded: bool) -> Tail:
    if not digits:
        return _POSITIVE if excluded else _ANY
    first = int(digits[0])
    more = _range(first + 1, 9)
    ways = [f"{more} {DIGIT}*"] if more else []
    return False, ways + _then(f'"{first}"', _above(digits[1:], excluded))


def _below(digits: str, excluded: bool) -> Tail:
    if not digits:
        return _NONE if excluded else _ZERO
    first = int(digits[0])
    less = _range(0, first - 1)
    ways = [f"{less} {DIGIT}*"] if less else []
    return True, ways + _then(f'"{first}"', _below(digits[1:], excluded))


def _between(low: str, low_excluded: bool, high: str, high_excluded: bool) -> Tail:
    if not low and not high:
        return _NONE if low_excluded or high_excluded else _ZERO
    first, last = int(low[:1] or 0), int(high[:1] or 0)
    missing = not low and not low_excluded  # nothing stands for zero, which is below what is left of `high`
    if first == last:
        return missing, _then(f'"{first}"', _between(low[1:], low_excluded, high[1:], high_excluded))
    ways = _then(f'"{first}"', _above(low[1:], low_excluded))
    middle = _range(first + 1, last - 1)
    ways += [f"{middle} {DIGIT}*"] if middle else []
    return missing, ways + _then(f'"{last}"', _below(high[1:], high_excluded))


def _split(value: Fraction) -> tuple[int, str]:
    """The whole part and the digits after the point of a decimal that is not negative."""
    whole = floor(value)
    rest, digits = value - whole, ""
    while rest:
        rest *= 10
        digits += str(floor(rest))
        rest -= floor(rest)
    return whole, digits


def _whole(least: int, most: int | None) -> str:
    """Whole numbers from `least` >= 0 to `most` without leading zeros."""
    ways: list[str] = []
    if least == 0:
        ways.append('"0"')
        least = 1
    width = len(str(least))
    if most is not None and most < least:
        return _either(ways)
    if most is not None and len(str(most)) == width:
        ways += _same_width(str(least), str(most))
        return _either(ways)
    ways += _same_width(str(least), "9" * width)
    if most is None:
        ways.append(f"[1-9] {DIGIT}{{{width},}}")
        return _either(ways)
    longest = len(str(most))
    if longest - width > 1:
        ways.append(f"[1-9] {DIGIT}{{{width},{longest - 2}}}")
    return _either(ways + _same_width("1" + "0" * (longest - 1), str(most)))


def _same_width(low: str, high: str) -> list[str]:
    """Digit strings of one width from `low` to `high`."""
    if not low:
        return [""]
    width = len(low) - 1
    free = f" {DIGIT}{{{width}}}" if width else ""
    if low[1:] == "0" * width and high[1:] == "9" * width:
        return [f"{_range(int(low[0]), int(high[0]))}{free}"]
    if low[0] == high[0]:
        return [f'"{low[0]}" {_either(_same_width(low[1:], high[1:]))}']
    ways = [f'"{low[0]}" {_either(_same_width(low[1:], "9" * width))}']
    middle = _range(int(low[0]) + 1, int(high[0]) - 1)
    ways += [f"{middle}{free}"] if middle else []
    return [*ways, f'"{high[0]}" {_either(_same_width("0" * width, high[1:]))}']


def _either(ways: list[str]) -> str:
    return ways[0] if len(ways) == 1 and " " not in ways[0] else f"({' | '.join(ways)})"
