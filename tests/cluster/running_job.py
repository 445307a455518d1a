"""Stop a SLURM job in the middle of a run: `python tests/cluster/running_job.py STUDY LEAST MOST [NOT_THIS_JOB ...]`.

Once it has written at least LEAST and at most MOST records its process is halted (SIGSTOP), so that it stays in the
middle; its process id, SLURM's two names of the job (number, array_task) and its file of records are printed. Looks only at processes that have records under
STUDY open, and at what SLURM put into their environment.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 600.0  # seconds; jobs take long to start on a busy machine


def jobs(study: Path) -> Iterator[tuple[int, str, str, Path]]:
    """Process id, both names and file of records of each job that writes under `study`."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = dict(
                entry.split("=", 1) for entry in (process / "environ").read_text().split("\0") if "=" in entry
            )
            opened = [link.resolve() for link in (process / "fd").iterdir()]
        except OSError:  # it has ended, or belongs to someone else
            continue
        for path in opened:
            if path.match("records*.jsonl") and study in path.parents and "SLURM_ARRAY_TASK_ID" in environment:
                job = f"{environment['SLURM_ARRAY_JOB_ID']}_{environment['SLURM_ARRAY_TASK_ID']}"
                yield int(process.name), environment["SLURM_JOB_ID"], job, path


def main(study: str, least: str, most: str, *others: str) -> int:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for process, number, job, path in jobs(Path(study).resolve()):
            if job in others or not int(least) <= path.read_bytes().count(b"\n") <= int(most):
                continue
            os.kill(process, signal.SIGSTOP)
            if path.read_bytes().count(b"\n") <= int(most):
                print(process, number, job, path)
                return 0
            os.kill(process, signal.SIGCONT)  # it was faster
        time.sleep(0.2)
    print(f"No job was seen with {least} to {most} records within {PATIENCE:.0f} seconds.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
