"""One run of a study: a method on the instances of a task, from its settings to its records."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence, Set
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments.budget import repeated
from experiments.calls import Call
from experiments.config import Config, identity, options
from experiments.environment import environment
from experiments.errors import BusyError, ExperimentError, InstanceFailed, OutOfReach, RunFailed
from experiments.evaluate import judged
from experiments.failures import clear, error_name, kept
from experiments.methods import Method, build_method
from experiments.models import forget_model, load_model
from experiments.revisions import model_revision
from experiments.store import DONE, Key, RunStore, done_keys, open_run, refuse_ambiguity, run_id
from experiments.tasks import Instance, Task, build_task
from experiments.traces import write_traces
from experiments.tracking import Tracker, open_tracker
from smc.constraints.notes import language_of, refuse_narrowing
from smc.errors import SMCError, at_least
from smc.packing import BATCH_ROWS
from smc.vocabulary import Vocabulary

COMMAND = "python -m experiments.run"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def execute(config: Config, *, command: str = COMMAND, sweep: bool = False, patience: float = 0.0) -> Path | None:
    """Do what is missing of one run, or of this job's share of it; its folder, or None where a sweep passed over it.

    A method that draws nothing runs once, as seed 0. In a sweep, pairs that cannot be run and runs that another job of the
    sweep is at are passed over.

    Args:
        command: what was typed. sweep: whether this is one job of several.
        patience: seconds to wait for a process that is writing the run (`store.open_run`).

    Raises:
        ExperimentError, SMCError: bad input, in words for the user. Records written before stay.
        RunFailed: anything else went wrong; the run's folder holds the traceback.
        OSError: the results cannot be written.
    """
    _check(config)
    try:
        return _execute(config, command, sweep, patience)
    except RunFailed:
        forget_model()  # nobody knows what state it was left in
        raise


def _execute(config: Config, command: str, sweep: bool, patience: float) -> Path | None:
    title, error = _title(config), error_name(config.shard, config.shards)
    asked = _folder(config)
    with kept(asked, title, error):
        task = build_task(config.task.kind or config.task.name, options(config.task, "kind"))
        method = repeated(build_method(config.method), config.budget.rows, config.budget.seconds)
        if method.deterministic:
            config = replace(config, seed=0)
            title = _title(config)
        if sweep and config.seed >= (seeds := _seeds(config)):
            print(f"{title}: skipped. The study runs the seeds below {seeds} here.")
            return None
        instances = task.instances(config.limit or config.study.limits.get(config.task.name))
    if config.batch_rows is not None and method.sampler is None:
        print(f"{title}: batch_rows={config.batch_rows} changes nothing, since this runs one instance after the other.")
    folder = _folder(config)
    if folder != asked:
        clear(asked, error)
    try:
        with kept(folder, title, error):
            _refuse_out_of_reach(config, method, task, instances)
            if config.strict_language:
                _refuse_narrowing(instances)  # what is known without a model
            return _complete(config, command, task, method, instances, title, 0.0 if method.deterministic else patience)
    except OutOfReach as reason:
        if not sweep:
            raise
        print(f"{title}: skipped. {reason}")
        return None
    except BusyError:
        if not (sweep and method.deterministic):
            raise
        print(f"{title}: skipped. Another job is at it; nothing in it is drawn, so one run serves all seeds.")
        return None


def _title(config: Config) -> str:
    """What a run is called in messages."""
    return f"{config.task.name} {config.method.name} {config.model.name} seed {config.seed}"


def _folder(config: Config) -> Path:
    return Path(config.results) / config.study.name / run_id(identity(config))


def _seeds(config: Config) -> int:
    """How many seeds the study wants of this pair; no bound where it does not say."""
    task, wanted = config.task.name, config.study.seeds
    return wanted.get(f"{task}/{config.method.name}", wanted.get(task, sys.maxsize))


def _complete(
    config: Config,
    command: str,
    task: Task,
    method: Method,
    instances: Sequence[Instance],
    title: str,
    patience: float,
) -> Path:
    """Do what is missing, and mark the run as complete when nothing is, whichever jobs did it."""
    folder = _folder(config)
    study, name = folder.parent, folder.name
    keys = {
        instance.id: (config.task.name, config.model.name, instance.id, config.method.name, config.seed)
        for instance in instances
    }
    share = instances[config.shard :: config.shards]
    part = f", part {config.shard} of {config.shards}" if config.shards > 1 else ""

    def missing(done: Set[Key]) -> list[Instance]:
        return [instance for instance in share if keys[instance.id] not in done]

    done = done_keys(folder)
    if not missing(done) and ((folder / DONE).exists() or not done.issuperset(keys.values())):
        print(f"{title}{part}: complete already ({len(share)} instances), skipped: {folder}")
        return folder
    settings = _settings(config, len(instances))
    refuse_ambiguity(study, name, settings)
    # The folder comes first: that it is writable and nobody else's should be known before a model is loaded.
    with open_run(folder, shard=config.shard, shards=config.shards, patience=patience) as store:
        if todo := missing(done_keys(folder)):
            store.claim(settings)
            clear(folder, error_name(config.shard, config.shards))
            refuse_ambiguity(study, name, settings)  # once more: another job may have begun at the same moment
            _run_missing(config, command, task, method, todo, store, title + part, settings)
        finished = store.finish(keys.values(), before=partial(write_traces, folder=folder))
        if finished:
            clear(folder)
    others = "" if finished else "; the other parts of the run are still to come"
    print(f"{title}{part}: {len(share)} instances complete ({len(todo)} new){others}: {folder}")
    return folder


def _run_missing(
    config: Config,
    command: str,
    task: Task,
    method: Method,
    todo: Sequence[Instance],
    store: RunStore,
    title: str,
    settings: dict[str, Any],
) -> None:
    """Load the model, open the mirror and run the instances."""
    model = load_model(config.model)
    if task.stops:
        model = model.with_stops(*task.stops)
    _refuse_out_of_reach(config, method, task, todo, model.vocabulary)
    if config.strict_language:
        _refuse_narrowing(todo, model.vocabulary)
    store.describe(settings, _environment(config, command, task, model))
    tracker = open_tracker(
        config.tracking,
        study=config.study.name,
        method=config.method.name,
        run_id=store.folder.name if config.shards == 1 else f"{store.folder.name}-{config.shard}-of-{config.shards}",
        settings=settings,
        folder=store.folder,
    )
    try:
        for index, record in enumerate(store.records):
            tracker.log(index, record)
        _run_instances(config, task, method, model, todo, store, tracker, title)
        tracker.finish(store.records)
    except BaseException:
        tracker.abort()
        raise


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
    """Run the instances; judge, store and mirror each as soon as it ends."""
    # On a terminal the bar is redrawn often; in a log file each redraw is a line.
    often = 0.5 if sys.stderr.isatty() else 30.0
    total = len(store.records) + len(todo)
    with tqdm(total=total, initial=len(store.records), desc=title, unit="instance", mininterval=often) as bar:
        for instance, result in _results(config, task, method, model, todo, title):
            fields = _judged(method, result, model.vocabulary, task, instance)
            head = {
                "task": config.task.name,
                "model": config.model.name,
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


def _judged(method: Method, result: Any, vocabulary: Vocabulary, task: Task, instance: Instance) -> dict[str, Any]:
    try:
        return judged(method.record(result, vocabulary), task, instance)
    except (ExperimentError, SMCError, OSError):
        raise
    except Exception as error:
        raise InstanceFailed(instance.id) from error


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
            potentials=instance.potentials,
        )
        for instance in todo
    ]
    try:
        for call, result in method.results(calls, _batch_rows(config)):
            yield by_id[call.key], result
    except SMCError as error:
        raise ExperimentError(f"{title}, instance {error.job}: {error.__cause__}") from error


def _refuse_out_of_reach(
    config: Config,
    method: Method,
    task: Task,
    instances: Sequence[Instance],
    vocabulary: Vocabulary | None = None,
) -> None:
    if method.exact and not task.exact:
        raise OutOfReach(
            f"The exact posterior of the task {config.task.name} is out of reach: its language is too large to "
            "enumerate. Use method=smc, or a task with a small language (task=dates)."
        )
    if refusal := method.refusal(instances, vocabulary):
        raise OutOfReach(f"The method {config.method.name} cannot run on the task {config.task.name}. {refusal}")


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
    at_least("shards", config.shards, 1)
    _batch_rows(config)
    if not 0 <= config.shard < config.shards:
        raise ExperimentError(
            f"shard={config.shard} is none of the {config.shards} parts: with shards={config.shards} give 0 to "
            f"{config.shards - 1}, in one command with -m shards={config.shards} 'shard=range({config.shards})'."
        )
    limits = {"limit": config.limit, **{f"study.limits.{task}": n for task, n in config.study.limits.items()}}
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise ExperimentError(f"{name}={limit} leaves no instance: give 1 or more, or leave it out for all.")
    if not _NAME.fullmatch(config.study.name):
        raise ExperimentError(
            f"study.name={config.study.name!r} cannot be the name of a folder: use letters, digits, dots, dashes and "
            "underscores."
        )
    for name, label in (
        ("method.name", config.method.name),
        ("task.name", config.task.name),
        ("model.name", config.model.name),
    ):
        if not _NAME.fullmatch(label):
            raise ExperimentError(f"{name}={label!r} is no label: use letters, digits, dots, dashes and underscores.")


def _batch_rows(config: Config) -> int | None:
    """Rows of one forward pass, over the instances of a run; None for one instance after the other.

    That is the default on a CPU: each record is there as soon as it can be, depends on nothing but its own seed to the last
    bit, and its seconds compare with those of methods that cannot share passes. On an accelerator, which a few rows
    leave idle, the default is 64. An instance's seconds are then its share.
    """
    if config.batch_rows is None:
        on_cpu = config.model.device == "cpu" and config.model.device_map is None
        return None if on_cpu else BATCH_ROWS
    return at_least("batch_rows", config.batch_rows, 1)


def _settings(config: Config, n_instances: int) -> dict[str, Any]:
    """The resolved settings, the same for every job of a run: which part a job takes is no part of it."""
    settings = asdict(config) | {"batch_rows": _batch_rows(config), "limit": n_instances}
    settings["study"] = config.study.name
    return {name: value for name, value in settings.items() if name not in ("shard", "shards")}


def _environment(config: Config, command: str, task: Task, model: Any) -> dict[str, Any]:
    return environment(
        command=command,
        device=config.model.device if config.model.device_map is None else f"device_map {config.model.device_map}",
        dtype=config.model.dtype,
        seed=config.seed,
        model=model_revision(config.model, model),
        data=task.revision,
    )
