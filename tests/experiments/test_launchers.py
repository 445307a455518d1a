"""Launchers and models of clusters: what a job asks SLURM for, and which models cannot be had."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

import experiments.models
from experiments.config import ModelConfig
from experiments.errors import ExperimentError
from experiments.launching import launch_failure
from experiments.models import load_model
from experiments.schemas import register_schemas
from smc.errors import OptionError

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
LAUNCHERS = sorted(path.stem for path in (CONFIGS / "hydra" / "launcher").glob("*.yaml"))


def composed(*overrides: str) -> Any:
    register_schemas()
    GlobalHydra.instance().clear()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONFIGS)):
        return compose("config", overrides=list(overrides), return_hydra_config=True)


def launcher(*overrides: str) -> dict[str, Any]:
    """The launcher's settings, as far as they can be known before Hydra runs."""
    return OmegaConf.to_container(composed(*overrides).hydra.launcher, resolve=False)  # type: ignore[return-value]


@pytest.mark.parametrize("name", [*LAUNCHERS, "submitit_slurm", "submitit_local"])
def test_every_launcher_composes_and_takes_overrides(name: str) -> None:
    found = launcher(f"hydra/launcher={name}", "hydra.launcher.timeout_min=7", "study.name=s")
    assert found["timeout_min"] == 7
    assert found["_target_"].endswith("LocalLauncher" if "local" in name else "SlurmLauncher")


def test_a_job_has_one_gpu_and_goes_on_after_preemption() -> None:
    found = launcher("hydra/launcher=slurm")
    assert found["gpus_per_node"] == 1
    assert found["max_num_timeout"] > 0
    assert found["additional_parameters"] == {"requeue": True}
    cpu = launcher("hydra/launcher=slurm_cpu")
    assert {name: value for name, value in cpu.items() if value != found[name]} == {"gpus_per_node": None}


def test_logs_lie_in_the_study() -> None:
    for name in LAUNCHERS:
        config = composed(f"hydra/launcher={name}", "results=there", "study.name=mine")
        assert config.hydra.launcher.submitit_folder == "there/mine/.submitit/%j"


SBATCH = """#!/bin/sh
cp "$1" "$SCRIPTS/script"
echo 'sbatch: error: invalid partition specified: gpu' >&2
exit 1
"""


def test_what_sbatch_is_asked_for(tmp_path: Path) -> None:
    for name, text in (("sbatch", SBATCH), ("srun", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "experiments.run",
                "-m",
                "hydra/launcher=slurm",
                "seed=0,1,2",
                f"results={tmp_path}/results",
            ),
            *("study.name=mine", "hydra.launcher.partition=gpu", "hydra.launcher.gpus_per_node=2"),
            *("hydra.launcher.setup=[module load cuda]", "+hydra.launcher.additional_parameters.reservation=ours"),
        ],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SCRIPTS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode != 0
    assert "invalid partition specified" in done.stderr
    script = (tmp_path / "script").read_text().splitlines()
    asked = {line.removeprefix("#SBATCH --") for line in script if line.startswith("#SBATCH")}
    assert asked >= {
        "array=0-2%3",
        "partition=gpu",
        "gpus-per-node=2",
        "cpus-per-task=4",
        "mem=32GB",
        "time=240",
        "requeue",
        "reservation=ours",
        "signal=USR2@60",
        "open-mode=append",
    }
    assert f"output={tmp_path}/results/mine/.submitit/%A_%a/%A_%a_0_log.out" in asked
    assert "module load cuda" in script


def test_failures_of_a_launch_are_told_in_words() -> None:
    from submitit.core.utils import FailedJobError, FailedSubmissionError, UncompletedJobError

    absent = RuntimeError('Could not detect "srun", are you indeed on a slurm cluster?')
    for error, words in (
        (absent, "There is no SLURM here"),
        (
            FailedJobError("sbatch: error: invalid account"),
            r"did not take the jobs: sbatch: error: invalid account.*qos",
        ),
        (FailedSubmissionError("Could not make sense of sbatch output"), "did not take the jobs"),
        (
            UncompletedJobError("Job 7_1 (task: 0)\nhas not produced any output (state: FAILED)"),
            r"7_1.*run the same command",
        ),
        (FailedJobError("Job (task=0) failed during processing"), "ended without a result"),
    ):
        found = launch_failure(error)
        assert found is not None
        assert re.search(words, found)
    assert launch_failure(RuntimeError("something else")) is None
    assert launch_failure(ValueError("srun")) is None


HUB = ModelConfig(name="m", source="hub", id="nowhere")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (replace(HUB, source="web"), "model.source='web'.*'package'.*'hub'"),
        (replace(HUB, device_map="everywhere"), "model.device_map='everywhere'.*auto, balanced"),
        (replace(HUB, device_map="auto", device="cuda"), "model.device=cuda.*model.device_map=auto.*leave one"),
        (replace(HUB, id=str(ROOT), revision="v1"), "model.revision=v1.*is a folder here"),
        (replace(HUB, cuda_graphs=True), "one GPU: give model.device=cuda"),
        (replace(HUB, cuda_graphs=True, device_map="auto"), "no model.device_map"),
        (replace(HUB, source="package", device_map="auto"), r"model=hf model\.id"),
        (replace(HUB, source="package", cuda_graphs=True, device="cuda"), r"model=hf model\.id"),
    ],
)
def test_models_that_cannot_be_had(config: ModelConfig, words: str) -> None:
    with pytest.raises(ExperimentError, match=words):
        load_model(config)


def test_options_reach_the_library_and_a_model_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []

    def from_pretrained(id: str, **options: Any) -> object:
        calls.append((id, options))
        return object()

    monkeypatch.setattr("experiments.models.HFModel.from_pretrained", from_pretrained)
    monkeypatch.setattr(experiments.models, "_loaded", None)
    raw = composed("model=hf_sharded", "model.id=large", "model.revision=v1")
    config = OmegaConf.to_object(raw.model)
    assert isinstance(config, ModelConfig)
    model = load_model(config)
    assert load_model(replace(config)) is model
    assert calls == [
        ("large", dict(device="cpu", dtype="bfloat16", revision="v1", device_map="auto", cuda_graphs=False)),
    ]
    modules = OmegaConf.to_object(
        composed("model=hf", "model.id=large", "model.device_map={model: 0, lm_head: cpu}").model
    )
    assert load_model(modules) is not model
    assert calls[1][1]["device_map"] == {"model": 0, "lm_head": "cpu"}


def test_a_device_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match=r"cuda:99"):
        load_model(replace(HUB, device="cuda:99"))
