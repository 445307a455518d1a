"""Regular expressions as JSON Schema means them, for the validator: ECMA-262, searched for anywhere in the text."""

from __future__ import annotations

from functools import lru_cache

import regex  # type: ignore[import-untyped]

from smc.constraints.caching import shortened
from smc.constraints.ecma_regex import NotEcma, parse
from smc.constraints.nesting import readable
from smc.constraints.regex_rewrite import for_validator
from smc.errors import ConstraintError, quoted

PATTERN_SECONDS = 1.0
"""How long one pattern may search one string."""


def found(pattern: str, text: str) -> bool | None:
    """Whether `pattern` matches somewhere in `text`; None if that takes longer than PATTERN_SECONDS.

    Raises:
        ConstraintError: `pattern` is not a regular expression.
    """
    try:
        return compiled(pattern).search(text, timeout=PATTERN_SECONDS) is not None
    except TimeoutError:
        return None


@lru_cache(1024)
def compiled(pattern: str) -> regex.Pattern[str]:
    """An ECMA-262 pattern for the `regex` package.

    Raises:
        ConstraintError: it is not a regular expression.
    """
    try:
        with readable(f"The pattern {shortened(pattern)!r}"):
            return regex.compile(in_python(pattern))
    except (regex.error, OverflowError) as error:
        raise ConstraintError(f"The pattern {quoted(pattern)} is not a regular expression: {error}.") from None


def in_python(pattern: str) -> str:
    """The same search in the `regex` package's syntax.

    Raises:
        ConstraintError: what ECMA-262 does not have.
    """
    try:
        return for_validator(parse(pattern))
    except NotEcma as error:
        raise ConstraintError(
            f"The pattern {quoted(pattern)} is not a regular expression of ECMA-262, as JSON Schema has them: it {error}."
        ) from None
