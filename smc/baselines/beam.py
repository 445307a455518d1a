"""Beam search under the mask."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from smc.constraints.base import Constraint
from smc.constraints.notes import language_of
from smc.constraints.refusals import refuses
from smc.errors import at_least, within
from smc.expansion import Endings
from smc.frontier import Frontier
from smc.inputs import checked_potentials, compiled, prompt_ids
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.resampling import log_sum_exp
from smc.result import Cost, FinishedSequence, SMCResult, Status, ess_of
from smc.watching import report


def beam(
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
    """Beam search for the sequences of highest target a log p(y) + log phi(y), with K places; no randomness.

    Live prefixes and finished sequences compete for the K places, without any length normalisation: a live one by
    a log p so far plus the running value of the potentials, a finished one by its exact target. The K best finished ones
    are remembered, so a live prefix that ends badly gives its place back. (Potentials are asked about the 2 K likeliest
    children of a step.) The search ends when K finished sequences beat every live prefix, or nothing is live. Without
    potentials nothing that is dropped for finished sequences could have become one of the K best, since log p only falls;
    what other live prefixes crowd out could have, so the answer is a lower bound on the best target.

    The K sequences weigh their exact targets, so `certified_mass` is a lower bound on Z, but they do not estimate the
    posterior: `weighted` is False and `log_evidence` None. Sequences that the validator or a potential refuses take no
    place. The masses of what was rejected, died, or was still kept when
    max_tokens was over are sums over what the beam has met, and no more than that.

    Args:
        model, constraint, prompt, potentials, max_tokens, target_power: as for :class:`smc.SMCSampler`.
        n_particles: K.
        seed, key: noted on the result; nothing is drawn.

    Raises:
        OptionError, PromptError, ConstraintError: as for the sampler.
    """
    started = time.perf_counter()
    k = at_least("n_particles", n_particles, 1)
    within("target_power", target_power, 0, np.inf, without_low=True)
    at_least("seed", seed, 0)
    language = compiled(constraint, model)
    ids = prompt_ids(model, prompt, at_least("max_tokens", max_tokens, 1))
    frontier = Frontier.start(model, language, checked_potentials(potentials), ids)
    cost = Cost(tokens=max(len(ids) - 1, 0))
    finished: list[FinishedSequence] = []
    rejected, dead = [-np.inf], [-np.inf]

    score = frontier.potential_rows.log_prefix
    refused = bool(score[0] == -np.inf)
    live = not refused
    while live:
        report("beam", frontier.length, "steps", max_tokens, f"{len(frontier)} live rows, {len(finished)} finished")
        # 1. everything that may stop competes by its exact target
        cost += frontier.expansion_cost
        endings = Endings.of(frontier, language, target_power)
        finished = sorted([*finished, *endings.finished], key=lambda s: (-s.log_target, s.tokens))[:k]
        rejected.append(endings.log_rejected)
        refused = refused or endings.refused
        dead += score[frontier.children.log_kept == -np.inf].tolist()

        # 2. the likeliest children, whom the potentials and the validator then judge
        parents, tokens, child_score = _heaviest(frontier.children.powered(target_power).log_token, score, 2 * k)
        judged = frontier.potential_rows.fork(np.arange(len(frontier))).advance(parents, tokens)
        child_score = child_score + judged.log_prefix - frontier.potential_rows.log_prefix[parents]
        gone = refuses(frontier.constraint_rows, parents, tokens)
        rejected += child_score[gone].tolist()
        child_score[gone] = -np.inf
        refused = refused or bool((child_score == -np.inf).any())

        # 3. those that earn one of the K places
        order = np.argsort(-child_score, kind="stable")
        ahead = np.searchsorted([-s.log_target for s in finished], -child_score[order], side="right")
        placed = order[(ahead + np.arange(len(order)) < k) & (child_score[order] > -np.inf)]
        score = child_score[placed]
        live = len(placed) > 0 and frontier.length < max_tokens
        if live:
            advanced = frontier.advance(parents[placed], tokens[placed])
            frontier = replace(advanced, potential_rows=judged.fork(placed))
    log_censored = log_sum_exp(score) if frontier.length == max_tokens else -np.inf

    status: Status
    if log_censored > -np.inf:
        status = "max_tokens" if finished else "censored"
    else:
        status = "complete" if finished else "rejected" if refused else "dead"
    return SMCResult(
        method="beam",
        n_particles=k,
        sequences=tuple(finished),
        status=status,
        weighted=False,
        log_evidence=None,
        log_censored_mass=log_censored,
        log_unexplored_mass=-np.inf,
        log_rejected_mass=log_sum_exp(np.array(rejected)),
        log_dead_mass=log_sum_exp(np.array(dead)),
        ess=ess_of(finished, "concentration"),
        ess_kind="concentration",
        trace=(),
        cost=cost + Cost(potential_failures=frontier.failures, seconds=time.perf_counter() - started),
        seed=seed,
        key=key,
        language=language_of(constraint, language),
    )


def _heaviest(log_token: torch.Tensor, score: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parents, tokens and scores of the k best children, best first; of equals, those of earlier rows and tokens.

    Args:
        log_token: [R, V] log mass that each child adds. score: [R] that of its parent.
    """
    total = (log_token.double() + torch.as_tensor(score, device=log_token.device)[:, None]).flatten()
    least = total.topk(min(k, len(total))).values[-1]
    better, equal = torch.nonzero(total > least)[:, 0], torch.nonzero(total == least)[:, 0]
    chosen = torch.cat([better, equal[: k - len(better)]]).sort().values
    chosen = chosen[total[chosen] > -torch.inf]
    chosen = chosen[total[chosen].sort(descending=True, stable=True).indices]
    parents, tokens = np.divmod(chosen.cpu().numpy(), log_token.shape[1])
    return parents, tokens, total[chosen].cpu().numpy()
