"""From certified bounds to a record."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.evaluate import sampled_record
from smc import SMCResult
from smc.exact import CertifiedPosterior
from smc.result import ess_of
from smc.vocabulary import Vocabulary


def bounds_record(posterior: CertifiedPosterior, vocabulary: Vocabulary) -> dict[str, Any]:
    """The fields of a record that come from branch and bound. Logs in nats.

    Sequences weigh their exact targets, so expectations are within `bounds`/"total_variation" times the score's range of
    the posterior's. `log_evidence` is None unless the bounds meet: a lower bound is no estimate, and both bounds are in
    `bounds`, with whether the best sequence found certainly is the likeliest of all. What was left open is
    `log_unexplored_mass`, as after an early stop.
    """
    record = sampled_record(_as_result(posterior), vocabulary)
    return record | {
        "n_particles": None,
        "advice": _advice(posterior) or record["advice"],
        "bounds": {
            "log_evidence_lower": posterior.log_lower,
            "log_evidence_upper": posterior.log_upper,
            "total_variation": posterior.total_variation_bound,
            "best_is_certain": posterior.best_is_certain,
        },
    }


def _as_result(posterior: CertifiedPosterior) -> SMCResult:
    return SMCResult(
        method="branch_and_bound",
        n_particles=len(posterior.sequences),
        sequences=posterior.sequences,
        status=posterior.status,
        weighted=True,
        log_evidence=posterior.log_lower if posterior.exact else None,
        log_censored_mass=posterior.log_censored_mass,
        log_unexplored_mass=posterior.log_open_mass,
        log_rejected_mass=posterior.log_rejected_mass,
        log_dead_mass=-np.inf,
        ess=ess_of(posterior.sequences, "concentration"),
        ess_kind="concentration",
        trace=(),
        cost=posterior.cost,
    )


def _advice(posterior: CertifiedPosterior) -> str | None:
    """What to do about a search that ran out of rows before it found anything."""
    if posterior.status != "incomplete" or posterior.sequences:
        return None
    return (
        "The search visited max_rows prefixes and no sequence ended in them. Raise method.max_rows, or use method=smc."
    )
