"""Models larger than one device or process: tensor parallelism over two processes, device maps with weights on the disk."""

import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from distributed_worker import CONSTRAINTS, PROMPT, forced, results
from test_models_huggingface import CONFIGS, byte_tokenizer
from transformers import AutoModelForCausalLM

from smc import HFModel, SMCSampler
from smc.errors import OptionError
from smc.models.placement import Placement, agreed, input_device, placed_whole, tensor_parallel_group

WORKER = Path(__file__).with_name("distributed_worker.py")
LAYERS = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", "model.norm": "cpu", "lm_head": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama on the disk."""
    where = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(CONFIGS["llama"]).save_pretrained(where)
    byte_tokenizer().save_pretrained(where)
    return where


@pytest.fixture(scope="module")
def whole(folder: Path) -> HFModel:
    """The same model in this process."""
    return HFModel.from_pretrained(str(folder))


def launched(folder: Path, out: Path) -> list[dict[str, Any]]:
    """What two processes report that hold the model together."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    root = str(WORKER.parents[2])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    reports, processes = [out / f"{rank}.json" for rank in range(2)], []
    for rank, report in enumerate(reports):
        env = {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank), "PYTHONPATH": root}
        command = [sys.executable, str(WORKER), str(folder), str(report)]
        processes.append(
            subprocess.Popen(command, env=env, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    try:
        said = [process.communicate(timeout=150)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert all(process.returncode == 0 for process in processes), "\n".join(said)
    return [json.loads(report.read_text()) for report in reports]


@pytest.fixture(scope="module")
def reports(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    if not torch.distributed.is_gloo_available():
        pytest.skip("torch was built without gloo")
    return launched(folder, tmp_path_factory.mktemp("reports"))


def test_each_process_holds_about_half_of_the_weights(reports: list[dict[str, Any]], whole: HFModel) -> None:
    weights = sum(parameter.numel() for parameter in whole.model.parameters())
    assert [report["rank"] for report in reports] == [0, 1]
    assert all(0.5 * weights <= report["weights"] < 0.6 * weights for report in reports)
    assert all(report["shares prompts"] for report in reports)


def test_processes_see_the_same_bits_and_the_whole_models_log_probabilities(
    reports: list[dict[str, Any]], whole: HFModel
) -> None:
    assert reports[0]["forced bits"] == reports[1]["forced bits"]
    np.testing.assert_allclose(reports[0]["forced"], forced(whole), atol=1e-4)


def test_processes_draw_the_same_and_agree_with_one(reports: list[dict[str, Any]], whole: HFModel) -> None:
    assert reports[0]["runs"] == reports[1]["runs"]
    for name, result in results(whole).items():
        found = reports[0]["runs"][name]
        assert float.fromhex(found["log_evidence"]) == pytest.approx(result.log_evidence, abs=1e-4)
        posterior = {text: float.fromhex(p) for text, p in found["posterior"].items()}
        assert posterior == pytest.approx(result.posterior(), abs=1e-4)
        assert found["rows"] == result.cost.forward_rows


def test_what_processes_see_differently_is_settled_by_the_first(reports: list[dict[str, Any]]) -> None:
    assert reports[0]["agreed"] == reports[1]["agreed"] == [[0.0] * 3] * 2
    assert reports[0]["rounded otherwise"] == reports[1]["rounded otherwise"] == reports[0]["runs"]


def test_alone_there_is_nothing_to_agree_on(whole: HFModel) -> None:
    assert tensor_parallel_group(whole.model) is None
    log_probs = torch.zeros(1, 2)
    assert agreed(log_probs, None) is log_probs
    assert placed_whole(whole.model)


@pytest.mark.parametrize(
    "device_map",
    [
        "auto",
        {"": "cpu"},
        {**LAYERS, "model.layers.0": "cpu", "model.layers.1": "disk"},
        {**LAYERS, "model.layers.0": "disk", "model.layers.1": "disk", "model.embed_tokens": "disk", "lm_head": "disk"},
    ],
    ids=["auto", "cpu", "a layer on the disk", "nearly all on the disk"],
)
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_device_maps(folder: Path, whole: HFModel, device_map: Any, branching: str) -> None:
    model = HFModel.from_pretrained(str(folder), device_map=device_map)
    assert input_device(model.model) == torch.device("cpu")
    assert placed_whole(model.model) == (isinstance(device_map, str) or len(device_map) == 1)
    np.testing.assert_allclose(forced(model), forced(whole), atol=1e-5)
    for constraint in CONSTRAINTS.values():
        ours, theirs = (
            SMCSampler(m, constraint, n_particles=4, branching=branching, max_tokens=8, seed=1).run(PROMPT)
            for m in (model, whole)
        )
        assert ours.log_evidence == pytest.approx(theirs.log_evidence, abs=1e-4)
        assert ours.posterior() == pytest.approx(theirs.posterior(), abs=1e-4)
        assert math.isfinite(ours.log_evidence or math.nan)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(device="nowhere"), "not a device"),
        (dict(device_map="auto", tp_plan="auto"), "give one"),
        (dict(device="meta"), "is not here: torch can compute on the CPU"),
        (dict(tp_plan="auto"), "torchrun"),
    ],
)
def test_placements_that_cannot_be(
    options: dict[str, Any], words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(OptionError, match=words):
        HFModel.from_pretrained(str(folder), **options)


def test_gpus_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    Placement(device="cuda:1")
    with pytest.raises(OptionError, match="torch sees 2 GPUs, 'cuda:0' to 'cuda:1'"):
        Placement(device="cuda:7")
    with pytest.raises(OptionError, match="Leave device out"):
        Placement(device="cuda:1", device_map="auto")


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OptionError, match="torch sees no GPU"):
        Placement(device="cuda:1")
