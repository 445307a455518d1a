"""A Weights & Biases mirror of the records. The files are the truth: all it logs is made from them.

`wandb` is imported only when asked for, and reaches the network only in mode `online`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from experiments.config import TrackingConfig
from experiments.errors import ExperimentError

MODES = ("disabled", "offline", "online")
Record = Mapping[str, Any]


class Tracker(Protocol):
    """Receives the records of a run, in the order of the file."""

    def log(self, index: int, record: Record) -> None:
        """Mirror the record at line `index` of the file."""
        ...

    def finish(self, records: Sequence[Record]) -> None:
        """Write the summary of the whole file and close."""
        ...

    def abort(self) -> None:
        """Close a run that did not get to its end."""
        ...


class NoTracker:
    """Mode `disabled`."""

    def log(self, index: int, record: Record) -> None:
        pass

    def finish(self, records: Sequence[Record]) -> None:
        pass

    def abort(self) -> None:
        pass


class WandbTracker:
    """One wandb run a run folder, with the run's own id, so that a resumed run goes on in the same place."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, index: int, record: Record) -> None:
        # The step is the line of the file: lines that are logged again after a resume fall on themselves.
        self._run.log(instance_metrics(record), step=index)

    def finish(self, records: Sequence[Record]) -> None:
        self._run.summary.update(summarise(records))
        self._run.finish()

    def abort(self) -> None:
        self._run.finish(exit_code=1)


def open_tracker(
    config: TrackingConfig, *, study: str, method: str, run_id: str, settings: Mapping[str, Any], folder: Path
) -> Tracker:
    """Start the mirror of one run: group = study, job type = method, id = run id. Its files lie in `folder`.

    Raises ExperimentError for an unknown mode, a missing package, or a server that refuses.
    """
    if config.mode not in MODES:
        raise ExperimentError(f"tracking.mode={config.mode!r} is not known: choose one of {', '.join(MODES)}.")
    if config.mode == "disabled":
        return NoTracker()
    if config.mode == "offline":
        os.environ["WANDB_ERROR_REPORTING"] = "false"  # its crash reports would use the network
    try:
        import wandb
    except ImportError as error:
        raise ExperimentError(
            f"tracking={config.mode} needs the package wandb, which is not installed here: install it with "
            "`pip install wandb`, or use tracking=disabled. Results are kept in files either way."
        ) from error
    try:
        run = wandb.init(
            project=config.project,
            entity=config.entity,
            group=study,
            job_type=method,
            id=run_id,
            name=f"{method}-{run_id}",
            resume="allow" if config.mode == "online" else None,  # offline runs are joined by id when they are synced
            mode="online" if config.mode == "online" else "offline",
            dir=str(folder),
            config=dict(settings),
            settings=wandb.Settings(
                silent=True, console="off", save_code=False, disable_git=True, x_disable_stats=True
            ),
            reinit="finish_previous",
        )
    except wandb.Error as error:
        raise ExperimentError(
            f"wandb could not start in mode {config.mode}: {error} Log in with `wandb login`, or use "
            "tracking=offline and sync later. Results are kept in files either way."
        ) from error
    return WandbTracker(run)


def instance_metrics(record: Record) -> dict[str, Any]:
    """What is logged for one instance: its scores, evidence, ESS and cost; nothing that is null."""
    values = {
        **record["scores"],
        "log_evidence": record["log_evidence"],
        "ess": record["ess"],
        **{f"cost/{key}": value for key, value in record["cost"].items()},
    }
    return {"instance": record["instance"]} | {key: value for key, value in values.items() if value is not None}


def summarise(records: Sequence[Record]) -> dict[str, Any]:
    """Means of the scores over the instances that have them, totals of the cost, and how runs ended."""
    scores = sorted({name for record in records for name in record["scores"]})
    costs = sorted({name for record in records for name in record["cost"]})
    statuses = sorted({record["status"] for record in records})
    means = {name: _mean(record["scores"].get(name) for record in records) for name in scores}
    means["log_evidence"] = _mean(record["log_evidence"] for record in records)
    return {
        "instances": len(records),
        **{f"mean/{name}": value for name, value in means.items() if value is not None},
        **{f"total/{name}": sum(record["cost"].get(name) or 0 for record in records) for name in costs},
        **{f"status/{name}": sum(record["status"] == name for record in records) for name in statuses},
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
