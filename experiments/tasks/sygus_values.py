"""What SyGuS expressions over booleans, integers, strings and bit vectors are worth, as SMT-LIB 2.6 defines it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

from experiments.tasks.s_expressions import Expression, Literal, named


@dataclass(frozen=True)
class BitVector:
    """A number of `width` bits, from 0 to 2**width - 1."""

    value: int
    width: int

    @property
    def signed(self) -> int:
        """The number in two's complement."""
        return self.value - (1 << self.width) if self.value >> (self.width - 1) else self.value


Value = bool | int | str | BitVector


@dataclass(frozen=True)
class Function:
    """A function by its parameters and the expression that it stands for."""

    parameters: tuple[str, ...]
    body: Expression


def evaluate(expression: Expression, variables: Mapping[str, Value], functions: Mapping[str, Function]) -> Value:
    """The value of an expression.

    Raises ValueError for a name that is not known, or arguments that are not of an operation's sorts.
    """
    if isinstance(expression, str):
        return _atom(expression, variables, functions)
    head, *rest = expression or ("()",)
    if head == "ite" and len(rest) == 3:
        return evaluate(rest[1 if _truth(evaluate(rest[0], variables, functions)) else 2], variables, functions)
    if head == "let" and len(rest) == 2:
        bound = {name: evaluate(value, variables, functions) for name, value in named(rest[0])}
        return evaluate(rest[1], {**variables, **bound}, functions)
    if head == "_" and len(rest) == 2:  # (_ bv5 4)
        match = re.fullmatch(r"bv(\d+) (\d+)", " ".join(map(str, rest)))
        if match is None:
            raise ValueError(f"{rest} is no bit vector")
        return _bits(int(match[1]), int(match[2]))
    arguments = [evaluate(argument, variables, functions) for argument in rest]
    if not isinstance(head, str) or isinstance(head, Literal):
        raise ValueError("a list does not begin with a name")
    if head in functions:
        function = functions[head]
        return evaluate(function.body, dict(zip(function.parameters, arguments, strict=True)), functions)
    return _apply(head, arguments)


def _atom(symbol: str, variables: Mapping[str, Value], functions: Mapping[str, Function]) -> Value:
    if isinstance(symbol, Literal):
        return str(symbol)
    if symbol in variables:
        return variables[symbol]
    if symbol in functions and not functions[symbol].parameters:
        return evaluate(functions[symbol].body, {}, functions)
    if symbol in ("true", "false"):
        return symbol == "true"
    if re.fullmatch(r"-?[0-9]+", symbol):
        return int(symbol)
    if re.fullmatch(r"#x[0-9a-fA-F]+", symbol):
        return _bits(int(symbol[2:], 16), 4 * len(symbol[2:]))
    if re.fullmatch(r"#b[01]+", symbol):
        return _bits(int(symbol[2:], 2), len(symbol[2:]))
    raise ValueError(f"{symbol} is not known")


def _truth(value: Value) -> bool:
    if not isinstance(value, bool):
        raise ValueError("a condition is neither true nor false")
    return value


def _bits(value: int, width: int) -> BitVector:
    return BitVector(value % (1 << width), width)


def _apply(name: str, arguments: list[Value]) -> Value:
    if name in ("=", "distinct"):
        if len({type(argument) for argument in arguments}) != 1 or len(arguments) < 2:
            raise ValueError(f"{name} compares what is not of one sort")
        return (len(set(arguments)) == 1) if name == "=" else len(set(arguments)) == len(arguments)
    if name not in OPERATIONS:
        raise ValueError(f"{name} is not known")
    sorts, function = OPERATIONS[name]
    expected = (sorts,) * len(arguments) if isinstance(sorts, type) else sorts
    if not arguments or [type(argument) for argument in arguments] != list(expected):
        raise ValueError(f"{name} is given arguments of other sorts")
    if BitVector in expected and len({argument.width for argument in arguments if isinstance(argument, BitVector)}) > 1:
        raise ValueError(f"{name} is given bit vectors of different widths")
    value: Value = function(*arguments)
    return value


def _on_bits(function: Callable[..., int]) -> Callable[..., BitVector]:
    """An operation on the numbers, and its result in as many bits."""
    return lambda *vectors: _bits(function(*(vector.value for vector in vectors)), vectors[0].width)


def _unsigned(function: Callable[[int, int], bool]) -> Callable[[BitVector, BitVector], bool]:
    return lambda a, b: function(a.value, b.value)


def _signed(function: Callable[[int, int], bool]) -> Callable[[BitVector, BitVector], bool]:
    return lambda a, b: function(a.signed, b.signed)


