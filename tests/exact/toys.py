"""Tiny languages under tiny models, with their exact answers in rational arithmetic.

Nothing here uses the library's own enumeration: the reference walks the strings with `fractions.Fraction`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

from smc import FiniteLanguage, Intersection, TableModel
from smc.constraints.base import CompiledConstraint, Constraint, ConstraintRows
from smc.constraints.caching import CompileOnce
from smc.vocabulary import Vocabulary

Prefix = tuple[str, ...]


@dataclass(frozen=True)
class Toy:
    """A model and a finite language.

    Attributes:
        next_probs: exact next-token probabilities; every string of the language ends within max_tokens unless stated.
        strings: the language.
        phi: the potential of each string, 1 where not named.
    """

    name: str
    vocab: tuple[str, ...]
    stops: tuple[str, ...]
    next_probs: Callable[[Prefix], Mapping[str, Fraction]]
    strings: tuple[str, ...]
    max_tokens: int
    phi: Mapping[str, Fraction] = field(default_factory=dict)
    language: Constraint | None = None

    @property
    def model(self) -> TableModel:
        return TableModel(self.vocab, self.stops, self.next_probs)

    @property
    def constraint(self) -> Constraint:
        return self.language or FiniteLanguage(self.strings)

    def sequences(self) -> Iterator[tuple[Prefix, Fraction]]:
        """Every token sequence within max_tokens that spells a string of the language, with p(y), the stop included."""

        def walk(prefix: Prefix, p: Fraction) -> Iterator[tuple[Prefix, Fraction]]:
            text = "".join(prefix)
            if p == 0 or not any(s.startswith(text) for s in self.strings):
                return
            after = self.next_probs(prefix)
            stop = sum((Fraction(after.get(s, 0)) for s in self.stops), Fraction(0))
            if text in self.strings and stop:
                yield prefix, p * stop
            if len(prefix) < self.max_tokens:
                for token in self.vocab:
                    if token not in self.stops:
                        yield from walk((*prefix, token), p * Fraction(after.get(token, 0)))

        yield from walk((), Fraction(1))

    def targets(self, power: float = 1) -> dict[str, Fraction]:
        """Unnormalised target of each string with positive mass, p(y)^power phi(y), tokenisations merged.

        Exact for whole powers; to float precision for others.
        """
        merged: dict[str, Fraction] = {}
        for tokens, p in self.sequences():
            text = "".join(tokens)
            mass = (p**power if power == int(power) else Fraction(float(p) ** power)) * self.phi.get(text, Fraction(1))
            if mass:
                merged[text] = merged.get(text, Fraction(0)) + mass
        return merged

    def local_masking(self) -> dict[str, Fraction]:
        """q(y): the product over steps of p over the mass that the mask leaves, by rational arithmetic."""
        spelled = {tokens for tokens, _ in self._spellings()}
        law: dict[str, Fraction] = {}

        def walk(prefix: Prefix, q: Fraction) -> None:
            after = self.next_probs(prefix)
            stop = (
                sum((Fraction(after.get(s, 0)) for s in self.stops), Fraction(0)) if prefix in spelled else Fraction(0)
            )
            moves = {
                t: Fraction(after.get(t, 0))
                for t in self.vocab
                if t not in self.stops and any(s[: len(prefix) + 1] == (*prefix, t) for s in spelled)
            }
            kept = stop + sum(moves.values())
            if not kept:
                return
            if stop:
                text = "".join(prefix)
                law[text] = law.get(text, Fraction(0)) + q * stop / kept
            for token, p in moves.items():
                if p:
                    walk((*prefix, token), q * p / kept)

        walk((), Fraction(1))
        return law

    def _spellings(self) -> Iterator[tuple[Prefix, str]]:
        tokens = [t for t in self.vocab if t not in self.stops and t]
        for string in self.strings:
            stack: list[Prefix] = [()]
            while stack:
                prefix = stack.pop()
                text = "".join(prefix)
                if text == string:
                    yield prefix, string
                stack.extend((*prefix, t) for t in tokens if string.startswith(text + t))


def fixed_length(p: Mapping[str, Fraction], length: int) -> Callable[[Prefix], Mapping[str, Fraction]]:
    """Independent symbols, the stop certain at the end of `length` tokens."""
    return lambda prefix: {"<eos>": Fraction(1)} if len(prefix) == length else p


def bits(p0: str) -> dict[str, Fraction]:
    return {"0": Fraction(p0), "1": 1 - Fraction(p0)}


def words(alphabet: str, length: int) -> list[str]:
    return ["".join(w) for w in product(alphabet, repeat=length)]


def _bit_toy(name: str, p0: str, length: int) -> Toy:
    strings = ("0" * length, *("1" + rest for rest in words("01", length - 1)))
    return Toy(name, ("0", "1", "<eos>"), ("<eos>",), fixed_length(bits(p0), length), strings, length)


# the rows of the table of exact answers
SECTION_7 = {
    "000, 1xx": _bit_toy("000, 1xx", "1/2", 3),
    "00000, 1xxxx at 1/2": _bit_toy("00000, 1xxxx at 1/2", "1/2", 5),
    "00000, 1xxxx at .1": _bit_toy("00000, 1xxxx at .1", "1/10", 5),
    "00000, 1xxxx at .9": _bit_toy("00000, 1xxxx at .9", "9/10", 5),
    "one B": Toy(
        "one B",
        ("A", "B", "C", "<eos>"),
        ("<eos>",),
        fixed_length({c: Fraction(1, 3) for c in "ABC"}, 3),
        ("AAA", "AAB", "ABA", "BAA"),
        3,
    ),
}

CRITIC = Toy(
    "critic",
    ("0", "1", "<eos>"),
    ("<eos>",),
    # "0", "00", "1" with probabilities 1/2, 1/3, 1/6
    lambda prefix: {
        (): {"0": Fraction(5, 6), "1": Fraction(1, 6)},
        ("0",): {"<eos>": Fraction(3, 5), "0": Fraction(2, 5)},
    }.get(prefix, {"<eos>": Fraction(1)}),
    ("0", "00", "1"),
    2,
    phi={"0": Fraction(1), "00": Fraction(2), "1": Fraction(3)},
)


def _geometric(prefix: Prefix) -> Mapping[str, Fraction]:
    """Two tokens that spell the same letter, and two stops; stopping gets likelier."""
    stop = Fraction(min(len(prefix), 3), 4)
    go = 1 - stop
    return {"a": go / 2, "aa": go / 3, "b": go / 6, "<eos>": stop / 3, "<end>": stop * 2 / 3}


_AMBIGUOUS = ("a", "aa", "b", "<eos>", "<end>")
_STOPS = ("<eos>", "<end>")

TOYS = {
    **{name: toy for name, toy in SECTION_7.items() if toy.max_tokens == 3},
    "critic": CRITIC,
    "two spellings, two stops": Toy("two spellings", _AMBIGUOUS, _STOPS, _geometric, ("a", "aa", "aaa", "ab"), 3),
    "censored": Toy("censored", _AMBIGUOUS, _STOPS, _geometric, ("a", "aaa", "abab", "aaaab"), 2),
    "phi hits zero": Toy(
        "phi hits zero",
        _AMBIGUOUS,
        _STOPS,
        _geometric,
        ("a", "aa", "b", "ab"),
        2,
        phi={"aa": Fraction(0), "ab": Fraction(5)},
    ),
    "impossible start": Toy(
        "impossible start",
        ("0", "1", "<eos>"),
        ("<eos>",),
        lambda prefix: (
            {"1": Fraction(1)} if not prefix else {"0": Fraction(1, 3), "1": Fraction(1, 3), "<eos>": Fraction(1, 3)}
        ),
        ("", "0", "1", "10"),
        3,
    ),
}

# The mask lets "a" begin, and nothing can follow it: two languages agree on beginnings further than on strings.
DEAD_END = Toy(
    "dead end",
    ("a", "b", "<eos>"),
    ("<eos>",),
    lambda prefix: {"a": Fraction(1, 2), "b": Fraction(1, 3), "<eos>": Fraction(1, 6)},
    ("b", "ba"),
    2,
    language=Intersection(FiniteLanguage(["aa", "b", "ba"]), FiniteLanguage(["ab", "b", "ba"])),
)


def log_phi(toy: Toy) -> Callable[[str], float]:
    """The toy's potential for `TextPotential`."""
    return lambda text: math.log(toy.phi.get(text, 1)) if toy.phi.get(text, 1) else -math.inf


def resampled_always(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a sampler that ends no run early and, if it draws, resamples at every step, where they do
    not say otherwise."""
    always = {"ess_threshold": 1.0} if options.get("branching") == "sample" else {}
    return {"stop_fraction": 0.0, **always, **options}


@dataclass(frozen=True)
class Wider(CompileOnce):
    """The mask of `inner` with a validator that accepts only `accepted`."""

    inner: FiniteLanguage
    accepted: frozenset[str]

    @property
    def engine(self) -> str:
        return "wider"

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return CompiledWider(self.inner.compile(vocabulary), self.accepted)


@dataclass(frozen=True)
class CompiledWider:
    inner: CompiledConstraint
    accepted: frozenset[str]

    def start(self) -> ConstraintRows:
        return self.inner.start()

    def accepts(self, data: bytes) -> bool:
        return data.decode() in self.accepted
