"""The task of text to SQL: its data, its grammar, what may run, how answers compare, and Spider's folder."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from experiments.errors import ExperimentError
from experiments.tasks import build_task
from experiments.tasks.base import Instance
from experiments.tasks.spider import SpiderTask
from experiments.tasks.sql import EXAMPLE_TABLES, EXAMPLES, SqlTask, executable
from experiments.tasks.sql_data import DATABASES, Question, own_questions
from experiments.tasks.sql_database import Database, QueryError, Table
from experiments.tasks.sql_grammar import grammar, identifier
from experiments.tasks.sql_rows import same_rows
from experiments.tasks.sql_text import is_ordered, places, settled, without_distinct
from smc import EBNF, SMCSampler, TableModel
from smc.constraints.crosscheck import BYTES, leads_through

TASK = SqlTask()
INSTANCES = {instance.id: instance for instance in TASK.instances()}
BY_ID = {question.id: question for question in own_questions()}
LIBRARY = BY_ID["library_02"].database


def accepted(constraint: EBNF, text: str) -> bool:
    """Whether masks lead through a text, byte by byte, and the engine's own matcher agrees."""
    compiled = constraint.compile(BYTES)
    verdict = leads_through(compiled, text.encode())
    assert compiled.accepts(text.encode()) == verdict
    return verdict


def score(key: str, text: str) -> float:
    return TASK.score(INSTANCES[key], text)


# --- the data


def test_there_are_enough_questions_and_a_small_limit_mixes_databases_and_difficulties() -> None:
    assert len(DATABASES) >= 5
    assert len(BY_ID) == len(own_questions()) >= 60
    assert min(Counter(question.database.name for question in own_questions()).values()) >= 12
    assert len({question.text for question in own_questions()}) == len(own_questions())
    first = own_questions()[: len(DATABASES)]
    assert [question.database.name for question in first] == list(DATABASES)
    assert not any(word in question.query for question in first for word in ("JOIN", "GROUP", "ORDER", "(SELECT"))
    third, all_ = (sum("JOIN" in question.query for question in own_questions()[:n]) for n in (26, 78))
    assert abs(third / 26 - all_ / 78) < 0.08
    assert [instance.id for instance in TASK.instances(7)] == [question.id for question in own_questions()[:7]]


@pytest.mark.parametrize("name", DATABASES)
def test_databases_have_the_promised_size(name: str) -> None:
    database = BY_ID[f"{name}_01"].database
    assert 2 <= len(database.tables) <= 4
    for table in database.tables:
        assert 8 <= len(database.rows(f"SELECT * FROM {table.name}")) <= 30, table.name


@pytest.mark.parametrize("question", own_questions(), ids=lambda question: question.id)
def test_every_gold_query_is_right_and_in_the_grammar(question: Question) -> None:
    instance = INSTANCES[question.id]
    assert instance.reference == question.query
    assert TASK.score(instance, question.query) == 1.0
    assert TASK.measures(instance, question.query) == {"runs": 1.0, "nonempty": 1.0}
    assert accepted(instance.constraint, question.query)
    condition = executable(question.database)
    assert condition.complete(question.query)
    spaces = [at for at, character in enumerate(question.query) if character == " "]
    for at in spaces:  # clauses end at spaces
        assert condition.viable(question.query[: at + 1]), question.query[: at + 1]


@pytest.mark.parametrize("question", own_questions(), ids=lambda question: question.id)
def test_no_gold_result_depends_on_the_order_in_which_sqlite_visits_rows(question: Question) -> None:
    """An ORDER BY with ties, or a LIMIT that cuts them, would make the score a matter of luck."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(question.database.source.read_text(encoding="utf-8"))
        connection.execute("PRAGMA reverse_unordered_selects = ON")
        reversed_rows = connection.execute(question.query).fetchall()
    assert same_rows(reversed_rows, question.database.rows(question.query), ordered=is_ordered(question.query))


def test_gold_queries_of_one_database_tell_each_other_apart() -> None:
    """Another question's answer is wrong: no question can be met by what answers an easier one."""
    for name in DATABASES:
        ids = [key for key in BY_ID if key.startswith(name)]
        for key in ids:
            right = [other for other in ids if score(key, BY_ID[other].query) == 1.0]
            assert right == [key]


