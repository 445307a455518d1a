"""The tasks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.errors import ExperimentError
from experiments.tasks.base import Instance, Task
from experiments.tasks.bfcl import BfclTask
from experiments.tasks.dates import DatesTask
from experiments.tasks.tools import ToolsTask

TASKS: dict[str, Callable[..., Task]] = {"bfcl": BfclTask, "dates": DatesTask, "tools": ToolsTask}


def build_task(name: str, options: Mapping[str, Any] | None = None) -> Task:
    """The task called `name`, made with `options` (the fields of its config group).

    Raises ExperimentError for a name that is not in `TASKS`.
    """
    if name not in TASKS:
        raise ExperimentError(f"There is no task {name!r}: choose one of {', '.join(sorted(TASKS))}.")
    return TASKS[name](**(options or {}))


__all__ = ["TASKS", "Instance", "Task", "build_task"]
