"""The record store: nothing lost, nothing corrupted, nothing confused."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from experiments.errors import BusyError, ExperimentError
from experiments.store import (
    CONFIG,
    DONE,
    ENVIRONMENT,
    RECORDS,
    done_keys,
    open_run,
    plain,
    read_records,
    record_key,
    refuse_ambiguity,
    run_id,
)


def record(instance: str, **more: Any) -> dict[str, Any]:
    return {"task": "t", "model": "", "instance": instance, "method": "m", "seed": 0, **more}


def write(folder: Path, *records: dict[str, Any], environment: dict[str, Any] | None = None) -> None:
    with open_run(folder) as store:
        store.describe({"seed": 0}, environment or {"python": "3"})
        for item in records:
            store.append(item)


def test_round_trip(tmp_path: Path) -> None:
    write(tmp_path / "a", record("1", text="é\udcff", x=0.1), record("2"))
    assert read_records(tmp_path) == [record("1", text="é\udcff", x=0.1), record("2")]
    assert done_keys(tmp_path) == {("t", "", "1", "m", 0), ("t", "", "2", "m", 0)}
    assert done_keys(tmp_path / "absent") == set()
    with pytest.raises(ExperimentError, match="no folder"):
        read_records(tmp_path / "absent")


def test_plain_values(tmp_path: Path) -> None:
    value = {
        "a": np.float64(-math.inf),
        "b": (np.int64(3), math.nan),
        "c": np.bool_(True),
        "d": np.float32(0.5),
        "e": None,
    }
    assert plain(value) == {"a": None, "b": [3, None], "c": True, "d": 0.5, "e": None}
    assert [type(plain(x)) for x in (np.int64(3), np.float64(1), np.bool_(True))] == [int, float, bool]
    with pytest.raises(TypeError, match="ndarray"):
        plain({"a": np.zeros(2)})


@pytest.mark.parametrize("cut", [1, 2, 10])
def test_a_torn_last_line_is_ignored_and_does_not_corrupt_what_follows(tmp_path: Path, cut: int) -> None:
    write(tmp_path, record("1"), record("2", text="long enough"))
    path = tmp_path / RECORDS
    path.write_bytes(path.read_bytes()[:-cut])
    assert read_records(tmp_path) == [record("1")]
    write(tmp_path, record("3"))
    assert read_records(tmp_path) == [record("1"), record("3")]
    assert path.read_bytes().endswith(b"}\n")


@given(cut=st.integers(0, 400))
def test_any_cut_keeps_a_prefix_of_the_records(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("cut")
    records = [record(str(i), text="ü" * i) for i in range(5)]
    write(folder, *records)
    path = folder / RECORDS
    data = path.read_bytes()[:cut]
    path.write_bytes(data)
    kept = read_records(folder)
    assert kept == records[: len(kept)]
    assert len(kept) == data.count(b"\n")
    write(folder, record("new"))
    assert read_records(folder) == [*kept, record("new")]


def test_the_first_of_repeated_records_counts(tmp_path: Path) -> None:
    write(tmp_path / "a", record("1", x=1), record("1", x=2))
    write(tmp_path / "b", record("1", x=3), record("2", x=4))
    assert [r["x"] for r in read_records(tmp_path)] == [1, 4]


@pytest.mark.parametrize("line", ["{broken", "[]", '{"task": "t"}', ""])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    write(tmp_path, record("1"), record("2"))
    path = tmp_path / RECORDS
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, lines[1]]) + "\n")
    with pytest.raises(ExperimentError, match=r"Line 2 of .*records.jsonl"):
        read_records(tmp_path)
    with pytest.raises(ExperimentError, match="Line 2"), open_run(tmp_path):
        pass


def test_done_marker(tmp_path: Path) -> None:
    with open_run(tmp_path) as store:
        store.append(record("1"))
        assert not (tmp_path / DONE).exists()
        wanted = [record_key(record(name)) for name in ("1", "2")]
        assert not store.finish(wanted)
        assert not (tmp_path / DONE).exists()
        store.append(record("2"))
        assert store.finish(wanted)
    assert (tmp_path / DONE).read_text() == "2 records\n"
    with open_run(tmp_path) as store:
        store.describe({}, {})
        assert not (tmp_path / DONE).exists(), "a run that goes on is not done"


def test_settings_and_environment(tmp_path: Path) -> None:
    with open_run(tmp_path) as store:
        store.describe({"seed": 3, "limit": None}, {"python": "1"})
    assert yaml.safe_load((tmp_path / CONFIG).read_text()) == {"seed": 3, "limit": None}
    write(tmp_path, environment={"python": "1"})
    assert json.loads((tmp_path / ENVIRONMENT).read_text()) == {"python": "1"}
    for _ in range(2):
        write(tmp_path, environment={"python": "2"})
    assert json.loads((tmp_path / ENVIRONMENT).read_text()) == {
        "python": "1",
        "resumed_with": [{"python": "2"}],
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([".lock", CONFIG, ENVIRONMENT, RECORDS]), (
        "no temporary files stay"
    )


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with open_run(tmp_path) as store:
        with pytest.raises(ExperimentError, match="Another process"), open_run(tmp_path):
            pass
        store.append(record("1"))
    write(tmp_path, record("2"))
    assert len(read_records(tmp_path)) == 2


def test_a_patient_process_waits_until_the_other_lets_go(tmp_path: Path) -> None:
    with open_run(tmp_path) as store:
        store.append(record("1"))
        other = threading.Timer(0.3, store._stream.close)
        other.start()
        with open_run(tmp_path, patience=30) as after:
            assert [r["instance"] for r in after.records] == ["1"]
        other.join()


WRITER = """
import sys, time
from experiments.store import open_run
with open_run(sys.argv[1]) as store:
    for i in range(10**6):
        store.append({"task": "t", "instance": str(i), "method": "m", "seed": 0, "text": "x" * 5000})
        print(i, flush=True)
