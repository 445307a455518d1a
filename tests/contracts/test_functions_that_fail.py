"""Functions of the caller's that fail: one error of the package, with the text and the reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from smc import AtBoundaries, FiniteLanguage, SMCSampler, TableModel, TextPotential
from smc.constraints import Checked
from smc.constraints.crosscheck import BYTES
from smc.errors import ConstraintError, OptionError
from smc.potentials import Guarded, Incremental, PotentialError, Predicate, Validates

MODEL = TableModel(["a", "b", "<eos>"], "<eos>", lambda prefix: {"a": 0.5, "b": 0.3, "<eos>": 0.2})


class Mute(Exception):
    """It cannot even say what is wrong."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError("no words")


def raises(error: BaseException) -> Callable[[Any], Any]:
    def function(text: str) -> float:
        raise error

    return function


def run(constraint: Any, **options: Any) -> Any:
    return SMCSampler(MODEL, constraint, n_particles=4, max_tokens=3, seed=0, **options).run(())


LANGUAGE = FiniteLanguage(["a", "b", "ab"])


def test_boundaries() -> None:
    def at(text: str) -> bool:
        return text == "" or {"a": True}[text]

    potential = AtBoundaries(TextPotential(lambda text: 0.0, prefix=lambda text: 0.0), at)
    with pytest.raises(
        PotentialError, match=r"The `at` of AtBoundaries raised KeyError: 'b', for the text 'b'"
    ) as error:
        run(FiniteLanguage(["b"]), potentials=(potential,))
    assert isinstance(error.value.__cause__, KeyError)
    with pytest.raises(OptionError, match="at must be a function of a text, not 3"):
        AtBoundaries(TextPotential(lambda text: 0.0), 3)  # type: ignore[arg-type]


def test_checked() -> None:
    ok = lambda text: True  # noqa: E731
    with pytest.raises(
        ConstraintError, match=r"The `prefix` function of Checked raised KeyError: 'x', for the text ''"
    ):
        Checked(raises(KeyError("x")), ok).compile(BYTES)
    with pytest.raises(
        ConstraintError, match=r"The `prefix` function of Checked raised IndexError.*, for the text 'a'"
    ):
        run(Checked(lambda text: not text or text[5] == "a", ok))
    with pytest.raises(
        ConstraintError, match=r"The `complete` function of Checked raised Mute: .*, for the text ''"
    ) as error:
        run(Checked(ok, raises(Mute())))
    assert isinstance(error.value.__cause__, Mute)
    with pytest.raises(KeyboardInterrupt):
        run(Checked(ok, raises(KeyboardInterrupt())))


@pytest.mark.parametrize("complete", [raises(Mute()), lambda text: Unprintable()])
def test_failures_that_have_no_words(complete: Any) -> None:
    guarded = run(LANGUAGE, potentials=(Guarded(TextPotential(complete), on_failure="zero"),))
    assert guarded.log_evidence == -math.inf
    assert guarded.cost.potential_failures > 0
    folded = run(LANGUAGE, potentials=(Guarded(Incremental("", lambda state, piece: state, complete)),))
    assert folded.log_evidence == -math.inf
    with pytest.raises(PotentialError, match=r"A potential (raised Mute|returned).*it raises"):
        run(LANGUAGE, potentials=(TextPotential(complete),))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Incremental(0, 3, len),  # type: ignore[arg-type]
        lambda: Incremental(0, max, "x"),  # type: ignore[arg-type]
        lambda: Incremental(0, max, len, prefix=0),  # type: ignore[arg-type]
        lambda: Predicate(3),  # type: ignore[arg-type]
        lambda: Predicate(str.isalpha, prefix=True),  # type: ignore[arg-type]
        lambda: TextPotential("x"),  # type: ignore[arg-type]
        lambda: TextPotential(len, prefix=None),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_function_is_refused_at_once(make: Callable[[], object]) -> None:
    with pytest.raises(OptionError, match=r"(feed|complete|prefix) must be a function of a (text|state)"):
        make()


def test_pydantics_reason_is_one_line() -> None:
    with pytest.raises(OptionError, match=r"Validates cannot check 3: Unable to generate") as error:
        Validates(3)
    assert "\n" not in str(error.value)


def test_sql_that_is_nested_too_deeply_does_not_parse() -> None:
    pytest.importorskip("sqlglot")
    from smc.potentials import ParsesSQL

    condition = ParsesSQL("sqlite")
    verdicts = [condition.holds(f"SELECT {'(' * depth}1{')' * depth}") for depth in (1, 10, 200, 2000)]
    assert verdicts == [True, True, False, False]
