"""The commands that make a study's runs again, from the settings that each run wrote down.

A run's `config.yaml` says what it was, however it was asked for. Here each group of settings becomes the choice in
`configs/` that is nearest to it and the options in which it differs.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

import yaml

from experiments.analysis.labels import in_order
from experiments.choices import CONFIGS
from experiments.provenance import Run
from experiments.schemas import schemas

COMMAND = ("python", "-m", "experiments.run")
# The option that says which code runs: a choice of another kind cannot be turned into this one.
_KIND = {"task": "name", "model": "source", "method": "algorithm"}


def commands(runs: Iterable[Run]) -> list[str]:
    """One command for all methods and seeds that can share it; together they make exactly these runs.

    Methods share a command when they ran with the same seeds and the same other settings, and have no options of
    their own. Where results go is left out: it is a matter of the machine.
    """
    seeds: dict[tuple[tuple[str, ...], tuple[str, ...]], set[int]] = defaultdict(set)
    for run in runs:
        if not run.config.get("method"):
            continue
        shared = (*_group(run, "task"), *_group(run, "model"), *_plain(run, "limit"), *_budget(run), *_study(run))
        seeds[shared, _group(run, "method")].add(int(run.config.get("seed") or 0))
    jobs: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]], list[str]] = defaultdict(list)
    for (shared, (method, *options)), used in seeds.items():
        jobs[shared, tuple(options), tuple(sorted(used))].append(method.removeprefix("method="))
    lines = []
    for (shared, own, used_seeds), methods in sorted(jobs.items()):
        # Options such as method.n_particles=8 could mean something else to another method.
        for together in [[m] for m in in_order(methods)] if own else [in_order(methods)]:
            several = ["-m"] if len(together) > 1 or len(used_seeds) > 1 else []
            chosen = [f"method={','.join(together)}", *own, f"seed={','.join(map(str, used_seeds))}"]
            lines.append(shlex.join([*COMMAND, *several, *shared, *chosen]))
    return lines


def _plain(run: Run, name: str) -> tuple[str, ...]:
    value = run.config.get(name)
    return () if value is None else (f"{name}={_override(value)}",)


def _budget(run: Run) -> tuple[str, ...]:
    budget = run.config.get("budget") or {}
    return tuple(f"budget.{name}={_override(value)}" for name, value in sorted(budget.items()) if value is not None)


def _study(run: Run) -> tuple[str, ...]:
    return tuple(text.replace("study=", "study.name=", 1) for text in _plain(run, "study"))


def _group(run: Run, group: str) -> tuple[str, ...]:
    """A group's settings as overrides: the choice first, then each option that differs from it."""
    settings = run.config.get(group)
    if not isinstance(settings, Mapping):
        return () if settings is None else (f"{group}={settings}",)
    kind = _KIND[group] if _KIND[group] in settings else "name"
    candidates = {name: c for name, c in _choices(group).items() if c.get(kind) == settings.get(kind)}
    if not candidates:  # made by other code than this: its name is all there is to say
        return (f"{group}={settings.get('name')}",)
    differences = {
        name: {key: value for key, value in settings.items() if choice.get(key) != value}
        for name, choice in candidates.items()
    }
    nearest = min(differences, key=lambda name: (len(differences[name]), name))
    return (f"{group}={nearest}", *(f"{group}.{k}={_override(v)}" for k, v in sorted(differences[nearest].items())))


@cache
def _choices(group: str) -> dict[str, dict[str, Any]]:
    """The choices of a group with all their options, as Hydra composes them."""
    return {path.stem: _choice(group, path.stem) for path in sorted((CONFIGS / group).glob("*.yaml"))}


def _choice(group: str, name: str) -> dict[str, Any]:
    """One choice, which extends a dataclass or another choice of its group."""
    written = yaml.safe_load((CONFIGS / group / f"{name}.yaml").read_text(encoding="utf-8"))
    base = str(written.pop("defaults")[0])
    schema = base.removeprefix("/schema/").partition("@")[0]
    return (_choice(group, base) if schema == base else asdict(schemas()[schema]())) | written


def _override(value: Any) -> str:
    """A value as Hydra reads it on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(value)
    if not isinstance(value, str) or re.fullmatch(r"[A-Za-z0-9_./:+-]+", text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
