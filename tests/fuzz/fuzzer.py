"""What a fuzzer is: how inputs are drawn, and what is wrong with one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from hypothesis.strategies import SearchStrategy

from tests.fuzz.engines import Disagreement, Refused, Spellings, disagreement

Outcome = Literal["agreed", "refused", "invalid"]
"""The oracle and we agree; we refuse the input in words; the input is none that the oracle reads, and does not count."""


class Failure(AssertionError):
    """Something that must not be.

    Attributes:
        cause: names its kind.
        what: a sentence.
        test: the body of a test that shows it, of which the first line imports what it needs.
    """

    def __init__(self, cause: str, what: str, test: str) -> None:
        super().__init__(cause, what, test)
        self.cause, self.what, self.test = cause, what, test

    def __str__(self) -> str:
        return f"{self.cause}: {self.what}"


class Fuzzer(Protocol):
    """One kind of input and its oracle.

    Attributes:
        name: of the kind, on the command line.
        about: one line.
    """

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str: ...

    def missing(self) -> str | None:
        """Why it cannot run on this machine; None if it can."""
        ...

    def cases(self) -> SearchStrategy[Any]:
        """Inputs: values made of tuples, lists, dicts and plain values, whose `repr` says all."""
        ...

    def examine(self, case: Any) -> Outcome:
        """Try one input.

        Raises:
            Failure: it shows a fault.
        """
        ...


@dataclass(frozen=True)
class Question:
    """A constraint in Python, and what an oracle says of some texts."""

    written: str
    members: Sequence[Spellings]
    others: Sequence[Spellings]
    narrower: bool = False

    def ask(self) -> Outcome:
        """Whether the engine agrees.

        Raises:
            Failure: it does not. Its test holds the one text that tells.
        """
        found = disagreement(self.written, self.members, self.others, narrower=self.narrower)
        if isinstance(found, Disagreement):
            raise Failure(found.cause, f"{self.written}: {found.what}", self._test(found))
        return "refused" if isinstance(found, Refused) else "agreed"

    def _test(self, found: Disagreement) -> str:
        members = [found.texts] if found.texts is not None and found.texts in self.members else []
        others = [found.texts] if found.texts is not None and found.texts in self.others else []
        more = ", narrower=True" if self.narrower else ""
        return (
            "from tests.fuzz.engines import Disagreement, disagreement\n\n\n"
            f"def test_it() -> None:\n    found = disagreement({self.written!r}, members={members!r}, others={others!r}{more})\n"
            "    assert not isinstance(found, Disagreement), found\n"
        )


def features(case: Any) -> frozenset[str]:
    """What a case is made of: its tags and keys, each with the one above it. A smaller case with the same fault has fewer.

    Values are tuples that begin with a tag, or dicts; strings that are neither tag nor key count by the kinds of their characters.
    """
    return frozenset(_features(case, ""))


def _features(case: Any, above: str) -> Iterator[str]:
    if isinstance(case, tuple) and case and isinstance(case[0], str):
        yield f"{above}>{case[0]}"
        for part in case[1:]:
            yield from _features(part, case[0])
    elif isinstance(case, dict):
        for key, value in case.items():
            yield f"{above}>{key}"
            yield from _features(value, str(key))
    elif isinstance(case, list | tuple):
        for part in case:
            yield from _features(part, above)
    elif isinstance(case, str):
        yield f"{above}={_shape(case)}"
    else:
        yield f"{above}:{type(case).__name__}"


def _shape(text: str) -> str:
    """Punctuation and letters after a backslash as they are; other letters and digits by their kind."""
    shape, escaped = "", False
    for char in text[:6]:
        plain = char.isalnum() and not escaped
        shape += ("0" if char.isdigit() else "a" if char.isascii() else "é") if plain else char
        escaped = char == "\\"
    return shape


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]
