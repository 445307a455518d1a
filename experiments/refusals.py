"""Errors of the configuration in words: one paragraph that says what was wrong and what can be given instead."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any

from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf

from experiments.choices import GROUPS, LAUNCHERS, meanings
from experiments.config import Config
from experiments.errors import ExperimentError
from experiments.schemas import schemas

_OF_A_SWEEP = ("hydra/launcher", "hydra.launcher", "hydra/sweeper", "hydra.sweeper", "hydra.sweep")
"""How options begin that say where and how the jobs of a sweep run."""
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}


def explain(error: Exception) -> str:
    """What a refused command line should be told."""
    cause = error.__cause__ or error
    name = str(getattr(cause, "full_key", None) or "")
    first = " ".join(str(error).splitlines()[0].split()) if str(error) else type(error).__name__
    if first.startswith("Error in call to target 'hydra."):
        said = " ".join(str(error).split())[:300]
        return f"The launcher or sweeper does not take what it was given: {said}"
    if isinstance(error, MissingConfigException):
        group, _, chosen = str(error.missing_cfg_file).rpartition("/")
        own = f" To give a study of your own a name: study.name={chosen}." if group == "study" else ""
        return f"There is no {group} {chosen!r}: choose one of {', '.join(meanings(group))}.{own}"
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
    return f"{first} Options are given as name=value; --help lists them."


def refuse_what_nothing_reads(config: DictConfig, hydra: DictConfig, overrides: Sequence[str], *, sweep: bool) -> None:
    """Refuse what Hydra lets pass and nobody reads: names added with + or ++, options of a sweep where there is none.

    Args:
        config, hydra: the settings as composed, and Hydra's own. overrides: what was asked of Hydra itself.

    Raises:
        ExperimentError: naming the first of them, and what comes nearest to it.
    """
    added = {
        o.lstrip("+").partition("=")[0] for o in overrides if o.startswith("+")
    }  # Hydra's own has more than it declares
    unread = [*_unread(config), *((name, owner) for name, owner in _unread(hydra, "hydra.") if name in added)]
    for name, owner in unread:
        value = OmegaConf.select(hydra if name.startswith("hydra.") else config, name.removeprefix("hydra."))
        raise ExperimentError(_unknown(name, str(value), owner))
    lost = [o for o in overrides if o.lstrip("+~").startswith(_OF_A_SWEEP)]
    if lost and not sweep:
        raise ExperimentError(
            f"{lost[0]} is for the jobs of a sweep, and this is a single run, which would go on here without it: put -m in "
            "front of the options, or leave it out."
        )
    if sweep and (lost := [o for o in overrides if o.lstrip("+~").startswith("hydra.run.")]):
        raise ExperimentError(
            f"{lost[0]} is for a single run, and this is a sweep: leave it out (results=<folder> says where)."
        )
    _refuse_unknown_labels(config)


def _unread(config: DictConfig, prefix: str = "") -> Iterator[tuple[str, type]]:
    """Names that the dataclass of their node does not have, dotted, each with that dataclass."""
    schema = OmegaConf.get_type(config)
    known = {f.name for f in fields(schema)} if is_dataclass(schema) else None
    for key in map(str, config):
        name = f"{prefix}{key}"
        if known is not None and key not in known and isinstance(schema, type):
            yield name, schema
        elif OmegaConf.is_missing(config, key) or OmegaConf.is_interpolation(config, key):
            continue
        elif isinstance(config._get_node(key), DictConfig) and config[key] is not None:
            yield from _unread(config[key], f"{name}.")


def _refuse_unknown_labels(config: DictConfig) -> None:
    """`study.limits` and `study.seeds` speak of tasks and methods by their labels.

    Labels that somebody gave, and not a file of `configs/`, are known to nobody: where one is in play, anything goes.
    """
    limits: Mapping[str, Any] = config.study.limits
    seeds: Mapping[str, Any] = config.study.seeds
    named = [("study.limits", name, "task", name) for name in limits]
    for name in seeds:
        task, _, method = str(name).partition("/")
        named += [("study.seeds", name, "task", task), *([("study.seeds", name, "method", method)] if method else [])]
    for where, name, group, label in named:
        known = meanings(group)
        if config[group].name in known and label not in known:
            near = _near(label, list(known))
            raise ExperimentError(
                f"{where} speaks of {name!r}, and there is no {group} {label!r}: "
                + (f"did you mean {near}?" if near else f"the {group}s are {', '.join(known)}.")
            )


def _unknown(name: str, value: str, owner: Any) -> str:
    """No such option; where one of that name or one like it exists, here or deeper, or what there is beside it."""
    group, _, last = name.rpartition(".")
    if group == "hydra.launcher" and set(_options(owner)) == {"_target_"}:
        return (
            f"{name} is an option of a launcher, and none was chosen that has options: give -m and {LAUNCHERS}=<one of "
            f"{', '.join(meanings(LAUNCHERS))}> as well."
        )
    own = [f"{group}.{n}" if group else n for n in _options(owner)]
    if group:
        elsewhere = f" with this choice of {group}" if group in GROUPS else ""
        refused = f"There is no option {name!r}{elsewhere}"
        near = _near(name, own) or _near(last, {n.rpartition(".")[2]: n for n in own})
    else:
        refused = f"There is no option {name!r} at the top"
        deeper = {f"{g}.{n}": n for s in schemas().values() if (g := _group_of(s)) in GROUPS for n in _options(s)}
        same = [option for g in GROUPS for option, n in deeper.items() if n == name and option.startswith(f"{g}.")]
        if same:
            return f"{refused}: give {' or '.join(f'{option}={value}' for option in same)}."
        near = _near(name, own) or _near(name, {n: option for option, n in deeper.items()})
        refused = f"There is no option {name!r}"
    if near:
        return f"{refused}: did you mean {near}={value}?"
    return refused + (f": the options are {', '.join(own)}." if own else ".")


def _near(name: str, known: Collection[str] | Mapping[str, str]) -> str | None:
    """The name that is spelt nearest, if one is near; what a mapping has for it."""
    found = get_close_matches(name, list(known), 1, 0.75)
    if not found:
        return None
    return known[found[0]] if isinstance(known, Mapping) and found[0] in known and known[found[0]] else found[0]


def _wrong_kind(name: str, cause: BaseException) -> str:
    kind = _options(getattr(cause, "object_type", None)).get(name.rpartition(".")[2], "").removesuffix(" | None")
    said = " ".join(str(cause).splitlines()[0].split())
    wanted = f"{name} must be {_KINDS[kind]}" if kind in _KINDS else f"{name} has a value of the wrong kind"
    return f"{wanted}, and was not given one ({said})."


def _options(schema: Any) -> dict[str, str]:
    """The options of a dataclass of settings with their types as written; none for anything else."""
    return {f.name: _written(f.type) for f in fields(schema)} if is_dataclass(schema) else {}


def _written(kind: Any) -> str:
    """A type as it is written; classes that are made while this runs have types instead of their spelling."""
    return kind.__name__ if isinstance(kind, type) and not isinstance(kind, UnionType) else str(kind)


def _group_of(schema: type) -> str:
    """The group that a dataclass of settings belongs to: Config's field whose type it extends."""
    bases = {base.__name__ for base in schema.__mro__}
    return next((name for name, kind in _options(Config).items() if kind in bases), "")
