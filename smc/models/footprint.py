"""How many bytes a run of a neural model takes, known before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from smc.models.placement import input_device
from smc.models.slots import BLOCK

_TABLES = 4
"""Float32 tables of a row's whole vocabulary that are alive at a time: logits, log probabilities, masked ones, relative ones."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of one run, the weights left out.

    Attributes:
        prompt: keys and values of the prompt, held once whatever the rows.
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
        return int((n_bytes - self.prompt) // (self.row + self.table))


def footprint(model: PreTrainedModel, prompt_tokens: int, max_tokens: int) -> Footprint:
    """What a run behind a prompt takes, for rows of at most max_tokens tokens."""
    config = model.config.get_text_config(decoder=True)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    dtype = next(model.parameters()).dtype
    token = 2 * config.num_hidden_layers * heads * width * dtype.itemsize
    blocks = -(-max_tokens // BLOCK) * BLOCK
    return Footprint(prompt_tokens * token, blocks * token, _TABLES * 4 * config.vocab_size)


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
    except (OSError, ValueError):  # no control group, or one without a limit
        return free
    return min(free, max(limit, 0))


def in_words(n_bytes: float) -> str:
    """A number of bytes for people."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if abs(n_bytes) >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes / 2**10:.1f} KiB"
