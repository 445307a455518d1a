"""What made the records: the configuration and environment that lie beside them. All of it may be missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.analysis.labels import in_order
from experiments.errors import ExperimentError
from experiments.store import CONFIG, DONE, ENVIRONMENT, read_mapping, run_folders

_REVISIONS = {"model": "model", "task": "data"}  # where the environment holds them
# Not part of an environment: what was asked for, and later processes of the same run.
_NOT_ENVIRONMENT = ("command", "seed", "resumed_with")


@dataclass(frozen=True)
class Run:
    """One run folder: its configuration, its environment and whether it ran to its end."""

    run_id: str
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    done: bool

    def name(self, group: str) -> str | None:
        """The name chosen for a config group ("model", "task", "method"), however the group is written."""
        chosen = self.config.get(group)
        if isinstance(chosen, Mapping):
            return str(chosen["name"]) if chosen.get("name") else None
        return None if chosen is None else str(chosen)

    @property
    def resumed_elsewhere(self) -> bool:
        """Whether a later process of this run had another environment than the first."""
        later = self.environment.get("resumed_with") or []
        return any(_surroundings(e) != _surroundings(self.environment) for e in later)

    def options(self, group: str) -> dict[str, Any]:
        """The options of a config group but for its name."""
        chosen = self.config.get(group)
        if not isinstance(chosen, Mapping):
            return {}
        return {str(k): v for k, v in chosen.items() if k != "name" and v is not None}


def read_runs(folder: Path) -> list[Run]:
    """Every run under `folder` that holds records, in a fixed order.

    Raises ExperimentError, naming the file, when a configuration or environment is there but cannot be read.
    """
    return [
        Run(
            run_id=where.name,
            config=read_mapping(where / CONFIG),
            environment=read_mapping(where / ENVIRONMENT),
            done=(where / DONE).exists(),
        )
        for where in run_folders(folder)
    ]


def models(runs: Iterable[Run]) -> list[str]:
    """The models that the runs used, each once: "smollm2 (smollm2-135m, float32)"."""
    found: list[str] = []
    for run in runs:
        name = run.name("model")
        if name:
            options = run.options("model")
            facts = [str(options[k]) for k in ("id", "dtype") if k in options]
            facts += [f"revision {options['revision']}"] if "revision" in options else []
            _add(found, f"{name} ({', '.join(facts)})" if facts else name)
    return sorted(found)


def task_settings(runs: Iterable[Run]) -> list[str]:
    """The options of each task: "dates: max_tokens = 16"."""
    found: list[str] = []
    for run in runs:
        options = ", ".join(f"{k} = {v}" for k, v in sorted(run.options("task").items()))
        if run.name("task") and options:
            _add(found, f"{run.name('task')}: {options}")
    return sorted(found)


def refuse_mixture(runs: Iterable[Run], folder: Path) -> None:
    """Refuse runs whose difference would be read as one between methods.

    Raises ExperimentError where runs differ in what a model of one name is, but for the device it ran on, or in the options
    of a task, or in the revision of either. Models of different names are compared side by side. Runs without a
    configuration are not compared, nor what is not known.
    """
    seen: dict[str, tuple[Run, dict[str, Any]]] = {}
    for run in runs:
        for group, what in (("model", f"the model {run.name('model')}"), ("task", f"the task {run.name('task')}")):
            if not run.name(group):
                continue
            settings = {"name": run.name(group)} | run.options(group)
            settings.pop("device", None)
            first, known = seen.setdefault(what, (run, settings))
            names = sorted(n for n in known.keys() | settings.keys() if known.get(n) != settings.get(n))
            revisions = [str(r.environment.get(_REVISIONS[group], "unknown")) for r in (first, run)]
            if not names and "unknown" not in revisions and revisions[0] != revisions[1]:
                raise ExperimentError(
                    f"The runs in {folder} were made with two revisions of {what} ({' and '.join(revisions)}; runs "
                    f"{first.run_id} and {run.run_id}), and that is no difference between methods. Run the older of them "
                    "again, or move them out of the folder."
                )
            if names:
                differences = "; ".join(f"{group}.{n} {known.get(n)} and {settings.get(n)}" for n in names)
                raise ExperimentError(
                    f"The runs in {folder} differ in {what} ({differences}; runs {first.run_id} and {run.run_id}), and "
                    f"that is no difference between methods. Give each a name of its own ({group}.name=<name>) or a study of its own (study.name=<name>), or move "
                    "the runs that do not belong here out of the folder."
                )


def method_options(runs: Iterable[Run]) -> dict[str, list[str]]:
    """The options each method ran with; more than one entry where runs of a method differ."""
    found: dict[str, list[str]] = {}
    for run in runs:
        method = run.name("method")
        if method:
            of_all = {f"budget.{k}": v for k, v in run.options("budget").items()}
            options = ", ".join(f"{k} = {v}" for k, v in sorted((run.options("method") | of_all).items()))
            _add(found.setdefault(method, []), options or "no options")
    return {method: found[method] for method in in_order(found)}


def sharpened(runs: Iterable[Run]) -> set[str]:
    """The methods that ran on a power of the model's distribution, so that their evidence is another's."""
    return {
        method for run in runs if (method := run.name("method")) and run.options("method").get("target_power", 1) != 1
    }


def environment_lines(runs: Iterable[Run]) -> list[str]:
    """The distinct environments, each as one line of what was recorded."""
    lines: list[str] = []
    for run in runs:
        flat = _flat(_surroundings(run.environment))
        if flat:
            _add(lines, "; ".join(f"{k} {v}" for k, v in flat.items()))
    return lines


def _surroundings(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in environment.items() if k not in _NOT_ENVIRONMENT}


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in sorted(mapping.items()):
        if isinstance(value, Mapping):
            flat |= _flat(value, prefix if name in ("versions", "packages") else f"{prefix}{name}.")
        elif value is not None:
            flat[f"{prefix}{name}"] = str(value)
    return flat


def _add(items: list[str], item: str) -> None:
    if item not in items:
        items.append(item)
