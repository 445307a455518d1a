"""Problems of syntax-guided synthesis (SyGuS, Alur et al. 2013): find a function that meets constraints, and check whether one does."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from experiments.tasks.s_expressions import Expression, Literal, items, named, read
from experiments.tasks.sygus_values import OPERATIONS, BitVector, Function, Value, evaluate

INTEGERS = range(-4, 5)
"""What an integer variable is tried with: there is no trying them all."""

_MOST = 1 << 16  # assignments of a constraint's variables that are tried


@dataclass(frozen=True)
class Problem:
    """One function to find.

    Attributes:
        name, parameters, sort: its signature; each parameter with its sort.
        helpers: functions that the constraints may use.
        constraints: each with the values that its variables are to be tried with.
    """

    name: str
    parameters: tuple[tuple[str, Expression], ...]
    sort: Expression
    helpers: tuple[tuple[str, Function], ...]
    constraints: tuple[tuple[Expression, tuple[tuple[str, tuple[Value, ...]], ...]], ...]

    def satisfied(self, text: str) -> list[bool]:
        """Which constraints a solution ``(define-fun ...)`` meets, for all values tried; none of them if it cannot be read."""
        solution = self._solution(text)
        if solution is None:
            return [False] * len(self.constraints)
        functions = {**dict(self.helpers), self.name: solution}
        return [
            all(_holds(constraint, assignment, functions) for assignment in _assignments(variables))
            for constraint, variables in self.constraints
        ]

    def _solution(self, text: str) -> Function | None:
        try:
            (command,) = read(text)
            keyword, name, parameters, sort, body = items(command)
            pairs = named(parameters)
        except ValueError:
            return None
        if keyword != "define-fun" or name != self.name or sort != self.sort:
            return None
        if [its_sort for _, its_sort in pairs] != [its_sort for _, its_sort in self.parameters]:
            return None
        return Function(tuple(parameter for parameter, _ in pairs), body)


def last_problem(prompt: str) -> Problem | None:
    """The last problem of a text, from ``(set-logic`` to ``(check-synth)``.

    None if there is none, or if it holds what cannot be checked here: several functions to find, operations or sorts that
    `sygus_values` does not know, variables with too many values to try.
    """
    start = prompt.rfind("(set-logic")
    end = prompt.find("(check-synth)", start)
    if start < 0 or end < 0:
        return None
    try:
        return _problem(read(prompt[start:end]))
    except ValueError:
        return None


def _problem(commands: list[Expression]) -> Problem:
    """Raises ValueError for what cannot be checked."""
    found: list[tuple[str, tuple[tuple[str, Expression], ...], Expression]] = []
    helpers: dict[str, Function] = {}
    sorts: dict[str, Expression] = {}
    constraints: list[Expression] = []
    for command in commands:
        match command:
            case ("set-logic", _):
                pass
            case ("synth-fun", str(name), parameters, sort, *_):
                found.append((name, tuple(named(parameters)), sort))
            case ("declare-var", str(name), sort):
                sorts[name] = sort
            case ("define-fun", str(name), parameters, _, body):
                helpers[name] = Function(tuple(parameter for parameter, _ in named(parameters)), body)
            case ("constraint", constraint):
                constraints.append(constraint)
            case _:
                raise ValueError("a command is not known")
    ((name, parameters, sort),) = found
    known = {*OPERATIONS, *helpers, name, "ite", "let", "_", "=", "distinct"}
    for expression in (*constraints, *(helper.body for helper in helpers.values())):
        if unknown := set(_heads(expression)) - known:
            raise ValueError(f"{unknown} not known")
    if not constraints:
        raise ValueError("nothing to check")
    return Problem(
        name,
        parameters,
        sort,
        tuple(helpers.items()),
        tuple((c, _variables(c, sorts)) for c in dict.fromkeys(constraints)),
    )


def _variables(constraint: Expression, sorts: dict[str, Expression]) -> tuple[tuple[str, tuple[Value, ...]], ...]:
    """The variables of a constraint, with the values to try. Raises ValueError if there are too many."""
    domains = tuple((name, _domain(sorts[name])) for name in dict.fromkeys(_symbols(constraint)) if name in sorts)
    if math.prod(len(domain) for _, domain in domains) > _MOST:
        raise ValueError("too many values to try")
    return domains


def _domain(sort: Expression) -> tuple[Value, ...]:
    match sort:
        case "Bool":
            return (False, True)
        case "Int":
            return tuple(INTEGERS)
        case ("BitVec", str(width)) | ("_", "BitVec", str(width)) if re.fullmatch(r"[1-9]|1[0-6]", width):
            return tuple(BitVector(value, int(width)) for value in range(1 << int(width)))
        case _:
            raise ValueError(f"there is no trying all values of {sort}")


def _assignments(variables: tuple[tuple[str, tuple[Value, ...]], ...]) -> Iterator[dict[str, Value]]:
    names = [name for name, _ in variables]
    for values in product(*(domain for _, domain in variables)):
        yield dict(zip(names, values, strict=True))


def _holds(constraint: Expression, assignment: dict[str, Value], functions: dict[str, Function]) -> bool:
    try:
        return evaluate(constraint, assignment, functions) is True
    except (ValueError, RecursionError):  # ill-typed, or a function that calls itself
        return False


def _heads(expression: Expression) -> Iterator[str]:
    if isinstance(expression, tuple) and expression:
        head, *rest = expression
        yield str(head)
        if head == "let":
            bindings, *rest = rest
            rest += [value for _, value in named(bindings)]
        for part in rest:
            yield from _heads(part)


def _symbols(expression: Expression) -> Iterator[str]:
    if isinstance(expression, tuple):
        for part in expression:
            yield from _symbols(part)
    elif not isinstance(expression, Literal):
        yield expression
