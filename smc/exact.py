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
from smc.errors import OptionError, SMCError
from smc.models.base import LanguageModel, ModelRows, Prompt
from smc.population import EMPTY, Lineage
from smc.potentials import Potential, ProductRows
from smc.resampling import log_sum_exp
from smc.result import Cost, FinishedSequence, merged_by_key
from smc.sampler import at_least, compiled, prompt_ids


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
    if not target_power > 0:
        raise OptionError(f"target_power must be above 0, not {target_power!r}.")
    language = compiled(constraint, model)
    ids = prompt_ids(model, prompt, at_least("max_tokens", max_tokens, 1))
    stack = [_Group((EMPTY,), model.start(ids), language.start(), ProductRows.start(potentials, model.vocabulary), 0)]
    finished: list[FinishedSequence] = []
    censored, rejected = [-np.inf], [-np.inf]
    rows = passes = 0

    while stack:
        group = stack.pop()
        rows, passes = rows + len(group.lineages), passes + 1
        if rows > max_rows:
            raise BudgetError(
                f"The language has more than max_rows={max_rows} prefixes within {max_tokens} tokens, so its exact posterior is out "
                "of reach. Narrow the constraint, lower max_tokens, or raise max_rows."
            )
        children = Children.of(group.model_rows.log_probs, group.constraint_rows.allowed, model.vocabulary)
        log_kept = children.log_kept
        log_stop = children.log_stop

        # sequences that end here
        stops = np.flatnonzero(log_stop > -np.inf)
        for row, log_phi in zip(stops, group.potential_rows.log_complete(stops), strict=True):
            lineage = group.lineages[row]
            log_prob = lineage.log_prob + float(log_stop[row])
            log_target = target_power * log_prob + float(log_phi)
            data = model.vocabulary.spell(tokens := lineage.tokens())
            if not language.accepts(data):
                rejected.append(log_target)
            elif log_target > -np.inf:
                path = (*lineage.kept_path(), float(log_kept[row]))
                finished.append(
                    FinishedSequence(tokens, data, log_target, 1, log_prob, path, float(log_phi), log_target)
                )

        # prefixes that go on
        where = torch.nonzero(children.log_token > -torch.inf).cpu().numpy()
        parents, tokens_next = where[:, 0], where[:, 1]
        log_p = children.gather(parents, tokens_next)
        lineages = [
            group.lineages[p].extend(int(t), float(lp), float(log_kept[p]))
            for p, t, lp in zip(parents, tokens_next, log_p, strict=True)
        ]
        if group.length == max_tokens:
            censored.extend(target_power * lineage.log_prob for lineage in lineages)
            continue
        stack.extend(_split(group, parents, tokens_next, lineages, batch_size))

    finished.sort(key=lambda s: (-s.log_target, s.tokens))
    return ExactPosterior(
        sequences=tuple(finished),
        log_evidence=log_sum_exp(np.array([s.log_target for s in finished])),
        log_censored_mass=log_sum_exp(np.array(censored)),
        log_rejected_mass=log_sum_exp(np.array(rejected)),
        log_q_finished=log_sum_exp(np.array([s.log_q for s in finished])),
        cost=Cost(rows, passes, rows + max(len(ids) - 1, 0), rows, 0, time.perf_counter() - started),
    )


def _split(
    group: _Group, parents: np.ndarray, tokens: np.ndarray, lineages: list[Lineage], batch_size: int
) -> list[_Group]:
    """Children as groups of at most `batch_size`; the last one takes the parents' rows over, the others copy theirs."""
    groups = []
    starts = range(0, len(parents), batch_size)
    for start in starts:
        part = slice(start, start + batch_size)
        at, model_rows = parents[part], group.model_rows
        constraint_rows, potential_rows = group.constraint_rows, group.potential_rows
        if start != starts[-1]:
            needed, at = np.unique(parents[part], return_inverse=True)
            model_rows, constraint_rows = model_rows.fork(needed), constraint_rows.fork(needed)
            potential_rows = potential_rows.fork(needed)
        groups.append(
            _Group(
                tuple(lineages[part]),
                model_rows.advance(at, tokens[part]),
                constraint_rows.advance(at, tokens[part]),
                potential_rows.advance(at, tokens[part]),
                group.length + 1,
            )
        )
    return groups
