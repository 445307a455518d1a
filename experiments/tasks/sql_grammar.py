"""A grammar of SELECT statements over the tables and columns of one database.

There is one way to write each thing: keywords in capitals, one space, a semicolon at the end, string literals in single quotes, no aliases, and
columns bare where one table is read and as `table.column` where tables are joined. That a column belongs to the table
that is read is left open, as is usual for such grammars: a condition on the whole query (the option `potential` of the task) adds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from experiments.tasks.sql_database import Table

# Rules that are the same for every database. Repetition is bounded, so that a model cannot go on for ever.
_COMMON = r"""
aggregated ::= "SUM(" | "AVG(" | "MIN(" | "MAX("
comparison ::= " = " | " != " | " < " | " <= " | " > " | " >= "
arithmetic ::= " + " | " - " | " * " | " / "
literal ::= number | string
number ::= "-"? whole ("." [0-9]{1,4})?
whole ::= "0" | [1-9] [0-9]{0,8}
string ::= "'" character{0,40} "'"
character ::= [^'\u0000-\u001f\u007f] | "''"
limit ::= (" LIMIT " [1-9] [0-9]{0,2})?
subquery ::= "(SELECT " ("DISTINCT ")? inner_item " FROM " table (" WHERE " inner_conditions)? ")"
inner_item ::= plain_column | plain_aggregate
inner_conditions ::= inner_predicate ((" AND " | " OR ") inner_predicate){0,2}
inner_predicate ::= plain_column comparison literal | plain_column plain_test
"""

# Rules over columns, once for bare columns (plain) and once for qualified ones (joined): $ stands for the form.
_OVER_COLUMNS = r"""
$_query ::= "SELECT " ("DISTINCT ")? ("*" | $_item (", " $_item){0,5}) " FROM " $_source (" WHERE " $_conditions)? $_group? $_order? limit ";"
$_item ::= $_expression | $_aggregate
$_expression ::= $_column (arithmetic ($_column | number))?
$_aggregate ::= "COUNT(*)" | "COUNT(" ("DISTINCT ")? $_column ")" | aggregated $_expression ")"
$_conditions ::= $_condition ((" AND " | " OR ") $_condition){0,3}
$_condition ::= ("NOT ")? ($_predicate | "(" $_predicate ((" AND " | " OR ") $_predicate){1,2} ")")
$_predicate ::= $_column comparison (literal | $_column | subquery) | $_column (" NOT")? " IN " subquery | $_column $_test
$_test ::= (" NOT")? (" BETWEEN " literal " AND " literal | " LIKE " string | " IN (" literal (", " literal){0,4} ")") | " IS NULL" | " IS NOT NULL"
$_group ::= " GROUP BY " $_column (", " $_column){0,2} (" HAVING " $_aggregate comparison (number | subquery))?
$_order ::= " ORDER BY " $_key (", " $_key){0,2}
$_key ::= $_item (" ASC" | " DESC")?
"""


def grammar(tables: Sequence[Table]) -> str:
    """The grammar in xgrammar's EBNF, beginning with ``root``."""
    names = [identifier(table.name) for table in tables]
    columns = [identifier(column) for table in tables for column in table.columns]
    qualified = [
        f"{name}.{identifier(column)}" for name, table in zip(names, tables, strict=True) for column in table.columns
    ]
    rules = [
        "root ::= plain_query | joined_query",
        *_lines(_OVER_COLUMNS.replace("$", "plain")),
        *_lines(_OVER_COLUMNS.replace("$", "joined")),
        "plain_source ::= table",
        'joined_source ::= table (" JOIN " join | " LEFT JOIN " join){1,3}',
        'join ::= table " ON " joined_column " = " joined_column',
        *_lines(_COMMON),
        f"table ::= {_alternatives(names)}",
        f"plain_column ::= {_alternatives(columns)}",
        f"joined_column ::= {_alternatives(qualified)}",
    ]
    return "\n".join(rules)


def identifier(name: str) -> str:
    """A name as SQLite reads it: as it is, or in double quotes where it is a keyword or has other characters."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def _lines(rules: str) -> list[str]:
    return rules.strip().splitlines()


def _alternatives(texts: Iterable[str]) -> str:
    """Each distinct text once."""
    return " | ".join(map(_literal, dict.fromkeys(texts)))


def _literal(text: str) -> str:
    """A text in the grammar's dialect, whose escapes are those of JSON. Characters beyond ASCII are literals of their own:
    xgrammar's compiler takes letters that follow them (a to f) for a part of their number."""
    pieces = re.split(r"([^\x00-\x7f]+)", text)
    return " ".join(json.dumps(piece, ensure_ascii=False) for piece in pieces if piece)


_RESERVED_WORDS = (
    "ADD ALL ALTER AND AS AUTOINCREMENT BETWEEN CASE CAST CHECK COLLATE COMMIT CONSTRAINT CREATE CROSS CURRENT_DATE "
    "CURRENT_TIME CURRENT_TIMESTAMP DEFAULT DEFERRABLE DELETE DISTINCT DROP ELSE ESCAPE EXCEPT EXISTS FOREIGN FROM "
    "FULL GROUP HAVING IN INDEX INNER INSERT INTERSECT INTO IS ISNULL JOIN LEFT LIMIT NATURAL NOT NOTHING NOTNULL "
    "NULL ON OR ORDER OUTER PRIMARY RAISE REFERENCES RETURNING RIGHT SELECT SET TABLE THEN TO TRANSACTION UNION "
    "UNIQUE UPDATE USING VALUES WHEN WHERE WITH"
)
RESERVED = frozenset(_RESERVED_WORDS.split())
"""Words that SQLite does not take for a name without quotes, in some version or some place."""
