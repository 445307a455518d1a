"""The condition that SQL parses."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from smc.errors import MissingPackageError, OptionError, quoted, shortened
from smc.potentials.text import TextCondition

# Text that opens no string, no comment and no quoted name in any dialect, so that its brackets are brackets.
_PLAIN = re.compile(r"[\w\s,.()*=<>+;]*")


@dataclass(frozen=True)
class ParsesSQL(TextCondition):
    """phi is 1 where sqlglot parses the finished text as exactly one statement of a dialect, and 0 where it does not.

    A statement is a query or one of the commands that sqlglot understands. A bare expression is none, and neither is
    what it passes on unparsed (its ``Command``): of that it cannot tell whether it is right. It is lenient: a query
    without columns parses, and tables and columns need not exist. It is recursive: from about 40 brackets inside one
    another a statement may count as one that does not parse. A prefix is refused where it closes a bracket that it
    has not opened, before any quote or comment; of others there is no opinion, as the parser cannot tell what a prefix
    may become.

    Attributes:
        dialect: a name that sqlglot knows ("sqlite", "postgres", "duckdb" ...); "" for its own superset of them.
        memo: see :class:`smc.potentials.TextBased`.

    Raises:
        MissingPackageError: sqlglot is not installed.
        OptionError: no such dialect.
    """

    dialect: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            import sqlglot  # noqa: F401
        except ImportError as error:
            raise MissingPackageError("ParsesSQL needs the package sqlglot: pip install 'smc[sql]'.") from error
        try:
            self._parser  # noqa: B018
        except ValueError as error:
            raise OptionError(f"dialect={quoted(self.dialect)}: {shortened(str(error), 200)}") from error

    @cached_property
    def _parser(self) -> Any:
        from sqlglot.dialects.dialect import Dialect

        return Dialect.get_or_raise(self.dialect)

    def holds(self, text: str) -> bool:
        from sqlglot import exp
        from sqlglot.errors import SqlglotError

        with _without_warnings():
            try:
                tokens = self._parser.tokenize(text)
                parsed = self._parser.parse(text)
            except (SqlglotError, RecursionError):
                return False
        trees = [tree for tree in parsed if tree is not None and not isinstance(tree, exp.Semicolon)]
        if len(trees) != 1 or isinstance(trees[0], exp.Command):
            return False
        opens = tokens[0].token_type in self._parser.parser_class.STATEMENT_PARSERS
        return opens or isinstance(trees[0], (exp.Query, exp.Values))

    def viable(self, text: str) -> bool:
        plain = _PLAIN.match(text)
        assert plain is not None  # it matches the empty text
        depth = 0
        for character in plain.group():
            depth += (character == "(") - (character == ")")
            if depth < 0:
                return False
        return True


@contextmanager
def _without_warnings() -> Iterator[None]:
    """sqlglot logs a warning for each text that it passes on unparsed."""
    logger = logging.getLogger("sqlglot")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
