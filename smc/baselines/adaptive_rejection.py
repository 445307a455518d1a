"""Rejection samplers that learn from what they reject: ARS, RSFT and CARS (Parys, Vaidya, Berg-Kirkpatrick, D'Antoni, 2025).

All three draw exactly from the posterior and differ in what they exclude from the draws. A draw from the model without
an excluded set follows p restricted to the rest, so that whatever is accepted follows the target, whatever has been
learned before. Excluded sets hold nothing of the target: prefixes outside the mask, sequences that the validator or a
potential refused, and what is live at max_tokens.
"""

from __future__ import annotations

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
from smc.trie import TrieStore


def ars(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    target_power: float = 1.0,
    max_tokens: int = 256,
    batch_size: int = 1,
    max_draws: int = 1000,
    store: TrieStore | None = None,
    seed: int = 0,
    key: str = "",
    replicates: int = 1,
    draws: Draws | None = None,
) -> SMCResult:
    """Adaptive rejection sampling: no invalid prefix is drawn twice.

    Parys, Vaidya, Berg-Kirkpatrick and D'Antoni, "Constrained Adaptive Rejection Sampling" (2025).

    Exact: accepted sequences are independent and follow p*. The evidence is estimated as in :func:`cars`, whose are the
    arguments and errors too.
    """
    _only_membership("ars", potentials, target_power)
    return accept_reject(
        Guidance("ars", mask="never", futures="hits"),
        model,
        constraint,
        prompt,
        n_particles=n_particles,
        potentials=potentials,
        max_tokens=max_tokens,
        target_power=target_power,
        batch_size=batch_size,
        max_draws=max_draws,
        store=store,
        seed=seed,
        key=key,
        replicates=replicates,
        draws=draws,
    )


def rsft(
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
    """Rejection sampling with the first token drawn under the mask, whose surviving mass is known.

    Parys, Vaidya, Berg-Kirkpatrick and D'Antoni, "Constrained Adaptive Rejection Sampling" (2025).

    Exact: accepted sequences are independent and follow p*. Nothing is learned, so draws of a round lose nothing by
    not knowing of each other. The evidence estimate is unbiased for n_particles > 1. Arguments and errors are those of
    :func:`cars`, but for `store`.
    """
    _only_membership("rsft", potentials, target_power)
    return accept_reject(
        Guidance("rsft", mask="first", futures="none"),
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


def cars(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    target_power: float = 1.0,
    max_tokens: int = 256,
    batch_size: int = 1,
    max_draws: int = 1000,
    store: TrieStore | None = None,
    seed: int = 0,
    key: str = "",
    replicates: int = 1,
    draws: Draws | None = None,
) -> SMCResult:
    """Constrained adaptive rejection sampling: all that the mask forbids at any visited prefix is excluded
    (Parys, Vaidya, Berg-Kirkpatrick, D'Antoni, 2025).

    Exact: accepted sequences are independent, follow p* and weigh the same, together the evidence estimate. That is
    unbiased when the number of draws is fixed in advance (ask for more samples than max_draws allows draws), and then
    weights are proper ones, H_i / max_draws; when the last acceptance ends the run it has a bias of smaller order than
    its standard error (see :func:`smc.baselines.accept_reject.accept_reject`). Accepted sequences teach as well, so a
    budget that often runs out favours those that teach most. `log_rejected_mass` counts sequences that the validator or
    a potential refused.

    The published method learns from every draw (batch_size 1). All draws of a round use what was known when it began,
    so larger rounds save forward passes and learn later.

    Args:
        n_particles: samples wanted.
        potentials: Boolean ones only (``TextPotential(..., boolean=True)``): they are part of the language.
        target_power: 1, the only one.
        batch_size: draws in one round.
        max_draws: draws at most; with fewer samples than wanted by then the status is "incomplete". If the trie proves
            before that nothing is in the target, the status is "dead", "rejected" or "censored", by what took the mass.
        store: tries of earlier calls to go on with; None starts with an empty one.
        replicates: independent runs, averaged in the linear domain, which gives `log_evidence_error`.
        draws: source of randomness, for tests that visit every outcome.

    Raises:
        OptionError: a potential that is not Boolean, a power other than 1, or a value that does not exist.
    """
    _only_membership("cars", potentials, target_power)
    return accept_reject(
        Guidance("cars", mask="visited", futures="cones"),
        model,
        constraint,
        prompt,
        n_particles=n_particles,
        potentials=potentials,
        max_tokens=max_tokens,
        target_power=target_power,
        batch_size=batch_size,
        max_draws=max_draws,
        store=store,
        seed=seed,
        key=key,
        replicates=replicates,
        draws=draws,
    )


def _only_membership(method: str, potentials: Sequence[Potential], target_power: float) -> None:
    """Refuse targets other than p restricted to a language."""
    if within("target_power", target_power, 0, float("inf"), without_low=True) != 1:
        raise OptionError(
            f"{method} draws from p itself, so target_power must be 1, not {target_power}. Use rejection, asap or SMCSampler."
        )
    for potential in checked_potentials(potentials):
        if not getattr(potential, "boolean", False):
            raise OptionError(
                f"{method} only decides whether a sequence belongs to the language, and {quoted(potential)} is not Boolean. Set "
                "boolean=True if it returns nothing but 0 and minus infinity; otherwise use rejection, asap or SMCSampler."
            )
