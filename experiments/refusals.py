"""Errors of the configuration in words: one paragraph that says what was wrong and what can be given instead."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from hydra.errors import MissingConfigException, OverrideParseException

from experiments.config import SCHEMAS, Config

GROUPS = ("task", "method", "model", "tracking", "study")
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}


def explain(error: Exception, configs: Path) -> str:
    """What a refused command line should be told. `configs` is the folder of the choices."""
    cause = error.__cause__ or error
    name = str(getattr(cause, "full_key", None) or "")
    first = " ".join(str(error).splitlines()[0].split()) if str(error) else type(error).__name__
    if isinstance(error, MissingConfigException):
        group, _, chosen = str(error.missing_cfg_file).rpartition("/")
        own = f" To give a study of your own a name: study.name={chosen}." if group == "study" else ""
        return f"There is no {group} {chosen!r}: choose one of {', '.join(_choices(configs, group))}.{own}"
    if isinstance(error, OverrideParseException):
        return f"{first}: an option is given as name=value, for example seed=0 or method.n_particles=8."
    if first.startswith("Ambiguous value for argument"):
        return f"{first}: to run each of these values, put -m in front of the options."
    if type(cause).__name__ in ("ConfigKeyError", "ConfigAttributeError") and name:
        _, _, value = str(error).partition(f"+{name}=")  # Hydra's message repeats what was asked for
        return _unknown(name, value or "<value>", getattr(cause, "object_type", None))
    if type(cause).__name__ == "ValidationError" and name:
        return _wrong_kind(name, cause)
    if first.startswith("Config group override must be"):
        return f"{', '.join(GROUPS)} each need the name of a choice, for example method=smc."
    return f"{first} Options are given as name=value; experiments/config.py lists them."


def _choices(configs: Path, group: str) -> list[str]:
    return sorted(path.stem for path in (configs / group).glob("*.yaml"))


def _unknown(name: str, value: str, owner: Any) -> str:
    """No such option; where one of that name exists deeper, or what there is beside it."""
    deeper = [g for g in GROUPS if any(name in _options(s) for s in SCHEMAS.values() if _group_of(s) == g)]
    if deeper:
        return f"There is no option {name!r} at the top: give {' or '.join(f'{g}.{name}={value}' for g in deeper)}."
    group = name.rpartition(".")[0]
    known = ", ".join(f"{group}.{n}" if group else n for n in _options(owner))
    elsewhere = f" with this choice of {group}" if group in GROUPS else ""
    return f"There is no option {name!r}{elsewhere}" + (f": the options are {known}." if known else ".")


def _wrong_kind(name: str, cause: BaseException) -> str:
    kind = _options(getattr(cause, "object_type", None)).get(name.rpartition(".")[2], "").removesuffix(" | None")
    said = " ".join(str(cause).splitlines()[0].split())
    wanted = f"{name} must be {_KINDS[kind]}" if kind in _KINDS else f"{name} has a value of the wrong kind"
    return f"{wanted}, and was not given one ({said})."


def _options(schema: Any) -> dict[str, str]:
    """The options of a dataclass of settings with their types as written; none for anything else."""
    return {f.name: str(f.type) for f in fields(schema)} if hasattr(schema, "__dataclass_fields__") else {}


def _group_of(schema: type) -> str:
    """The group that a dataclass of settings belongs to: Config's field whose type it extends."""
    bases = {base.__name__ for base in schema.__mro__}
    return next((name for name, kind in _options(Config).items() if kind in bases), "")
