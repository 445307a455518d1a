"""What made the records: the configuration and environment that lie beside them. All of it may be missing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from experiments.errors import ExperimentError
from experiments.labels import in_order

_COMMAND = "python -m experiments.run"
_NAMES = ("name", "id", "hub_id", "path")
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
            return next((str(chosen[k]) for k in _NAMES if chosen.get(k)), None)
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
            config=_mapping(where / "config.yaml", yaml.safe_load),
            environment=_mapping(where / "environment.json", json.loads),
            done=(where / "DONE").exists(),
        )
        for where in sorted(path.parent for path in folder.rglob("records.jsonl"))
    ]


def _mapping(path: Path, parse: Any) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    try:
        found = parse(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ExperimentError(
            f"{path} cannot be read ({reason}). Restore it or remove it; the records do not need it."
        ) from error
    return found if isinstance(found, Mapping) else {}


def models(runs: Iterable[Run]) -> list[str]:
    """The names of the models that the runs used, each once."""
    return sorted({name for run in runs if (name := run.name("model"))})


def commands(runs: Iterable[Run]) -> list[str]:
    """Commands that make these runs again, one for all methods and seeds that share the rest of what was
    asked for.

    The place of the results is left out: it is a matter of the machine.
    """
    found: dict[tuple[str, ...], tuple[list[str], list[str]]] = {}
    for run in runs:
        words = _asked(run)
        shared = tuple(w for w in words if not w.startswith(("method=", "seed=", "results=")))
        methods, seeds = found.setdefault(shared, ([], []))
        for items, name in ((methods, "method="), (seeds, "seed=")):
            for value in (w.removeprefix(name) for w in words if w.startswith(name)):
                _add(items, value)
    return [
        " ".join([_COMMAND, *(["-m"] if len(methods) > 1 or len(seeds) > 1 else []), *shared,
                  *([f"method={','.join(in_order(methods))}"] if methods else []),
                  *([f"seed={','.join(sorted(seeds, key=_numeric))}"] if seeds else [])])
        for shared, (methods, seeds) in sorted(found.items())
        if shared or methods
    ]  # fmt: skip


def _asked(run: Run) -> list[str]:
    """The words of the run's command as it was recorded, else what its configuration amounts to."""
    recorded = str(run.environment.get("command", ""))
    if recorded.startswith(_COMMAND):
        return recorded.removeprefix(_COMMAND).split()
    groups = [(g, run.name(g)) for g in ("task", "model", "method")]
    plain = [(k, run.config.get(k)) for k in ("limit", "study", "seed")]
    return [f"{name}={value}" for name, value in [*groups, *plain] if value is not None]


def method_options(runs: Iterable[Run]) -> dict[str, list[str]]:
    """The options each method ran with; more than one entry where runs of a method differ."""
    found: dict[str, list[str]] = {}
    for run in runs:
        method = run.name("method")
        if method:
            options = ", ".join(f"{k} = {v}" for k, v in sorted(run.options("method").items()))
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


def _numeric(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text
