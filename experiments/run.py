"""Run a method on a task:  python -m experiments.run task=bfcl method=smc model=smollm2 seed=0

Several at once:  python -m experiments.run -m method=greedy_masking,smc seed=0,1

Finished instances are skipped, so that the same command continues what was interrupted. See `configs/` for the
choices and `experiments/config.py` for every option.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from tqdm import tqdm

from experiments.config import Config, identity, options, register_schemas
from experiments.environment import environment
from experiments.errors import ExperimentError
from experiments.methods import Call, Method, build_method
from experiments.models import load_model
from experiments.refusals import explain
from experiments.store import (
    DONE,
    RunStore,
    done_keys,
    open_run,
    refuse_ambiguity,
    run_id,
)
from experiments.tasks import Instance, Task, build_task
from experiments.tracking import Tracker, open_tracker
from smc.constraints.notes import language_of, refuse_narrowing
from smc.errors import SMCError, at_least
from smc.packing import BATCH_ROWS
from smc.vocabulary import Vocabulary

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
COMMAND = "python -m experiments.run"

register_schemas()


def execute(config: Config, *, command: str = COMMAND, sweep: bool = False) -> Path | None:
    """Do what is missing of one run; its folder, or None where a sweep passed over an impossible pair.

    Raises:
        ExperimentError, SMCError: bad input, in words for the user. Records written before stay.
    """
    _check(config)
    task = build_task(config.task.name, options(config.task, "name"))
    method = build_method(config.method)
    title = f"{config.task.name} {config.method.name} seed {config.seed}"
    if method.exact and not task.exact:
        sentence = (
            f"The exact posterior of the task {config.task.name} is out of reach: its language is too large to "
            "enumerate."
        )
        if sweep:
            print(f"{title}: skipped. {sentence}")
            return None
        raise ExperimentError(f"{sentence} Use method=smc, or a task with a small language (task=dates).")

    name = run_id(identity(config))
    study = Path(config.results) / config.study
    folder = study / name
    instances = task.instances(config.limit)
    if config.strict_language:
        _refuse_narrowing(instances)  # what is known without a model
    keys = {instance.id: (config.task.name, instance.id, config.method.name, config.seed) for instance in instances}
    if (folder / DONE).exists() and set(keys.values()) <= done_keys(folder):
        print(f"{title}: complete already ({len(instances)} instances), skipped: {folder}")
        return folder

    settings = asdict(config) | {"batch_rows": _batch_rows(config)}
    refuse_ambiguity(study, name, settings)
    model = load_model(config.model)
    if config.strict_language:
        _refuse_narrowing(instances, model.vocabulary)
    with open_run(folder, settings, _environment(config, command)) as store:
        done = done_keys(folder)
        todo = [instance for instance in instances if keys[instance.id] not in done]
        tracker = open_tracker(
            config.tracking,
            study=config.study,
            method=config.method.name,
            run_id=name,
            settings=settings,
            folder=folder,
        )
        try:
            for index, record in enumerate(store.records):
                tracker.log(index, record)
            _run_instances(config, task, method, model, todo, store, tracker, title)
            tracker.finish(store.records)
        except BaseException:
            tracker.abort()
            raise
        store.finish()
    print(f"{title}: {len(instances)} instances complete ({len(todo)} new): {folder}")
    return folder


def _run_instances(
    config: Config,
    task: Task,
    method: Method,
    model: Any,
    todo: Sequence[Instance],
    store: RunStore,
    tracker: Tracker,
    title: str,
) -> None:
    """Run the instances; score, store and mirror each as soon as it ends."""
    # On a terminal the bar is redrawn often; in a log file each redraw is a line.
    often = 0.5 if sys.stderr.isatty() else 30.0
    total = len(store.records) + len(todo)
    with tqdm(total=total, initial=len(store.records), desc=title, unit="instance", mininterval=often) as bar:
        for instance, result in _results(config, task, method, model, todo, title):
            fields = method.record(result, partial(task.score, instance))
            head = {
                "task": config.task.name,
                "instance": instance.id,
                "method": config.method.name,
                "seed": config.seed,
                "run_id": store.folder.name,
                "prompt": instance.display,
                "full_prompt": instance.prompt,
                "reference": instance.reference,
                "language": asdict(language_of(instance.constraint, instance.constraint.compile(model.vocabulary))),
            }
            record = store.append(head | fields)
            tracker.log(len(store.records) - 1, record)
            bar.update()


def _results(
    config: Config, task: Task, method: Method, model: Any, todo: Sequence[Instance], title: str
) -> Iterator[tuple[Instance, Any]]:
    """Instances and their results, in the order in which they end."""
    by_id = {instance.id: instance for instance in todo}
    calls = [
        Call(
            model=model,
            constraint=instance.constraint,
            prompt=instance.prompt,
            key=instance.id,
            seed=config.seed,
            max_tokens=task.max_tokens,
        )
        for instance in todo
    ]
    try:
        for call, result in method.results(calls, _batch_rows(config)):
            yield by_id[call.key], result
    except SMCError as error:
        raise ExperimentError(f"{title}, instance {error.job}: {error.__cause__}") from error


def _refuse_narrowing(instances: Sequence[Instance], vocabulary: Vocabulary | None = None) -> None:
    for instance in instances:
        try:
            constraint = instance.constraint
            refuse_narrowing(constraint, None if vocabulary is None else constraint.compile(vocabulary))
        except SMCError as error:
            raise ExperimentError(f"Instance {instance.id}: {error}") from error


def _check(config: Config) -> None:
    """What can be refused before anything is read or loaded."""
    at_least("seed", config.seed, 0)
    at_least("task.max_tokens", config.task.max_tokens, 1)
    _batch_rows(config)
    if config.limit is not None and config.limit < 1:
        raise ExperimentError(f"limit={config.limit} leaves no instance: give 1 or more, or leave limit out for all.")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", config.study):
        raise ExperimentError(
            f"study={config.study!r} cannot be the name of a folder: use letters, digits, dots, dashes and underscores."
        )
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", config.method.name):
        raise ExperimentError(
            f"method.name={config.method.name!r} is no label: use letters, digits, dots, dashes and underscores."
        )


def _batch_rows(config: Config) -> int | None:
    """Rows of one forward pass, over the instances of a run; None for one instance after the other.

    That is the default on a CPU: each record is there as soon as it can be, depends on nothing but its own seed to the last
    bit, and its seconds compare with those of methods that cannot share passes. On an accelerator, which a few rows
    leave idle, the default is 64. An instance's seconds are then its share.
    """
    if config.batch_rows is None:
        return None if config.model.device == "cpu" else BATCH_ROWS
    return at_least("batch_rows", config.batch_rows, 1)


def _environment(config: Config, command: str) -> dict[str, Any]:
    return environment(command=command, device=config.model.device, dtype=config.model.dtype, seed=config.seed)


def _job(raw: DictConfig) -> str | None:
    """One job of a sweep, or the only one; what was wrong with it, if it was refused."""
    context = HydraConfig.get()
    try:
        if missing := sorted(OmegaConf.missing_keys(raw)):
            name = missing[0]
            return f"{name} has no value: give it on the command line, {name}=<value>."
        config = OmegaConf.to_object(raw)
        assert isinstance(config, Config)
        command = " ".join((COMMAND, *context.overrides.task))
        execute(config, command=command, sweep=context.mode == RunMode.MULTIRUN)
    except (ExperimentError, SMCError) as error:
        return str(error)
    except OSError as error:
        return _about(error)
    return None


def _about(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return (
        f"The results could not be written{where}: {error.strerror or error}. Check the disk and the rights of the "
        "folder, or choose another one with results=<folder>; what was written before is kept."
    )


def main() -> None:
    """The command line: errors as one paragraph on stderr and a status that is not 0."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # lets exceptions reach the handlers below instead of Hydra's own printing
    refused = []

    # A refused job is noted here rather than raised: Hydra would end a sweep's other jobs and add words of its own.
    @hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="config")
    def app(raw: DictConfig) -> None:
        if (message := _job(raw)) is not None:
            print(f"Error: {message}", file=sys.stderr)
            refused.append(message)

    try:
        app()
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        if not _by_hydra(error):
            raise
        print(f"Error: {explain(error, CONFIGS)}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"Error: {_about(error)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(
            "\nInterrupted. Finished instances are kept: run the same command again to do the rest.",
            file=sys.stderr,
        )
        sys.exit(130)
    if refused:
        sys.exit(2)


def _by_hydra(error: Exception) -> bool:
    """Whether the configuration was refused, and not something broken inside a job."""
    return isinstance(error, (HydraException, OmegaConfBaseException)) or str(error).startswith("Config group override")


if __name__ == "__main__":
    main()