def _quotient(a: BitVector, b: BitVector) -> BitVector:
    return _bits(a.value // b.value if b.value else -1, a.width)


def _remainder(a: BitVector, b: BitVector) -> BitVector:
    return _bits(a.value % b.value if b.value else a.value, a.width)


def _minus(first: int, *others: int) -> int:
    return first - sum(others) if others else -first


def _product(*factors: int) -> int:
    product = 1
    for factor in factors:
        product *= factor
    return product


def _divided(a: int, b: int) -> int:
    """Rounded so that the remainder is not negative. SMT-LIB leaves division by 0 open: here it is refused."""
    if b == 0:
        raise ValueError("division by 0")
    return (a - a % abs(b)) // b


def _modulo(a: int, b: int) -> int:
    if b == 0:
        raise ValueError("division by 0")
    return a % abs(b)


def _substring(text: str, start: int, length: int) -> str:
    return text[start : start + length] if start >= 0 and length > 0 else ""


def _index(text: str, part: str, start: int) -> int:
    return text.find(part, start) if 0 <= start <= len(text) else -1


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]+", text) else -1


def _digits(number: int) -> str:
    return str(number) if number >= 0 else ""


_TWO = (BitVector, BitVector)

OPERATIONS: dict[str, tuple[type | tuple[type, ...], Callable[..., Any]]] = {
    "not": ((bool,), lambda a: not a),
    "and": (bool, lambda *all_: all(all_)),
    "or": (bool, lambda *any_: any(any_)),
    "xor": ((bool, bool), lambda a, b: a != b),
    "=>": ((bool, bool), lambda a, b: not a or b),
    "+": (int, lambda *terms: sum(terms)),
    "-": (int, _minus),
    "*": (int, _product),
    "div": ((int, int), _divided),
    "mod": ((int, int), _modulo),
    "abs": ((int,), abs),
    "<": ((int, int), lt),
    "<=": ((int, int), le),
    ">": ((int, int), gt),
    ">=": ((int, int), ge),
    "str.++": (str, lambda *pieces: "".join(pieces)),
    "str.len": ((str,), len),
    "str.at": ((str, int), lambda text, place: _substring(text, place, 1)),
    "str.substr": ((str, int, int), _substring),
    "str.indexof": ((str, str, int), _index),
    "str.replace": ((str, str, str), lambda text, old, new: text.replace(old, new, 1)),
    "str.replace_all": ((str, str, str), lambda text, old, new: text.replace(old, new) if old else text),
    "str.prefixof": ((str, str), lambda part, text: text.startswith(part)),
    "str.suffixof": ((str, str), lambda part, text: text.endswith(part)),
    "str.contains": ((str, str), lambda text, part: part in text),
    "str.to_int": ((str,), _number),
    "str.to.int": ((str,), _number),
    "str.from_int": ((int,), _digits),
    "int.to.str": ((int,), _digits),
    "bvnot": ((BitVector,), _on_bits(lambda a: ~a)),
    "bvneg": ((BitVector,), _on_bits(lambda a: -a)),
    "bvand": (_TWO, _on_bits(lambda a, b: a & b)),
    "bvor": (_TWO, _on_bits(lambda a, b: a | b)),
    "bvxor": (_TWO, _on_bits(lambda a, b: a ^ b)),
    "bvadd": (_TWO, _on_bits(lambda a, b: a + b)),
    "bvsub": (_TWO, _on_bits(lambda a, b: a - b)),
    "bvmul": (_TWO, _on_bits(lambda a, b: a * b)),
    "bvudiv": (_TWO, _quotient),
    "bvurem": (_TWO, _remainder),
    "bvshl": (_TWO, lambda a, b: _bits(a.value << min(b.value, a.width), a.width)),
    "bvlshr": (_TWO, lambda a, b: _bits(a.value >> min(b.value, a.width), a.width)),
    "bvashr": (_TWO, lambda a, b: _bits(a.signed >> min(b.value, a.width), a.width)),
    "bvult": (_TWO, _unsigned(lt)),
    "bvule": (_TWO, _unsigned(le)),
    "bvugt": (_TWO, _unsigned(gt)),
    "bvuge": (_TWO, _unsigned(ge)),
    "bvslt": (_TWO, _signed(lt)),
    "bvsle": (_TWO, _signed(le)),
    "bvsgt": (_TWO, _signed(gt)),
    "bvsge": (_TWO, _signed(ge)),
}
"""The operations by name: the sorts of their arguments (one sort alone for any number of arguments), and the function."""
