"""A trie of prefixes and what has been learned of the mass below them.

Adaptive samplers remember where they have been: a node for every prefix that was visited, with the mass of its
completions so far as it is known. Two facts make it small and exact. A node holds entries only for the events that were
drawn from it; all others are summed into one number. And that number is summed anew over what is left whenever an event
gets an entry of its own, never got by subtraction, so that no mass is lost to cancellation, however small it is.

An event is a token, or the stop, which is column V. Masses are logs of p^a, conditional on the prefix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from smc.children import Children
from smc.constraints.base import Constraint
from smc.errors import OptionError
from smc.interrupts import whole
from smc.models.base import LanguageModel
from smc.potentials import Potential

OPEN, REJECTED, CENSORED, DEAD = range(4)
"""What becomes of mass: it may still be in the target; it was refused at the end; it is live at max_tokens; nothing is
allowed after it. Mass that leaves the mask is in none of them."""


def fate(which: int, log_mass: float = 0.0) -> np.ndarray:
    """[4] all mass in one place."""
    masses = np.full(4, -np.inf)
    masses[which] = log_mass
    return masses


NOWHERE = np.full(4, -np.inf)
"""Mass that left the mask."""


@dataclass(slots=True, eq=False)
class Node:
    """A visited prefix, or the end of one.

    Attributes:
        log_p: log p^a of the event that leads here.
        log_mass: [4] log mass below, by fate; None before anything is known.
        apart: [4] what of that has no entry in `children`; None until the prefix has been expanded.
        children: by column.
    """

    log_p: float = -np.inf
    log_mass: np.ndarray | None = None
    apart: np.ndarray | None = None
    children: dict[int, Node] = field(default_factory=dict)

    def child(self, column: int) -> Node:
        """The entry of an event, made if need be; its `log_p` is set when the trie records the prefix."""
        return self.children.setdefault(column, Node())


@dataclass(frozen=True)
class Events:
    """What may follow R prefixes.

    Attributes:
        log_p: [R, V + 1] float64 log p^a of each token and, last, of the stop; minus infinity where nothing in the target
            can follow.
        lost: [R, 4] log mass of what is left out there, so far as its fate is known.
    """

    log_p: torch.Tensor
    lost: np.ndarray

    @staticmethod
    def of(children: Children, *, at_limit: bool = False, refused: np.ndarray | None = None) -> Events:
        """The given children.

        Args:
            children: masked ones, unless `lost` is to say nothing of dead ends.
            at_limit: the prefixes have max_tokens tokens, so that any token more is censored.
            refused: [R] bool, prefixes of which a potential or the validator promises that it refuses every completion.
        """
        log_p = _table(children)
        lost = np.full((len(log_p), 4), -np.inf)
        lost[children.log_kept == -np.inf, DEAD] = 0.0
        if refused is not None and refused.any():
            log_p[torch.as_tensor(refused, device=log_p.device)] = -torch.inf
            lost[refused] = fate(REJECTED)
        if at_limit:
            lost[:, CENSORED] = _log_sums(log_p[:, :-1])
            log_p[:, :-1] = -torch.inf
        return Events(log_p, lost)

    def without_mask(self, unmasked: Children) -> Events:
        """The children of the unmasked model in the place of these, except where nothing can follow."""
        closed = self.closed != OPEN
        log_p = _table(unmasked)
        log_p[torch.as_tensor(closed, device=log_p.device)] = -torch.inf
        return Events(log_p, np.where(closed[:, None], self.lost, -np.inf))

    @property
    def closed(self) -> np.ndarray:
        """[R] REJECTED or DEAD for prefixes after which nothing can follow whatever the draw, otherwise OPEN."""
        return np.where(self.lost[:, REJECTED] == 0, REJECTED, np.where(self.lost[:, DEAD] == 0, DEAD, OPEN))


class Trie:
    """Learned masses below the prefixes of one prompt, constraint, power and length limit.

    What has not been visited gets a guess: 1, an upper bound where a >= 1, so that every open mass is one too; or, with
    `mean_guess`, the mean over the visited prefixes of the same length (of the logs of positive open masses), so that
    every open mass is an estimate. Either way an open mass of zero is a proof.
    """

    def __init__(self, mean_guess: bool = False):
        self.root = Node()
        self._mean_guess = mean_guess
        self._levels: dict[int, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
        self._touched: dict[int, list[Node]] = defaultdict(list)

    def __getstate__(self) -> dict[str, Any]:
        """All nodes in a row, parents first: one inside the other they would be too deep to pickle or to copy."""
        nodes, entries = [self.root], [(0, 0)]
        for place, node in enumerate(nodes):  # which grows as it is read
            entries += [(place, column) for column in node.children]
            nodes += node.children.values()
        places = {id(node): place for place, node in enumerate(nodes)}
        return {
            "mean_guess": self._mean_guess,
            "levels": dict(self._levels),
            "touched": {length: [places[id(node)] for node in some] for length, some in self._touched.items()},
            "nodes": [
                (parent, column, node.log_p, node.log_mass, node.apart)
                for (parent, column), node in zip(entries, nodes, strict=True)
            ],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        Trie.__init__(self, state["mean_guess"])
        nodes: list[Node] = []
        for place, (parent, column, log_p, log_mass, apart) in enumerate(state["nodes"]):
            nodes.append(Node(log_p, log_mass, apart))
            if place:
                nodes[parent].children[column] = nodes[place]
        self.root = nodes[0]
        self._levels.update(state["levels"])
        self._touched.update({length: [nodes[place] for place in some] for length, some in state["touched"].items()})

    def log_mass(self, node: Node, length: int) -> np.ndarray:
        """[4] log mass below a prefix of the given length, by fate."""
        return fate(OPEN, self.log_guess(length)) if node.log_mass is None else node.log_mass

    @property
    def log_open(self) -> float:
        """log of the mass that may be in the target."""
        return float(self.log_mass(self.root, 0)[OPEN])

    def log_guess(self, length: int) -> float:
        """log of the open mass expected below an unvisited prefix of the given length."""
        total, count = self._levels[length]
        return total / count if self._mean_guess and count else 0.0

    def learned(self, nodes: Sequence[Node]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What is known of the events after R prefixes: row, column and log open mass, each [N]."""
        known = [
            (row, column, child.log_mass[OPEN])
            for row, node in enumerate(nodes)
            for column, child in node.children.items()
            if child.log_mass is not None
        ]
        row, column, log_mass = zip(*known, strict=True) if known else ((), (), ())
        return np.array(row, dtype=np.int64), np.array(column, dtype=np.int64), np.array(log_mass, dtype=np.float64)

    def record(self, nodes: Sequence[Node], length: int, events: Events) -> None:
        """Note what follows R prefixes of one length. Their masses, and their ancestors', wait for :meth:`settle`."""
        entries = [(row, column) for row, node in enumerate(nodes) for column in node.children]
        device = events.log_p.device
        at = tuple(torch.as_tensor(entries, dtype=torch.int64, device=device).reshape(-1, 2).T)
        rest = events.log_p.clone()
        rest[at] = -torch.inf
        apart = events.lost.copy()
        apart[:, OPEN] = _log_sums(rest)
        known = events.log_p[at].tolist()
        with whole():  # half of it would be wrong
            for (row, column), log_p in zip(entries, known, strict=True):
                nodes[row].children[column].log_p = log_p
            for node, masses in zip(nodes, apart, strict=True):
                node.apart = masses
            self._touched[length] += nodes

    def settle(self) -> None:
        """Carry what was recorded from the longest prefixes back to the root.

        Every prefix of a recorded one must have been recorded too since the last time.
        """
        with whole():
            for length in sorted(self._touched, reverse=True):
                guess = self.log_guess(length + 1)
                for node in self._touched.pop(length):
                    assert node.apart is not None
                    apart = node.apart.copy()
                    apart[OPEN] += guess
                    below = [child.log_p + self.log_mass(child, length + 1) for child in node.children.values()]
                    log_mass = np.logaddexp.reduce([apart, *below])
                    self._relearn(length, node.log_mass, log_mass)
                    node.log_mass = log_mass

    def _relearn(self, length: int, old: np.ndarray | None, new: np.ndarray) -> None:
        """Put a prefix's new open mass in the place of its old one in the mean of its length."""
        total, count = self._levels[length]
        if old is not None and old[OPEN] > -np.inf:
            total, count = total - float(old[OPEN]), count - 1
        if new[OPEN] > -np.inf:
            total, count = total + float(new[OPEN]), count + 1
        self._levels[length] = total, count


