"""`sql`: a question in words about a small database, answered by a query.

The prompt shows the tables and columns of a database and a question; the constraint is a grammar of SELECT statements
over its names (`sql_grammar`); an answer is right if it returns what the gold query returns (execution accuracy, as in
Zhong, Yu and Klein, EMNLP 2020). Six databases and 78 questions of our own making lie in `data/sql`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from experiments.tasks.base import Instance, Task
from experiments.tasks.sql_data import Question, own_questions, own_revision
from experiments.tasks.sql_database import Database, QueryError, Row, Table
from experiments.tasks.sql_grammar import grammar, identifier
from experiments.tasks.sql_rows import same_rows
from experiments.tasks.sql_text import is_ordered, places, settled
from smc import EBNF
from smc.potentials import Predicate

SYSTEM = "You turn a question about a database into one SQL query. Answer with the query only, on one line."

# Turns of our own making that show the form, about a database that no question is about: a join, a count, and a condition
# with a value from the question. A small model copies what it saw last, and easy questions should not suffer for hard ones.
EXAMPLE_TABLES = (
    Table("animals", ("id", "name", "species", "weight", "keeper_id")),
    Table("keepers", ("id", "name", "phone")),
)
EXAMPLES = (
    (
        "Which animals does Ada look after? Give their names.",
        "SELECT animals.name FROM animals JOIN keepers ON animals.keeper_id = keepers.id WHERE keepers.name = 'Ada';",
    ),
    ("How many keepers are there?", "SELECT COUNT(*) FROM keepers;"),
    ("What is the species of Rex?", "SELECT species FROM animals WHERE name = 'Rex';"),
)


@dataclass(frozen=True)
class SqlTask(Task):
    """One query that answers a question.

    Attributes:
        potential: whether only queries that SQLite can prepare count: the columns belong to the tables that are read, and
            no name is ambiguous. The grammar leaves that open.
    """

    max_tokens: int = 64  # the longest gold query takes 51 of SmolLM2's tokens
    potential: bool = False  # only queries that SQLite can prepare count
    name: str = "sql"
    exact: bool = False

    @property
    def revision(self) -> str:
        """A hash of the scripts and questions."""
        return own_revision()

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` questions, the databases in turn, easy and hard ones mixed."""
        return [self._instance(question) for question in self.questions[:limit]]

    def score(self, instance: Instance, text: str) -> float:
        """1 if the query returns the rows of the gold query, in any order unless that one has an ORDER BY; else 0.

        Columns may come in any order; which rows are doubled counts.
        """
        question = self._by_id[instance.id]
        rows = result(question.database, self._as_judged(text))
        if rows is None:
            return 0.0
        gold = _gold_rows(question.database, self._as_judged(question.query))
        return float(same_rows(rows, gold, ordered=is_ordered(question.query)))

    def measures(self, instance: Instance, text: str) -> Mapping[str, float]:
        """`runs`: whether the query runs within the limits; `nonempty`: whether it then returns a row."""
        rows = result(self._by_id[instance.id].database, text)
        return {"runs": float(rows is not None), "nonempty": float(bool(rows))}

    def places(self, instance: Instance, text: str) -> list[tuple[int, str]]:
        """The words of the query by kind: keyword, function, table, column, string, number, sign."""
        return places(text)

    @property
    def questions(self) -> Sequence[Question]:
        """All questions, in order."""
        return own_questions()

    @cached_property
    def _by_id(self) -> dict[str, Question]:
        return {question.id: question for question in self.questions}

    def _as_judged(self, query: str) -> str:
        """What is run in place of a query when answers are compared."""
        return query

    def _instance(self, question: Question) -> Instance:
        database = question.database
        return Instance(
            id=question.id,
            prompt=prompt(database.tables, question.text),
            constraint=EBNF(grammar(database.tables)),
            display=f"{described(database.tables)}\n{question.text}",
            reference=question.query,
            potentials=(executable(database),) if self.potential else (),
        )


def prompt(tables: Sequence[Table], question: str) -> list[dict[str, str]]:
    """Chat messages: what to do, three worked examples, then the tables and the question."""
    messages = [{"role": "system", "content": SYSTEM}]
    for asked, query in EXAMPLES:
        messages += [
            {"role": "user", "content": request(EXAMPLE_TABLES, asked)},
            {"role": "assistant", "content": query},
        ]
    return [*messages, {"role": "user", "content": request(tables, question)}]


def request(tables: Sequence[Table], question: str) -> str:
    """The tables, one a line, and a question."""
    return f"{described(tables)}\nQuestion: {question}"


def described(tables: Sequence[Table]) -> str:
    """Each table with its columns, as `table(column, column)`, one a line, names spelled as queries must spell them."""
    return "\n".join(f"{identifier(table.name)}({', '.join(map(identifier, table.columns))})" for table in tables)


@lru_cache
def executable(database: Database) -> Predicate:
    """The condition that SQLite can prepare a query. It judges a prefix as soon as a clause shows that all tables are named.

    One for each database, so that answers are remembered over instances.
    """

    compiles = lru_cache(maxsize=4096)(database.compiles)  # all that follows one beginning asks about it

    def prefix(text: str) -> bool:
        head = settled(text)
        return head is None or compiles(head)

    return Predicate(compiles, prefix)


@lru_cache(maxsize=32)  # a text is scored and measured, and methods draw the same again
def result(database: Database, query: str) -> tuple[Row, ...] | None:
    """What a query returns; None if it does not run within the limits."""
    try:
        return tuple(database.rows(query))
    except QueryError:
        return None


@lru_cache(maxsize=4096)
def _gold_rows(database: Database, query: str) -> tuple[Row, ...]:
    return tuple(database.rows(query))
