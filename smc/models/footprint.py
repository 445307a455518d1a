"""How many bytes a run of a neural model takes, known before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from smc.models.attention import plain_layers
from smc.models.placement import input_device, placed_whole
from smc.models.slots import BLOCK, rounded_up

_TABLES = 4
"""Float32 tables of a row's whole vocabulary that are alive at a time: logits, log probabilities, masked ones, relative ones."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of one run, the weights left out.

    Attributes:
        prompt: keys and values of the prompt. Where rows cannot share it, each row has them once more in `row`.
        row: keys and values of one row's continuation, at its full length.
        table: what one row's next-token probabilities take while a step is made.
    """

    prompt: int
    row: int
    table: int

    def of_rows(self, rows: int) -> int:
        """Bytes of a run with so many live rows."""
        return self.prompt + rows * (self.row + self.table)

    def rows_in(self, n_bytes: float) -> int:
        """The most rows that fit in so many bytes; negative if not even the prompt does."""
        return int(max((n_bytes - self.prompt) // (self.row + self.table), -1))


def footprint(model: PreTrainedModel, prompt_tokens: int, max_tokens: int, shared: bool = True) -> Footprint | None:
    """What a run behind a prompt takes, for rows of at most max_tokens tokens.

    Args:
        shared: whether rows share the prompt.

    Returns:
        None where it cannot be told: layers without keys and values of a fixed width, or that forget; models that are
        spread over devices or processes.
    """
    config = model.config.get_text_config(decoder=True)
    heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_attention_heads", None)
    if not placed_whole(model) or heads is None or not plain_layers(config):
        return None
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token = 2 * config.num_hidden_layers * heads * width * next(model.parameters()).dtype.itemsize
    row = rounded_up(max_tokens, BLOCK) * token if shared else (prompt_tokens + max_tokens) * token
    return Footprint(prompt_tokens * token, row, _TABLES * 4 * config.vocab_size)


def free_memory(model: PreTrainedModel) -> int | None:
    """Bytes that are free where the model computes; None where that cannot be told."""
    device = input_device(model)
    if device.type == "cuda":
        reserved_but_unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + reserved_but_unused
    return _free_on_the_cpu() if device.type == "cpu" else None


def _free_on_the_cpu(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What the system and this process's control group leave; None on systems that do not say."""
    try:
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    try:
        limit = int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
        kept = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        limit += int(kept["inactive_file"])  # files that were read, such as weights, are given up when room is needed
    except (OSError, ValueError, KeyError):  # no control group, or one without a limit
        return free
    return min(free, max(limit, 0))


def in_words(n_bytes: float) -> str:
    """A number of bytes for people."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if abs(n_bytes) >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes / 2**10:.1f} KiB"
