"""The traces of a run as a table: one row a step of a (task, instance, method, seed), for pandas, polars or DuckDB.

The records hold them already, so the table is made from these when a run is complete.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from experiments.errors import ExperimentError
from experiments.store import write_atomically

TRACES = "traces.parquet"
_HEAD = ("task", "model", "instance", "method", "seed")


def write_traces(records: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Write `traces.parquet` into a run's folder; nothing where no record has a trace.

    Raises ExperimentError if pyarrow is missing.
    """
    rows = [{name: record[name] for name in _HEAD} | step for record in records for step in record.get("trace") or ()]
    if not rows:
        return
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ExperimentError(
            f"The traces of {folder} are written as Parquet, which needs the package pyarrow: install it with "
            "`pip install pyarrow` and run the same command again. The records are complete."
        ) from error
    names = dict.fromkeys(name for row in rows for name in row)
    table = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    write_atomically(folder / TRACES, buffer.getvalue())
