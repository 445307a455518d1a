"""Metropolis-Hastings with suffixes redrawn by local masking."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch

from smc.children import Children
from smc.constraints.base import CompiledConstraint, Constraint
from smc.constraints.notes import language_of
from smc.draws import Draws, RandomDraws, generator
from smc.errors import OptionError, at_least, one_of, within
from smc.frontier import Frontier, Walk
from smc.inputs import checked_potentials, compiled, prompt_ids
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.recall import RecallingModel
from smc.resampling import log_sum_exp
from smc.result import Cost, FinishedSequence, SMCResult, Status, ess_of, mask_cost, merge_sequences
from smc.watching import report

Loss = Literal["dead", "censored", "rejected"]
PROPOSALS = ("restart", "uniform", "priority")

_STOP = -1  # the stop event, where events are compared


@dataclass(frozen=True)
class ChainState:
    """The sequence that a chain is at. An event is a token or, at the end, the stop; there are n + 1 of them.

    Attributes:
        sequence: the sequence; of positive target.
        log_q: [n + 1] log probability of each event under local masking, given those before it.
        entropy: [n + 1] entropy in nats of the masked law that each event was drawn from.
    """

    sequence: FinishedSequence
    log_q: tuple[float, ...]
    entropy: tuple[float, ...]

    @property
    def events(self) -> tuple[int, ...]:
        """Token ids, then a mark for the stop event, so that no state's events begin another's."""
        return (*self.sequence.tokens, _STOP)

    @cached_property
    def log_suffix_q(self) -> np.ndarray:
        """[n + 1] log probability that local masking completes the first i events as this sequence does."""
        return np.cumsum(self.log_q[::-1])[::-1]


def cut_law(proposal: str, state: ChainState) -> np.ndarray:
    """[n + 1] probability of cutting a sequence before each of its events, the stop event among them.

    "restart": before the first. "uniform": anywhere. "priority": in proportion to exp(entropy) - 1, which is zero where
    there was nothing to choose (anywhere, if there never was).
    """
    n_events = len(state.log_q)
    if proposal == "restart":
        weight = np.arange(n_events) == 0
    elif proposal == "priority":
        weight = np.expm1(np.maximum(state.entropy, 0.0))
    else:
        weight = np.ones(n_events)
    return weight / weight.sum() if weight.sum() > 0 else np.full(n_events, 1 / n_events)


def log_proposal(proposal: str, source: ChainState, target: ChainState) -> float:
    """log probability of proposing one state from another (a different one), whatever the cut.

    Every cut within what they have in common could have led there.
    """
    pairs = zip(source.events, target.events, strict=False)
    common = next(i for i, (a, b) in enumerate(pairs) if a != b)
    with np.errstate(divide="ignore"):
        log_law = np.log(cut_law(proposal, source)[: common + 1])
    return log_sum_exp(log_law + target.log_suffix_q[: common + 1])


def log_acceptance(proposal: str, source: ChainState, target: ChainState) -> float:
    """log of the Metropolis-Hastings ratio, not capped at 0."""
    if source.events == target.events:
        return 0.0
    forth, back = log_proposal(proposal, source, target), log_proposal(proposal, target, source)
    return target.sequence.log_target - source.sequence.log_target + back - forth


@dataclass(frozen=True)
class MaskedDrawer:
    """Draws sequences by local masking, each after a prefix of its own, all in one batch.

    Attributes:
        root: the empty continuation; forked for every batch, so that the prompt is read once.
        language: the compiled constraint.
        max_tokens: tokens before the stop; a draw that wants more is censored.
        target_power: a of the target p(y)^a phi(y).
    """

    root: Frontier
    language: CompiledConstraint
    max_tokens: int
    target_power: float

    def draw(self, prefixes: Sequence[tuple[int, ...]], draws: Draws) -> tuple[tuple[ChainState | Loss, ...], Cost]:
        """One draw after each prefix, or what became of it, and what it all cost.

        A draw is rejected if the validator or a potential refuses it: at the latest at its end, or as soon as one of
        them says that nothing can come of it.
        """
        outcome: dict[int, ChainState | Loss] = {}
        log_q: list[list[float]] = [[] for _ in prefixes]
        entropy: list[list[float]] = [[] for _ in prefixes]
        walk = Walk.start(self.root.fork(np.zeros(1, dtype=np.int64)), len(prefixes))
        draw_of = np.arange(len(prefixes))  # the draw that each walker makes
        cost = Cost()
        while len(walk):
            refused = walk.frontier.refused[walk.row]
            if refused.any():
                outcome |= {int(i): "rejected" for i in draw_of[refused]}
                if refused.all():
                    break
                walk, draw_of = walk.keep(np.flatnonzero(~refused)), draw_of[~refused]
            frontier, row = walk.frontier, walk.row
            children = frontier.children
            # the root has met the model before
            cost += frontier.expansion_cost if frontier.length else mask_cost(frontier.constraint_rows)
            stop = children.log_token.shape[1]

            # the next event of each draw: kept from the prefix, or drawn
            kept = np.array([frontier.length < len(prefixes[int(i)]) for i in draw_of])
            event = np.full(len(row), _STOP)
            event[kept] = [prefixes[int(i)][frontier.length] for i in draw_of[kept]]
            stuck = ~kept & (children.log_kept[row] == -np.inf)
            outcome |= {int(i): "dead" for i in draw_of[stuck]}
            free = np.flatnonzero(~kept & ~stuck)
            event[free] = draws.categorical(children.relative, row[free])

            log_p = np.where(event == stop, children.log_stop[row], -np.inf)
            goes_on = np.flatnonzero(~stuck & (event != stop))
            log_p[goes_on] = children.gather(row[goes_on], event[goes_on])
            spread = _entropy(children)[row]
            for walker in np.flatnonzero(~stuck):
                log_q[draw_of[walker]].append(float(log_p[walker] - children.log_kept[row[walker]]))
                entropy[draw_of[walker]].append(float(spread[walker]))

            ends = np.flatnonzero(event == stop)
            finished = self._finish(frontier, np.unique(row[ends]))
            for walker in ends:
                i, sequence = int(draw_of[walker]), finished[int(row[walker])]
                outcome[i] = ChainState(sequence, tuple(log_q[i]), tuple(entropy[i])) if sequence else "rejected"
            if frontier.length == self.max_tokens:
                outcome |= {int(i): "censored" for i in draw_of[goes_on]}
                break
            if not len(goes_on):
                break
            walk, draw_of = walk.move(goes_on, event[goes_on]), draw_of[goes_on]
        return tuple(outcome[i] for i in range(len(prefixes))), cost

    def _finish(self, frontier: Frontier, rows: np.ndarray) -> dict[int, FinishedSequence | None]:
        """The sequences that end at some rows; None for those that are refused."""
        sequences = frontier.finish(rows, self.target_power)
        return {
            int(row): sequence if sequence.log_target > -np.inf and self.language.accepts(sequence.data) else None
            for row, sequence in zip(rows, sequences, strict=True)
        }


def _entropy(children: Children) -> np.ndarray:
    """[R] entropy in nats of each row's masked law, the stop event included; NaN where nothing is allowed."""
    weight = children.relative.double()
    total = weight.sum(dim=1)
    return (total.log() + torch.special.entr(weight).sum(dim=1) / total).cpu().numpy()


