"""`binary`: strings of a few bits or letters in languages in which masking goes wrong by design, asked of a real model.

In ``00000 | 1xxxx`` the first bit decides everything: a model that would write 01001 finds 0 allowed, and the mask then
forces 00000 on it. The textbook languages of this kind come with longer ones and with counting, parity and a forbidden
pair. All have at most 513 strings, so that the posterior is known exactly. Each question asks for a property that can be
checked, and has at least one right answer in its language.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from experiments.tasks.base import Instance, Task
from experiments.tasks.sets import fingerprint, in_turn
from smc import FiniteLanguage


@dataclass(frozen=True)
class Language:
    """Strings of one length over two or three characters, and what may be asked of them.

    Attributes:
        name: the beginning of its instances' ids.
        strings: all members.
        questions: (key, question, accepted answers): a question names a property, the answers are all strings with it,
            those outside the language among them.
    """

    name: str
    strings: tuple[str, ...]
    questions: tuple[tuple[str, str, frozenset[str]], ...]


SYSTEM = "You answer with one short string of the characters asked for, and nothing else."

# Turns of our own making, of lengths that no question asks for: they show the form.
EXAMPLES = (
    ("Write four bits with exactly one 1.", "0100"),
    ("Write in bits: zero, one.", "01"),
    ("Write two letters, A or B, that are different.", "AB"),
    ("Write six bits with more ones than zeros.", "110101"),
)


def _strings(length: int, alphabet: str = "01") -> Iterator[str]:
    return map("".join, product(alphabet, repeat=length))


def _zeros_or_one_first(length: int) -> tuple[str, ...]:
    """``0...0 | 1x...x``."""
    return ("0" * length, *(text for text in _strings(length) if text[0] == "1"))


def _with_ones(length: int, ones: int) -> frozenset[str]:
    return frozenset(text for text in _strings(length) if text.count("1") == ones)


def _mixed_palindromes(length: int) -> frozenset[str]:
    return frozenset(text for text in _strings(length) if text == text[::-1] and len(set(text)) == 2)


def _alternating(length: int) -> frozenset[str]:
    return frozenset(("01" * length)[start : start + length] for start in (0, 1))


def _spelled(bits: str) -> tuple[str, str, frozenset[str]]:
    """A question that even a small model can answer: bits in words."""
    words = ", ".join({"0": "zero", "1": "one"}[bit] for bit in bits)
    return "spelled", f"Write in bits: {words}.", frozenset([bits])


@lru_cache
def languages() -> tuple[Language, ...]:
    """The languages, shortest first."""
    return (
        Language(
            "aaa_aab_aba_baa",
            ("AAA", "AAB", "ABA", "BAA"),
            (
                ("b_first", "Write two letters A and one letter B, the B first.", frozenset(["BAA"])),
                (
                    "one_b",
                    "Write three letters, exactly one of them B and the others A.",
                    frozenset(["AAB", "ABA", "BAA"]),
                ),
                (
                    "palindrome",
                    "Write three letters, A or B, with B in the middle and A on both sides.",
                    frozenset(["ABA"]),
                ),
            ),
        ),
        Language(
            "000_1xx",
            _zeros_or_one_first(3),
            (
                ("two_ones", "Write three bits with exactly two ones.", _with_ones(3, 2)),
                _spelled("101"),
                ("one_one", "Write three bits with exactly one 1.", _with_ones(3, 1)),
            ),
        ),
        Language(
            "00000_1xxxx",
            _zeros_or_one_first(5),
            (
                ("two_ones", "Write five bits with exactly two ones.", _with_ones(5, 2)),
                _spelled("10011"),
                ("alternating", "Write five bits in which 0 and 1 take turns.", _alternating(5)),
                ("one_one", "Write five bits with exactly one 1.", _with_ones(5, 1)),
            ),
        ),
        Language(
            "zeros_or_1_8",
            _zeros_or_one_first(8),
            (
                ("three_ones", "Write eight bits with exactly three ones.", _with_ones(8, 3)),
                (
                    "palindrome",
                    "Write eight bits, not all the same, that read the same backwards.",
                    _mixed_palindromes(8),
                ),
                ("alternating", "Write eight bits in which 0 and 1 take turns.", _alternating(8)),
                _spelled("11001000"),
            ),
        ),
        Language(
            "zeros_or_1_10",
            _zeros_or_one_first(10),
            (
                ("five_ones", "Write ten bits with exactly five ones.", _with_ones(10, 5)),
                (
                    "palindrome",
                    "Write ten bits, not all the same, that read the same backwards.",
                    _mixed_palindromes(10),
                ),
                _spelled("1011001110"),
            ),
        ),
        Language(
            "as_many_ones_8",
            tuple(sorted(_with_ones(8, 4))),
            (
                (
                    "palindrome",
                    "Write eight bits, four of them ones, that read the same backwards.",
                    _mixed_palindromes(8),
                ),
                (
                    "ends_in_one",
                    "Write eight bits, four of them ones, that begin and end with 1.",
                    frozenset(text for text in _strings(8) if text[0] == text[-1] == "1"),
                ),
                (
                    "no_neighbours",
                    "Write eight bits, four of them ones, with no two ones side by side.",
                    frozenset(text for text in _strings(8) if "11" not in text),
                ),
            ),
        ),
        Language(
            "no_11_8",
            tuple(text for text in _strings(8) if "11" not in text),
            (
                (
                    "three_ones",
                    "Write eight bits with exactly three ones, no two of them side by side.",
                    _with_ones(8, 3),
                ),
                (
                    "four_ones",
                    "Write eight bits with as many ones as zeros and no two ones side by side.",
                    _with_ones(8, 4),
                ),
                (
                    "ends_in_one",
                    "Write eight bits that begin and end with 1, with no two ones side by side.",
                    frozenset(text for text in _strings(8) if text[0] == text[-1] == "1"),
                ),
            ),
        ),
        Language(
            "even_parity_8",
            tuple(text for text in _strings(8) if text.count("1") % 2 == 0),
            (
                (
                    "four_ones",
                    "Write eight bits, an even number of them ones, with exactly four ones.",
                    _with_ones(8, 4),
                ),
                (
                    "begins_with_three",
                    "Write eight bits, an even number of them ones, that begin with 111.",
                    frozenset(text for text in _strings(8) if text.startswith("111")),
                ),
                _spelled("00110101"),
            ),
        ),
    )


@dataclass(frozen=True)
class BinaryTask(Task):
    """Questions with several right answers each; an answer must be of its question's language."""

    max_tokens: int = 12
    name: str = "binary"
    exact: bool = True

    @property
    def revision(self) -> str:
        return fingerprint(
            [
                [
                    language.name,
                    language.strings,
                    [[key, asked, sorted(right)] for key, asked, right in language.questions],
                ]
                for language in languages()
            ]
        )

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` questions (26 in all), the languages in turn, as chat messages."""
        return in_turn([_instances(language) for language in languages()])[:limit]

    def score(self, instance: Instance, text: str) -> float:
        """1 for a string of the language that has the property asked for, else 0."""
        return float(text in _right()[instance.id])


def _instances(language: Language) -> list[Instance]:
    constraint = FiniteLanguage(language.strings)
    return [
        Instance(
            id=_id(language, key),
            prompt=_prompt(question),
            constraint=constraint,
            display=question,
            reference=min(_right()[_id(language, key)]),
        )
        for key, question, _ in language.questions
    ]


@lru_cache
def _right() -> dict[str, frozenset[str]]:
    """The right answers of each instance."""
    return {
        _id(language, key): right & frozenset(language.strings)
        for language in languages()
        for key, _, right in language.questions
    }


def _id(language: Language, key: str) -> str:
    return f"{language.name}.{key}"


def _prompt(question: str) -> list[dict[str, str]]:
    messages = [{"role": "system", "content": SYSTEM}]
    for asked, answer in EXAMPLES:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return [*messages, {"role": "user", "content": question}]
