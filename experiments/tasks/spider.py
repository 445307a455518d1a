"""`spider`: the questions of a local copy of Spider (Yu et al., EMNLP 2018), asked and scored as in `sql`.

Wanted of the folder are a list of questions (`dev.json`, objects with `db_id`, `question` and `query`) and the databases
(`database/<db_id>/<db_id>.sqlite`). `tables.json` is not: names are read from the databases, as queries must spell them.

Answers are judged as by the set's own execution accuracy: columns in any order, and every DISTINCT taken out of both queries first.
The grammar has neither aliases nor UNION, INTERSECT and EXCEPT nor subqueries in FROM, which part of the gold queries use: what asks
for a table joined with itself, say, cannot be answered in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.errors import ExperimentError
from experiments.tasks.base import Instance
from experiments.tasks.problem_files import digest, first_usable
from experiments.tasks.sets import in_turn, spread
from experiments.tasks.sql import SqlTask
from experiments.tasks.sql_data import Question
from experiments.tasks.sql_database import Database, QueryError
from experiments.tasks.sql_text import without_distinct

MAX_INSTRUCTIONS = 100_000_000  # some of its databases have half a million rows
LAYOUT = "the folder of Spider, as unpacked, holds dev.json and database/<db_id>/<db_id>.sqlite"


@dataclass(frozen=True)
class SpiderTask(SqlTask):
    """Spider's questions, the databases in turn.

    Attributes:
        folder: where Spider was unpacked.
        questions_file: which list of questions, by its name in the folder.

    Raises:
        ExperimentError: no folder was given; from `instances`, a file is missing or cannot be read as what it should be, or no
            question's own query runs.
    """

    max_tokens: int = 128
    folder: str = ""  # where it was unpacked
    questions_file: str = "dev.json"  # which list of questions, by its name in the folder
    name: str = "spider"

    def __post_init__(self) -> None:
        if not self.folder:
            raise ExperimentError(f"The task spider needs its data: give task.folder=<path> ({LAYOUT}).")

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` questions whose own query runs; those in between whose does not are said on stderr."""
        found = first_usable(
            self.name,
            ((question.id, question) for question in self.questions),
            lambda question: _obstacle(question, self._as_judged(question.query)),
            limit,
            f"No gold query of {self._list} runs: the reasons are above. Check that the databases are those that the questions "
            "were written for.",
        )
        return [self._instance(question) for question in found]

    @property
    def revision(self) -> str:
        """A hash of the list of questions and the databases that they are about."""
        files = dict.fromkeys(question.database.source for question in self.questions)
        return digest([self._list, *files])

    @cached_property
    def questions(self) -> Sequence[Question]:
        """All questions of the list, the databases in turn, each question named by its place in the list."""
        databases: dict[str, Database] = {}
        groups: dict[str, list[Question]] = {}
        for index, entry in enumerate(self._entries()):
            name = entry["db_id"]
            source = self._root / "database" / name / f"{name}.sqlite"
            database = databases.setdefault(name, Database(name, source, MAX_INSTRUCTIONS))
            question = Question(f"{name}_{index:04}", database, entry["question"], entry["query"])
            groups.setdefault(name, []).append(question)
        return in_turn([spread(group) for group in groups.values()])  # neighbours mostly ask the same in other words

    def _as_judged(self, query: str) -> str:
        return without_distinct(query)

    @property
    def _root(self) -> Path:
        return Path(self.folder).expanduser()

    @property
    def _list(self) -> Path:
        return self._root / self.questions_file

    def _entries(self) -> list[Mapping[str, Any]]:
        try:
            entries = json.loads(self._list.read_text(encoding="utf-8"))
        except OSError as error:
            raise ExperimentError(
                f"The questions of Spider cannot be read ({self._list}: {error.strerror}). Check task.folder and "
                f"task.questions_file: {LAYOUT}."
            ) from error
        except ValueError as error:
            raise ExperimentError(f"{self._list} is not JSON ({error}): unpack Spider again.") from error
        if not isinstance(entries, list) or not entries:
            raise ExperimentError(f"{self._list} is not a list of questions: {LAYOUT}.")
        for index, entry in enumerate(entries):
            _check(entry, f"entry {index} of {self._list}")
        return entries


def _check(entry: Any, where: str) -> None:
    for name in ("db_id", "question", "query"):
        if not isinstance(entry, dict) or not isinstance(entry.get(name), str):
            raise ExperimentError(f"{where} has no text under {name!r}, so it is not a list of Spider's questions.")


def _obstacle(question: Question, query: str) -> str | None:
    """Why a question's own query does not run; None if it does. Raises ExperimentError if its database does not open."""
    if not question.database.source.is_file():
        raise ExperimentError(
            f"The database {question.database.name!r} is missing ({question.database.source}): {LAYOUT}. Check task.folder."
        )
    try:
        question.database.rows(query)
    except QueryError as error:
        return f"its own query does not run ({error}): {query}"
    return None
