"""A grammar or a schema as its text, or as the path of a file that holds it."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

from smc.constraints.caching import shortened
from smc.errors import ConstraintError


def text_or_file(kind: str, source: object, looks_like_text: bool) -> object:
    """The text of a file if `source` is the path of one; otherwise `source` itself.

    Args:
        kind: names what it is to be in errors, as in "A GBNF grammar".
        source: a path object always means a file. A string is looked up unless it looks like text.
        looks_like_text: whether `source` is a string that is text beyond doubt.

    Raises:
        ConstraintError: nothing at all, a folder, or a file that cannot be read.
    """
    if isinstance(source, str) and not source.strip():
        raise ConstraintError(f"{kind} is its text or the path of a file, and this is empty: give one of them.")
    if isinstance(source, PathLike) or (isinstance(source, str) and not looks_like_text and os.path.exists(source)):
        return _read(kind, Path(source))
    return source


def no_such_file(kind: str, source: str, sign: str) -> ConstraintError:
    """That a string is neither text nor the path of a file; `sign` says what text would have shown."""
    return ConstraintError(
        f"{kind} is its text or the path of a file, and {shortened(source)!r} is neither text ({sign}) nor a file that exists: "
        "check the path, or give the text itself."
    )


def _read(kind: str, path: Path) -> str:
    named = shortened(str(path))
    if path.is_dir():
        raise ConstraintError(
            f"{kind} is its text or the path of a file, and {named!r} is a folder: name a file in it."
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConstraintError(f"The file {named!r} is not UTF-8 text: save it as UTF-8.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConstraintError(
            f"The file {named!r} cannot be read ({reason}): check the path and its permissions."
        ) from None
    if not text.strip():
        raise ConstraintError(f"The file {named!r} is empty: {kind[0].lower()}{kind[1:]} was to be in it.")
    return text
