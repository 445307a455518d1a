"""Twists: a guess at the future of a prefix, which steers the search and leaves the target alone.

The best guess is psi(x) = sum of p(y | x)^a phi(y) over the completions y of prefix x that end in the language: with it
there is no variance at all. A twist decides what survives (the *priority* of a child is its mass times psi) and never
what it weighs: weights are divided by the chance to survive, so any positive guess leaves the estimates unbiased.
Twisted SMC: Whiteley and Lee (2014), Guarniero, Johansen and Lee (2017); for language models Zhao et al. (2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
import torch

from smc.children import Children
from smc.constraints.base import CompiledConstraint, Constraint
from smc.errors import SMCError
from smc.host import fetch, send
from smc.models.base import LanguageModel
from smc.vocabulary import Vocabulary


@dataclass(frozen=True)
class Lookahead:
    """What a twist thinks of every child of R prefixes. Logs, in nats; only ratios within one step matter.

    Attributes:
        log_token: [R, V] float tensor, log psi of the prefix extended by each token. Minus infinity promises that the
            child has no future (zero target mass below it): it is dropped. Entries at masked tokens are ignored.
        log_stop: [R] float64, log psi of having stopped: zero unless a potential is to be anticipated.
    """

    log_token: torch.Tensor
    log_stop: np.ndarray

    def checked(self, children: Children) -> Lookahead:
        """Itself.

        Raises:
            SMCError: a value for a child that may follow is NaN or plus infinity, or there are too few or too many
                values.
        """
        shapes, expected = (tuple(self.log_token.shape), np.shape(self.log_stop)), tuple(children.log_token.shape)
        if shapes != (expected, expected[:1]):
            raise SMCError(
                f"A twist returned log_token of shape {shapes[0]} and log_stop of shape {shapes[1]}. For {expected[0]} rows and "
                f"{expected[1]} tokens they must be {expected} and {expected[:1]}."
            )
        tokens = torch.where(children.log_token > -torch.inf, self.tokens_like(children), 0.0)
        (finite,) = children.fetch((tokens < torch.inf).all())
        stops = np.where(children.log_stop > -np.inf, self.log_stop, 0.0)
        if not finite or not (stops < np.inf).all():
            raise SMCError(
                "A twist returned NaN or plus infinity. It must return a finite log value, or minus infinity for a child "
                "that provably has no future."
            )
        return self

    def log_doomed(self, children: Children) -> np.ndarray:
        """[R] log of the mass of the tokens that are proven to have no future."""
        doomed = torch.where(self.tokens_like(children) == -torch.inf, children.log_token, -torch.inf)
        return fetch(torch.logsumexp(doomed.double(), dim=1))[0]

    def tokens_like(self, children: Children) -> torch.Tensor:
        """[R, V] log psi of the tokens, in the children's dtype and on their device."""
        return self.log_token.to(children.log_token)

    def log_table(self, children: Children) -> torch.Tensor:
        """[R, V + 1] float64, the stop event as the last column."""
        (stop,) = send(np.asarray(self.log_stop, dtype=np.float64), device=children.log_token.device)
        return torch.cat([self.tokens_like(children).double(), stop[:, None]], dim=1)


@dataclass(frozen=True)
class TwistContext:
    """What a run tells its twist.

    Attributes:
        model: what is steered; `vocabulary` holds its tokens.
        prompt: token ids of the prompt.
        language: the constraint of the run as the user wrote it; constraint: the same, compiled.
        target_power: a of the target p(y)^a phi(y).
        max_tokens: tokens before the stop.
    """

    model: LanguageModel
    prompt: tuple[int, ...]
    language: Constraint
    constraint: CompiledConstraint
    target_power: float
    max_tokens: int

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        return self.model.vocabulary


class TwistRows(Protocol):
    """R prefixes as a twist sees them; they move by the same verb as all rows (:mod:`smc.rows`)."""

    def look(self, children: Children) -> Lookahead:
        """The guess for all children of the rows, given their masked log probabilities (at power 1)."""
        ...

    def __len__(self) -> int: ...

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> Self: ...

    def fork(self, rows: np.ndarray) -> Self: ...


@runtime_checkable
class LearnsRefusals(Protocol):
    """Rows of a twist that wants to know which children the validator has refused before their end."""

    def refuse(self, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Note that row ``parents[i]`` extended by ``tokens[i]`` has no future. The rows have looked and not yet moved."""
        ...


@runtime_checkable
class Twist(Protocol):
    """A way to guess futures."""

    def start(self, context: TwistContext) -> TwistRows:
        """One row: the empty prefix of a new run.

        Raises:
            OptionError: the twist cannot serve this run (its message says why).
        """
        ...
