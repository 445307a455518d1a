"""`gad`: the problems of grammar-aligned decoding (Park et al. 2024), each a prompt and a grammar: SyGuS problems and constituency trees.

They are read from the hub (`task.source=ebmoon/GAD-dataset`, with the splits SLIA, BV4 and CP), from a local file with the columns
id, prompt and grammar, or from a local folder that holds a folder with `prompt.txt` and `grammar.ebnf` for each problem. Without a
source there are three of our own making. That benchmark asks how close a method comes to the model's own distribution, which
`log_prob` and the distances show, and has no score; here a SyGuS answer is right if it meets the constraints that its prompt states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from experiments.errors import ExperimentError
from experiments.tasks.base import Instance, Task
from experiments.tasks.problem_files import (
    TABLES,
    Row,
    Source,
    digest,
    first_usable,
    read_file,
    read_text,
    refusal,
    unique,
)
from experiments.tasks.sets import in_turn, spread
from experiments.tasks.sygus import Problem, last_problem
from smc import GBNF

OWN = Path(__file__).parent / "data" / "gad"

_COLUMNS = {
    "id": ("id", "unique_id", "name"),
    "prompt": ("prompt",),
    "grammar": ("grammar",),
    "reference": ("reference", "solution", "answer"),
}
_SHOWN = 600  # characters of a long prompt's end that a report shows


@dataclass(frozen=True)
class GadTask(Task):
    """Continuations of a prompt under its own grammar.

    The grammars are written in the dialect of transformers-cfg, which is llama.cpp's GBNF. Those of constituency trees name rules
    that nobody defines: alternatives that need one can never be finished and are dropped, as the records say. A problem whose
    grammar cannot be enforced is left out, and said on stderr with the place.
    """

    max_tokens: int = 96
    source: str | None = None  # a data set of the hub, or a local file or folder; null for three of our own
    split: str | None = None  # only files with this word in their path: SLIA, BV4 or CP of the hub's data set
    data_revision: str | None = None  # a commit, tag or branch of the hub's data set
    name: str = "gad"
    exact: bool = False

    def __post_init__(self) -> None:
        if self.source is None and (self.split or self.data_revision):
            raise ExperimentError(
                "task.split and task.data_revision choose from a task.source, which is not given: the three problems that come with "
                "the task gad have neither."
            )

    @property
    def revision(self) -> str:
        """The commit of the hub's data set, or a digest of the files."""
        return problems(self)[1]

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` problems whose grammar can be enforced, the files (of tables, one a split) in turn.

        Raises ExperimentError if the source cannot be read, or no problem of it can be used.
        """
        return list(usable(self, limit))

    def score(self, instance: Instance, text: str) -> float:
        """1 for a right answer: one that meets the constraints of a SyGuS prompt, or else is the reference. Else 0.

        Where a problem states neither, nothing can be right; the measure "judged" is 0 there.
        """
        if (problem := _stated(instance)) is not None:
            return float(all(problem.satisfied(text)))
        return float(instance.reference is not None and text.strip() == instance.reference.strip())

    def measures(self, instance: Instance, text: str) -> Mapping[str, float]:
        """judged: whether there is anything to score by. For SyGuS also constraints: the share of them that the answer meets."""
        problem = _stated(instance)
        if problem is None:
            return {"judged": float(instance.reference is not None)}
        met = problem.satisfied(text)
        return {"judged": 1.0, "constraints": sum(met) / len(met)}


def _stated(instance: Instance) -> Problem | None:
    return _problem(str(instance.prompt))


_problem = lru_cache(maxsize=1024)(last_problem)


@lru_cache
def usable(task: GadTask, limit: int | None) -> tuple[Instance, ...]:
    """The first `limit` problems with a grammar that can be enforced; those in between that have none are said on stderr."""
    rows = first_usable(
        task.name,
        ((row["id"], row) for row in problems(task)[0]),
        lambda row: refusal(lambda: _constraint(row)),
        limit,
        f"No problem of task.source={task.source} (task {task.name}) has a grammar that can be enforced: the reasons are above. "
        "The dialect is llama.cpp's GBNF: rules `name ::= ...`, beginning with `root`.",
    )
    return tuple(map(_instance, rows))


def _instance(row: Row) -> Instance:
    prompt = row["prompt"]
    return Instance(
        id=row["id"],
        prompt=prompt,
        constraint=_constraint(row),
        display=prompt if len(prompt) <= _SHOWN else f"... {prompt[-_SHOWN:]}",
        reference=row["reference"],
    )


def _constraint(row: Row) -> GBNF:
    """The problem's grammar; unchecked where that drops what needs an undefined rule."""
    checked = GBNF(row["grammar"])
    return GBNF(row["grammar"], check=False) if checked.undefined else checked


@lru_cache
def problems(task: GadTask) -> tuple[tuple[Row, ...], str]:
    """Every problem, with the keys id, prompt, grammar and reference (or None); and the revision of the data."""
    source = Source("gad", task.source or str(OWN), split=task.split, revision=task.data_revision)
    files, commit = source.files((*TABLES, ".ebnf"))
    read = [path for file in files for path in ([file] if file.suffix in TABLES else _of_folder(file.parent))]
    rows = in_turn([spread(list(_rows(file))) for file in files])  # neighbours in a file are often alike
    if not rows:
        raise ExperimentError(f"task.source={task.source} holds no problem: its files are empty (task gad).")
    ids = unique(row["id"] for row in rows)
    return tuple(row | {"id": id} for row, id in zip(rows, ids, strict=True)), commit or digest(read)


def _of_folder(folder: Path) -> list[Path]:
    return [folder / name for name in ("prompt.txt", "grammar.ebnf", "reference.txt") if (folder / name).exists()]


def _rows(file: Path) -> Iterator[Row]:
    if file.suffix in TABLES:
        for number, row in enumerate(read_file(file), 1):
            yield _checked(row, f"row {number} of {file}")
    else:
        folder = file.parent
        reference = folder / "reference.txt"
        yield {
            "id": folder.name,
            "prompt": read_text(folder / "prompt.txt"),
            "grammar": read_text(file),
            "reference": read_text(reference) if reference.exists() else None,
        }


def _checked(row: Row, place: str) -> Row:
    """A row by our own names of the columns."""
    found = {ours: next((row[name] for name in names if row.get(name)), None) for ours, names in _COLUMNS.items()}
    for column in ("id", "prompt", "grammar"):
        if not isinstance(found[column], str):
            raise ExperimentError(
                f"There is no text in the column {column} of {place}; it has the columns {', '.join(map(str, row)) or 'none'}. A problem "
                "of the task gad needs id, prompt and grammar, and may have a reference."
            )
    return found
