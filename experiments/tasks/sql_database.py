"""SQLite databases that answer queries which nobody has read: read-only, bounded, and the same answer every time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.errors import ExperimentError

Row = tuple[Any, ...]

MAX_INSTRUCTIONS = 20_000_000
"""Virtual machine instructions of SQLite that one query may take, unless a database says otherwise: about a second. They
are counted, so that no clock decides a score."""
MAX_ROWS = 100_000
"""Rows that a query may return."""
MAX_CHARACTERS = 20_000_000
"""Characters (or bytes) that all values which a query returns may have together: the rows alone bound no memory."""

_BETWEEN_COUNTS = 10_000  # instructions between two looks at the count
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,  # bytes of a value or a row
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 10_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
# A query is data from a model: functions that are not on this list (load_extension, random, date, printf ...) are refused.
_FUNCTION_NAMES = (
    "abs avg cast coalesce count group_concat ifnull iif instr length like lower ltrim max min nullif replace round "
    "rtrim substr substring sum total trim upper"
)
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())


class QueryError(Exception):
    """A query that does not run, or not within the limits."""


@dataclass(frozen=True)
class Table:
    """The name of a table and its columns, in the order in which they were declared."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Database:
    """A database by its name, and where it comes from: a script that builds it in memory, or a file of SQLite.

    Each question opens a connection of its own, so that databases may be shared between threads and sent to processes,
    and no query can change what the next one sees.

    Raises:
        ExperimentError: asked for anything while the source cannot be opened as a database.
    """

    name: str
    source: Path
    max_instructions: int = MAX_INSTRUCTIONS

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tables in the order in which they were declared; those of SQLite's own are left out."""
        with self._opened() as connection:
            names = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY rowid"
            ).fetchall()
            tables = [
                Table(name, tuple(column for (column,) in connection.execute(_COLUMNS, (name,)))) for (name,) in names
            ]
        if not tables:
            raise ExperimentError(f"The database {self.name!r} ({self.source}) holds no table: check the file.")
        return tuple(tables)

    def rows(self, query: str) -> list[Row]:
        """What a query returns.

        Raises:
            QueryError: it is no single SELECT statement that runs, or exceeds `max_instructions`, `MAX_ROWS` or `MAX_CHARACTERS`.
        """
        return self._execute(query)

    def compiles(self, query: str) -> bool:
        """Whether SQLite can prepare a query: it parses, and its tables and columns exist and are not ambiguous."""
        try:
            self._execute(f"EXPLAIN {query}")
        except QueryError:
            return False
        return True

    def _execute(self, statement: str) -> list[Row]:
        with self._opened() as connection:
            for limit, value in _LIMITS.items():
                connection.setlimit(limit, value)
            connection.set_authorizer(_authorise)
            connection.set_progress_handler(_Countdown(self.max_instructions // _BETWEEN_COUNTS), _BETWEEN_COUNTS)
            try:
                cursor = connection.execute(statement)
                rows = _fetched(cursor)
            # ValueError: a null character, or bytes that are no text; Warning: several statements
            except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
                raise QueryError(str(error)) from error
            if cursor.description is None:  # blanks or a comment
                raise QueryError("no query")
            return rows

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A connection through which nothing can be written."""
        try:
            connection = sqlite3.connect(self._address, uri=True)
        except (sqlite3.Error, OSError) as error:
            raise self._refusal(error) from error
        with closing(connection):
            connection.text_factory = lambda data: data.decode(errors="surrogateescape")
            try:
                if self._is_script:
                    connection.deserialize(self._image)
                connection.execute("PRAGMA query_only = ON")
                connection.execute("SELECT COUNT(*) FROM sqlite_master")  # a file that is no database is found out here
            except (sqlite3.Error, sqlite3.Warning, OSError, UnicodeDecodeError) as error:
                raise self._refusal(error) from error
            yield connection

    @cached_property
    def _image(self) -> bytes:
        """The database that the script builds, as SQLite would write it to a file: quicker to open than to build again."""
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(self.source.read_text(encoding="utf-8"))
            return connection.serialize()

    @property
    def _is_script(self) -> bool:
        return self.source.suffix == ".sql"

    @property
    def _address(self) -> str:
        return ":memory:" if self._is_script else f"{self.source.absolute().as_uri()}?mode=ro"

    def _refusal(self, error: Exception) -> ExperimentError:
        return ExperimentError(
            f"The database {self.name!r} cannot be opened ({self.source}): {error}. Check that the file is there, can be "
            "read and is a whole SQLite database."
        )


_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def _fetched(cursor: sqlite3.Cursor) -> list[Row]:
    """All rows. Raises QueryError as soon as they are too many or too long."""
    rows: list[Row] = []
    characters = 0
    for row in cursor:
        rows.append(row)
        characters += sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if len(rows) > MAX_ROWS:
            raise QueryError(f"more than {MAX_ROWS} rows")
        if characters > MAX_CHARACTERS:
            raise QueryError(f"more than {MAX_CHARACTERS} characters")
    return rows


def _authorise(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
    """SQLite's own question, for each thing that a statement would do: reading is allowed, and nothing else."""
    if action in _READING:
        return sqlite3.SQLITE_OK
    known = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS
    return sqlite3.SQLITE_OK if known else sqlite3.SQLITE_DENY


class _Countdown:
    """Says stop (not 0) once it has been called so many times."""

    def __init__(self, calls: int):
        self._left = calls

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0
