"""Run a method on a task:  python -m experiments.run task=bfcl method=smc model=smollm2 seed=0

Several at once:  python -m experiments.run -m method=greedy_masking,smc seed=0,1
A whole study, with its report:  python -m experiments.run study=compare

Finished instances are skipped, so that the same command continues what was interrupted. A run that fails does not keep a
sweep from the others. `--help` lists the choices in `configs/` and every option.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments import arguments, failures, sweeps
from experiments.choices import CONFIGS
from experiments.config import Config
from experiments.errors import ExperimentError
from experiments.job import COMMAND, execute
from experiments.launching import AGAIN, launch_failure
from experiments.refusals import explain, refuse_what_nothing_reads
from experiments.schemas import register_schemas
from experiments.store import record_files
from experiments.usage import help_text
from smc.errors import SMCError

REQUEUED = 60.0
"""Seconds that a job of a launcher waits for the one before it, which may have been killed a moment ago."""

register_schemas()


def hydra_settings() -> DictConfig:
    """Hydra's own settings as they were composed: the launcher, the sweeper, where the jobs run."""
    composed: Any = HydraConfig.instance().cfg  # its declared type is the dataclass of what it holds
    settings: DictConfig = composed.hydra
    return settings


class Refused(Exception):
    """A job that ended in words for the user. It crosses process boundaries where a launcher starts processes."""


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="config")
def app(raw: DictConfig) -> None:
    """One job of a sweep, or the only one. A refused job is noted: Hydra would end others and add words of its own.

    Raises:
        Refused: bad input, in a process that a launcher started. Hydra carries it back.
    """
    context = HydraConfig.get()
    sweep = context.mode == RunMode.MULTIRUN
    try:
        refuse_what_nothing_reads(raw, hydra_settings(), context.overrides.hydra, sweep=sweep)
        if missing := sorted(OmegaConf.missing_keys(raw)):
            name = missing[0]
            raise ExperimentError(f"{name} has no value: give it on the command line, {name}=<value>.")
        config = OmegaConf.to_object(raw)
        assert isinstance(config, Config)
        execute(
            config,
            command=" ".join((COMMAND, *context.overrides.task)),
            sweep=sweep,
            patience=0.0 if sweeps.launching else REQUEUED,
        )
    except (ExperimentError, SMCError, OSError) as error:
        message = _about(error, raw.results) if isinstance(error, OSError) else str(error)
        if message not in sweeps.refused:  # many jobs of a sweep can have one fault
            print(f"Error: {message}", file=sys.stderr, flush=True)
        if not sweeps.launching:
            raise Refused(message) from None
        sweeps.refused.append(message)


def _about(error: OSError, results: str | None = None) -> str:
    """What to do about a file that could not be read or written, or a connection that failed."""
    if error.errno is None:  # those of network libraries have none
        return f"{type(error).__name__}: {' '.join(str(error).split())[:400]} {AGAIN}"
    name = None if error.filename is None else str(error.filename)
    if name and results and not _related(Path(name), Path(results)):
        return f"{name} could not be read or written: {error.strerror or error}. {AGAIN}"
    where = f" ({name or results})" if name or results else ""
    return (
        f"The results could not be written{where}: {error.strerror or error}. Check the disk and the rights of the "
        "folder, or choose another one with results=<folder>; what was written before is kept."
    )


def _related(one: Path, other: Path) -> bool:
    """Whether one of two paths lies in the other."""
    one, other = one.absolute(), other.absolute()
    return one.is_relative_to(other) or other.is_relative_to(one)


def main() -> None:
    """The command line: errors as one paragraph on stderr and a status that is not 0."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # lets exceptions reach the handlers below instead of Hydra's own printing
    if arguments.wants_help(sys.argv[1:]):
        print(help_text(sys.argv[1:]))
        return
    sweeps.launching, sweeps.started = True, None
    sweeps.refused.clear()
    status = 0
    try:
        sys.argv[1:] = arguments.in_order(sys.argv[1:])
        app()
    except Refused as refused:
        print(f"Error: {refused} (Other jobs may have failed as well: see their logs.)", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:
        print(
            "\nInterrupted. Finished instances are kept: run the same command again to do the rest.",
            file=sys.stderr,
        )
        sys.exit(130)
    except Exception as error:
        print(f"Error: {_said(error)}", file=sys.stderr)
        status = 2
    if sweeps.started is not None and sweeps.started.study.report:
        status = max(status, _report(sweeps.started))
    if sweeps.refused or status:
        sys.exit(2)


def _said(error: Exception) -> str:
    """What ended the whole command, in words: before the first job, or between a launcher and its jobs."""
    if isinstance(error, ExperimentError):
        return str(error)
    if isinstance(error, (HydraException, OmegaConfBaseException, ValueError)) and _by_hydra(error):
        return explain(error)
    if isinstance(error, OSError):
        return _about(error)
    if (words := launch_failure(error)) is not None:
        return words
    if sweeps.started is None:
        raise error
    path = Path(sweeps.started.results) / sweeps.started.study.name / "sweep-error.txt"
    line = f"The sweep was ended by an exception that nobody expected: {failures.words(error)}"
    written = failures.write(path, line, error)
    return f"{line} {f'The traceback is in {path}. ' if written else ''}{AGAIN}"


def _report(config: DictConfig) -> int:
    """Write the report of the sweep's study from all that its folder holds; the exit status."""
    from experiments import compare  # pictures and templates, which jobs need nothing of
    from experiments.tracking import log_report

    folder = Path(config.results) / config.study.name
    if not folder.is_dir() or not (record_files(folder) or failures.failures(folder)):
        return 0  # every job was refused: said already
    status = compare.main([str(folder)])
    if status == 0:
        log_report(config.tracking, study=config.study.name, folder=folder)
    return status


def _by_hydra(error: Exception) -> bool:
    """Whether the configuration was refused, and not something broken inside a job."""
    return isinstance(error, (HydraException, OmegaConfBaseException)) or str(error).startswith("Config group override")


if __name__ == "__main__":
    main()
