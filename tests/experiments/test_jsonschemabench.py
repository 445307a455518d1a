"""Documents under schemas: the loader, and what a right document is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from experiments.errors import ExperimentError
from experiments.tasks import problem_files
from experiments.tasks.jsonschemabench import _SHOWN, JsonSchemaBenchTask, entries
from experiments.tasks.sets import spread
from smc import JSONSchema
from smc.vocabulary import byte_vocabulary

SMALL = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
LARGE = {"type": "array", "items": SMALL, "maxItems": 2}
BROKEN = {"$ref": "#/nowhere"}

# A right document for each of our own schemas.
RIGHT = {
    "light": {"room": "kitchen", "on": True},
    "ticket": {"title": "Printer jam", "priority": "high"},
    "point": {"x": 3, "y": 7},
    "tags": ["red", "green", "blue"],
    "alarm": {"time": "07:30", "label": "Gym"},
    "book": {"title": "Emma", "author": "Jane Austen", "year": 1815},
    "contact": {"name": "Lena Roth", "email": "lena@example.org", "phone": None},
    "shapes": [{"shape": "circle", "radius": 4}, {"shape": "square", "side": 2}],
    "invoice": {
        "number": "INV-0042",
        "lines": [{"item": "pens", "quantity": 2, "price": 1.5}, {"item": "Lamp", "quantity": 1, "price": 20}],
    },
    "menu": {"section": "Soups", "dishes": [{"name": "tomato soup", "price": 5}]},
    "server": {"port": 8080, "debug": True, "timeout": 30},
    "delivery": {"date": "2024-05-17", "address": {"street": "12 Mill Lane", "city": "Leeds"}, "gift": True},
}


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def test_own_schemas_can_be_answered() -> None:
    task = JsonSchemaBenchTask()
    instances = {instance.id: instance for instance in task.instances()}
    assert set(instances) == set(RIGHT)
    lengths = [len(entry.text) for entry in entries(task)[0].values()]
    assert lengths == spread(sorted(lengths))  # a small limit meets short and long schemas
    assert min(lengths[:2]) < sorted(lengths)[6] < max(lengths[:2])
    for id, value in RIGHT.items():
        instance, text = instances[id], compact(value)
        assert instance.constraint.compile(byte_vocabulary()).generates(text.encode())
        assert task.score(instance, text) == 1.0
        assert task.measures(instance, text) == {"valid": 1.0, "empty": 0.0, "mentioned": 1.0}
        for wrong in ("", text[:-1], "{}", "null", "[[", text + text):
            assert task.score(instance, wrong) == 0.0
    light = instances["light"]
    half = '{"room":"The Kitchen","on":false}'
    assert task.score(light, half) == 0.0
    assert task.measures(light, half) == {"valid": 1.0, "empty": 0.0, "mentioned": 0.5}
    assert task.measures(instances["point"], '{"x":3,"y":true}') == {"valid": 0.0, "empty": 0.0, "mentioned": 0.5}
    assert task.measures(instances["server"], "{}") == {"valid": 0.0, "empty": 1.0, "mentioned": 0.0}


def test_the_example_fits_its_schema() -> None:
    schema, _, answer = _SHOWN
    assert JSONSchema(schema).is_valid(answer.encode())


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def row(id: str, schema: Any) -> dict[str, Any]:
    return {"json_schema": json.dumps(schema), "unique_id": id}


def test_the_hub_is_read_by_subset_and_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "abc123"
    write(folder, "Github_easy/test-00000-of-00001.parquet", [row("large", LARGE), row("small", SMALL)])
    write(folder, "Github_easy/train-00000-of-00001.parquet", [row("train", SMALL)])
    write(folder, "Snowplow/test-00000-of-00001.parquet", [row("snow", SMALL)])
    asked = []

    def download(name: str, revision: str | None, patterns: list[str]) -> str:
        asked.append(patterns[0])
        return str(folder)

    monkeypatch.setattr(problem_files, "download", download)
    task = JsonSchemaBenchTask(source="epfl-dlab/JSONSchemaBench")
    small, large = task.instances()
    assert (small.id, large.id) == ("small", "large")
    assert task.revision == "epfl-dlab/JSONSchemaBench abc123"
    assert [i.id for i in JsonSchemaBenchTask(source="epfl-dlab/JSONSchemaBench", subset="Snowplow").instances()] == [
        "snow"
    ]
    assert asked == ["*Github_easy*.parquet", "*Snowplow*.parquet"]
    with pytest.raises(ExperimentError, match=r"no file for task.subset=Github_easy and task.split=dev"):
        JsonSchemaBenchTask(source="epfl-dlab/JSONSchemaBench", split="dev").instances()
    # without a request, validity is the score
    assert (task.score(small, '{"a":1}'), task.score(small, '{"a":"x"}')) == (1.0, 0.0)
    assert task.measures(large, "[]") == {"valid": 1.0, "empty": 1.0}


@pytest.mark.parametrize("layout", ["tables", "files"])
def test_local_folders(tmp_path: Path, layout: str) -> None:
    if layout == "tables":
        write(tmp_path, "data/Github_easy.jsonl", [row("s", SMALL), {"json_schema": LARGE}])
        write(tmp_path, "data/Other.jsonl", [row("s", SMALL)])
        write(tmp_path, "data/info.json", [{"not": "read beside tables"}])
        expected = ["s", "Github_easy_2"]
    else:
        for name, schema in (("s", SMALL), ("l", LARGE)):
            (tmp_path / "data" / "Github_easy").mkdir(parents=True, exist_ok=True)
            (tmp_path / "data" / "Github_easy" / f"{name}.json").write_text(json.dumps(schema))
        expected = ["s", "l"]
    task = JsonSchemaBenchTask(source=str(tmp_path), subset="Github_easy")
    assert [i.id for i in task.instances()] == expected
    assert [i.id for i in task.instances(1)] == expected[:1]
    assert task.revision.startswith("digest ")


def test_schemas_that_cannot_be_used_are_left_out_visibly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = {"type": "object", "required": ["a"], "properties": {"a": False}}
    write(tmp_path, "x.jsonl", [row("broken", BROKEN), row("small", SMALL), row("large", LARGE), row("empty", empty)])
    task = JsonSchemaBenchTask(source=str(tmp_path), max_chars=90)
    assert [i.id for i in task.instances()] == ["small"]
    said = capsys.readouterr().err
    assert "3 of the first 4 problems are left out" in said
    assert "#/nowhere" in said
    assert "task.max_chars=90" in said
    with pytest.raises(ExperimentError, match="No schema"):
        JsonSchemaBenchTask(source=str(tmp_path), max_chars=2).instances()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", "", "holds no schema"),
        ("x.jsonl", '{"schema": {}}', r"no json_schema in row 1 of .*columns schema"),
        ("x.jsonl", '{"json_schema": "{"}', r"json_schema of row 1 of .* cannot be read as JSON"),
        ("x.json", "{", r"x\.json cannot be read as JSON"),
        ("x.txt", "{}", r"holds no file that ends in .parquet or .jsonl or .json"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ExperimentError, match=message):
        JsonSchemaBenchTask(source=str(tmp_path)).instances()


def test_bad_options() -> None:
    with pytest.raises(ExperimentError, match=r"task.source, which is not given"):
        JsonSchemaBenchTask(subset="Github_easy")
    with pytest.raises(ExperimentError, match="max_chars=0"):
        JsonSchemaBenchTask(max_chars=0)
