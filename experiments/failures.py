"""What a run failed with, kept as text in its folder until the run has been done again.

The first line says it in words; the traceback of an error that nobody expected follows. The report reads the first lines.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from experiments.errors import BusyError, ExperimentError, InstanceFailed, OutOfReach, RunFailed
from experiments.store import DONE, write_atomically
from smc.errors import SMCError

ERROR = "error.txt"
_ANY_ERROR = "error*.txt"
LONGEST = 400
"""Characters of an error's own words that are repeated in one line."""


@dataclass(frozen=True)
class Failure:
    """A run, or a job's part of one, that ended in an error and has not been done since."""

    path: Path
    line: str


def error_name(shard: int = 0, shards: int = 1) -> str:
    """The file of a job's error."""
    return ERROR if shards == 1 else f"error.{shard}-of-{shards}.txt"


@contextmanager
def kept(folder: Path, title: str, name: str = ERROR) -> Iterator[None]:
    """Write what a run ends with into its folder.

    Bad input, which is said in words, goes on as it is, and into the folder if the run has one already.

    Raises:
        RunFailed: in place of any other exception, naming it and the file with its traceback.
    """
    try:
        yield
    except (BusyError, OutOfReach, RunFailed):  # nothing failed, or it is written already
        raise
    except (ExperimentError, SMCError, OSError) as error:
        if folder.is_dir():
            write(folder / name, f"{title}: {words(error)}", error)
        raise
    except Exception as error:
        line = f"{title} failed{_where(error)}: {words(error)}"
        written = write(folder / name, line, error)
        raise RunFailed(
            f"{line} This is a fault of the program and not of what was asked for. "
            + (f"The traceback is in {folder / name}. " if written else "")
            + "Finished instances are kept: the same command tries the rest again."
        ) from error


def words(error: BaseException) -> str:
    """An error in one line of limited length: its own words where it has been put in words, else its kind and what it says."""
    cause = error.__cause__ if isinstance(error, InstanceFailed) and error.__cause__ is not None else error
    said = " ".join(str(cause).split())
    said = said if len(said) <= LONGEST else said[:LONGEST] + " ..."
    if isinstance(cause, (ExperimentError, SMCError)):
        return said
    named = f"{type(cause).__name__}: {said}" if said else type(cause).__name__
    return named if named.endswith((".", "...")) else named + "."


def clear(folder: Path, name: str = _ANY_ERROR) -> None:
    """Forget what a run, or a part of it, failed with; a folder that held nothing else goes as well."""
    if not folder.is_dir():
        return
    for path in folder.glob(name):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # it holds more
        folder.rmdir()


def failures(study: Path) -> list[Failure]:
    """What failed in and below a study's folder, in a fixed order; runs that are complete by now are left out."""
    found = [path for path in sorted(study.rglob(_ANY_ERROR)) if not (path.parent / DONE).exists()]
    return [Failure(path, _first_line(path)) for path in found]


def _where(error: Exception) -> str:
    return f" on the instance {error.instance}" if isinstance(error, InstanceFailed) else ""


def write(path: Path, line: str, error: BaseException) -> bool:
    """Write an error and its traceback to a file; whether that was possible. If not, the traceback goes to stderr."""
    trace = "".join(traceback.format_exception(error))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, f"{line}\n\n{trace}".encode("utf-8", "backslashreplace"))
    except OSError:
        if not isinstance(error, OSError):
            print(trace, file=sys.stderr)
        return False
    return True


def _first_line(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace")
    return text.partition("\n")[0].strip() or "It is not known what it failed with."
