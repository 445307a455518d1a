"""The exact answer, where the language is small enough: every finished sequence with its probability.

Where it is not, :func:`branch_and_bound` certifies bounds (:mod:`smc.bounds`).

This shares the model, constraint and potentials with the sampler but none of its branching, weighting or resampling,
so it is an independent reference for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from smc.bounds import CertifiedPosterior, branch_and_bound
from smc.constraints.base import Constraint
from smc.constraints.refusals import refuses
from smc.errors import SMCError, at_least, within
from smc.expansion import Endings, Pending
from smc.frontier import Frontier
from smc.inputs import checked_potentials, compiled, prompt_ids
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.resampling import log_sum_exp
from smc.result import Cost, FinishedSequence, Status, merged_by_key
from smc.watching import report

__all__ = ["BudgetError", "CertifiedPosterior", "ExactPosterior", "branch_and_bound", "enumerate_posterior"]


class BudgetError(SMCError):
    """Enumeration met more prefixes than its budget of rows."""


@dataclass(frozen=True)
class ExactPosterior:
    """Every finished sequence of a language with its exact masses. Logs are in nats.

    Attributes:
        sequences: all sequences with positive target, likeliest first; their `log_weight` is the exact log target.
        log_evidence: log Z, Z the sum of p(y)^a phi(y) over L.
        log_censored_mass: mass of prefixes still open at max_tokens (at power a, running potentials not included).
        log_rejected_mass: mass that the mask lets through and the validator refuses: of sequences, and of prefixes that
            are given up before their end (at power a, running potentials not included; some of what such a prefix
            weighs might have left the mask later).
        log_q_finished: log of local masking's chance to end in `sequences`; the rest of q dies, is censored or refused.
    """

    sequences: tuple[FinishedSequence, ...]
    log_evidence: float
    log_censored_mass: float
    log_rejected_mass: float
    log_q_finished: float
    cost: Cost

    @property
    def status(self) -> Status:
        """As of :class:`smc.SMCResult`: "complete", "max_tokens" (some mass was censored), or why there is no sequence."""
        if self.sequences:
            return "complete" if self.log_censored_mass == -np.inf else "max_tokens"
        if self.log_censored_mass > -np.inf:
            return "censored"
        return "rejected" if self.log_rejected_mass > -np.inf else "dead"

    @cached_property
    def weights(self) -> np.ndarray:
        """[N] exact posterior probabilities p* of `sequences`."""
        return np.exp(np.array([s.log_target for s in self.sequences]) - self.log_evidence)

    def posterior(self, key: Callable[[str], Hashable] | None = None) -> dict:
        """p* of each string, tokenisations merged, likeliest first; `key` groups strings."""
        return merged_by_key(self.sequences, self.weights, key)

    def local_masking(self, key: Callable[[str], Hashable] | None = None) -> dict:
        """The exact law of local masking on strings, conditioned on finishing with positive target."""
        q = np.exp(np.array([s.log_q for s in self.sequences]) - self.log_q_finished)
        return merged_by_key(self.sequences, q, key)

    def best(self) -> FinishedSequence | None:
        """The likeliest sequence."""
        return max(self.sequences, key=lambda s: (s.log_target, s.data), default=None)


def enumerate_posterior(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    target_power: float = 1.0,
    max_rows: int = 200_000,
    batch_size: int = 64,
) -> ExactPosterior:
    """Enumerate a finite constraint exhaustively, batched and depth first, so that memory stays small.

    Args:
        model, constraint, prompt, potentials, max_tokens, target_power: as for :class:`smc.SMCSampler`.
        max_rows: the most prefixes to expand.
        batch_size: prefixes in one forward pass.

    Raises:
        BudgetError: the language has more than `max_rows` prefixes (it may be infinite).
        PromptError, ConstraintError, OptionError: as for the sampler.
    """
    started = time.perf_counter()
    at_least("max_rows", max_rows, 1)
    at_least("batch_size", batch_size, 1)
    within("target_power", target_power, 0, np.inf, without_low=True)
    language = compiled(constraint, model)
    ids = prompt_ids(model, prompt, at_least("max_tokens", max_tokens, 1))
    root = Frontier.start(model, language, checked_potentials(potentials), ids)
    frontier: Frontier | None = root
    stack: list[Pending] = []
    finished: list[FinishedSequence] = []
    censored, rejected = [-np.inf], [-np.inf]
    cost = Cost(tokens=max(len(ids) - 1, 0))
    known = 1  # prefixes that have been or will be expanded

    while frontier is not None:
        cost += frontier.expansion_cost
        report("enumerate_posterior", cost.forward_rows, "prefixes", max_rows, f"{len(finished)} sequences")
        children = frontier.children

        # sequences that end here
        endings = Endings.of(frontier, language, target_power)
        finished.extend(endings.finished)
        rejected.append(endings.log_rejected)

        # prefixes that go on
        where = torch.nonzero(children.log_token > -torch.inf).cpu().numpy()
        rows, tokens = where[:, 0], where[:, 1]
        if frontier.length == max_tokens:
            censored.append(_log_mass(frontier, rows, tokens, target_power))
        else:
            gone = refuses(frontier.constraint_rows, rows, tokens)
            rejected.append(_log_mass(frontier, rows[gone], tokens[gone], target_power))
            rows, tokens = rows[~gone], tokens[~gone]
            if (known := known + len(rows)) > max_rows:
                raise BudgetError(
                    f"The language has more than max_rows={max_rows} prefixes within {max_tokens} tokens, so its exact "
                    "posterior is out of reach. Narrow the constraint, lower max_tokens, raise max_rows, or ask "
                    "branch_and_bound for certified bounds."
                )
            if len(rows):
                stack.append(Pending.of(frontier, rows, tokens))

        frontier = None
        if stack:
            frontier, waiting = stack.pop().take(batch_size)
            if waiting is not None:
                stack.append(waiting)

    finished.sort(key=lambda s: (-s.log_target, s.tokens))
    return ExactPosterior(
        sequences=tuple(finished),
        log_evidence=log_sum_exp(np.array([s.log_target for s in finished])),
        log_censored_mass=log_sum_exp(np.array(censored)),
        log_rejected_mass=log_sum_exp(np.array(rejected)),
        log_q_finished=log_sum_exp(np.array([s.log_q for s in finished])),
        cost=replace(cost, potential_failures=root.failures, seconds=time.perf_counter() - started),
    )


def _log_mass(frontier: Frontier, rows: np.ndarray, tokens: np.ndarray, target_power: float) -> float:
    """log of the mass of the given children at a power, potentials not included."""
    parents = np.array([lineage.log_prob for lineage in frontier.lineages])
    return log_sum_exp(target_power * (parents[rows] + frontier.children.gather(rows, tokens)))