@dataclass(frozen=True)
class Step:
    """What one round of draws did to the chains.

    Attributes:
        states: [N] where each chain is now; None where it has not started yet.
        outcomes: what was drawn.
        accepted: proposals that were accepted.
    """

    states: tuple[ChainState | None, ...]
    outcomes: tuple[ChainState | Loss, ...]
    accepted: int
    cost: Cost


def start(drawer: MaskedDrawer, states: Sequence[ChainState | None], draws: Draws) -> Step:
    """One attempt to start every chain that has not: a draw from local masking, if it gives a sequence."""
    waiting = [i for i, state in enumerate(states) if state is None]
    drawn, cost = drawer.draw([()] * len(waiting), draws)
    after = list(states)
    for i, outcome in zip(waiting, drawn, strict=True):
        after[i] = outcome if isinstance(outcome, ChainState) else None
    return Step(tuple(after), drawn, 0, cost)


def step(drawer: MaskedDrawer, states: Sequence[ChainState], proposal: str, draws: Draws) -> Step:
    """One Metropolis-Hastings step of every chain; the chains are independent, their forward passes shared."""
    law = np.zeros((len(states), max(len(state.log_q) for state in states)))
    for row, state in zip(law, states, strict=True):
        row[: len(state.log_q)] = cut_law(proposal, state)
    cuts = draws.categorical(torch.from_numpy(law), np.arange(len(states)))
    drawn, cost = drawer.draw([state.sequence.tokens[:cut] for state, cut in zip(states, cuts, strict=True)], draws)
    after, accepted = list(states), 0
    for i, outcome in enumerate(drawn):
        if isinstance(outcome, ChainState):
            chance = float(np.exp(min(0.0, log_acceptance(proposal, states[i], outcome))))
            if draws.bernoulli(chance):
                after[i], accepted = outcome, accepted + 1
    return Step(tuple(after), drawn, accepted, cost)


