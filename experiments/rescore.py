"""Judge the records of a study anew, without running a model: `python -m experiments.rescore results/STUDY`.

After a scorer, a measure or the names of places have changed. Texts, weights and costs stay as they are; what the task says of
them is replaced. A file is replaced whole or not at all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.errors import BusyError, ExperimentError
from experiments.evaluate import judged
from experiments.provenance import Run, read_runs
from experiments.store import Record, lock, parse_records, plain, record_files, run_folders, write_atomically
from experiments.tasks import Instance, Task, build_task


def rescore(folder: Path) -> list[str]:
    """Judge every record in and below `folder`; a line a run on what changed.

    Raises:
        ExperimentError: no records, a run without its settings, an instance that the task no longer has.
        OSError: a file cannot be read or written.
    """
    folders = run_folders(folder) if folder.is_dir() else []
    if not folders:
        raise ExperimentError(f"{folder} holds no records: give the folder of a study, for example results/STUDY.")
    return [_rescore_run(where, run) for where, run in zip(folders, read_runs(folder), strict=True)]


def _rescore_run(folder: Path, run: Run) -> str:
    task = _task(run, folder)
    instances = {instance.id: instance for instance in task.instances()}
    changed = total = 0
    for path in record_files(folder):
        with open(path, "r+b") as stream:  # for writing, since some file systems lock no other
            if not lock(stream, path):
                raise BusyError(f"Another process is writing {path}: let it finish first.")
            before = parse_records(path, stream.read())
            after = [_judged(record, task, instances, path) for record in before]
            write_atomically(path, b"".join(json.dumps(r, allow_nan=False).encode() + b"\n" for r in after))
        total += len(after)
        changed += sum(old != new for old, new in zip(before, after, strict=True))
    then, now = run.environment.get("data"), task.revision
    data = f"; the data were {then} then and are {now} now" if then not in (None, now) else ""
    return f"{run.name('task')} {run.name('method')} seed {run.config.get('seed')}: {changed} of {total} records changed{data}"


def _task(run: Run, folder: Path) -> Task:
    settings = run.config.get("task")
    if not isinstance(settings, Mapping):
        raise ExperimentError(f"{folder} has no config.yaml that names its task, so nothing can judge its records.")
    options = {key: value for key, value in settings.items() if key != "kind"}
    return build_task(settings.get("kind") or settings["name"], options)


def _judged(record: Record, task: Task, instances: Mapping[str, Instance], path: Path) -> Record:
    if record["instance"] not in instances:
        raise ExperimentError(
            f"{path} has a record of the instance {record['instance']}, which the task {record['task']} does not have: its "
            "data have changed. Run the study again under another name."
        )
    found: Any = plain(judged(record, task, instances[record["instance"]]))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit code: 0, or 2 with one paragraph on stderr when the input is bad."""
    parser = argparse.ArgumentParser(prog="python -m experiments.rescore", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of a study or of one run")
    options = parser.parse_args(arguments)
    try:
        lines = rescore(options.folder)
    except ExperimentError as error:
        print(f"experiments.rescore: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"experiments.rescore: cannot read or write {error.filename or options.folder}: {error.strerror}. Check that "
            "the folder exists and that you may write to it.",
            file=sys.stderr,
        )
        return 2
    print("\n".join(lines))
    print(f"Make the report again: python -m experiments.compare {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