class TrieStore:
    """Tries that go on learning from call to call. What one prompt taught is never used for another.

    A trie is found again only with the same model object, prompt ids, potentials, power and length limit and an equal
    constraint.
    """

    def __init__(self) -> None:
        self._tries: dict[Hashable, Trie] = {}

    def trie(
        self,
        kind: str,
        model: LanguageModel,
        prompt: tuple[int, ...],
        constraint: Constraint,
        potentials: tuple[Potential, ...],
        target_power: float,
        max_tokens: int,
    ) -> Trie:
        """The trie of the given run, empty the first time.

        Args:
            kind: what is recorded in it; tries of different kinds are kept apart.

        Raises:
            OptionError: the constraint or a potential is not hashable, so that it could not be told from others.
        """
        key = (kind, model, prompt, constraint, potentials, float(target_power), max_tokens)
        try:
            return self._tries.setdefault(key, Trie())
        except TypeError as error:
            raise OptionError(
                f"A store needs to tell constraints and potentials apart, and one of these cannot be hashed ({error}). "
                "Make it a frozen dataclass, or leave out store=."
            ) from error


def _table(children: Children) -> torch.Tensor:
    """[R, V + 1] float64 log p, the stop event as the last column."""
    return torch.cat([children.log_token.double(), children.stop[:, None]], dim=1)


def _log_sums(log_p: torch.Tensor) -> np.ndarray:
    """[R] log of the sum of each row; minus infinity where there is none."""
    return torch.logsumexp(log_p, dim=1).cpu().numpy()