def test_the_worked_examples_are_in_the_grammar_of_their_own_database() -> None:
    constraint = EBNF(grammar(EXAMPLE_TABLES))
    assert all(accepted(constraint, query) for _, query in EXAMPLES)
    roles = [message["role"] for message in INSTANCES["shop_01"].prompt]
    assert roles == ["system", *["user", "assistant"] * len(EXAMPLES), "user"]
    assert "orders(id, customer_id, product_id, quantity, ordered)" in INSTANCES["shop_01"].prompt[-1]["content"]


# --- the grammar


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM books;",
        "SELECT title, pages * 2 FROM books WHERE NOT genre = 'crime' AND (pages > 100 OR year <= 1990);",
        "SELECT DISTINCT genre FROM books WHERE title LIKE '%the%' OR genre IN ('novel', 'crime');",
        "SELECT genre, MAX(pages) FROM books GROUP BY genre HAVING COUNT(*) >= 2 ORDER BY MAX(pages) DESC, genre LIMIT 5;",
        "SELECT COUNT(DISTINCT member) FROM loans WHERE returned IS NOT NULL;",
        "SELECT title FROM books WHERE year NOT BETWEEN 1980 AND 1999.5;",
        "SELECT title FROM books WHERE author_id IN (SELECT id FROM authors WHERE country = 'Ireland');",
        "SELECT books.title FROM books LEFT JOIN loans ON loans.book_id = books.id WHERE loans.id IS NULL;",
        "SELECT name FROM authors WHERE name = 'O''Brien';",
    ],
)
def test_what_the_grammar_takes_runs(query: str) -> None:
    assert accepted(INSTANCES["library_02"].constraint, query)
    LIBRARY.rows(query)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "SELECT title FROM books",
        "SELECT title FROM books ;",
        "SELECT title FROM books; ",
        "SELECT title FROM books;;",
        "select title from books;",
        "SELECT  title FROM books;",
        "SELECT title FROM book;",
        "SELECT publisher FROM books;",
        "SELECT books.title FROM books;",
        "SELECT title FROM books JOIN authors ON books.author_id = authors.id;",
        "SELECT authors.title FROM books JOIN authors ON books.author_id = authors.id;",
        "SELECT title FROM books WHERE genre = crime;",
        'SELECT title FROM books WHERE genre = "crime";',
        "SELECT title FROM books WHERE pages > 007;",
        "SELECT title FROM books WHERE title = '" + "a" * 41 + "';",
        "SELECT title FROM books LIMIT 0;",
        "SELECT load_extension('x') FROM books;",
        "DROP TABLE books;",
        "SELECT title FROM books WHERE id IN (SELECT id FROM books WHERE id IN (SELECT id FROM books));",
    ],
)
def test_what_the_grammar_refuses(query: str) -> None:
    assert not accepted(INSTANCES["library_02"].constraint, query)


def test_names_that_sqlite_would_not_take_are_quoted(tmp_path: Path) -> None:
    odd = tmp_path / "odd.sql"
    odd.write_text(
        'CREATE TABLE "order" ("first name" TEXT, "größe" INTEGER, "a""b" TEXT, "group" TEXT, "2nd" TEXT);'
        "INSERT INTO \"order\" VALUES ('Ann', 3, 'x', 'y', 'z');",
        encoding="utf-8",
    )
    database = Database("odd", odd)
    assert database.tables == (Table("order", ("first name", "größe", 'a"b', "group", "2nd")),)
    constraint = EBNF(grammar(database.tables))
    for name, value in zip(database.tables[0].columns, ("Ann", 3, "x", "y", "z"), strict=True):
        query = f'SELECT {identifier(name)} FROM "order";'
        assert accepted(constraint, query)
        assert database.rows(query) == [(value,)]
    assert identifier("name") == "name"


@pytest.mark.parametrize("word", ["cast", "raise", "current_date", "limit", "key", "year", "first"])
def test_a_column_named_as_a_keyword_is_read_as_that_column(tmp_path: Path, word: str) -> None:
    script = tmp_path / "words.sql"
    script.write_text(f"CREATE TABLE t (\"{word}\" TEXT); INSERT INTO t VALUES ('it');", encoding="utf-8")
    assert Database("words", script).rows(f"SELECT {identifier(word)} FROM t;") == [("it",)]


