"""Which real schemas can be enforced, and how well?

python -m experiments.bench.schemas

The schemas of CI services and tools that the package check-jsonschema ships (a development dependency), compiled for the
vocabulary of SmolLM2-135M with at most ten seconds each, from the text to the checker of prefixes: *exact* (every valid value and no other, up to spelling), *repaired*
(the mask is wider and the validator refuses the rest), *narrowed* (some values cannot be produced) or *refused*, with the
reason. Writes results/bench/schemas.json and schemas.md.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import cast

from experiments.bench.common import command, parsed, parser, store_page, timed
from smc import HFModel, JSONSchema
from smc.errors import SMCError
from smc.vocabulary import Vocabulary

SECONDS = 10.0


@dataclass(frozen=True)
class Row:
    """One schema: its size in bytes, what became of it, how many places are wider or narrower, and seconds to compile."""

    name: str
    size: int
    outcome: str
    wider: int
    values_lost: int
    spelling: int
    seconds: float
    reason: str = ""


def sources() -> dict[str, str]:
    """The texts of the schemas by name, the small ones first."""
    folder = files("check_jsonschema") / "builtin_schemas" / "vendor"
    found = {f.name: f.read_text(encoding="utf-8") for f in folder.iterdir() if f.name.endswith(".json")}
    return dict(sorted(found.items(), key=lambda item: len(item[1])))


def measure(name: str, text: str, vocabulary: Vocabulary) -> Row:
    """Make all that a run needs of one schema (the constraint, its normal form, mask and checker), or say why not."""
    began = time.perf_counter()
    try:
        constraint = JSONSchema(text)
        constraint.compile(vocabulary)
    except SMCError as error:
        return Row(name, len(text), "refused", 0, 0, 0, time.perf_counter() - began, str(error))
    seconds = time.perf_counter() - began
    wider = sum(note.effect == "wider" for note in constraint.notes)
    lost = sum(note.effect == "narrower" and note.scope == "values" for note in constraint.notes)
    outcome = "narrowed" if lost else "repaired" if wider else "exact"
    return Row(name, len(text), outcome, wider, lost, len(constraint.notes) - wider - lost, seconds)


def measure_within(limit: float, name: str, text: str, vocabulary: Vocabulary) -> Row:
    """As `measure`, but what takes more than `limit` seconds is stopped and counts as refused."""
    forked = multiprocessing.get_context("fork")  # a fresh interpreter would spend the time on imports
    receiver, sender = forked.Pipe(duplex=False)
    child = forked.Process(target=lambda: sender.send(measure(name, text, vocabulary)), daemon=True)
    child.start()
    sender.close()
    try:
        if receiver.poll(limit):
            return cast(Row, receiver.recv())
        return Row(name, len(text), "refused", 0, 0, 0, limit, f"took more than {limit:g} s")
    finally:
        child.kill()
        child.join()


def table(rows: Iterable[Row]) -> str:
    """The rows in Markdown, outcomes counted below."""
    listed = list(rows)
    lines = ["| schema | KB | outcome | wider | values lost | spelling | seconds |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| {row.name} | {row.size / 1000:.0f} | {row.outcome} | {row.wider} | {row.values_lost} | {row.spelling} "
        f"| {row.seconds:.1f} |"
        for row in listed
    ]
    outcomes = [row.outcome for row in listed]
    counted = ", ".join(f"{outcomes.count(name)} {name}" for name in ("exact", "repaired", "narrowed", "refused"))
    lines += ["", f"{len(listed)} schemas: {counted}.", ""]
    lines += [f"- {row.name}: {' '.join(row.reason.split())}" for row in listed if row.reason]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and store."""
    made = parser(__doc__)
    made.add_argument("--limit", type=int, default=None, help="how many schemas, the small ones first (default: all)")
    options = parsed(made, dict(limit=3))
    vocabulary = HFModel.load("smollm2-135m").vocabulary
    rows = []
    for name, text in list(sources().items())[: options.limit]:
        with timed(name):
            rows.append(measure_within(SECONDS, name, text, vocabulary))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "schemas.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    print(store_page(options.out / "schemas.md", table(rows), options.quick))


if __name__ == "__main__":
    command(main)