@dataclass(frozen=True)
class Chains:
    """A run of several chains.

    Attributes:
        path: the states of the chains that started: their starts, then their states after each step.
        outcomes: every draw, those that started a chain included.
        proposals, accepted: how many were made and accepted.
        out_of_rows: whether the row budget ended the run.
    """

    path: tuple[tuple[ChainState, ...], ...]
    outcomes: tuple[ChainState | Loss, ...]
    proposals: int
    accepted: int
    out_of_rows: bool
    cost: Cost


def run_chains(
    drawer: MaskedDrawer, n_chains: int, n_steps: int, proposal: str, max_tries: int, max_rows: float, draws: Draws
) -> Chains:
    """Start the chains, and take the steps; see :func:`mcmc`."""
    states: tuple[ChainState | None, ...] = (None,) * n_chains
    outcomes: list[ChainState | Loss] = []
    cost = Cost()

    def rows_left() -> bool:
        return cost.forward_rows < max_rows

    tries = 0
    while None in states and tries < max_tries and rows_left():
        started = start(drawer, states, draws)
        states, cost, tries = started.states, cost + started.cost, tries + 1
        report("mcmc", tries, "attempts to start", max_tries, f"{n_chains - states.count(None)} of {n_chains} chains")
        outcomes += started.outcomes
    out_of_rows = None in states and tries < max_tries

    path = [tuple(state for state in states if state is not None)]
    proposals = accepted = 0
    while path[0] and len(path) <= n_steps and rows_left():
        moved = step(drawer, path[-1], proposal, draws)
        path.append(tuple(state for state in moved.states if state is not None))
        outcomes += moved.outcomes
        proposals, accepted, cost = proposals + len(path[0]), accepted + moved.accepted, cost + moved.cost
        report("mcmc", len(path) - 1, "steps", n_steps, f"{accepted} of {proposals} proposals accepted")
    out_of_rows = out_of_rows or (bool(path[0]) and len(path) <= n_steps)
    return Chains(tuple(path), tuple(outcomes), proposals, accepted, out_of_rows, cost)


