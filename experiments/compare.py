"""Compare the methods of a study: `python -m experiments.compare FOLDER` writes a report from its files."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from experiments import failures, provenance
from experiments.analysis.labels import DEFAULT_BASELINES, in_order
from experiments.analysis.metrics import Record
from experiments.errors import ExperimentError
from experiments.report import build as report
from experiments.report import rendering
from experiments.report.build import Report
from experiments.store import read_records

FAULT = "report-error.txt"
"""Where the traceback of a report that could not be made is kept."""
_NUMBER = (int, float)
_MAYBE = (int, float, type(None))
# What the report reads of a record and of each of its sequences, and of which type it must be.
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "task": str, "instance": str, "method": str, "seed": int, "prompt": str, "reference": (str, type(None)),
    "status": str, "advice": (str, type(None)), "n_particles": (int, type(None)), "weighted": bool,
    "log_evidence": _MAYBE, "log_censored_mass": _MAYBE, "log_rejected_mass": _MAYBE, "ess": _MAYBE,
    "ess_kind": (str, type(None)), "cost": dict, "scores": dict, "sequences": list,
}  # fmt: skip
_SEQUENCE_FIELDS: dict[str, type | tuple[type, ...]] = {
    "text": str, "weight": _NUMBER, "log_weight": _MAYBE, "log_prob": _MAYBE, "log_q": _MAYBE,
    "log_kept_mass": _MAYBE, "log_potential": _MAYBE, "kept_path": list, "count": int, "correct": _MAYBE,
}  # fmt: skip


def load(folder: Path) -> tuple[list[Record], list[provenance.Run]]:
    """The records and runs under `folder`.

    Raises ExperimentError when there is nothing to read, something cannot be read, or the runs differ in
    more than their methods.
    """
    if not folder.is_dir():
        raise ExperimentError(
            f"There is no folder {folder}. Give the folder that holds the runs of a study, for example results/STUDY."
        )
    records: list[Record] = list(read_records(folder))
    if not records and (failed := failures.failures(folder)):
        raise ExperimentError(
            f"{folder} holds no records, since its runs failed: {' '.join(f'{f.line} ({f.path})' for f in failed)} Run the same "
            "command again to retry them."
        )
    if not records:
        raise ExperimentError(
            f"{folder} holds no records (no records.jsonl with a whole line in it or below it). Run a study "
            "first: python -m experiments.run task=dates method=smc study=STUDY, then give its folder, "
            "results/STUDY."
        )
    for record in records:
        _check(record, folder)
    runs = provenance.read_runs(folder)
    provenance.refuse_mixture(runs, folder)
    return records, runs


def _check(record: Record, folder: Path) -> None:
    """Refuse a record that lacks what the report reads, before anything is computed."""
    faults = _faults(record, _FIELDS)
    if not faults:
        named = [record["cost"].items(), record["scores"].items()]
        faults += [name for items in named for name, value in items if not isinstance(value, _MAYBE)]
        for sequence in record["sequences"]:
            faults += _faults(sequence, _SEQUENCE_FIELDS) if isinstance(sequence, dict) else ["sequences"]
    if faults:
        which = " / ".join(str(record.get(n, "?")) for n in ("task", "instance", "method", "seed"))
        raise ExperimentError(
            f"A record in {folder} ({which}, run {record.get('run_id', '?')}) lacks a usable "
            f"{', '.join(dict.fromkeys(faults))}: it was not written by this version of experiments.run, or "
            "was edited. Move that run's folder away and run it again."
        )


def _faults(mapping: Mapping[str, Any], fields: Mapping[str, type | tuple[type, ...]]) -> list[str]:
    return [name for name, kind in fields.items() if name not in mapping or not isinstance(mapping[name], kind)]


def _baselines(chosen: Sequence[str] | None, records: Sequence[Record]) -> list[str]:
    """The baselines to compare with; those asked for by name must have been run."""
    there = {r["method"] for r in records}
    unknown = [name for name in chosen or () if name not in there]
    if unknown:
        raise ExperimentError(
            f"No record of the method {', '.join(unknown)}, which was asked for as a baseline. The methods "
            f"in this folder are {', '.join(in_order(there))}."
        )
    return list(dict.fromkeys(chosen or DEFAULT_BASELINES))


def make(folder: Path, out: Path | None = None, baselines: Sequence[str] | None = None) -> Path:
    """Write the report of a study from its files alone; returns the path of the HTML page.

    Args:
        out: where it goes; into the study's folder by default. baselines: methods to compare with, `DEFAULT_BASELINES` by
            default.

    Raises:
        ExperimentError: there is nothing to report, something cannot be read, or the report cannot be written.
    """
    return _write(_build(folder, baselines), out or folder)


def _build(folder: Path, baselines: Sequence[str] | None) -> Report:
    try:
        records, runs = load(folder)
    except OSError as error:
        raise ExperimentError(
            f"Cannot read {error.filename or folder}: {error.strerror}. Check that it exists and that you may read it."
        ) from error
    return report.build(records, runs, baselines=_baselines(baselines, records), failures=failures.failures(folder))


def _write(made: Report, out: Path) -> Path:
    try:
        return rendering.write(made, out)
    except OSError as error:
        where = error.filename or out
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            what = "the disk is full. Free some space, or give a folder on another disk with --out"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            what = f"{error.strerror}. Give a folder that you may write to with --out"
        else:
            what = f"{error.strerror}. Give another folder with --out"
        raise ExperimentError(f"The report cannot be written to {where}: {what}. The records are untouched.") from error


# A terminal is narrow: the rest is in the report.
_PRINTED = ("Method", "Valid", "Score", "Best score", "log p", "log Z", "TV", "Forward rows", "Seconds")
_SHORTER = {"Best score": "Best", "Forward rows": "Rows", "Seconds": "Sec."}


def show(made: Report, console: Console) -> None:
    """Print each task's verdict and the columns of its summary that fit a terminal."""
    for section in made.sections:
        headings = section.summary.headings
        printed = [i for i, heading in enumerate(headings) if heading in _PRINTED]
        table = Table(
            title=Text(f"{section.name} ({section.facts})"),
            title_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for i in printed:
            heading = Text(_SHORTER.get(headings[i], headings[i]))
            table.add_column(heading, justify="left" if i == 0 else "right", no_wrap=i > 0, min_width=None if i else 9)
        for row in section.summary.rows:
            table.add_row(*(Text(row[i]) for i in printed))
        console.print(table)
        for note in (n for n in section.footnotes if n.startswith("(… of …")):
            console.print(Text(note))
        console.print(Text(section.headline.sentence))
        console.print()
    if made.failures:
        console.print(Text("Failed, and missing above:"))
        for line in made.failures:
            console.print(Text(f"- {line}"))
        console.print()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit code: 0, or 2 with one paragraph on stderr when the input is bad."""
    parser = argparse.ArgumentParser(prog="python -m experiments.compare", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of a study, searched for records")
    parser.add_argument(
        "--baseline", nargs="+", metavar="METHOD",
        help=f"methods to compare with (default: {' '.join(DEFAULT_BASELINES)})",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, help="where the report goes (default: into the study's folder)")
    options = parser.parse_args(arguments)
    try:
        made = _build(options.folder, options.baseline)
        page = _write(made, options.out or options.folder)
    except ExperimentError as error:
        print(f"experiments.compare: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        path = (options.out or options.folder) / FAULT
        line = f"The report could not be made: {failures.words(error)}"
        written = failures.write(path, line, error)
        print(
            f"experiments.compare: {line} This is a fault of the program; the records are untouched, and a report from before "
            f"stays as it was.{f' The traceback is in {path}.' if written else ''}",
            file=sys.stderr,
        )
        return 2
    ((options.out or options.folder) / FAULT).unlink(missing_ok=True)
    show(made, Console())
    print(f"Report: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
