"""Greedy masking: what "constrained decoding" usually means."""

from __future__ import annotations

from collections.abc import Sequence

from smc.branching import Argmax
from smc.constraints.base import Constraint
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.result import SMCResult
from smc.sampler import SMCSampler


def greedy_masking(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    seed: int = 0,
    key: str = "",
) -> SMCResult:
    """The likeliest allowed token at every step, the stop event among them; one sequence, no randomness.

    Its weight means nothing, so `log_evidence` is None. Potentials do not steer it; a sequence that one of them
    forbids counts as rejected.
    """
    sampler = greedy_masking_sampler(model, constraint, potentials=potentials, max_tokens=max_tokens, seed=seed)
    return sampler.run(prompt, key)


def greedy_masking_sampler(
    model: LanguageModel,
    constraint: Constraint,
    *,
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    seed: int = 0,
) -> SMCSampler:
    """What :func:`greedy_masking` runs, for many prompts at once."""
    sampler = SMCSampler(
        model,
        constraint,
        n_particles=1,
        branching=Argmax(),
        potentials=potentials,
        max_tokens=max_tokens,
        stop_fraction=0,
        seed=seed,
    )
    return sampler.named("greedy_masking")
