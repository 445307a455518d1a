"""Choosing among samples of local masking: best-of-n, and sample-rerank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smc.baselines.local import local_masking
from smc.constraints.base import Constraint
from smc.errors import within
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.result import SMCResult, ess_of, log_total, merge_sequences


def best_of_n(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    target_power: float = 1.0,
    seed: int = 0,
    key: str = "",
) -> SMCResult:
    """The one of n samples from q(y) with the highest target a log p(y) + log phi(y).

    The samples are those of :func:`local_masking` for the same seed and key. One sequence is returned; it weighs what
    all the samples that finished weighed, so that dead, rejected and censored mass stay shares of the n samples. It is a
    guess at the mode and no estimate of the posterior: `weighted` is False and `log_evidence` None.

    Raises:
        OptionError, PromptError, ConstraintError: as for :class:`smc.SMCSampler`.
    """
    within("target_power", target_power, 0, np.inf, without_low=True)
    samples = local_masking(
        model,
        constraint,
        prompt,
        n_particles=n_particles,
        potentials=potentials,
        max_tokens=max_tokens,
        seed=seed,
        key=key,
    )
    targeted = [replace(s, log_target=target_power * s.log_prob + s.log_potential) for s in samples.sequences]
    best = replace(samples, sequences=tuple(targeted)).best()
    chosen = () if best is None else (replace(best, log_weight=log_total(samples.sequences), count=1),)
    return replace(samples, method="best_of_n", sequences=chosen, ess=ess_of(chosen, "sampling"))


def sample_rerank(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    seed: int = 0,
    key: str = "",
) -> SMCResult:
    """The samples of :func:`local_masking`, weighted by phi(y) alone.

    Sample-rerank in Loula et al., "Syntactic and Semantic Control of Large Language Models via Sequential Monte Carlo"
    (ICLR 2025). The weights estimate q(y) phi(y), which forgets what the mask took away, and not the posterior:
    `weighted` is False and `log_evidence` None. Samples that a potential forbids count as rejected.

    Raises:
        OptionError, PromptError, ConstraintError: as for :class:`smc.SMCSampler`.
    """
    samples = local_masking(
        model,
        constraint,
        prompt,
        n_particles=n_particles,
        potentials=potentials,
        max_tokens=max_tokens,
        seed=seed,
        key=key,
    )
    weighted = merge_sequences([replace(s, log_weight=s.log_weight + s.log_potential) for s in samples.sequences])
    return replace(samples, method="sample_rerank", sequences=weighted, ess=ess_of(weighted, "sampling"))
