"""The tasks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.errors import ExperimentError
from experiments.tasks.base import Instance, Task
from experiments.tasks.bfcl import BfclTask
from experiments.tasks.binary import BinaryTask
from experiments.tasks.dates import DatesTask
from experiments.tasks.enums import EnumsTask
from experiments.tasks.extract import ExtractTask
from experiments.tasks.gad import GadTask
from experiments.tasks.jsonschemabench import JsonSchemaBenchTask
from experiments.tasks.molecules import MoleculesTask
from experiments.tasks.spider import SpiderTask
from experiments.tasks.sql import SqlTask
from experiments.tasks.tools import ToolsTask

TASKS: dict[str, Callable[..., Task]] = {
    "bfcl": BfclTask,
    "binary": BinaryTask,
    "dates": DatesTask,
    "enums": EnumsTask,
    "extract": ExtractTask,
    "gad": GadTask,
    "jsonschemabench": JsonSchemaBenchTask,
    "molecules": MoleculesTask,
    "spider": SpiderTask,
    "sql": SqlTask,
    "tools": ToolsTask,
}


def build_task(name: str, options: Mapping[str, Any] | None = None) -> Task:
    """The task called `name`, made with `options` (the fields of its config group).

    Raises ExperimentError for a name that is not in `TASKS`.
    """
    if name not in TASKS:
        raise ExperimentError(f"There is no task {name!r}: choose one of {', '.join(sorted(TASKS))}.")
    return TASKS[name](**(options or {}))


__all__ = ["TASKS", "Instance", "Task", "build_task"]
