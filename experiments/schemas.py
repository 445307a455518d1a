"""What Hydra checks settings against: the dataclasses of `experiments.config`, and one for each task, made from its class.

A task's options are the fields of its dataclass, said once: with the types and defaults there, and the comments beside them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass
from functools import cache
from typing import Any, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.config import SCHEMAS, TaskConfig
from experiments.tasks import TASKS, Task

_COMMENTED = re.compile(r"^    (\w+): [^#]*(?:# (.*))?$")
_MEANING = "meaning"


def schemas() -> Mapping[str, type]:
    """The dataclasses by the names that files in `configs/` extend, `/schema/<name>`; those of tasks by the names in `TASKS`."""
    made = {name: task_schema(task) for name, task in TASKS.items() if isinstance(task, type)}
    return {**made, **SCHEMAS}


def register_schemas() -> None:
    """Make the dataclasses known to Hydra, in a group of their own so that they are no choices of a user's."""
    OmegaConf.register_new_resolver("label", _label, replace=True)
    for name, schema in schemas().items():
        ConfigStore.instance().store(group="schema", name=name, node=schema)


def _label(*, _parent_: DictConfig) -> str:
    """`${label:}` in the file of a model: what it is called where nobody says."""
    return "model" if OmegaConf.is_missing(_parent_, "id") else label_of(_parent_.id)


def label_of(id: str) -> str:
    """What reports call a model that was given no name: the last part of its id, in the characters that a label can have."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", str(id).rstrip("/").rpartition("/")[2]).lstrip(".-") or "model"


@cache
def task_schema(task: type[Task]) -> type:
    """The dataclass of a task's settings: what every task has, and the fields of its own."""
    if not is_dataclass(task):
        return TaskConfig
    hints, said = get_type_hints(task), meanings(task)
    common = {*get_type_hints(Task), *(f.name for f in fields(TaskConfig))}
    own = [
        (f.name, _supported(hints[f.name], f), _copied(f, said.get(f.name, "")))
        for f in fields(task)
        if f.name not in common
    ]
    return make_dataclass(task.__name__.removesuffix("Task") + "Config", own, bases=(TaskConfig,))


def _copied(original: Field[Any], meaning: str) -> Any:
    """The field with its default; one without is asked for by name (OmegaConf's "???")."""
    factory: Any = original.default_factory
    if factory is not MISSING:
        return field(default_factory=factory, metadata={_MEANING: meaning})
    return field(default="???" if original.default is MISSING else original.default, metadata={_MEANING: meaning})


def _supported(hint: Any, original: Field[Any]) -> Any:
    """The type, if Hydra can check it with this default; else anything goes, and the task itself has to check."""
    try:
        OmegaConf.structured(make_dataclass("Trial", [(original.name, hint, _copied(original, ""))]))
    except (OmegaConfBaseException, ValueError, TypeError):
        return Any
    return hint


@cache
def meanings(schema: type) -> dict[str, str]:
    """What is said of the fields of a dataclass, its bases included: behind each in the source, or in the lines above it."""
    found: dict[str, str] = {}
    for kind in reversed(schema.__mro__[:-1]):
        found |= _comments(kind)
    if is_dataclass(schema):
        found |= {f.name: f.metadata[_MEANING] for f in fields(schema) if f.metadata.get(_MEANING)}
    return found


def _comments(kind: type) -> dict[str, str]:
    try:
        lines = inspect.getsource(kind).splitlines()
    except (OSError, TypeError):  # made while this runs: its fields have brought their words
        return {}
    found: dict[str, str] = {}
    above: list[str] = []
    for line in lines:
        if line.startswith("    # "):
            above.append(line.strip(" #"))
            continue
        if (match := _COMMENTED.match(line)) and (words := " ".join(filter(None, (*above, match[2])))):
            found[match[1]] = words
        above = []
    return found