"""


def test_kill_9_loses_at_most_the_record_in_progress(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for _ in range(20):
        process.stdout.readline()
    time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    told = 20 + len(process.stdout.read().splitlines())
    process.wait()
    kept = len(read_records(tmp_path))
    assert kept >= told - 1
    write(tmp_path, record("after"))  # the lock died with the process
    assert [r["instance"] for r in read_records(tmp_path)] == [*map(str, range(kept)), "after"]


def test_run_id_depends_on_content_alone() -> None:
    assert run_id({"a": 1, "b": {"c": 2.0}}) == run_id({"b": {"c": 2.0}, "a": 1})
    assert len({run_id({"seed": seed, "k": k}) for seed in range(3) for k in (1, 2)}) == 6
    assert run_id({"seed": 0}) == run_id({"seed": np.int64(0)})
    assert len(run_id({})) == 10


def test_runs_that_a_report_could_not_tell_apart_are_refused(tmp_path: Path) -> None:
    def settings(k: int, name: str = "smc", seed: int = 0) -> dict[str, Any]:
        return {
            "task": {"name": "t"},
            "method": {"name": name, "n_particles": k},
            "model": {"name": "x"},
            "seed": seed,
        }

    with open_run(tmp_path / "first") as store:
        store.describe(settings(16), {})
    refuse_ambiguity(tmp_path, "second", settings(8))  # nothing recorded yet: nothing to confuse
    write_first = record("1")
    with open_run(tmp_path / "first") as store:
        store.append(write_first)
    with pytest.raises(ExperimentError, match=r"method.n_particles 16 there, 8 here.*method.name=smc_2"):
        refuse_ambiguity(tmp_path, "second", settings(8))
    refuse_ambiguity(tmp_path, "first", settings(16))
    refuse_ambiguity(tmp_path, "second", settings(8, name="smc_8"))
    refuse_ambiguity(tmp_path, "second", settings(8, seed=1))
    refuse_ambiguity(tmp_path / "other", "second", settings(8))


def test_a_run_that_is_only_beginning_is_seen(tmp_path: Path) -> None:
    def settings(k: int) -> dict[str, Any]:
        method = {"name": "smc", "n_particles": k}
        return {"task": {"name": "t"}, "method": method, "model": {"name": "x"}, "budget": {"rows": k}, "seed": 0}

    with open_run(tmp_path / "first") as store:
        store.claim(settings(16))
        with pytest.raises(ExperimentError, match=r"n_particles 16 there, 8 here; budget.rows 16 there, 8 here"):
            refuse_ambiguity(tmp_path, "second", settings(8))
    refuse_ambiguity(tmp_path, "second", settings(8))  # it ended without a record: nothing to confuse


def test_jobs_that_split_a_run_otherwise_are_not_at_it_together(tmp_path: Path) -> None:
    with open_run(tmp_path, shard=1, shards=2) as store:
        store.append(record("1"))
        with open_run(tmp_path, shard=0, shards=2):
            pass
        for shard, shards in ((0, 1), (2, 4)):
            with pytest.raises(BusyError, match="Another process"), open_run(tmp_path, shard=shard, shards=shards):
                pass
    with open_run(tmp_path, shard=2, shards=4):
        pass


@pytest.mark.parametrize("name", ["model", "data"])
def test_a_run_is_not_continued_with_another_revision(tmp_path: Path, name: str) -> None:
    write(tmp_path, environment={name: "v1"})
    write(tmp_path, environment={name: "v2"})  # without a record, nothing is mixed
    (tmp_path / ENVIRONMENT).unlink()
    write(tmp_path, record("1"), environment={name: "v1"})
    with pytest.raises(ExperimentError, match=f"{name} of revision 'v1'.*'v2' now.*study.name"):
        write(tmp_path, record("2"), environment={name: "v2"})
    for known_to_be_the_same in ("v1", "unknown"):
        write(tmp_path, environment={name: known_to_be_the_same})
    assert read_records(tmp_path) == [record("1")]


def test_a_run_is_marked_only_after_what_belongs_to_it(tmp_path: Path) -> None:
    def fails(records: list[dict[str, Any]]) -> None:
        raise OSError("full")

    with open_run(tmp_path) as store:
        store.append(record("1"))
        with pytest.raises(OSError, match="full"):
            store.finish([record_key(record("1"))], before=fails)
        assert not (tmp_path / DONE).exists()
        assert store.finish([record_key(record("1"))])


BOUNDED_WRITER = """
import resource, sys
from experiments.store import open_run
resource.setrlimit(resource.RLIMIT_FSIZE, (12345, 12345))
try:
    with open_run(sys.argv[1]) as store:
        for i in range(100):
            store.append({"task": "t", "instance": str(i), "method": "m", "seed": 0, "text": "x" * 1000})
except OSError:
    print(i)
"""


def test_a_disk_that_fills_up_leaves_whole_records(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED_WRITER, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    n = int(done.stdout)
    assert n > 5
    assert not (tmp_path / RECORDS).read_bytes().endswith(b"\n"), "the last line is torn"
    assert [r["instance"] for r in read_records(tmp_path)] == [str(i) for i in range(n)]
    write(tmp_path, record("after"))
    assert [r["instance"] for r in read_records(tmp_path)] == [*(str(i) for i in range(n)), "after"]
