"""Several runs of a method that chooses one sequence of all that it drew: the choice is made among all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.analysis.pooling import pool


def pool_best(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The pooled record with the sequence of the highest exact target alone, which weighs what all of them did.

    So best-of-n repeated m times is best-of-nm. Records as `experiments.evaluate` makes them, not yet judged.
    """
    pooled = pool(records)
    sequences = pooled["sequences"]
    if not sequences:
        return pooled
    best = max(sequences, key=lambda row: (row["log_target"], row["text"]))
    log_total = float(np.logaddexp.reduce([row["log_weight"] for row in sequences]))
    weight = float(log_total > -math.inf)
    return pooled | {"ess": weight, "sequences": [best | {"weight": weight, "log_weight": log_total, "count": 1}]}
