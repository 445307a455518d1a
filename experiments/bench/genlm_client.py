"""The other end of :mod:`experiments.bench.genlm_worker`: a process under another Python that answers line by line."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.errors import ExperimentError

WORKER = Path(__file__).with_name("genlm_worker.py")
START_SECONDS = 600.0
"""For loading a model."""


class Worker:
    """A worker process, started on first use and again after it died.

    Args:
        command: what starts it.
        setting: its first line.
        limit: seconds for one answer; a worker that takes longer is killed.
    """

    def __init__(self, command: Sequence[str], setting: Mapping[str, Any], limit: float = 1800.0):
        self._command, self._setting, self._limit = list(command), dict(setting), limit
        self._process: subprocess.Popen[str] | None = None

    @staticmethod
    def of_python(python: Path, setting: Mapping[str, Any], limit: float = 1800.0) -> Worker:
        """A worker for genlm-control.

        Raises:
            ExperimentError: there is no such Python.
        """
        if not python.exists():
            raise ExperimentError(
                f"There is no {python}: genlm-control has a virtual environment of its own. Make it with `make bench-genlm`, "
                "or give its Python with --python."
            )
        # -P: the folder of the script must not be searched for modules, since ours are named like others
        return Worker([os.fspath(python), "-P", os.fspath(WORKER)], setting, limit)

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one job; ``{"error": ...}`` where the worker failed, died or took too long.

        Raises:
            ExperimentError: the worker cannot be started.
        """
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            ready = self._exchange(self._setting, START_SECONDS)
            if "error" in ready:
                self.close()
                raise ExperimentError(f"The worker could not start: {ready['error']}")
        return self._exchange(job, self._limit)

    def _exchange(self, line: Mapping[str, Any], limit: float) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(limit, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            timer.cancel()
        if answer:
            return dict(json.loads(answer))
        self.close()
        return {"error": f"the worker ended with status {process.returncode} (it may take {limit:g} s for an answer)"}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
