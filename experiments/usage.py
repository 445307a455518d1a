"""What `python -m experiments.run --help` prints: the choices and the options, each with what it means.

The words are those beside the things themselves: the first comment of each file in `configs/`, and the comments of the fields
of the settings' dataclasses.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any

import yaml
from omegaconf import MISSING as GIVEN_BY_CHOICE

from experiments import schemas
from experiments.choices import CONFIGS, GROUPS, LAUNCHERS, meanings
from experiments.config import BudgetConfig, Config, StudyConfig, TrackingConfig

_INTRO = """python -m experiments.run [name=value ...] [-m]

Runs a method on a task with a model; with -m, every combination of several values (seed=0,1), and then the report.
python -m experiments.run task=dates method=smc limit=3 study.name=mine
python -m experiments.run -m task=dates method=local_masking,smc seed=0,1 study.name=mine
python -m experiments.run study=compare
"""


def help_text(arguments: Sequence[str] = ()) -> str:
    """All choices, and the options of those that `arguments` choose (or of the defaults)."""
    chosen = _defaults() | {
        name: value for name, _, value in (a.partition("=") for a in arguments) if name in GROUPS and value
    }
    parts = [_INTRO]
    for group in GROUPS:
        parts.append(_block(f"{group}=... (by default {_defaults()[group]})", meanings(group)))
    launchers = {"basic": "One job after the other, in this process."} | meanings(LAUNCHERS)
    parts.append(_block(f"{LAUNCHERS}=..., with -m (by default basic)", launchers))
    parts.append(_block("Options of a run", _options(Config, "", without=GROUPS)))
    for name, schema in (("budget", BudgetConfig), ("study", StudyConfig), ("tracking", TrackingConfig)):
        parts.append(_block(f"Options of {name}", _options(schema, f"{name}.")))
    for group in ("model", "task", "method"):
        if chosen[group] in meanings(group):
            values = settings(group, chosen[group])
            title = f"Options with {group}={chosen[group]} (those of another choice: --help {group}=...)"
            parts.append(_block(title, _options(_schema(group, chosen[group]), f"{group}.", values)))
    return "\n".join(parts)


@cache
def _defaults() -> dict[str, str]:
    """The choice of each group where nothing is said."""
    written = yaml.safe_load((CONFIGS / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    return {
        group: str(item[group]) for item in written if isinstance(item, Mapping) for group in GROUPS if group in item
    }


def _base(group: str, name: str) -> tuple[dict[str, Any], str, bool]:
    """What a choice's file says, what it extends, and whether that is a dataclass."""
    written = yaml.safe_load((CONFIGS / group / f"{name}.yaml").read_text(encoding="utf-8"))
    base = str(written.pop("defaults")[0])
    schema = base.removeprefix("/schema/").partition("@")[0]
    return written, schema, schema != base


def _schema(group: str, name: str) -> type:
    """The dataclass of a choice, which extends it or another choice of its group."""
    _, base, is_schema = _base(group, name)
    return schemas.schemas()[base] if is_schema else _schema(group, base.partition("@")[0])


def settings(group: str, name: str) -> dict[str, Any]:
    """What the file of a choice, and those that it extends, set."""
    written, base, is_schema = _base(group, name)
    return written if is_schema else settings(group, base.partition("@")[0]) | written


def _options(
    schema: type, prefix: str, values: Mapping[str, Any] | None = None, without: Iterable[str] = ()
) -> dict[str, str]:
    """The fields of a dataclass as name=value, with their comments; those that hold options of their own are left out."""
    said = schemas.meanings(schema)
    return {
        f"{prefix}{f.name}={_shown((values or {}).get(f.name, _default(f)))}": said.get(f.name, "")
        for f in fields(schema)
        if f.name not in without and f.name != "budget"
    }


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else GIVEN_BY_CHOICE


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "<value>" if value == GIVEN_BY_CHOICE else str(value)


def _block(title: str, lines: Mapping[str, str]) -> str:
    """A title, and below it names with their meanings in a second column."""
    width = max(60, min(120, shutil.get_terminal_size((100, 24)).columns))
    indent = 2 + min(26, max(map(len, lines), default=0)) + 2
    shown = [f"{title}:"]
    for name, meaning in lines.items():
        head = f"  {name}".ljust(indent) if len(name) + 4 <= indent else f"  {name}\n{' ' * indent}"
        body = textwrap.wrap(meaning, width - indent, break_long_words=False, break_on_hyphens=False) or [""]
        shown.append((head + f"\n{' ' * indent}".join(body)).rstrip())
    return "\n".join(shown) + "\n"
