"""How much an estimate would have scattered, told from one run.

Whatever chooses some prefixes by chance, and gives those it keeps the weight of those it drops, leaves traces: the chance
with which each prefix was kept, or the particles from which each one descends. Both tell the variance of any sum over the
finished sequences.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_STOP = -1  # stands for the stop event among the tokens of a path


def selection_variance(
    tokens: Sequence[tuple[int, ...]], log_survival: Sequence[tuple[float, ...]], values: np.ndarray
) -> float:
    """Variance of a sum over finished sequences whose prefixes were kept with known chances: the estimator of multi-stage
    sampling (Horvitz and Thompson, 1952) over the tree of prefixes.

    With C_i the sum over the sequences that begin with prefix i, pi_i the chance with which it was kept, and the product over
    its strict ancestors a,

        V = sum over prefixes i of (1 - pi_i) (prod_a pi_a) C_i^2.

    E[V] is the variance of the sum if prefixes are kept independently of each other, given the steps before: what a prefix
    itself scatters by is counted (1 - pi_i) times in its own C_i and pi_i times through its descendants. For the systematic
    draw of optimal resampling, which spreads what it keeps more evenly, V errs on the large side as a rule.

    Args:
        tokens: [N] token ids of each distinct sequence.
        log_survival: [N] of each, the log chances of its prefixes of 1, 2, .. tokens, and of its stop.
        values: [N] what each adds to the sum: its weight, as used there.

    Returns:
        V, at most the square of the sum of `values` if none is negative.
    """
    nodes: dict[tuple[int, int], int] = {}
    total, chance, before = [0.0], [0.0], [0.0]  # of each prefix: C, log pi, and log of the product over its ancestors
    for sequence, path, value in zip(tokens, log_survival, values, strict=True):
        node = 0
        for token, log_chance in zip((*sequence, _STOP), path, strict=True):
            child = nodes.setdefault((node, token), len(total))
            if child == len(total):
                total.append(0.0)
                chance.append(log_chance)
                before.append(before[node] + chance[node])
            total[child] += float(value)
            node = child
    return float((-np.expm1(chance) * np.exp(before) * np.square(total)).sum())


def descent_variance(share: np.ndarray, n_particles: int) -> float:
    """Relative variance of a sum over particles that were resampled independently (Lee and Whiteley, 2018; Chan and Lai,
    2013), from the particles of the start (eves) that they descend from.

    Two particles with different eves have drawn nothing in common, so the product of their weights estimates the squared
    expectation once it is corrected for the pairs that coincide, by K / (K - 1) for the start and for each resampling that
    both went through:

        V = 1 - sum over particles a, b with different eves of W_a W_b (K / (K - 1))^(1 + min(r_a, r_b)),

    W the particle's share of the sum and r its resamplings. Noisy, perhaps negative, and exactly 1 once a single eve has
    descendants: it says nothing then.

    Args:
        share: [E, R] share of the sum of the descendants of each eve that went through 0, 1, .. resamplings.
        n_particles: K, at least 2.
    """
    # [E, R] share with each eve that went through at least 0, 1, .. resamplings, and that of the eves before
    share = share[:, ::-1].cumsum(axis=1)[:, ::-1]
    before = np.vstack([np.zeros(share.shape[1]), share.cumsum(axis=0)[:-1]])
    pairs = 2 * (share * before).sum(axis=0)  # of different eves, both with at least so many resamplings
    ratio = n_particles / (n_particles - 1)
    # by how much each further resampling raises the correction: a sum of positive terms, so that nothing cancels
    gain = np.append(ratio, (ratio - 1) * ratio ** np.arange(1, len(pairs)))
    return 1.0 - float((gain * pairs)[pairs > 0].sum())