# --- running what nobody has read


@pytest.mark.parametrize(
    "query",
    [
        "",
        "nonsense",
        "SELECT title FROM films",
        "DROP TABLE books",
        "DELETE FROM books",
        "UPDATE books SET title = 'x'",
        "INSERT INTO books (id) VALUES (99)",
        "CREATE TABLE t (a)",
        "CREATE TEMP TABLE t AS SELECT * FROM books",
        "ALTER TABLE books RENAME TO b",
        "ATTACH DATABASE 'other.sqlite' AS other",
        "VACUUM INTO 'copy.sqlite'",
        "PRAGMA query_only = OFF",
        "PRAGMA table_info(books)",
        "BEGIN",
        "SELECT title FROM books; DROP TABLE books;",
        "SELECT load_extension('evil')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('x', 'y')",
        "SELECT randomblob(900000000)",
        "SELECT random()",
        "SELECT date('now')",
        "SELECT zeroblob(900000000)",
        "SELECT title FROM books WHERE title LIKE '" + "%a" * 300 + "'",
        "SELECT " + "(" * 900 + "1" + ")" * 900,
        "SELECT '" + "x" * 20_000 + "'",
        "SELECT title FROM books WHERE title = '\x00'",
        "SELECT title FROM books WHERE title = '\udcff'",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n",
        "SELECT COUNT(*) FROM " + ", ".join(f"books b{n}" for n in range(9)),
        "SELECT 1 FROM " + ", ".join(f"books b{n}" for n in range(5)),
        "SELECT " + "replace(" * 5 + "'aaaaaaaa'" + ", 'a', 'aaaaaaaa')" * 5 + " FROM books, books b, books c",
    ],
    ids=lambda query: query[:30],
)
def test_no_statement_harms_or_hangs(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = [LIBRARY.rows(f"SELECT * FROM {table.name}") for table in LIBRARY.tables]
    with pytest.raises(QueryError):
        LIBRARY.rows(query)
    assert score("library_03", query) == 0.0
    assert TASK.measures(INSTANCES["library_03"], query) == {"runs": 0.0, "nonempty": 0.0}
    assert [LIBRARY.rows(f"SELECT * FROM {table.name}") for table in LIBRARY.tables] == before
    assert list(tmp_path.iterdir()) == []


# --- comparing answers


@pytest.mark.parametrize(
    ("key", "query", "right"),
    [
        ("library_03", "SELECT DISTINCT name FROM authors ORDER BY name DESC", 1.0),  # no order was asked for
        ("library_03", "SELECT name FROM authors LIMIT 7", 0.0),
        ("library_03", "SELECT name, id FROM authors", 0.0),
        ("library_03", "SELECT title FROM books", 0.0),
        ("library_07", "SELECT member FROM loans WHERE returned IS NULL", 0.0),  # Ruth twice
        ("library_09", "SELECT title FROM books ORDER BY pages DESC LIMIT 3", 1.0),
        ("library_09", "SELECT title FROM books ORDER BY pages LIMIT 3", 0.0),
        ("library_09", "SELECT title FROM books WHERE pages > 450 ORDER BY title", 0.0),  # the right rows, not in order
        ("library_05", "SELECT SUM(pages) / 14.0 FROM books", 1.0),
        ("library_05", "SELECT SUM(pages) / 14 FROM books", 0.0),  # SQLite divides whole numbers
        ("library_08", "SELECT COUNT(*), genre FROM books GROUP BY genre", 1.0),  # no order of columns was asked for
        ("library_08", "SELECT COUNT(*), COUNT(*) FROM books GROUP BY genre", 0.0),
        ("library_02", "SELECT COUNT(*) FROM loans", 0.0),
        ("airline_05", "SELECT MIN(seats) FROM planes", 0.0),
        ("school_07", "SELECT MIN(name) FROM teachers", 0.0),
        ("library_12", "SELECT title FROM books WHERE NOT id IN (SELECT book_id FROM loans)", 1.0),
    ],
)
def test_answers_are_judged_by_what_they_return(key: str, query: str, right: float) -> None:
    assert score(key, query) == right


def test_empty_results_run_and_are_wrong() -> None:
    query = "SELECT title FROM books WHERE genre = 'horror'"
    assert score("library_04", query) == 0.0
    assert TASK.measures(INSTANCES["library_04"], query) == {"runs": 1.0, "nonempty": 0.0}


def test_rows_compare_as_multisets_with_rounding() -> None:
    assert same_rows([(1, "a"), (2.0, "b")], [(2, "b"), (1.0 + 1e-9, "a")], ordered=False)
    assert not same_rows([(1, "a"), (2.0, "b")], [(2, "b"), (1.0, "a")], ordered=True)
    assert same_rows([(1e9,)], [(1e9 + 1,)], ordered=True)
    assert not same_rows([(1.0,)], [(1.001,)], ordered=False)
    assert not same_rows([(1,), (1,), (2,)], [(1,), (2,), (2,)], ordered=False)
    assert not same_rows([(1,)], [("1",)], ordered=False)
    assert not same_rows([(1,)], [(1,), (1,)], ordered=False)
    assert not same_rows([(None,)], [(0,)], ordered=False)
    # two rows whose first numbers are equal within rounding, but not in the same order
    assert same_rows([(0.1 + 1e-9, "b"), (0.1, "a")], [(0.1 + 1e-9, "a"), (0.1, "b")], ordered=False)
    assert same_rows([], [], ordered=True)


def test_columns_compare_in_any_order_but_rows_stay_together() -> None:
    assert same_rows([(1, "a"), (2, "b")], [("b", 2), ("a", 1)], ordered=False)
    assert same_rows([(1, "a"), (2, "b")], [("a", 1), ("b", 2)], ordered=True)
    assert not same_rows([(1, "a"), (2, "b")], [("b", 2), ("a", 1)], ordered=True)
    assert not same_rows([(1, "a"), (2, "b")], [("b", 1), ("a", 2)], ordered=False)  # each column fits, the rows do not
    assert same_rows([(1, 2, 3), (2, 1, 3)], [(3, 2, 1), (3, 1, 2)], ordered=True)
    assert same_rows([(1, 2), (2, 1), (1, 1)], [(2, 1), (1, 2), (1, 1)], ordered=False)
    assert not same_rows([(1, 1), (2, 2)], [(1, 2), (2, 1)], ordered=False)
    wide = [tuple([None] * 30 + [place, 1 - place]) for place in (0, 1)]
    assert same_rows(wide, [row[::-1] for row in wide], ordered=False)  # thirty equal columns are one choice
    assert not same_rows(wide, [(*row[:31], row[30]) for row in wide], ordered=False)
    flags = [tuple((place + row) % 2 for place in range(40)) for row in (0, 1)]  # two to the forty orders of columns
    assert not same_rows([(*row[:39], 7) for row in flags], flags, ordered=False)
    assert same_rows(flags, [row[::-1] for row in flags], ordered=True)


@pytest.mark.parametrize(
    ("query", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("select a from t order by a", True),
        ("SELECT a FROM t WHERE b = 'ORDER BY a'", False),
        ("SELECT a FROM t WHERE b IN (SELECT b FROM t ORDER BY b LIMIT 2)", False),
    ],
)
def test_order_counts_where_the_gold_query_asks_for_it(query: str, ordered: bool) -> None:
    assert is_ordered(query) == ordered


# --- the potential


@pytest.mark.parametrize(
    ("prefix", "head"),
    [
        ("SELECT a FROM order", None),  # may become "orders"
        ("SELECT a FROM t WHERE", None),
        ("SELECT a FROM t WHERE ", "SELECT a FROM t"),
        ("SELECT a FROM t WHERE b = ' ORDER BY ", "SELECT a FROM t"),
        ("SELECT a FROM t WHERE b > (SELECT AVG(b) FROM u WHERE ", "SELECT a FROM t"),
        (
            "SELECT a FROM t WHERE b > (SELECT AVG(b) FROM u) LIMIT 1",
            "SELECT a FROM t WHERE b > (SELECT AVG(b) FROM u)",
        ),
        ("SELECT a FROM t GROUP BY a ORDER BY ", "SELECT a FROM t GROUP BY a"),
    ],
)
def test_what_of_a_prefix_must_be_a_query_by_itself(prefix: str, head: str | None) -> None:
    assert settled(prefix) == head


def test_the_potential_refuses_a_column_of_another_table_as_soon_as_the_tables_are_known() -> None:
    condition = executable(LIBRARY)
    assert condition is executable(Database("library", LIBRARY.source))
    assert condition.viable("SELECT name FROM books")  # a JOIN may follow
    assert not condition.viable("SELECT name FROM books WHERE ")
    assert not condition.complete("SELECT name FROM books")
    assert not condition.complete("SELECT authors.name FROM books JOIN loans ON loans.book_id = books.id")
    assert condition.complete("SELECT name FROM authors")


def test_the_posterior_under_the_potential_holds_only_queries_that_run() -> None:
    """Two queries of the grammar, .75 and .25, of which the heavier one does not run."""
    printable = [chr(code) for code in range(32, 127)]  # so that the vocabulary can spell all of the grammar
    vocab = ["SELECT name FROM ", "books;", "authors;", *printable, "<eos>"]

    def next_probs(prefix: tuple[str, ...]) -> dict[str, float]:
        steps = {0: {vocab[0]: 1.0}, 1: {"books;": 0.75, "authors;": 0.25}}
        return steps.get(len(prefix), {"<eos>": 1.0})

    model = TableModel(vocab=vocab, eos="<eos>", next_probs=next_probs)
    found = {}
    for potential in (False, True):
        instance = build_task("sql", {"potential": potential}).instances(1)[0]
        sampler = SMCSampler(model, instance.constraint, n_particles=4, potentials=instance.potentials, max_tokens=4)
        found[potential] = sampler.run("")
    assert found[False].posterior() == pytest.approx(
        {"SELECT name FROM books;": 0.75, "SELECT name FROM authors;": 0.25}
    )
    assert found[True].posterior() == {"SELECT name FROM authors;": 1.0}
    assert found[True].log_evidence == pytest.approx(-1.3862943611198906)


# --- places


def test_places_cover_a_query_and_name_the_kinds_of_its_words() -> None:
    query = "SELECT books.title, COUNT(*) FROM books WHERE year >= 1990 AND genre = 'a b'"
    parts = places(query)
    assert parts[0] == (0, "keyword")
    assert [offset for offset, _ in parts] == sorted({offset for offset, _ in parts})
    named = {
        query[start:end].strip(): kind for (start, kind), (end, _) in zip(parts, [*parts[1:], (None, "")], strict=True)
    }
    assert named == {
        "SELECT": "keyword", "books": "table", ".": "sign", "title": "column", ",": "sign", "COUNT": "function", "(": "sign",
        "*": "sign", ")": "sign", "FROM": "keyword", "WHERE": "keyword", "year": "column", ">=": "sign", "1990": "number",
        "AND": "keyword", "genre": "column", "=": "sign", "'a b'": "string",
    }  # fmt: skip
    assert places("") == []
    assert TASK.places(INSTANCES["shop_01"], query) == parts


# --- Spider


def spider(folder: Path, entries: object | None = None) -> SpiderTask:
    """A folder as Spider's, with two databases and three questions."""
    for name, table in (("pets", "pet"), ("farms", "farm")):
        file = folder / "database" / name / f"{name}.sqlite"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(
                f"CREATE TABLE {table} (id INTEGER, Name TEXT, age INTEGER);"
                f"INSERT INTO {table} VALUES (1, 'Rex', 4), (2, 'Kit', 2), (3, CAST(X'ff' AS TEXT), 9);"
            )
    default = [
        {"db_id": "pets", "question": "How many pets?", "query": "select count(*) from pet"},
        {"db_id": "pets", "question": "Names by age?", "query": "SELECT T1.name FROM pet AS T1 ORDER BY T1.age"},
        {"db_id": "farms", "question": "How old is Kit?", "query": 'SELECT age FROM farm WHERE name = "Kit"'},
    ]
    text = entries if isinstance(entries, str) else json.dumps(default if entries is None else entries)
    (folder / "dev.json").write_text(text, encoding="utf-8")
    return SpiderTask(folder=str(folder))


def test_a_spider_folder_is_read_and_scored(tmp_path: Path) -> None:
    task = spider(tmp_path)
    instances = task.instances()
    assert [instance.id for instance in instances] == ["pets_0000", "farms_0002", "pets_0001"]
    assert all(task.score(instance, instance.reference or "") == 1.0 for instance in instances)
    by_id: dict[str, Instance] = {instance.id: instance for instance in instances}
    assert accepted(by_id["pets_0001"].constraint, "SELECT Name FROM pet ORDER BY age;")
    assert task.score(by_id["pets_0001"], "SELECT Name FROM pet ORDER BY age") == 1.0
    assert task.score(by_id["pets_0001"], "SELECT Name FROM pet ORDER BY age DESC") == 0.0
    assert "pet(id, Name, age)" in by_id["pets_0001"].display
    file = tmp_path / "database" / "pets" / "pets.sqlite"
    before = file.read_bytes()
    assert task.score(by_id["pets_0000"], "DELETE FROM pet") == 0.0
    assert file.read_bytes() == before
    revision = task.revision
    assert SpiderTask(folder=str(tmp_path)).revision == revision
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("INSERT INTO pet VALUES (4, 'Ivy', 1)")
    assert SpiderTask(folder=str(tmp_path)).revision != revision


def test_what_is_wrong_with_a_spider_folder_is_one_clear_message(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"task\.folder"):
        SpiderTask()
    with pytest.raises(ExperimentError, match=r"dev\.json: No such file.*task\.folder"):
        SpiderTask(folder=str(tmp_path / "nowhere")).instances()
    for entries, words in {
        "{": "is not JSON",
        "{}": "is not a list of questions",
        "[]": "is not a list of questions",
        '[{"db_id": "pets", "question": "?"}]': "entry 0 of .* has no text under 'query'",
        '["x"]': "entry 0",
    }.items():
        with pytest.raises(ExperimentError, match=words):
            spider(tmp_path, entries).instances()
    lost = [{"db_id": "lost", "question": "?", "query": "SELECT 1"}]
    with pytest.raises(ExperimentError, match=r"'lost' is missing .*lost\.sqlite"):
        spider(tmp_path, lost).instances()
    broken = [{"db_id": "pets", "question": "?", "query": "SELECT weight FROM pet"}]
    with pytest.raises(ExperimentError, match=r"No gold query of .* runs"):
        spider(tmp_path, broken).instances()
    task = spider(tmp_path)
    (tmp_path / "database" / "pets" / "pets.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.raises(ExperimentError, match=r"'pets' cannot be opened .*not a database"):
        task.instances()


def test_spider_takes_distinct_out_of_both_queries(tmp_path: Path) -> None:
    entries = [
        {"db_id": "pets", "question": "Kinds?", "query": "SELECT DISTINCT age > 3 FROM pet"},
        {"db_id": "pets", "question": "How many kinds?", "query": "SELECT count(distinct age > 3) FROM pet"},
    ]
    task = spider(tmp_path, entries)
    kinds, number = task.instances()
    assert task.score(kinds, "SELECT age > 3 FROM pet") == task.score(kinds, "SELECT DISTINCT age > 3 FROM pet") == 1.0
    assert task.score(number, "SELECT COUNT(*) FROM pet") == 1.0
    assert without_distinct("SELECT DISTINCT a FROM t WHERE b = 'distinct'") == "SELECT a FROM t WHERE b = 'distinct'"
    assert without_distinct("SELECT COUNT(DISTINCT a) FROM distinct_t") == "SELECT COUNT(a) FROM distinct_t"


def test_questions_whose_own_query_does_not_run_are_left_out_visibly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [
        {"db_id": "pets", "question": "?", "query": "SELECT weight FROM pet"},
        {"db_id": "pets", "question": "How many?", "query": "SELECT COUNT(*) FROM pet"},
    ]
    assert [instance.id for instance in spider(tmp_path, entries).instances(1)] == ["pets_0001"]
    said = capsys.readouterr().err
    assert "spider: 1 of the first 2 problems are left out. pets_0000" in said
    assert "no such column: weight" in said


def test_a_question_beyond_the_limit_is_not_looked_at(tmp_path: Path) -> None:
    entries = [
        {"db_id": "pets", "question": "How many?", "query": "SELECT COUNT(*) FROM pet"},
        {"db_id": "pets", "question": "?", "query": "SELECT weight FROM pet"},
    ]
    assert len(spider(tmp_path, entries).instances(1)) == 1
