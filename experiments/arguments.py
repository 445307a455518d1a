"""The command line of `experiments.run` before Hydra reads it: flags such as -m may stand anywhere, unknown ones are named."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from experiments.errors import ExperimentError

HELP = ("--help", "-h")
_ALONE = {
    *HELP, "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m", "--shell-completion", "-sc",
}  # fmt: skip
_WITH_A_VALUE = {
    "--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd",
    "--experimental-rerun", "--info", "-i",
}  # fmt: skip
_VALUES = {
    **dict.fromkeys(("--cfg", "-c"), ("job", "hydra", "all")),
    **dict.fromkeys(("--info", "-i"), ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")),
}
"""The values that a flag can have, where they are few."""


def in_order(arguments: Sequence[str]) -> list[str]:
    """The arguments with the options (name=value) in front and the flags behind them: Hydra reads no mixture.

    Raises:
        ExperimentError: a flag that does not exist, or one without its value.
    """
    flags: list[str] = []
    options: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if not argument.startswith("-"):
            options.append(argument)
            continue
        name, equals, value = argument.partition("=")
        if name not in _ALONE | _WITH_A_VALUE or (equals and name in _ALONE):
            raise ExperimentError(_no_flag(name, value or _following(waiting)))
        flags.append(argument)
        if name in _WITH_A_VALUE and not equals:
            value = _following(waiting)
            if value:
                flags.append(waiting.pop(0))
            elif name not in ("--info", "-i"):
                raise ExperimentError(f"{name} needs a value: {_usage(name)}.")
        if value and value not in _VALUES.get(name, (value,)):
            raise ExperimentError(f"{name} {value}: the values are {', '.join(_VALUES[name])}.")
    if "--resolve" in flags and not {"--cfg", "-c"} & {flag.partition("=")[0] for flag in flags}:
        raise ExperimentError("--resolve changes what --cfg prints, and does nothing alone: give --cfg job --resolve.")
    return [*options, *flags]


def wants_help(arguments: Sequence[str]) -> bool:
    """Whether the options should be listed."""
    return any(argument in HELP for argument in arguments)


def _following(waiting: Sequence[str]) -> str:
    """The next argument, if it can be the value of a flag."""
    return waiting[0] if waiting and not waiting[0].startswith("-") and "=" not in waiting[0] else ""


def _usage(name: str) -> str:
    return f"{name} {_VALUES[name][0]}" if name in _VALUES else f"{name} <value>"


def _no_flag(name: str, value: str) -> str:
    near = get_close_matches(name, _ALONE | _WITH_A_VALUE, 1, 0.75)
    if near:
        return f"There is no flag {name}: did you mean {near[0]}?"
    option = name.lstrip("-").replace("-", "_") or "name"
    return (
        f"There is no flag {name}: options are given without dashes, {option}={value or '<value>'}; --help lists them. -m runs "
        "several values of an option."
    )
