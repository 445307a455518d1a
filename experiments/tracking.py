"""A Weights & Biases mirror of the records. The files are the truth: all it logs is made from them.

`wandb` is imported only when asked for, and reaches the network only in mode `online`. A mirror that fails, at whatever
moment and for whatever reason, says so once and is given up; the run goes on.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from experiments.config import TrackingConfig
from experiments.errors import ExperimentError

MODES = ("disabled", "offline", "online")
EXAMPLE_COLUMNS = ("instance", "prompt", "reference", "best text", "score", "log p", "kept mass")
MOST_EXAMPLES = 100  # rows of the table
LONGEST_TEXT = 600  # characters of a cell of it
Record = Mapping[str, Any]


class Tracker(Protocol):
    """Receives the records of a run, in the order of the file."""

    def log(self, index: int, record: Record) -> None:
        """Mirror the record at line `index` of the file."""
        ...

    def finish(self, records: Sequence[Record]) -> None:
        """Write the summary and the examples of the whole file and close."""
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
        import wandb

        table = wandb.Table(columns=list(EXAMPLE_COLUMNS), data=examples(records))
        self._run.log({"examples": table}, step=max(len(records) - 1, 0))
        self._run.summary.update(summarise(records))
        self._run.finish()

    def abort(self) -> None:
        self._run.finish(exit_code=1)


class Forgiving:
    """A tracker that may fail: the first time it does is reported, and from then on it is left alone."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    def log(self, index: int, record: Record) -> None:
        try:
            self._tracker.log(index, record)
        except Exception as error:  # a full disk, a broken connection, a helper process that died
            self._give_up(error)

    def finish(self, records: Sequence[Record]) -> None:
        try:
            self._tracker.finish(records)
        except Exception as error:
            self._give_up(error)

    def abort(self) -> None:
        try:
            self._tracker.abort()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        _warn(f"wandb failed ({_words(error)}), and the rest of this run is not mirrored to it.")
        self._tracker = NoTracker()


def open_tracker(
    config: TrackingConfig, *, study: str, method: str, run_id: str, settings: Mapping[str, Any], folder: Path
) -> Tracker:
    """Start the mirror of one run: group = study, job type = method, id = run id. Its files lie in `folder`.

    Raises ExperimentError for an unknown mode, and for nothing else.
    """
    run = _start(
        config, group=study, job_type=method, id=run_id, name=f"{method}-{run_id}", folder=folder, config=settings
    )
    return NoTracker() if run is None else Forgiving(WandbTracker(run))


def log_report(config: TrackingConfig, *, study: str, folder: Path) -> None:
    """Mirror the report in a study's folder: its files (not those of the runs) as one artifact, its page to look at.

    Made again, it is the next version of the same artifact. Raises ExperimentError for an unknown mode, and for nothing else.
    """
    run = _start(config, group=study, job_type="report", id=f"report-{study}", name=f"report-{study}", folder=folder)
    if run is None:
        return
    try:
        import wandb

        artifact = wandb.Artifact(f"report-{study}", type="report")
        for path in report_files(folder):
            artifact.add_file(str(path), name=path.relative_to(folder).as_posix())
        run.log_artifact(artifact)
        if (page := folder / "report.html").exists():
            run.log({"report": wandb.Html(page.read_text(encoding="utf-8"), inject=False)})
        run.finish()
    except Exception as error:
        _warn(f"wandb failed ({_words(error)}), and the report is not mirrored to it.")


def report_files(folder: Path) -> list[Path]:
    """The files of a report in a study's folder: those beside the runs' folders, and the pictures."""
    beside = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    return sorted([*beside, *(path for path in (folder / "figures").rglob("*") if path.is_file())])


_WARNED: set[str] = set()


def _warn(message: str) -> None:
    """Say it on stderr, once a process: the jobs of a sweep tend to fail alike."""
    if message not in _WARNED:
        _WARNED.add(message)
        print(f"Warning: {message} The results are kept in files all the same.", file=sys.stderr, flush=True)


def _words(error: Exception) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said[:300]}" if said else type(error).__name__


def _start(tracking: TrackingConfig, *, folder: Path, **run: Any) -> Any:
    """A wandb run, or None where there is to be none or it cannot be had."""
    if tracking.mode not in MODES:
        raise ExperimentError(f"tracking.mode={tracking.mode!r} is not known: choose one of {', '.join(MODES)}.")
    if tracking.mode == "disabled":
        return None
    if tracking.mode == "offline":
        os.environ["WANDB_ERROR_REPORTING"] = "false"  # its crash reports would use the network
    try:
        import wandb
    except ImportError:
        _warn(
            f"tracking={tracking.mode} needs the package wandb, which is not installed here (`pip install wandb`); nothing is "
            "mirrored. tracking=disabled says that this is wanted."
        )
        return None
    if not (folder.is_dir() and os.access(folder, os.W_OK)):  # wandb would put its files elsewhere
        _warn(f"{folder} cannot be written, so wandb mirrors nothing.")
        return None
    options: dict[str, Any] = {
        "project": tracking.project,
        "entity": tracking.entity,
        "resume": "allow" if tracking.mode == "online" else None,  # offline runs are joined by id when they are synced
        "mode": tracking.mode,
        "dir": str(folder),
        "reinit": "finish_previous",
        **{key: dict(value) if isinstance(value, Mapping) else value for key, value in run.items()},
    }
    try:
        # The environment is in the files; without it, starting takes a fraction of the time.
        light = wandb.Settings(
            silent=True,
            console="off",
            save_code=False,
            disable_git=True,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
        )
        return wandb.init(settings=light, **options)
    except Exception as error:
        advice = "Log in with `wandb login`, or use tracking=offline and send the files later with `wandb sync`."
        _warn(
            f"wandb could not start in mode {tracking.mode} ({_words(error)}), and nothing is mirrored."
            + (f" {advice}" if tracking.mode == "online" else "")
        )
        return None


def instance_metrics(record: Record) -> dict[str, Any]:
    """What is logged for one instance: its scores, evidence, ESS and cost; nothing that is null."""
    values = {
        **record["scores"],
        "log_evidence": record["log_evidence"],
        "ess": record["ess"],
        **{f"cost/{key}": value for key, value in record["cost"].items()},
    }
    return {"instance": record["instance"]} | {key: value for key, value in values.items() if value is not None}


def examples(records: Sequence[Record]) -> list[list[Any]]:
    """The first instances with the best text of each, as rows of `EXAMPLE_COLUMNS`. log p is in nats.

    The best is the sequence with the highest exact target; where nothing finished, its cells are None.
    """
    return [_example(record) for record in records[:MOST_EXAMPLES]]


def _example(record: Record) -> list[Any]:
    known = [row for row in record["sequences"] if row.get("log_target") is not None]
    best = max(known, key=lambda row: (row["log_target"], row["text"]), default=None)
    head = [record["instance"], _cell(record["prompt"]), _cell(record["reference"])]
    if best is None:
        return [*head, None, None, None, None]
    kept = best["log_kept_mass"]
    return [*head, _cell(best["text"]), best["correct"], best["log_prob"], None if kept is None else math.exp(kept)]


def _cell(text: str | None) -> str | None:
    return text if text is None or len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


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
