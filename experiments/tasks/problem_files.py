"""Problems of a benchmark as rows: from a local file or folder, or a data set of the Hugging Face hub.

A data set of the hub is downloaded once (into the hub's own cache, which also serves without a network) and is then a folder
like any other: Parquet files, JSON lines, or JSON files. Which of them are read is said by their paths.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from experiments.errors import ExperimentError
from smc.errors import SMCError
from smc.vocabulary import byte_vocabulary

Row = dict[str, Any]

TABLES = (".parquet", ".jsonl")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """Where a task's problems come from.

    Attributes:
        task: the task's name, for messages.
        name: a local file or folder, or the name of a data set on the hub ("owner/name").
        subset, split: read only files in whose path they are a word; None for all.
        revision: a commit, tag or branch of the hub; None for the newest.
    """

    task: str
    name: str
    subset: str | None = None
    split: str | None = None
    revision: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether there is a file or folder of that name."""
        return Path(self.name).expanduser().exists()

    def files(self, suffixes: tuple[str, ...]) -> tuple[list[Path], str | None]:
        """The files with these endings, those of tables alone if there are any, and their commit if they are the hub's.

        Raises ExperimentError if there is no such source, or no such file in it.
        """
        place, commit = self._place()
        if place.is_file():
            return [place], commit
        every = sorted(p for p in place.rglob("*") if p.suffix in suffixes and not _hidden(p, place))
        every = [p for p in every if p.suffix in TABLES] or every
        if not every:
            raise ExperimentError(
                f"{self._named} holds no file that ends in {' or '.join(suffixes)}: check task.source of the task {self.task}."
            )
        chosen = [p for p in every if all(_about(word, p, place) for word in (self.subset, self.split) if word)]
        if not chosen:
            wanted = " and ".join(f"task.{k}={v}" for k, v in (("subset", self.subset), ("split", self.split)) if v)
            names = ", ".join(str(p.relative_to(place)) for p in every[:12]) + (", ..." if len(every) > 12 else "")
            raise ExperimentError(
                f"{self._named} has no file for {wanted} (task {self.task}). It holds {names}. Choose by the words in these paths, or "
                "give null for all."
            )
        return chosen, commit

    @property
    def _named(self) -> str:
        return f"task.source={self.name}"

    def _place(self) -> tuple[Path, str | None]:
        """The file or folder, and its commit if it came from the hub."""
        if self.is_local:
            return Path(self.name).expanduser(), None
        if not _HUB_NAME.fullmatch(self.name):
            raise ExperimentError(
                f"{self._named} is neither a file or folder that exists nor the name of a data set on the hub (owner/name): "
                f"correct it, or leave it out for the problems that come with the task {self.task}."
            )
        folder = self._downloaded()
        return folder, f"{self.name} {folder.name}"  # the hub names its folders by commits

    def _downloaded(self) -> Path:
        within = f"*{self.subset}*" if self.subset else "*"
        patterns = [f"{within}{ending}" for ending in (*TABLES, ".json")]
        try:
            return Path(download(self.name, self.revision, patterns))
        except Exception as error:  # every layer on the way fails in its own manner: names, rights, network, disk
            raise ExperimentError(
                f"The data set {self.name} could not be fetched from the hub for the task {self.task}: "
                f"{' '.join(str(error).split())[:300]} Check the name and task.data_revision; there is no local file or folder of "
                "that name. The network is needed once; without it, give a local folder as task.source."
            ) from error


def download(name: str, revision: str | None, patterns: list[str]) -> str:
    """The folder of a data set's files, from the hub or its cache."""
    from huggingface_hub import snapshot_download

    folder: str = snapshot_download(name, repo_type="dataset", revision=revision, allow_patterns=patterns)
    return folder


def read_file(path: Path) -> list[Row]:
    """The rows of a Parquet file or of JSON lines.

    Raises ExperimentError for a file that cannot be read, naming the line.
    """
    if path.suffix == ".parquet":
        return _parquet(path)
    rows = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            row = parse(line, f"line {number} of {path}")
            if not isinstance(row, dict):
                raise ExperimentError(f"Line {number} of {path} is no JSON object: each line must be a problem.")
            rows.append(row)
    return rows


def parse(text: str, place: str) -> Any:
    """A JSON value. Raises ExperimentError for what is none, naming the place."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExperimentError(f"What stands in {place} cannot be read as JSON ({error}).") from error


def read_text(path: Path) -> str:
    """The text of a file. Raises ExperimentError if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path} cannot be read ({error}).") from error


def digest(files: Iterable[Path]) -> str:
    """A hash of what the files hold."""
    total = hashlib.sha256()
    for path in files:
        try:
            total.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError as error:
            raise ExperimentError(f"{path} cannot be read ({error.strerror}).") from error
    return f"digest {total.hexdigest()[:10]}"


def refusal(make: Callable[[], Any]) -> str | None:
    """Why a constraint cannot be enforced, found without a model; None if it can.

    It is compiled for the 256 bytes as tokens: what a real vocabulary adds is only that it may lack some of them.
    """
    try:
        make().compile(byte_vocabulary())
    except SMCError as error:
        return str(error)
    return None


def first_usable(
    task: str, named: Iterable[tuple[str, T]], obstacle: Callable[[T], str | None], limit: int | None, none_left: str
) -> list[T]:
    """The first `limit` items without an obstacle; those in between that have one are said on stderr, by name and reason.

    Raises ExperimentError, with `none_left`, if there is no such item.
    """
    kept: list[T] = []
    left_out: dict[str, str] = {}
    for id, item in named:
        if limit is not None and len(kept) == limit:
            break
        if (reason := obstacle(item)) is not None:
            left_out[id] = reason
        else:
            kept.append(item)
    report_left_out(task, left_out, len(kept) + len(left_out))
    if not kept:
        raise ExperimentError(none_left)
    return kept


def report_left_out(task: str, left_out: Mapping[str, str], among: int) -> None:
    """Say on stderr which problems were left out and why."""
    if left_out:
        shown = " ".join(f"{id}: {' '.join(reason.split())[:200]}" for id, reason in list(left_out.items())[:5])
        more = f" And {len(left_out) - 5} more." if len(left_out) > 5 else ""
        print(f"{task}: {len(left_out)} of the first {among} problems are left out. {shown}{more}", file=sys.stderr)


def unique(ids: Iterable[str]) -> list[str]:
    """The same names; one that was there before gets a number."""
    seen: dict[str, int] = {}
    result = []
    for id in ids:
        seen[id] = seen.get(id, 0) + 1
        result.append(id if seen[id] == 1 else f"{id}#{seen[id]}")
    return result


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _about(word: str, path: Path, root: Path) -> bool:
    """Whether a word is one of those in a path: `test` of `Github_easy/test-00000-of-00001.parquet`."""
    *folders, name = path.relative_to(root).parts
    return word in folders or word in re.split(r"[-.]", name) or name.removesuffix(path.suffix) == word


def _parquet(path: Path) -> list[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ExperimentError(
            f"{path.name} is a Parquet file, and the package pyarrow, which reads them, is not installed: pip install pyarrow."
        ) from error
    try:
        rows: list[Row] = pyarrow.parquet.read_table(path).to_pylist()
        return rows
    except (OSError, pyarrow.ArrowException) as error:
        raise ExperimentError(f"{path} cannot be read as a Parquet file ({error}).") from error
