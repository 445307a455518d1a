"""`extract`: the facts of a short text as JSON that follows a Pydantic model.

Three kinds of text, orders, addresses and reviews, 22 of each, of our own making (`data/extract`); the constraint is the
JSON Schema of the kind (`extract_schemas`), the score counts fields (`extract_fields`). With `bounds`, the task
`extract_bounds`, only answers whose values agree with each other count, which no schema can say and a potential checks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from experiments.tasks.base import Instance, Task
from experiments.tasks.extract_fields import field_score
from experiments.tasks.extract_schemas import (
    Address,
    ConsistentAddress,
    ConsistentOrder,
    ConsistentReview,
    Order,
    Review,
)
from experiments.tasks.sets import fingerprint, in_turn
from smc import JSONSchema
from smc.potentials import Validates

FOLDER = Path(__file__).parent / "data" / "extract"

SYSTEM = "You read a text and write down its facts as one compact JSON object. Answer with the JSON only."


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of text: the model of what is extracted, the same with what its values owe each other, and a worked example
    of our own making, which no instance repeats."""

    name: str
    model: type[BaseModel]
    consistent: type[BaseModel]
    example: tuple[str, Mapping[str, Any]]

    @property
    def file(self) -> Path:
        """The texts and what they say, as a list of objects with `document` and `gold`."""
        return FOLDER / f"{self.name}.json"


KINDS = (
    Kind(
        "order",
        Order,
        ConsistentOrder,
        (
            "Good day, Rita Moss here. I would like three towels for 7 euros each and one bath mat for 12 euros. "
            "That is 33 euros altogether, please send the bill to my office.",
            {
                "customer": "Rita Moss",
                "items": [
                    {"product": "towel", "quantity": 3, "price": 7},
                    {"product": "bath mat", "quantity": 1, "price": 12},
                ],
                "total": 33,
            },
        ),
    ),
    Kind(
        "address",
        Address,
        ConsistentAddress,
        (
            "The bookshop is now at Gartenweg 17 in Kassel, Germany, postcode 34117. It opens at 10 o'clock and closes "
            "at 19 o'clock.",
            {
                "street": "Gartenweg",
                "number": 17,
                "city": "Kassel",
                "postcode": "34117",
                "country": "Germany",
                "opens": 10,
                "closes": 19,
            },
        ),
    ),
    Kind(
        "review",
        Review,
        ConsistentReview,
        (
            "The restaurant Bella Vista has a lovely terrace: location 5 stars. The pasta was only warm, food 3 stars. "
            "Overall 4 stars.",
            {
                "place": "Bella Vista",
                "kind": "restaurant",
                "ratings": [{"aspect": "location", "stars": 5}, {"aspect": "food", "stars": 3}],
                "overall": 4,
            },
        ),
    ),
)


@dataclass(frozen=True)
class Document:
    """A text and what it says."""

    kind: Kind
    text: str
    gold: Mapping[str, Any]


@dataclass(frozen=True)
class ExtractTask(Task):
    """The facts of one text.

    Attributes:
        bounds: whether only answers whose values agree with each other count (the `Consistent...` models).
    """

    max_tokens: int = 80  # the longest gold takes 52 of SmolLM2's tokens
    bounds: bool = False  # only answers whose values agree with each other count
    name: str = "extract"
    exact: bool = False

    @property
    def revision(self) -> str:
        """A hash of the texts."""
        return fingerprint([[document.text, document.gold] for document in documents().values()])

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` texts (66 in all), the kinds in turn."""
        return [self._instance(key, document) for key, document in list(documents().items())[:limit]]

    def score(self, instance: Instance, text: str) -> float:
        """F1 over the fields of the gold; 0 for what is no JSON object."""
        answer = read_object(text)
        return 0.0 if answer is None else field_score(answer, documents()[instance.id].gold)

    def measures(self, instance: Instance, text: str) -> Mapping[str, float]:
        """`all_right`: whether every field is right; `consistent`: whether the values agree with each other."""
        kind = documents()[instance.id].kind
        return {
            "all_right": float(self.score(instance, text) == 1.0),
            "consistent": float(consistency(kind).holds(text)),
        }

    def _instance(self, key: str, document: Document) -> Instance:
        return Instance(
            id=key,
            prompt=prompt(document.kind, document.text),
            constraint=JSONSchema(document.kind.model, whitespace="compact"),
            display=document.text,
            reference=compact(document.gold),
            potentials=(consistency(document.kind),) if self.bounds else (),
        )


def prompt(kind: Kind, text: str) -> list[dict[str, str]]:
    """Chat messages: what to do, a worked example of the kind, then the text."""
    shown, facts = kind.example
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": shown},
        {"role": "assistant", "content": compact(facts)},
        {"role": "user", "content": text},
    ]


@lru_cache
def consistency(kind: Kind) -> Validates:
    """The condition that the values of an answer agree with each other.

    One for each kind, so that answers are remembered over instances.
    """
    return Validates(kind.consistent)


@lru_cache
def documents() -> dict[str, Document]:
    """The texts by id, the kinds in turn."""
    groups = [
        [
            (f"{kind.name}_{number:02}", Document(kind, entry["document"], entry["gold"]))
            for number, entry in enumerate(_entries(kind), 1)
        ]
        for kind in KINDS
    ]
    return dict(in_turn(groups))


def _entries(kind: Kind) -> list[dict[str, Any]]:
    return json.loads(kind.file.read_text(encoding="utf-8"))


def compact(value: Any) -> str:
    """JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is; None if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
