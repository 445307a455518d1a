"""Records on disk: one folder a run, one JSON line a (task, instance, method, seed), only ever appended to.

    <results>/<study>/<run_id>/{config.yaml, environment.json, records.jsonl, traces.parquet, DONE}

The files are the truth: reports and trackers are made from them. A line counts once it is complete, so a process
may be killed at any time; a torn last line is ignored by readers and cut off before the next record is appended.
The jobs of a run that is split over several write a file each, `records.0-of-4.jsonl` and so on, and read all of them:
that is the whole coordination.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from experiments.errors import BusyError, ExperimentError

Record = dict[str, Any]
Key = tuple[str, str, str, str, int]

RECORDS, CONFIG, ENVIRONMENT, DONE = "records.jsonl", "config.yaml", "environment.json", "DONE"
_ANY_RECORDS = "records*.jsonl"
_YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # every job reads the settings of the whole study


def records_name(shard: int = 0, shards: int = 1) -> str:
    """The file that a job appends to."""
    return RECORDS if shards == 1 else f"records.{shard}-of-{shards}.jsonl"


def record_files(folder: Path) -> list[Path]:
    """The files of records in and below a folder, in a fixed order."""
    return sorted(folder.rglob(_ANY_RECORDS))


def run_folders(folder: Path) -> list[Path]:
    """The folders in and below a folder that hold a whole record, in a fixed order."""
    return sorted({path.parent for path in record_files(folder) if b"\n" in path.read_bytes()})


def run_id(identity: Mapping[str, Any]) -> str:
    """Ten hex digits that name a run: a hash of everything that affects its results, and of nothing else."""
    text = json.dumps(plain(identity), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def plain(value: Any) -> Any:
    """`value` in JSON's own types: numpy scalars unwrapped, tuples as lists, non-finite floats as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise TypeError(f"a record cannot hold {type(value).__name__} ({value!r})")


def record_key(record: Mapping[str, Any]) -> Key:
    """What makes a record unique within a study: task, model, instance, method, seed."""
    return record["task"], record["model"], record["instance"], record["method"], record["seed"]