def mcmc(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    n_steps: int = 10,
    proposal: str = "restart",
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    target_power: float = 1.0,
    keep: str = "last",
    burn_in: int = 0,
    max_tries: int = 20,
    max_rows: int | None = None,
    seed: int = 0,
    key: str = "",
    draws: Draws | None = None,
) -> SMCResult:
    """K Metropolis-Hastings chains whose proposals redraw a suffix by local masking.

    Gonzalez, Vaidya, Park, Ji, Berg-Kirkpatrick and D'Antoni, "Constrained Sampling for Language Models Should Be Easy:
    An MCMC Perspective" (NeurIPS 2025). A chain starts from a sample of local masking. A step cuts its sequence before
    one of its events (a token, or the stop), draws a new rest, and accepts by the ratio of the targets times that of the
    chances to propose one from the other, each summed over all cuts that could have done so. Draws that die, are
    censored, or are refused by the validator or a potential leave the chain where it is.

    Exact: every step leaves the posterior p(y)^a phi(y) over the sequences of at most `max_tokens` tokens as it is. Not
    exact: after finitely many steps a chain still remembers its start, so states follow the posterior in the limit only
    (which is what `weighted` promises), and there is no evidence. `ess` counts states as if they were independent.

    States weigh the same. Their total, and the masses of what died, was censored or rejected, are the shares of all
    draws (starts and proposals) that ended so. `acceptance` is the share of proposals that were accepted.

    All chains advance in one batch, which replays the kept prefixes; chains on one prefix share its row, and a prefix that was
    met before takes no forward row again (:mod:`smc.recall`).

    Args:
        model, constraint, prompt, potentials, max_tokens, target_power, seed, key: as for :class:`smc.SMCSampler`.
            Proposals draw from the masked model at power 1, whatever the target's power.
        n_particles: K, the number of chains.
        n_steps: steps of each.
        proposal: where to cut. "restart" before the first event, "uniform" anywhere, "priority" in proportion to
            exp(H) - 1, H the entropy in nats of the masked law there.
        keep: "last" returns the last state of each chain, "all" the path of each chain from its start on.
        burn_in: for "all", the number of first states (the start is one) to leave out; at most `n_steps`.
        max_tries: attempts to start a chain. Chains that never start are missing from the result: "incomplete".
        max_rows: forward rows after which no further round of draws begins; None for no limit. Chains are then cut short:
            "incomplete".
        draws: source of randomness, for tests that visit every outcome.

    Raises:
        OptionError, PromptError, ConstraintError: as for the sampler.
    """
    started = time.perf_counter()
    at_least("n_particles", n_particles, 1)
    at_least("n_steps", n_steps, 0)
    at_least("max_tries", max_tries, 1)
    at_least("burn_in", burn_in, 0)
    one_of("proposal", proposal, PROPOSALS)
    within("target_power", target_power, 0, np.inf, without_low=True)
    limit = np.inf if max_rows is None else at_least("max_rows", max_rows, 1)
    if one_of("keep", keep, ["last", "all"]) == "last" and burn_in:
        raise OptionError("mcmc: burn_in goes with keep='all'; keep='last' returns nothing but last states.")
    if burn_in > n_steps:
        raise OptionError(f"mcmc: burn_in={burn_in} leaves nothing of n_steps={n_steps} steps. Lower it.")
    draws = draws if draws is not None else RandomDraws(generator(at_least("seed", seed, 0), key))
    language = compiled(constraint, model)
    ids = prompt_ids(model, prompt, at_least("max_tokens", max_tokens, 1))
    root = Frontier.start(RecallingModel(model), language, checked_potentials(potentials), ids)
    drawer = MaskedDrawer(root, language, max_tokens, target_power)

    chains = run_chains(drawer, n_particles, n_steps, proposal, max_tries, limit, draws)
    first = min(burn_in, len(chains.path) - 1) if keep == "all" else len(chains.path) - 1
    states = [state for states in chains.path[first:] for state in states]

    def log_share(n: int) -> float:
        return float(np.log(n / len(chains.outcomes))) if n else -np.inf

    count = Counter(outcome for outcome in chains.outcomes if isinstance(outcome, str))
    log_weight = log_share(len(chains.outcomes) - count.total()) - np.log(max(len(states), 1))
    sequences = merge_sequences([replace(state.sequence, log_weight=float(log_weight)) for state in states])
    status: Status
    if chains.out_of_rows or 0 < len(chains.path[0]) < n_particles:
        status = "incomplete"
    elif sequences:
        status = "max_tokens" if count["censored"] else "complete"
    else:
        status = "censored" if count["censored"] else "rejected" if count["rejected"] else "dead"
    return SMCResult(
        method="mcmc",
        n_particles=n_particles,
        sequences=sequences,
        status=status,
        weighted=True,
        log_evidence=None,
        log_censored_mass=log_share(count["censored"]),
        log_unexplored_mass=-np.inf,
        log_rejected_mass=log_share(count["rejected"]),
        log_dead_mass=log_share(count["dead"]),
        ess=ess_of(sequences, "sampling"),
        ess_kind="sampling",
        trace=(),
        # the prompt is read once for all draws
        cost=chains.cost
        + Cost(1, 1, max(len(ids) - 1, 0) + 1)
        + Cost(potential_failures=root.failures, seconds=time.perf_counter() - started),
        seed=seed,
        key=key,
        acceptance=chains.accepted / chains.proposals if chains.proposals else None,
        language=language_of(constraint, language),
    )
