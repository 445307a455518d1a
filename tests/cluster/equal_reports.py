"""Whether two studies are the same but for time and environment: `python tests/cluster/equal_reports.py STUDY STUDY`.

Records are compared field by field without those that hold seconds. Then both studies are copied under one name, every
number of seconds set to 1 and the environments left out, a report is made of each copy, and each of its files must be equal to
the last byte. The exit status is 0 if all is equal.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from experiments import compare
from experiments.store import CONFIG, read_mapping, read_records, record_files, record_key

Files = dict[str, bytes]


def timeless(value: Any) -> Any:
    """A record, every number under a name with "seconds" replaced by 1."""
    if isinstance(value, dict):
        return {
            name: 1.0 if "seconds" in name and isinstance(item, (int, float)) else timeless(item)
            for name, item in value.items()
        }
    return [timeless(item) for item in value] if isinstance(value, list) else value


def report(study: Path, where: Path) -> Files:
    """The files of the report of a timeless copy of `study`, by their names."""
    copy, out = where / "study", where / "report"
    for source in record_files(study):
        target = copy / source.relative_to(study)
        target.parent.mkdir(parents=True, exist_ok=True)
        config = read_mapping(source.parent / CONFIG) | {"study": "study", "results": "results"}
        (target.parent / CONFIG).write_text(yaml.safe_dump(config), encoding="utf-8")
        lines = source.read_text(encoding="utf-8").splitlines()
        target.write_text("".join(json.dumps(timeless(json.loads(line))) + "\n" for line in lines), encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(where):  # the same relative name for both
        if code := compare.main(["study", "--out", "report"]):
            raise SystemExit(f"No report could be made of {study.name} (status {code}).")
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def differences(left: Path, right: Path) -> list[str]:
    """What differs, in words."""
    records = [{record_key(r): timeless(r) for r in read_records(study)} for study in (left, right)]
    found = [f"record {key}" for key in records[0].keys() | records[1].keys() if _differ(records, key)]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        files = [report(left, Path(one)), report(right, Path(other))]
    found += [f"report file {name}" for name in sorted(files[0].keys() | files[1].keys()) if _differ(files, name)]
    if not found:
        print(f"{len(records[0])} records equal; {len(files[0])} files of the report equal: {', '.join(files[0])}")
    return sorted(found)


def _differ(pair: list[dict[Any, Any]], key: Any) -> bool:
    return key not in pair[0] or key not in pair[1] or pair[0][key] != pair[1][key]


def main(left: str, right: str) -> int:
    found = differences(Path(left), Path(right))
    for line in found:
        print(f"differs: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