def read_records(folder: str | Path) -> list[Record]:
    """All records under `folder`, run folders in the order of their names, lines in the order they were written.

    A torn last line is ignored; of several records with one key the first counts.

    Raises:
        ExperimentError: the folder does not exist, or a complete line is not a record.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ExperimentError(
            f"There is no folder {folder}: give the folder of a study, as `python -m experiments.run` printed it."
        )
    records: dict[Key, Record] = {}
    for path in record_files(folder):
        for record in parse_records(path):
            records.setdefault(record_key(record), record)
    return list(records.values())


def done_keys(folder: str | Path) -> set[Key]:
    """The keys of the records under `folder`; none if it does not exist yet."""
    return {record_key(record) for record in read_records(folder)} if Path(folder).is_dir() else set()


def read_mapping(path: Path) -> Record:
    """A run's `config.yaml` or `environment.json`; empty if the file does not exist.

    Raises:
        ExperimentError: the file is there and does not hold settings.
    """
    if not path.exists():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else yaml.load(text, _YAML)
        if not isinstance(found, dict):
            raise ValueError(f"it holds {type(found).__name__} instead of names and values")
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ExperimentError(
            f"{path} cannot be read ({reason}). Restore it or remove it; the records do not need it."
        ) from error
    return found


class RunStore:
    """The file of one job in a run's folder, locked for writing. Made by `open_run`."""

    def __init__(self, folder: Path, stream: BinaryIO, records: list[Record]) -> None:
        self.folder = folder
        self.records = records
        self._stream = stream

    def claim(self, config: Mapping[str, Any]) -> None:
        """Write down what the run is, and that it is not complete, so that jobs which begin meanwhile see it."""
        with self._alone():
            (self.folder / DONE).unlink(missing_ok=True)
            write_atomically(self.folder / CONFIG, yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True))

    def describe(self, config: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
        """Write down what the run is and what it runs on, before the first record.

        Raises ExperimentError where the run has records that were made with another revision of the model or of the data.
        """
        self.claim(config)
        with self._alone():
            history = _history(self.folder, plain(environment))
            write_atomically(self.folder / ENVIRONMENT, json.dumps(history, indent=2) + "\n")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One job of the run at a time: what is written here belongs to all of them."""
        with open(self.folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def append(self, record: Mapping[str, Any]) -> Record:
        """Write one record so that it survives a crash; returns it as a reader will see it."""
        written: Record = plain(record)
        self._stream.write(json.dumps(written, allow_nan=False).encode() + b"\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.records.append(written)
        return written

    def finish(self, wanted: Collection[Key], before: Callable[[list[Record]], None] = lambda records: None) -> bool:
        """Mark the run as complete if the wanted records are all there, from whichever job; whether they are.

        `before` is called with the records of the run; where it fails, the run is not marked.
        """
        records = read_records(self.folder)
        if not {record_key(record) for record in records}.issuperset(wanted):
            return False
        before(records)
        write_atomically(self.folder / DONE, f"{len(records)} records\n")
        return True


def lock(stream: BinaryIO, path: Path) -> bool:
    """Take the lock of a file of records that was opened for writing; False where another process has it.

    The system releases it when the file is closed or the process dies.
    """
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(stream.fileno()).st_ino == path.stat().st_ino  # else replaced by rescoring, a moment ago


def is_being_written(path: Path) -> bool:
    """Whether a process holds the lock of a file of records."""
    with open(path, "rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def open_run(folder: str | Path, *, shard: int = 0, shards: int = 1, patience: float = 0.0) -> Iterator[RunStore]:
    """Open a run's folder for appending: create it if need be, lock the job's file, cut off a torn line.

    Args:
        patience: seconds to wait for another process to let go: a job that was requeued may begin before the system has
            noticed that the process before it is gone.

    Raises:
        BusyError: another process is writing this part of the run, or splits the run otherwise and so may be at the same
            instances.
        ExperimentError: its records are damaged.
        OSError: the folder cannot be created or written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / records_name(shard, shards)
    patient_until = time.monotonic() + patience
    while (stream := _taken(path, shards)) is None:
        if time.monotonic() >= patient_until:
            raise BusyError(
                f"Another process is writing the run in {folder}: let it finish (this command then skips what is "
                "done), or stop it first."
            )
        time.sleep(min(1.0, patience))
    with stream:
        stream.seek(0)
        records, end = _parse(path, stream.read())
        stream.truncate(end)
        stream.seek(0, os.SEEK_END)
        yield RunStore(folder, stream, records)


def _taken(path: Path, shards: int) -> BinaryIO | None:
    """A job's file, open and locked; None if another process has it, or is at the run in another split."""
    same_split = {records_name(k, shards) for k in range(shards)}
    stream = open(path, "a+b")  # noqa: SIM115  the caller closes it
    try:
        others = (other for other in path.parent.glob(_ANY_RECORDS) if other.name not in same_split)
        if lock(stream, path) and not any(is_being_written(other) for other in others):
            return stream
    except BaseException:
        stream.close()
        raise
    stream.close()
    return None


def refuse_ambiguity(study: str | Path, name: str, config: Mapping[str, Any]) -> None:
    """Refuse a run whose records could not be told from those of another run in the same study.

    Records are known by task, model, instance, method and seed. Two runs that share those but differ in, say, the number
    of particles would count as one in the report; two models of one name would count as one model. Of two that begin at the same moment each sees the other if both have
    been claimed before.

    Raises:
        ExperimentError: naming what differs and the two ways out; or a configuration in the study is damaged.
    """
    study = Path(study)
    for path in sorted(study.glob(f"*/{CONFIG}")):
        if path.parent.name == name:
            continue
        other = read_mapping(path)
        try:
            same = _label(other) == _label(config)
            namesake = _namesakes(other["model"], config["model"])
        except (KeyError, TypeError) as error:
            raise ExperimentError(
                f"{path} lacks the name of a task, model or method, or the seed: it was edited. Restore it, or remove it if "
                "you know that the run is of other settings than this one."
            ) from error
        files = record_files(path.parent)
        if not (same or namesake) or not any(file.stat().st_size or is_being_written(file) for file in files):
            continue
        differences = "; ".join(
            f"{key} {old!r} there, {new!r} here"
            for key, (old, new) in _differences(other, config).items()
            if same or key.startswith("model.")
        )
        task, model, method, seed = _label(config)
        if namesake:
            raise ExperimentError(
                f"The study in {study} already holds another model under the name {model} ({differences}), and a report could "
                f"not tell the two apart: give this model a name of its own with model.name={model}_2, or put the run into "
                "another study with study.name=<name>."
            )
        raise ExperimentError(
            f"The study in {study} already holds task {task}, model {model}, method {method}, seed {seed} with other settings "
            f"({differences}), and a report could not tell the two apart: give this method a name of its own with "
            f"method.name={method}_2, or put the run into another study with study.name=<name>."
        )


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that readers see the old content or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # process ids repeat over machines
    try:
        with open(temporary, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)  # on a full disk, the half that was written
        raise


def parse_records(path: Path, data: bytes | None = None) -> list[Record]:
    """The records of a file, or of what was read of it, a torn last line ignored.

    Raises ExperimentError where a complete line is not a record.
    """
    return _parse(path, path.read_bytes() if data is None else data)[0]


def _parse(path: Path, data: bytes) -> tuple[list[Record], int]:
    """The records of a file, and where its last complete line ends."""
    *lines, tail = data.split(b"\n")
    records = []
    model: str | None = None
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            if "model" not in record:  # written before records named it
                model = _model(path.parent) if model is None else model
                record["model"] = model
            record_key(record)
        except (ValueError, KeyError, TypeError) as error:
            raise ExperimentError(
                f"Line {number} of {path} is not a record ({error}): the file was damaged or edited. Delete that line "
                "and run the same command again, which recomputes what is missing."
            ) from error
        records.append(record)
    return records, len(data) - len(tail)


def _model(folder: Path) -> str:
    """What a run's settings call its model; "" where they do not say."""
    chosen = read_mapping(folder / CONFIG).get("model")
    named = chosen.get("name") if isinstance(chosen, Mapping) else chosen
    return "" if named is None else str(named)


def _history(folder: Path, environment: Record) -> Record:
    """The first process's environment, with those of later processes of the same run where they differ."""
    path = folder / ENVIRONMENT
    if not path.exists():
        return environment
    first = read_mapping(path)
    if done_keys(folder):
        _refuse_other_revisions(folder, first, environment)
    resumed = first.pop("resumed_with", [])
    if environment not in (first, *resumed):
        resumed.append(environment)
    return first | ({"resumed_with": resumed} if resumed else {})


def _refuse_other_revisions(folder: Path, first: Record, now: Record) -> None:
    """Models and data keep their names when their content changes, so that the run's id does not show it."""
    for name in ("model", "data"):
        old, new = first.get(name), now.get(name)
        if old != new and not {old, new} & {None, "unknown"}:
            raise ExperimentError(
                f"The run in {folder} was begun with the {name} of revision {old!r}, and it is {new!r} now: half of its records "
                "would be of one and half of the other. Bring the former back, or put the run into another study with "
                "study.name=<name>."
            )


def _label(config: Mapping[str, Any]) -> tuple[str, str, str, int]:
    return config["task"]["name"], config["model"]["name"], config["method"]["name"], config["seed"]


def _namesakes(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two models have one name and differ in more than where they ran."""
    if one["name"] != other["name"]:
        return False
    return any(one.get(key) != other.get(key) for key in one.keys() & other.keys() - {"device"})


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Dotted names of the settings that affect results and differ, with both values."""
    flat_old, flat_new = _flat(old), _flat(new)
    groups = ("model", "task", "method", "budget")
    names = [name for name in {**flat_old, **flat_new} if name.split(".")[0] in groups]
    pairs = {name: (flat_old.get(name), flat_new.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
