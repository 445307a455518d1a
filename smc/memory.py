"""Memory: what running out of it looks like."""

from __future__ import annotations

import torch

_SAID_OF_CPU_AND_OTHERS = ("can't allocate memory", "not enough memory", "out of memory", "ALLOC_FAILED")
"""How allocators that have no exception of their own say it (torch on the CPU, cuBLAS, Metal)."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on whichever device: less at a time may then work."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _SAID_OF_CPU_AND_OTHERS)
