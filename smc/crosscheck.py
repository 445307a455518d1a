"""``python -m smc.crosscheck``: both grammar engines and the validator on the same texts, without a model.

    python -m smc.crosscheck --schema schema.json --strings texts.txt
    printf 'abc\\nabd\\n' | python -m smc.crosscheck --regex 'ab[cd]' --strings -

Prints a table of the texts on which two of them disagree. The exit code is 0 if there are none, 1 if there are some, and 2 if
the input cannot be used.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from smc.constraints import EBNF, GBNF, Constraint, JSONSchema, Lark, Regex
from smc.constraints.crosscheck import Engine, crosscheck
from smc.errors import OptionError, SMCError
from smc.vocabulary import to_bytes

_GRAMMARS: dict[str, Callable[..., Constraint]] = {"ebnf": EBNF, "gbnf": GBNF, "lark": Lark}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        outcome = crosscheck(_constraint(options), _texts(options.strings, options.quoted))
    except SMCError as error:
        print(error, file=sys.stderr)
        return 2
    print(outcome.table())
    return 1 if outcome.differences else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m smc.crosscheck",
        description="Where xgrammar, llguidance and the validator differ on the same texts. Exit code 1 if they do.",
    )
    language = parser.add_mutually_exclusive_group(required=True)
    language.add_argument("--schema", metavar="FILE", help="a JSON Schema")
    language.add_argument("--regex", metavar="PATTERN", help="a regex in Python's dialect")
    for dialect in _GRAMMARS:
        language.add_argument(
            f"--{dialect}", metavar="FILE", help=f"a grammar in {dialect} (each engine validates its own)"
        )
    parser.add_argument("--whitespace", default="bounded", help="of a schema: compact, bounded (default) or free")
    parser.add_argument("--strings", metavar="FILE", required=True, help="one text a line; - reads the standard input")
    parser.add_argument("--quoted", action="store_true", help='each line is a JSON string, as in "a\\nb"')
    return parser


def _constraint(options: argparse.Namespace) -> Callable[[Engine], Constraint]:
    if options.regex is not None:
        return lambda engine: Regex(options.regex, engine=engine)
    for dialect, grammar in _GRAMMARS.items():
        if (source := getattr(options, dialect)) is not None:
            text = _read(source)
            if "::=" not in text and dialect != "lark":
                raise OptionError(f"{source} holds no rule `name ::= ...`, so it is no grammar in {dialect}.")
            return lambda engine: grammar(text, engine=engine)
    schema = _read(options.schema)
    return lambda engine: JSONSchema(schema, whitespace=options.whitespace, engine=engine)


def _texts(source: str, quoted: bool) -> list[str]:
    lines = _read(source).split("\n")
    if lines[-1] == "":
        lines.pop()
    return [_unquoted(line, number, source) for number, line in enumerate(lines, 1)] if quoted else lines


def _unquoted(line: str, number: int, source: str) -> str:
    try:
        text = json.loads(line)
    except ValueError as error:
        raise OptionError(f"Line {number} of {source} is not a JSON string: {error}. Or leave out --quoted.") from None
    if not isinstance(text, str):
        raise OptionError(f"Line {number} of {source} is {type(text).__name__} and not a JSON string.")
    try:
        to_bytes(text)
    except UnicodeEncodeError as error:
        raise OptionError(
            f"Line {number} of {source} holds the lone surrogate {text[error.start]!r}, which no UTF-8 text can hold: remove it."
        ) from None
    return text


def _read(source: str) -> str:
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise OptionError(f"{source} cannot be read: {error.strerror or error}. Check the path.") from None
    return data.decode("utf-8", "surrogateescape")


if __name__ == "__main__":
    sys.exit(main())
