"""`spider`: the questions of a local copy of Spider (Yu et al., EMNLP 2018), asked and scored as in `sql`.

Wanted of the folder are a list of questions (`dev.json`, objects with `db_id`, `question` and `query`) and the databases
(`database/<db_id>/<db_id>.sqlite`). `tables.json` is not: names are read from the databases, as queries must spell them.
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
from experiments.tasks.problem_files import digest
from experiments.tasks.sets import in_turn
from experiments.tasks.sql import SqlTask
from experiments.tasks.sql_data import Question
from experiments.tasks.sql_database import Database, QueryError

MAX_INSTRUCTIONS = 100_000_000  # some of its databases have half a million rows
LAYOUT = "the folder of Spider, as unpacked, holds dev.json and database/<db_id>/<db_id>.sqlite"


@dataclass(frozen=True)
class SpiderTask(SqlTask):
    """Spider's questions, the databases in turn.

    Attributes:
        folder: where Spider was unpacked.
        questions_file: which list of questions, by its name in the folder.

    Raises:
        ExperimentError: no folder was given; from `instances`, a file is missing or cannot be read as what it should be.
    """

    max_tokens: int = 128
    folder: str = ""
    questions_file: str = "dev.json"
    name: str = "spider"

    def __post_init__(self) -> None:
        if not self.folder:
            raise ExperimentError(f"The task spider needs its data: give task.folder=<path> ({LAYOUT}).")

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` questions. Their databases must open, and their own queries run."""
        for question in self.questions[:limit]:
            _refuse_broken(question)
        return super().instances(limit)

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
        return in_turn(groups.values())

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


def _refuse_broken(question: Question) -> None:
    """Raise if a question's database does not open, or its own query does not run."""
    if not question.database.source.is_file():
        raise ExperimentError(
            f"The database {question.database.name!r} is missing ({question.database.source}): {LAYOUT}. Check task.folder."
        )
    try:
        question.database.rows(question.query)
    except QueryError as error:
        raise ExperimentError(
            f"The gold query of the question {question.id} does not run: {error}. Query: {question.query}. Check that the "
            f"database {question.database.source} is the one that the questions were written for."
        ) from error
