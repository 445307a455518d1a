"""The methods that SMC is compared with, on the same inputs and with the same kind of result."""

from smc.baselines.greedy import greedy_masking
from smc.baselines.local import importance_resampling, local_masking
from smc.baselines.unconstrained import unconstrained

__all__ = ["greedy_masking", "importance_resampling", "local_masking", "unconstrained"]
