"""The GPU bench's whole code path, on the CPU with a tiny model: cells, table, what is missing, what does not fit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.bench import gpu
from experiments.bench.random_models import SHAPES, letters_tokenizer, random_llama
from smc import HFModel

ROWS = (2, 4)


def run(out: Path, *more: str) -> dict[str, Any]:
    """The cells after a run of the command."""
    arguments = ["--device", "cpu", "--shape", "tiny", "--rows", *map(str, ROWS), "--prompt", "32", "--steps", "3"]
    gpu.main([*arguments, "--out", str(out), *more])
    return json.loads((out / "gpu.json").read_text())["cells"] if (out / "gpu.json").exists() else {}


def test_every_cell_is_measured_and_a_second_run_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = run(tmp_path)
    for rows in ROWS:
        for what in ("enumerate", "sample", "plain"):
            found = cells[f"tiny, {rows} rows: {what}"]
            assert found["seconds"] > 0
            assert 0 < found["rows"] <= rows
        assert cells[f"tiny, {rows} rows: enumerate"]["rows"] == rows
        parts = cells[f"tiny, {rows} rows: parts"]
        assert set(parts) == set(gpu.PARTS)
        assert all(parts[part] > 0 for part in ("forward", "mask", "branch"))
        assert cells[f"tiny, {rows} rows: traffic"]["fetches"] >= 1
    rounding = cells["tiny, 2 rows: bfloat16 against float32"]
    assert 0 < rounding["largest_difference"] < 1
    assert rounding["log_evidence"] != rounding["log_evidence_corrected"]

    page = (tmp_path / "gpu.md").read_text()
    assert all(f"| tiny | {rows} |" in page for rows in ROWS)
    assert "scored again with tiny in float32" in page
    assert "Not reached" not in page

    monkeypatch.setattr(gpu, "random_llama", lambda *_, **__: pytest.fail("a model was made for nothing"))
    assert run(tmp_path) == cells


def test_what_does_not_fit_is_a_result_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(gpu, "plain_decoding", fails)
    cells = run(tmp_path)
    assert cells["tiny, 4 rows: plain"] == {"out_of_memory": True}
    assert cells["tiny, 4 rows: sample"]["seconds"] > 0
    assert "out of memory" in (tmp_path / "gpu.md").read_text()


def test_what_fails_is_named_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("no kernel image\nand more")

    monkeypatch.setattr(gpu, "step_time", fails)
    with pytest.raises(SystemExit):
        run(tmp_path)
    cells = json.loads((tmp_path / "gpu.json").read_text())["cells"]
    assert "tiny, 4 rows: sample" not in cells
    assert cells["tiny, 4 rows: plain"]["seconds"] > 0
    assert "tiny, 4 rows: sample (RuntimeError: no kernel image)" in (tmp_path / "gpu.md").read_text()


def test_what_there_was_no_time_for_is_named_and_not_stored(tmp_path: Path) -> None:
    assert run(tmp_path, "--minutes", "0") == {}
    page = (tmp_path / "gpu.md").read_text()
    assert "Not reached in time: " in page
    assert "tiny, 4 rows: enumerate" in page


def test_a_gpu_that_is_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        gpu.main(["--out", "/nowhere"])
    assert "--device cpu" in capsys.readouterr().err


@pytest.mark.parametrize("size", [SHAPES["tiny"]["vocab_size"], 5000])
def test_the_vocabulary_of_letters_is_whole(size: int) -> None:
    tokenizer = letters_tokenizer(size)
    assert len(tokenizer) == size
    ids = tokenizer('{"s":"a b"}', add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == '{"s":"a b"}'
    assert tokenizer.decode([size - 1]).islower()


def test_random_models_are_the_same_each_time_and_disturb_nobodys_randomness() -> None:
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    models = [
        HFModel(random_llama("tiny", "cpu", torch.float32, 64), letters_tokenizer(SHAPES["tiny"]["vocab_size"]))
        for _ in range(2)
    ]
    assert torch.equal(torch.rand(2), expected)
    ids = gpu.random_prompt(8)
    first, second = (model.start(ids).log_probs.numpy() for model in models)
    np.testing.assert_array_equal(first, second)
