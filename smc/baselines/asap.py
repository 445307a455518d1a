"""Adaptive sampling with approximate expected futures."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smc.baselines.guided import Ending, Explorer, Guidance
from smc.constraints.base import Constraint
from smc.constraints.notes import language_of
from smc.draws import Draws, RandomDraws, generator
from smc.errors import at_least, within
from smc.frontier import Frontier
from smc.inputs import checked_potentials, compiled, prompt_ids
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.recall import RecallingModel
from smc.result import Cost, SMCResult, Status, ess_of, merge_sequences
from smc.trie import CENSORED, DEAD, OPEN, REJECTED, TrieStore
from smc.watching import report


def asap(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    target_power: float = 1.0,
    max_tokens: int = 256,
    batch_size: int = 1,
    store: TrieStore | None = None,
    seed: int = 0,
    key: str = "",
    draws: Draws | None = None,
) -> SMCResult:
    """Adaptive sampling with approximate expected futures, ASAp (Park, Wang, Berg-Kirkpatrick, Polikarpova, D'Antoni, 2024).

    Each draw follows the masked model times what has been learned of the future of every event: its exact mass below
    what was visited, with 1 for what was not. All draws are kept and weigh the same. The first follows local masking;
    once every prefix of the language has been visited the draws follow the target exactly; those between are biased.
    So the sample is right in the limit only, `weighted` is False and `log_evidence` None. Dead, censored and rejected
    mass are shares of draws.

    With `target_power` a the masses are those of p^a (for a < 1 the guess of 1 is no upper bound, which changes how soon
    but not what is reached). phi(y) enters as the future of the stop event once y has been drawn.

    Args:
        n_particles: draws. Fewer are made if nothing can be in the target any more.
        potentials: any.
        target_power: a.
        batch_size: draws in one round; all of them use what was known when it began. 1 is the published method.
        store: tries of earlier calls to go on with; None starts with an empty one.
        draws: source of randomness, for tests that visit every outcome.

    Raises:
        OptionError: a value that does not exist.
    """
    started = time.perf_counter()
    at_least("n_particles", n_particles, 1)
    at_least("batch_size", batch_size, 1)
    at_least("seed", seed, 0)
    within("target_power", target_power, 0, math.inf, without_low=True)
    potentials = checked_potentials(potentials)
    language = compiled(constraint, model)
    ids = prompt_ids(model, prompt, at_least("max_tokens", max_tokens, 1))
    store = store if store is not None else TrieStore()
    trie = store.trie("cones", model, ids, constraint, potentials, target_power, max_tokens)
    root = Frontier.start(RecallingModel(model), language, potentials, ids)
    draws = draws if draws is not None else RandomDraws(generator(seed, key))
    guidance = Guidance("asap", mask="always", futures="cones")
    explorer = Explorer(guidance, root, language, target_power, max_tokens, draws, trie, hits=None)
    cost = Cost(tokens=max(len(ids) - 1, 0)) + replace(root.expansion_cost, masks=0)

    endings: list[Ending] = []
    while len(endings) < n_particles and trie.log_open > -np.inf:
        more, spent = explorer.round(min(batch_size, n_particles - len(endings)))
        endings, cost = endings + more, cost + spent
        report("asap", len(endings), "draws", n_particles)

    fates = [ending.fate for ending in endings]
    with np.errstate(divide="ignore"):
        log_share = {
            which: float(np.log(fates.count(which)) - np.log(max(len(fates), 1)))
            for which in (REJECTED, CENSORED, DEAD)
        }
    sequences = merge_sequences(
        [
            replace(ending.sequence, log_weight=-float(np.log(len(endings))))
            for ending in endings
            if ending.fate == OPEN and ending.sequence is not None
        ]
    )
    lost = trie.log_mass(trie.root, 0) if trie.log_open == -np.inf else log_share
    status: Status
    if sequences:
        status = "max_tokens" if lost[CENSORED] > -np.inf else "complete"
    else:
        status = "censored" if lost[CENSORED] > -np.inf else "rejected" if lost[REJECTED] > -np.inf else "dead"
    return SMCResult(
        method="asap",
        n_particles=n_particles,
        sequences=sequences,
        status=status,
        weighted=False,
        log_evidence=None,
        log_censored_mass=log_share[CENSORED],
        log_unexplored_mass=-np.inf,
        log_rejected_mass=log_share[REJECTED],
        log_dead_mass=log_share[DEAD],
        ess=ess_of(sequences, "sampling"),
        ess_kind="sampling",
        trace=(),
        cost=cost + Cost(potential_failures=root.failures, seconds=time.perf_counter() - started),
        seed=seed,
        key=key,
        language=language_of(constraint, language),
    )
