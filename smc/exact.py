"""The exact answer, where the language is small enough: every finished sequence with its probability.

This shares the model, constraint and potentials with the sampler but none of its branching, weighting or resampling,
so it is an independent reference for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from smc.children import Children
from smc.constraints.base import Constraint, ConstraintRows
from smc.errors import SMCError, at_least, within
from smc.inputs import checked_potentials, compiled, prompt_ids
from smc.models.base import LanguageModel, ModelRows, Prompt
from smc.population import EMPTY, Lineage, extended
from smc.potentials import Potential, ProductRows
from smc.resampling import log_sum_exp
from smc.result import Cost, FinishedSequence, finish, merged_by_key


class BudgetError(SMCError):
    """Enumeration met more prefixes than its budget of rows."""


@dataclass(frozen=True)
class ExactPosterior:
    """Every finished sequence of a language with its exact masses. Logs are in nats.

    Attributes:
        sequences: all sequences with positive target, likeliest first; their `log_weight` is the exact log target.
        log_evidence: log Z, Z the sum of p(y)^a phi(y) over L.
        log_censored_mass: mass of prefixes still open at max_tokens (at power a, running potentials not included).
        log_rejected_mass: mass that the mask lets finish and the validator refuses.
        log_q_finished: log of local masking's chance to end in `sequences`; the rest of q dies, is censored or refused.
    """

    sequences: tuple[FinishedSequence, ...]
    log_evidence: float
    log_censored_mass: float
    log_rejected_mass: float
    log_q_finished: float
    cost: Cost

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


@dataclass
class _Pending:
    """Children of one group of rows that still have to be expanded, batch by batch.

    Only the parents' state is held: a batch copies the few parents that it needs when its turn comes, and the last
    batch takes the parents over.
    """

    model_rows: ModelRows
    constraint_rows: ConstraintRows
    potential_rows: ProductRows
    parents: np.ndarray
    tokens: np.ndarray
    lineages: tuple[Lineage, ...]
    length: int
    done: int = 0

    def next_batch(self, size: int) -> _Group:
        part = slice(self.done, self.done + size)
        self.done += size
        at, tokens = self.parents[part], self.tokens[part]
        model_rows, constraint_rows, potential_rows = self.model_rows, self.constraint_rows, self.potential_rows
        if self.done < len(self.parents):
            needed, at = np.unique(at, return_inverse=True)
            model_rows, constraint_rows = model_rows.fork(needed), constraint_rows.fork(needed)
            potential_rows = potential_rows.fork(needed)
        return _Group(
            self.lineages[part],
            model_rows.advance(at, tokens),
            constraint_rows.advance(at, tokens),
            potential_rows.advance(at, tokens),
            self.length,
        )


@dataclass(frozen=True)
class _Group:
    """Prefixes of one length that are expanded in one forward pass."""

    lineages: tuple[Lineage, ...]
    model_rows: ModelRows
    constraint_rows: ConstraintRows
    potential_rows: ProductRows
    length: int


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
    potential_rows = ProductRows.start(checked_potentials(potentials), model.vocabulary)
    group: _Group | None = _Group((EMPTY,), model.start(ids), language.start(), potential_rows, 0)
    stack: list[_Pending] = []
    finished: list[FinishedSequence] = []
    censored, rejected = [-np.inf], [-np.inf]
    rows = passes = 0
    known = 1  # prefixes that have been or will be expanded

    while group is not None:
        rows, passes = rows + len(group.lineages), passes + 1
        children = Children.of(group.model_rows.log_probs, group.constraint_rows.allowed, model.vocabulary)
        log_kept = children.log_kept
        log_stop = children.log_stop

        # sequences that end here
        stops = np.flatnonzero(log_stop > -np.inf)
        for row, log_phi in zip(stops, group.potential_rows.log_complete(stops), strict=True):
            sequence = finish(
                group.lineages[row],
                model.vocabulary,
                log_stop=float(log_stop[row]),
                log_kept=float(log_kept[row]),
                log_phi=float(log_phi),
                target_power=target_power,
            )
            if not language.accepts(sequence.data):
                rejected.append(sequence.log_target)
            elif sequence.log_target > -np.inf:
                finished.append(sequence)

        # prefixes that go on
        where = torch.nonzero(children.log_token > -torch.inf).cpu().numpy()
        parents, next_tokens = where[:, 0], where[:, 1]
        if group.length < max_tokens and (known := known + len(parents)) > max_rows:
            raise BudgetError(
                f"The language has more than max_rows={max_rows} prefixes within {max_tokens} tokens, so its exact "
                "posterior is out of reach. Narrow the constraint, lower max_tokens, or raise max_rows."
            )
        log_p = children.gather(parents, next_tokens)
        if group.length == max_tokens:
            open_mass = np.array([lineage.log_prob for lineage in group.lineages])[parents] + log_p
            censored.append(log_sum_exp(target_power * open_mass))
        elif len(parents):
            lineages = extended(group.lineages, parents, next_tokens, log_p, log_kept)
            kinds = (group.model_rows, group.constraint_rows, group.potential_rows)
            stack.append(_Pending(*kinds, parents, next_tokens, lineages, group.length + 1))

        group = None
        if stack:
            group = stack[-1].next_batch(batch_size)
            if stack[-1].done >= len(stack[-1].parents):
                stack.pop()

    finished.sort(key=lambda s: (-s.log_target, s.tokens))
    return ExactPosterior(
        sequences=tuple(finished),
        log_evidence=log_sum_exp(np.array([s.log_target for s in finished])),
        log_censored_mass=log_sum_exp(np.array(censored)),
        log_rejected_mass=log_sum_exp(np.array(rejected)),
        log_q_finished=log_sum_exp(np.array([s.log_q for s in finished])),
        cost=Cost(rows, passes, rows + max(len(ids) - 1, 0), rows, 0, time.perf_counter() - started),
    )
