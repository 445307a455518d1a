"""Questions about databases: those of our own making, which lie beside this module."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from experiments.tasks.sets import fingerprint, in_turn, spread
from experiments.tasks.sql_database import Database

FOLDER = Path(__file__).parent / "data" / "sql"
DATABASES = ("library", "shop", "school", "hospital", "airline", "music")
"""Each is a script that builds it and a list of questions with queries, from easy ones to joins and subqueries."""


@dataclass(frozen=True)
class Question:
    """A question in words, the database that it is about, and a query that answers it."""

    id: str
    database: Database
    text: str
    query: str


@lru_cache
def own_questions() -> tuple[Question, ...]:
    """Every question, the databases in turn and each one's spread evenly, so that a small `limit` meets easy and hard ones."""
    return tuple(in_turn([spread(_questions(name)) for name in DATABASES]))


@lru_cache
def own_revision() -> str:
    """A hash of the scripts and the questions."""
    files = [FOLDER / f"{name}{ending}" for name in DATABASES for ending in (".sql", ".json")]
    return fingerprint([file.read_text(encoding="utf-8") for file in files])


def _questions(name: str) -> list[Question]:
    database = Database(name, FOLDER / f"{name}.sql")
    entries = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return [
        Question(f"{name}_{number:02}", database, entry["question"], entry["query"])
        for number, entry in enumerate(entries, 1)
    ]
