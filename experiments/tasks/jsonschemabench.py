"""`jsonschemabench`: documents under schemas from the wild (Geng et al. 2025), spread evenly over their lengths.

Schemas are read from the hub (`task.source=epfl-dlab/JSONSchemaBench`, by default its subset Github_easy and split test), or from a
local file or folder: tables with the columns json_schema and unique_id, or one JSON file for each schema, as in that benchmark's
repository. Without a source there are twelve of our own making, each with a request in words.

A mask makes nearly every finished document valid, so validity says little of schemas alone. Where a request comes with the schema, as in
our own, an answer is right if it is valid and mentions what was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from experiments.errors import ExperimentError
from experiments.tasks.base import Instance, Task
from experiments.tasks.problem_files import (
    TABLES,
    Source,
    digest,
    first_usable,
    parse,
    read_file,
    read_text,
    refusal,
    unique,
)
from experiments.tasks.sets import spread
from smc import JSONSchema
from smc.vocabulary import to_bytes

OWN = Path(__file__).parent / "data" / "jsonschemabench" / "sample.jsonl"
SUBSET, SPLIT = "Github_easy", "test"  # of the hub's data set, where the options do not say

SYSTEM = "You write JSON documents. Answer with one compact JSON document that fits the schema and nothing else."

# A turn of our own making that shows the form.
_SHOWN = (
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name", "age"],
    },
    "Ada is 36 years old.",
    '{"name":"Ada","age":36}',
)


@dataclass(frozen=True)
class Entry:
    """A schema, and perhaps a request in words with the values that a right answer mentions."""

    id: str
    schema: Any
    request: str | None = None
    mentions: tuple[Any, ...] = ()

    @property
    def text(self) -> str:
        """The schema as compact JSON."""
        return json.dumps(self.schema, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class JsonSchemaBenchTask(Task):
    """One document for each schema.

    Schemas that are longer than `max_chars` as compact JSON, or that cannot be enforced, are left out, and said on stderr
    with the reason.
    """

    max_tokens: int = 128
    source: str | None = None  # a data set of the hub, or a local file or folder; null for twelve of our own
    subset: str | None = None  # only files with this word in their path; of the hub's data set Github_easy if null
    split: str | None = None  # the same; of the hub's data set test if null
    data_revision: str | None = None  # a commit, tag or branch of the hub's data set
    max_chars: int = 4000  # leave longer schemas out
    name: str = "jsonschemabench"
    exact: bool = False

    def __post_init__(self) -> None:
        if self.source is None and (self.subset or self.split or self.data_revision):
            raise ExperimentError(
                "task.subset, task.split and task.data_revision choose from a task.source, which is not given: the schemas that come "
                "with the task jsonschemabench have none."
            )
        if self.max_chars < 2:
            raise ExperimentError(f"task.max_chars={self.max_chars} leaves no schema: give 2 or more.")

    @property
    def revision(self) -> str:
        """The commit of the hub's data set, or a digest of the files."""
        return entries(self)[1]

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` schemas that can be enforced, spread evenly over those that are short enough, from short to long.

        Raises ExperimentError if the source cannot be read, or no schema of it can be used.
        """
        return list(usable(self, limit))

    def score(self, instance: Instance, text: str) -> float:
        """1 if the document is valid and mentions every value that the request asks for, else 0.

        Valid means what a real validator of the schema's own draft says, formats included. Without a request it is validity alone.
        """
        return float(_is_valid(instance, text) and self._mentioned(instance, text) == 1.0)

    def measures(self, instance: Instance, text: str) -> Mapping[str, float]:
        """valid; empty (an object or array without members, valid under many schemas); mentioned, the share of what was asked for."""
        measures = {"valid": float(_is_valid(instance, text)), "empty": float(text.strip() in ("{}", "[]"))}
        asked = self._entry(instance).mentions
        return measures | ({"mentioned": self._mentioned(instance, text)} if asked else {})

    def _mentioned(self, instance: Instance, text: str) -> float:
        asked = self._entry(instance).mentions
        try:
            said = list(_leaves(json.loads(text)))
        except (ValueError, RecursionError):
            return 0.0
        return sum(any(_mentions(value, one) for value in said) for one in asked) / len(asked) if asked else 1.0

    def _entry(self, instance: Instance) -> Entry:
        return entries(self)[0][instance.id]


def _is_valid(instance: Instance, text: str) -> bool:
    return bool(instance.constraint.is_valid(to_bytes(text)))


def prompt(entry: Entry) -> list[dict[str, str]]:
    """Chat messages: what to do, one example, then the schema."""
    schema, request, answer = _SHOWN
    shown = Entry("", schema, request if entry.request else None)
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": _asked(shown)},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": _asked(entry)},
    ]


def _asked(entry: Entry) -> str:
    return f"Schema: {entry.text}" + (f"\nDocument: {entry.request}" if entry.request else "")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for member in value.values():
            yield from _leaves(member)
    elif isinstance(value, list):
        for member in value:
            yield from _leaves(member)
    else:
        yield value


def _mentions(value: Any, asked: Any) -> bool:
    """A text is mentioned by one that holds it, whatever the case; anything else by the same value. True is not 1."""
    if isinstance(asked, str):
        return isinstance(value, str) and asked.casefold() in value.casefold()
    return bool(value == asked) and isinstance(value, bool) == isinstance(asked, bool)


@lru_cache
def usable(task: JsonSchemaBenchTask, limit: int | None) -> tuple[Instance, ...]:
    """The first `limit` schemas that can be enforced; those in between that cannot be are said on stderr."""
    found = first_usable(
        task.name,
        ((entry.id, entry) for entry in entries(task)[0].values()),
        lambda entry: _obstacle(task, entry),
        limit,
        f"No schema of task.source={task.source} (task {task.name}) can be used: the reasons are above. Check the source, or raise "
        f"task.max_chars={task.max_chars}.",
    )
    return tuple(map(_instance, found))


def _obstacle(task: JsonSchemaBenchTask, entry: Entry) -> str | None:
    if len(entry.text) > task.max_chars:
        return f"it has {len(entry.text)} characters, more than task.max_chars={task.max_chars}."
    return refusal(lambda: _constraint(entry))


def _constraint(entry: Entry) -> JSONSchema:
    return JSONSchema(entry.schema, whitespace="compact")


def _instance(entry: Entry) -> Instance:
    return Instance(
        id=entry.id,
        prompt=prompt(entry),
        constraint=_constraint(entry),
        display=entry.request or entry.text,
        reference=None,
    )


@lru_cache
def entries(task: JsonSchemaBenchTask) -> tuple[dict[str, Entry], str]:
    """Every schema by its id; and the revision of the data.

    The order spreads evenly over the lengths (see `sets.spread`), so that a small `limit` is not a choice of the easiest. Schemas
    longer than `max_chars` come last.
    """
    source = Source("jsonschemabench", task.source or str(OWN), task.subset, task.split, task.data_revision)
    if not source.is_local:
        source = Source("jsonschemabench", source.name, task.subset or SUBSET, task.split or SPLIT, task.data_revision)
    files, commit = source.files((*TABLES, ".json"))
    read = sorted((entry for file in files for entry in _read(file)), key=lambda entry: len(entry.text))
    if not read:
        raise ExperimentError(f"task.source={task.source} holds no schema: its files are empty (task jsonschemabench).")
    short = sum(len(entry.text) <= task.max_chars for entry in read)
    read = [*spread(read[:short]), *read[short:]]
    ids = unique(entry.id for entry in read)
    return {
        id: Entry(id, entry.schema, entry.request, entry.mentions) for id, entry in zip(ids, read, strict=True)
    }, commit or digest(files)


def _read(file: Path) -> Iterator[Entry]:
    if file.suffix not in TABLES:
        yield Entry(file.stem, parse(read_text(file), str(file)))
        return
    for number, row in enumerate(read_file(file), 1):
        place = f"row {number} of {file}"
        if row.get("json_schema") is None:
            raise ExperimentError(
                f"There is no json_schema in {place}; it has the columns {', '.join(map(str, row)) or 'none'}. A table of the task "
                "jsonschemabench needs json_schema, and may have unique_id."
            )
        schema = row["json_schema"]  # the hub's tables hold it as text
        yield Entry(
            id=str(row.get("unique_id") or f"{file.stem}_{number}"),
            schema=parse(schema, f"json_schema of {place}") if isinstance(schema, str) else schema,
            request=row.get("prompt"),
            mentions=tuple(row.get("mentions") or ()),
        )
