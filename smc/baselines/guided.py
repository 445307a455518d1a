"""Walkers that draw whole sequences in rounds and remember in a trie where they have been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from smc.constraints.base import CompiledConstraint
from smc.draws import Draws
from smc.frontier import Frontier, Walk
from smc.interrupts import whole
from smc.result import Cost, FinishedSequence
from smc.trie import CENSORED, NOWHERE, OPEN, REJECTED, Events, Node, Trie, fate

OUTSIDE = -1
"""The fate of a draw that left the mask."""

NO_EVENT = -1
"""In the place of the column of an event, where there was none to draw."""


@dataclass(frozen=True)
class Guidance:
    """What walkers draw from.

    Attributes:
        name: of the method.
        mask: where they draw from what may still be in the target: "never", at the "first" token, or at prefixes "visited"
            in an earlier round. Elsewhere they draw from the model as it is, and end with the first token outside the mask;
            or, with "always", from the masked model (power and all), and end with the token that goes beyond max_tokens.
        futures: the learned masses that multiply the probability of each event: none; those of a trie that knows the
            "hits" alone, the events that ended walkers; or those of one that knows all that the mask forbids at visited
            prefixes ("cones").
    """

    name: str
    mask: Literal["never", "first", "visited", "always"]
    futures: Literal["none", "hits", "cones"]

    def narrowed(self, nodes: Sequence[Node], length: int) -> np.ndarray:
        """[R] bool: the prefixes at which only what may be in the target is drawn."""
        if self.mask in ("visited", "always"):
            return np.array([node.apart is not None for node in nodes])
        return np.full(len(nodes), self.mask == "first" and length == 0)


@dataclass(frozen=True)
class Ending:
    """How a walker ended.

    Attributes:
        fate: OPEN (a valid sequence), REJECTED (the validator or a potential refused it), CENSORED, DEAD or OUTSIDE.
        log_prob: log p of what it had drawn, at power 1.
        sequence: what it finished, valid or not; None if it was cut short.
    """

    fate: int
    log_prob: float
    sequence: FinishedSequence | None = None

    @property
    def log_mass(self) -> np.ndarray:
        """[4] the mass below the event that ended it, by fate."""
        if self.fate == OUTSIDE:
            return NOWHERE
        return fate(self.fate, self.sequence.log_potential if self.sequence and self.fate == OPEN else 0.0)


class _Trail:
    """Where the prefixes that walkers stand on are in a trie: a node for each row."""

    def __init__(self, trie: Trie):
        self.trie, self.nodes, self.length = trie, [trie.root], 0

    def step(
        self, events: Events, walk: Walk, column: np.ndarray, noted: dict[int, Ending], one_walker: np.ndarray
    ) -> None:
        """Note ends and moves and what else there was to draw, and follow the moves.

        Args:
            events: what may follow each row.
            walk, column: the walkers, and what each has drawn.
            noted: the ends to note, by walker.
            one_walker: of each row after the move, a walker that went there.
        """
        for i, ending in noted.items():
            self.nodes[walk.row[i]].child(int(column[i])).log_mass = ending.log_mass
        below = [self.nodes[walk.row[i]].child(int(column[i])) for i in one_walker]
        self.trie.record(self.nodes, self.length, events)
        self.nodes, self.length = below, self.length + 1


@dataclass(frozen=True)
class Explorer:
    """Rounds of walkers from one prompt.

    Attributes:
        guidance: what they draw from.
        root: the empty prefix, expanded; every round starts on a copy.
        cones: the trie that records the whole mask of every prefix visited. It can prove that nothing is in the target.
        hits: the trie that records no more than what ended walkers; None where nobody asks it.
    """

    guidance: Guidance
    root: Frontier
    language: CompiledConstraint
    target_power: float
    max_tokens: int
    draws: Draws
    cones: Trie
    hits: Trie | None

    @property
    def guide(self) -> Trie | None:
        """The trie whose masses steer the draws."""
        return {"none": None, "hits": self.hits, "cones": self.cones}[self.guidance.futures]

    def round(self, n_walkers: int) -> tuple[list[Ending], Cost]:
        """Let walkers draw one sequence each. All use the tries as they were at the start of the round.

        That costs nothing to keep: walkers on one prefix stand there at the same time, so what they learn there, and
        below, cannot reach another walker before the masses are settled at the end.
        """
        for trie in (self.cones, self.hits):
            if trie is not None:
                trie.settle()  # what a round recorded that was interrupted
        walk, who = Walk.start(self.root.fork(np.zeros(1, dtype=np.int64)), n_walkers), np.arange(n_walkers)
        cones, hits = _Trail(self.cones), _Trail(self.hits) if self.hits is not None else None
        endings: dict[int, Ending] = {}
        cost = Cost(masks=1)  # the root's forward pass is shared by all rounds
        while len(walk):
            # 1. draw an event for each walker that has any
            cone, free = self._events(walk.frontier, cones.nodes)
            if walk.frontier.length:
                cost += walk.frontier.expansion_cost
            closed = cone.closed
            column = np.full(len(walk), NO_EVENT)
            able = closed[walk.row] == OPEN
            if able.any():
                law = _relative(self._log_law(cone, free, cones, hits, walk.frontier.length))
                column[able] = self.draws.categorical(law, walk.row[able])

            # 2. end those that cannot go on, move the others
            ends = self._ends(walk, column, closed)
            endings |= {int(who[i]): ending for i, ending in ends.items()}
            going = np.array([i for i in range(len(walk)) if i not in ends], dtype=np.int64)
            moved = walk.move(going, column[going])
            one_walker = going[np.unique(moved.row, return_index=True)[1]]  # of each new row

            # 3. remember
            for trail, events in ((cones, cone), (hits, free)):
                if trail is not None:
                    noted = {i: e for i, e in ends.items() if column[i] != NO_EVENT and (trail is hits or e.sequence)}
                    with whole():
                        trail.step(events, walk, column, noted, one_walker)
            walk, who = moved, who[going]

        for trail in (cones, hits):
            if trail is not None:
                trail.trie.settle()
        return [endings[i] for i in range(n_walkers)], cost

    def _events(self, frontier: Frontier, nodes: Sequence[Node]) -> tuple[Events, Events]:
        """What may be in the target after each prefix, and what is drawn from where that is not known yet."""
        children = frontier.children.powered(self.target_power)
        cone = Events.of(children, at_limit=frontier.length == self.max_tokens, refused=frontier.refused)
        if self.guidance.mask == "always":
            return cone, cone.without_mask(children)
        if self.hits is None and self.guidance.narrowed(nodes, frontier.length).all():
            return cone, cone  # nobody needs the other, which is a table of the vocabulary
        return cone, cone.without_mask(frontier.unmasked)

    def _log_law(self, cone: Events, free: Events, cones: _Trail, hits: _Trail | None, length: int) -> torch.Tensor:
        """[R, V + 1] float64 log of what walkers draw from, up to a factor of each row."""
        narrowed = torch.as_tensor(self.guidance.narrowed(cones.nodes, length), device=cone.log_p.device)
        log_law = torch.where(narrowed[:, None], cone.log_p, free.log_p)
        trail = {"none": None, "hits": hits, "cones": cones}[self.guidance.futures]
        if trail is not None:
            row, column, log_mass = (torch.as_tensor(a, device=log_law.device) for a in trail.trie.learned(trail.nodes))
            log_law[row, column] += log_mass
        return log_law

    def _ends(self, walk: Walk, column: np.ndarray, closed: np.ndarray) -> dict[int, Ending]:
        """The walkers that end here, by position."""
        frontier, stop = walk.frontier, len(walk.frontier.vocabulary)
        log_stop = frontier.children.log_stop
        is_token = (column != stop) & (column != NO_EVENT)
        log_token = np.full(len(walk), -np.inf)  # of what was drawn, minus infinity outside the mask
        log_token[is_token] = frontier.children.gather(walk.row[is_token], column[is_token])
        stoppers = np.unique(walk.row[(column == stop) & (log_stop[walk.row] > -np.inf)])
        sequences = dict(zip(stoppers.tolist(), frontier.finish(stoppers, self.target_power), strict=True))
        ended: dict[int, Ending] = {}
        for i, (row, event) in enumerate(zip(walk.row.tolist(), column.tolist(), strict=True)):
            log_prob = frontier.lineages[row].log_prob
            if event == NO_EVENT:
                ended[i] = Ending(int(closed[row]), log_prob)
            elif event == stop and row in sequences:
                ended[i] = self._judged(sequences[row])
            elif log_token[i] == -np.inf:
                ended[i] = Ending(OUTSIDE, log_prob)
            elif frontier.length == self.max_tokens:
                ended[i] = Ending(CENSORED, log_prob + float(log_token[i]))
        return ended

    def _judged(self, sequence: FinishedSequence) -> Ending:
        valid = sequence.log_potential > -np.inf and self.language.accepts(sequence.data)
        return Ending(OPEN if valid else REJECTED, sequence.log_prob, sequence)


def _relative(log_law: torch.Tensor) -> torch.Tensor:
    """[R, C] weights, the largest of each row 1; rows without mass stay without."""
    top = log_law.max(dim=1, keepdim=True).values
    return torch.exp(log_law - torch.where(top > -torch.inf, top, 0.0))
