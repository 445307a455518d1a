"""Rejection sampling from the unconstrained model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smc.baselines.accept_reject import accept_reject
from smc.baselines.guided import Guidance
from smc.constraints.base import Constraint
from smc.draws import Draws
from smc.errors import OptionError, quoted, within
from smc.inputs import checked_potentials
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.result import SMCResult


def rejection(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    target_power: float = 1.0,
    max_tokens: int = 256,
    batch_size: int = 16,
    max_draws: int = 1000,
    seed: int = 0,
    key: str = "",
    replicates: int = 1,
    draws: Draws | None = None,
) -> SMCResult:
    """Independent draws from the model; those that the mask and the validator allow are kept (von Neumann, 1951).

    The accepted sequences follow the target exactly: a valid draw y is accepted with probability
    p(y)^(a - 1) phi(y) / bound. All weigh the same, together the evidence estimate, which is unbiased for n_particles > 1
    (see :func:`smc.baselines.accept_reject.accept_reject`). A draw ends with its first token outside the mask, which costs
    less and accepts the same. `log_rejected_mass` counts, at p^a, sequences that the validator or a potential refused.

    What the masks show on the way is recorded beside the draws. Once that proves that nothing is in the target the run
    ends with the status "dead", "rejected" or "censored", by what took the mass.

    Args:
        n_particles: samples wanted.
        potentials: each with a finite `log_bound`.
        target_power: a, at least 1.
        batch_size: draws in one round.
        max_draws: draws at most; with fewer samples than wanted by then the status is "incomplete".
        replicates: independent runs, averaged in the linear domain, which gives `log_evidence_error`.
        draws: source of randomness, for tests that visit every outcome.

    Raises:
        OptionError: a potential without a bound, a power below 1, or a value that does not exist.
        SMCError: a potential exceeds its `log_bound`.
    """
    if within("target_power", target_power, 0, math.inf, without_low=True) < 1:
        raise OptionError(
            f"rejection needs target_power >= 1, not {target_power}: p(y)^(a - 1) is no probability below. Use SMCSampler."
        )
    for potential in checked_potentials(potentials):
        if not potential.log_bound < math.inf:
            raise OptionError(
                f"rejection needs a bound on every potential, and {quoted(potential)} has none: give its log_bound, or use "
                "SMCSampler."
            )
    return accept_reject(
        Guidance("rejection", mask="never", futures="none"),
        model,
        constraint,
        prompt,
        n_particles=n_particles,
        potentials=potentials,
        max_tokens=max_tokens,
        target_power=target_power,
        batch_size=batch_size,
        max_draws=max_draws,
        store=None,
        seed=seed,
        key=key,
        replicates=replicates,
        draws=draws,
    )
