"""What the process that was started by hand knows of the jobs that it starts, here or elsewhere."""

from __future__ import annotations

from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

launching = False
"""Whether this is that process: a launcher may run jobs in others."""

started: DictConfig | None = None
"""The settings of the sweep, once Hydra has started it: its report is written when the jobs have ended."""

refused: list[str] = []
"""What jobs in this process ended with, if it was bad input."""


class Noted(Callback):
    """Hydra's word on a sweep."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        global started
        started = config
