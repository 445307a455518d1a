"""Certified bounds on the exact answer: best-first branch and bound over prefixes (Land and Doig, 1960).

For a power a of at least 1 and a potential of at most B, all completions of a prefix x together have at most the target
mass p(x)^a B. So the sequences that a search has finished, and this bound on each prefix that it has left open, enclose
Z and every probability from both sides, whatever the order of the search. Opening the heaviest prefix first only
makes the two sides meet soon. Nothing is drawn: the answer is the same at every call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from smc.constraints.base import CompiledConstraint, Constraint
from smc.constraints.refusals import refused
from smc.errors import OptionError, SMCError, at_least, quoted, within
from smc.expansion import Endings, Pending
from smc.frontier import Frontier
from smc.inputs import checked_potentials, compiled, prompt_ids
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.resampling import log_sum_exp
from smc.result import Cost, FinishedSequence, Status, merged_by_key
from smc.watching import report

WINDOW = 2.0
"""Children at most this many nats below the heaviest open one may share its forward pass: less wastes passes, more wastes
rows. On ISO dates 2 leaves the same open mass as batches of one within a tenth, for a quarter of the passes."""

_ROUNDING = 1e-9  # nats by which the sum of several log potentials may miss their declared bound


@dataclass(frozen=True)
class CertifiedPosterior:
    """What a search has found, and what the rest can still change. Logs are in nats.

    The bounds are exact up to the rounding of the model's log probabilities: about 1e-15 for float64, about 1e-6 for
    float32.

    Attributes:
        sequences: finished sequences with their exact targets (their `log_weight` too), likeliest first.
        log_lower: log of their summed targets, a lower bound on Z.
        log_upper: log of an upper bound on Z: the open mass added.
        log_open_mass: log of a bound on the target mass that was not found; minus infinity if nothing is open.
        log_open_peak: log of a bound on the target of any single sequence that was not found.
        log_censored_mass: mass of prefixes seen open at max_tokens (at power a, potentials not included), no part of Z.
        log_rejected_mass: mass of sequences, and of prefixes, seen to pass the mask and refused by the validator.
        status: "complete" (nothing is open), "max_tokens" (the same, and some mass was censored), "early_stop" (the
            certificate is within the tolerance), "incomplete" (the budget ran out), or, with nothing open and nothing
            found, "censored", "rejected" or "dead".
        cost: what it took.
    """

    sequences: tuple[FinishedSequence, ...]
    log_lower: float
    log_upper: float
    log_open_mass: float
    log_open_peak: float
    log_censored_mass: float
    log_rejected_mass: float
    status: Status
    cost: Cost

    @property
    def exact(self) -> bool:
        """Whether nothing is open: then the bounds meet."""
        return self.log_open_mass == -np.inf

    @cached_property
    def total_variation_bound(self) -> float:
        """Bound on the total variation distance between :meth:`posterior` and p*: open / upper; 0 when exact.

        Over token sequences the distance is the share of Z that was not found, (Z - lower) / Z; over strings it is no
        larger. It also bounds the posterior probability of any string not found, and of all of them together.
        """
        return 0.0 if self.exact else float(np.exp(self.log_open_mass - self.log_upper))

    @cached_property
    def weights(self) -> np.ndarray:
        """[N] targets of `sequences`, normalised: upper bounds on their posterior probabilities. They sum to 1."""
        return np.exp(np.array([s.log_target for s in self.sequences]) - self.log_lower)

    def posterior(self, key: Callable[[str], Hashable] | None = None) -> dict:
        """Normalised targets of the strings found, tokenisations merged, likeliest first; `key` groups strings."""
        return merged_by_key(self.sequences, self.weights, key)

    def bounds(self, key: Callable[[str], Hashable] | None = None) -> dict:
        """(lower, upper) bound on p* of each string found, likeliest first; `key` groups strings.

        Lower is t / upper, t the targets found. All of the open mass may belong to other tokenisations of the same
        string, so upper is (t + open) / (lower + open) and not t / lower. A string not found has at most
        :attr:`total_variation_bound`.
        """
        known, unknown = self._share_found, self.total_variation_bound
        return {k: (w * known, min(w * known + unknown, 1.0)) for k, w in self.posterior(key).items()}

    def sequence_bounds(self) -> dict[tuple[int, ...], tuple[float, float]]:
        """(lower, upper) bound on p* of each token sequence found: t / upper and t / lower, t its exact target."""
        known = self._share_found
        return {s.tokens: (float(w) * known, float(w)) for s, w in zip(self.sequences, self.weights, strict=True)}

    def best(self) -> FinishedSequence | None:
        """The likeliest sequence found."""
        return max(self.sequences, key=lambda s: (s.log_target, s.data), default=None)

    @property
    def best_is_certain(self) -> bool:
        """Whether :meth:`best` provably is a mode of p* over token sequences: nothing that is open can beat it."""
        best = self.best()
        return best is not None and best.log_target >= self.log_open_peak

    @property
    def _share_found(self) -> float:
        return float(np.exp(self.log_lower - self.log_upper))


def branch_and_bound(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    target_power: float = 1.0,
    max_rows: int = 1000,
    batch_size: int = 16,
    tolerance: float = 0.0,
    max_held_rows: int = 256,
) -> CertifiedPosterior:
    """Bound Z and the posterior from both sides, opening the heaviest prefix first.

    The language may be infinite. The bounds only tighten as `max_rows` grows, and meet once it covers the language (as
    long as `max_held_rows` lets nothing go).

    Args:
        model, constraint, prompt, max_tokens: as for :class:`smc.SMCSampler`.
        potentials: each with a finite `log_bound`. A running value of minus infinity closes a prefix.
        target_power: a of the target p(y)^a phi(y), at least 1.
        max_rows: the most prefixes to visit. Each costs a row of a forward pass, unless a potential or the validator
            closes it.
        batch_size: the most prefixes in one forward pass: the heaviest open one and its siblings and cousins of one
            expansion that are nearly as heavy.
        tolerance: stop once the certificate, :attr:`CertifiedPosterior.total_variation_bound`, is at most this.
        max_held_rows: the most expanded rows whose state (key-value cache, matchers) is held; batches are no larger.
            Beyond it the expansion with the least open mass is let go, and its mass stays open for good.

    Raises:
        OptionError: a target_power below 1 or a potential without a bound, where a prefix bounds nothing; or an option
            out of range.
        SMCError: a potential exceeds the bound that it declares.
        PromptError, ConstraintError, ModelError: as for the sampler.
    """
    started = time.perf_counter()
    at_least("max_tokens", max_tokens, 1)
    search = _Search(
        language=compiled(constraint, model),
        log_phi_bound=_log_bound(checked_potentials(potentials)),
        target_power=_power(target_power),
        max_tokens=max_tokens,
        max_rows=at_least("max_rows", max_rows, 1),
        max_held_rows=at_least("max_held_rows", max_held_rows, 1),
    )
    batch_size = min(at_least("batch_size", batch_size, 1), max_held_rows)
    within("tolerance", tolerance, 0, 1)
    log_tolerance = np.log(tolerance) if tolerance > 0 else -np.inf
    ids = prompt_ids(model, prompt, max_tokens)

    root = Frontier.start(model, search.language, potentials, ids)
    search.expand(root)
    while search.branches and search.visited < max_rows and search.log_open_share > log_tolerance:
        search.expand(search.heaviest(batch_size))
        share = f"{np.exp(search.log_open_share):.2g} of the mass open"
        report("branch_and_bound", search.visited, "prefixes", max_rows, f"{len(search.finished)} sequences, {share}")

    finished = tuple(sorted(search.finished, key=lambda s: (-s.log_target, s.tokens)))
    log_lower, log_open = log_sum_exp(np.array([s.log_target for s in finished])), search.log_open
    seconds = time.perf_counter() - started
    return CertifiedPosterior(
        sequences=finished,
        log_lower=log_lower,
        log_upper=_log_add(log_lower, log_open),
        log_open_mass=log_open,
        log_open_peak=search.log_open_peak,
        log_censored_mass=search.log_censored,
        log_rejected_mass=search.log_rejected,
        status=search.status(log_tolerance),
        cost=search.cost + Cost(tokens=max(len(ids) - 1, 0), potential_failures=root.failures, seconds=seconds),
    )


@dataclass(frozen=True, eq=False)
class _Branches:
    """Open children of one expansion, heaviest first.

    Attributes:
        pending: the N children.
        log_bound: [N] log of the bound on the target mass below each.
        log_rest: [N] log of the summed bounds of child i and of all after it, summed from the smallest up: taking
            children off one by one would leave nothing but rounding of a small rest.
    """

    pending: Pending
    log_bound: np.ndarray
    log_rest: np.ndarray

    @staticmethod
    def of(pending: Pending, log_bound: np.ndarray) -> _Branches:
        return _Branches(pending, log_bound, np.logaddexp.accumulate(log_bound[::-1])[::-1])

    def take(self, n: int) -> tuple[Frontier, _Branches | None]:
        """The n heaviest, and what stays open (None if nothing). Consumes these."""
        frontier, pending = self.pending.take(n)
        if pending is None:
            return frontier, None
        return frontier, _Branches(pending, self.log_bound[n:], self.log_rest[n:])


@dataclass
class _Search:
    """The state of one search.

    Attributes:
        log_phi_bound: log of the bound on the product of all potentials.
        branches: what is open and can still be visited.
        log_found: log of the summed targets of `finished`, as it grows.
        log_left, log_left_peak: summed and largest bound of what is open and will not be visited.
        visited: prefixes so far.
        refused: whether the validator or a potential refused anything.
    """

    language: CompiledConstraint
    log_phi_bound: float
    target_power: float
    max_tokens: int
    max_rows: int
    max_held_rows: int
    branches: list[_Branches] = field(default_factory=list)
    finished: list[FinishedSequence] = field(default_factory=list)
    log_found: float = -np.inf
    log_left: float = -np.inf
    log_left_peak: float = -np.inf
    log_censored: float = -np.inf
    log_rejected: float = -np.inf
    refused: bool = False
    visited: int = 0
    cost: Cost = field(default_factory=Cost)

    def heaviest(self, batch_size: int) -> Frontier:
        """The heaviest open child, with those of the same expansion that are nearly as heavy."""
        branches = max(self.branches, key=lambda b: b.log_bound[0])
        near = int(np.searchsorted(-branches.log_bound, WINDOW - branches.log_bound[0], side="right"))
        frontier, rest = branches.take(min(near, batch_size, self.max_rows - self.visited))
        self.branches.remove(branches)
        if rest is not None:
            self.branches.append(rest)
        return frontier

    def expand(self, frontier: Frontier) -> None:
        """Visit prefixes: finish what may stop, and open their children."""
        self.visited += len(frontier)
        gone = refused(frontier.constraint_rows)
        lost = np.array([lineage.log_prob for lineage in frontier.lineages])[gone]
        self.log_rejected = _log_add(self.log_rejected, log_sum_exp(self.target_power * lost))
        possible = np.flatnonzero(~gone & (frontier.potential_rows.log_prefix > -np.inf))
        if len(possible) < len(frontier):
            self.refused = True
            if not len(possible):
                return
            frontier = frontier.fork(possible)
        self.cost += frontier.expansion_cost

        endings = Endings.of(frontier, self.language, self.target_power)
        self._check(endings.finished)
        self.finished.extend(endings.finished)
        self.log_found = _log_add(self.log_found, log_sum_exp(np.array([s.log_target for s in endings.finished])))
        self.log_rejected = _log_add(self.log_rejected, endings.log_rejected)
        self.refused |= endings.refused

        log_token = frontier.children.log_token
        log_prob = torch.tensor([lineage.log_prob for lineage in frontier.lineages], dtype=torch.float64)
        log_mass = (log_token.double() + log_prob.to(log_token.device)[:, None]) * self.target_power
        if frontier.length == self.max_tokens:
            self.log_censored = _log_add(self.log_censored, float(torch.logsumexp(log_mass.flatten(), 0)))
        else:
            self._open(frontier, log_mass + self.log_phi_bound)

    def _open(self, frontier: Frontier, log_bound: torch.Tensor) -> None:
        """Open the children of a frontier whose bounds are [R, V]. No more are listed than can still be visited."""
        index, listed, rest = _split(log_bound.flatten(), self.max_rows - self.visited)
        self._leave(float(torch.logsumexp(rest, 0)), float(rest.max()))
        if len(index):
            rows, tokens = np.divmod(index, log_bound.shape[1])
            self.branches.append(_Branches.of(Pending.of(frontier, rows, tokens), listed))
        while sum(len(b.pending.parents) for b in self.branches) > self.max_held_rows:
            lightest = min(self.branches, key=lambda b: b.log_rest[0])
            self.branches.remove(lightest)
            self._leave(float(lightest.log_rest[0]), float(lightest.log_bound[0]))

    def _leave(self, log_mass: float, log_peak: float) -> None:
        """Leave mass open for good."""
        self.log_left = _log_add(self.log_left, log_mass)
        self.log_left_peak = max(self.log_left_peak, log_peak)

    def _check(self, finished: Sequence[FinishedSequence]) -> None:
        for sequence in finished:
            if sequence.log_potential > self.log_phi_bound + _ROUNDING:
                raise SMCError(
                    f"The potentials gave log phi = {sequence.log_potential:g} to {quoted(sequence.text)}, but their log_bound "
                    f"promises at most {self.log_phi_bound:g}, so no bound would hold. Raise log_bound."
                )

    @property
    def log_open(self) -> float:
        return log_sum_exp(np.array([self.log_left, *(b.log_rest[0] for b in self.branches)]))

    @property
    def log_open_peak(self) -> float:
        return float(max([self.log_left_peak, *(b.log_bound[0] for b in self.branches)]))

    @property
    def log_open_share(self) -> float:
        """log of open / (found + open), the certificate."""
        log_open = self.log_open
        return log_open - _log_add(self.log_found, log_open) if log_open > -np.inf else -np.inf

    def status(self, log_tolerance: float) -> Status:
        if self.log_open > -np.inf:
            return "early_stop" if self.log_open_share <= log_tolerance else "incomplete"
        if self.finished:
            return "max_tokens" if self.log_censored > -np.inf else "complete"
        if self.log_censored > -np.inf:
            return "censored"
        return "rejected" if self.refused else "dead"


def _split(values: torch.Tensor, n: int) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """The n largest finite values and all others.

    Args:
        values: [N] floats; minus infinity marks what does not count.

    Returns:
        [n] positions, the largest value first and the earlier of equals first; their values; [N] the values with
        minus infinity in these positions. n is less where there are not as many.
    """
    n = min(n, int((values > -torch.inf).sum()))
    if n == 0:
        return np.empty(0, dtype=np.int64), np.empty(0), values
    least = torch.topk(values, n).values[-1]
    at = torch.nonzero(values >= least)[:, 0]
    order = torch.sort(values[at], descending=True, stable=True).indices[:n]
    top = at[order]
    return top.cpu().numpy(), values[top].cpu().numpy(), values.index_fill(0, top, -torch.inf)


def _log_add(a: float, b: float) -> float:
    return float(np.logaddexp(a, b))


def _power(target_power: float) -> float:
    power = within("target_power", target_power, 0, np.inf, without_low=True)
    if power < 1:
        raise OptionError(
            f"branch_and_bound cannot bound target_power={power:g}: below 1, p^a of the completions of a prefix may sum to "
            "more than p^a of the prefix. Use a target_power of at least 1, or enumerate_posterior for a small language."
        )
    return power


def _log_bound(potentials: Sequence[Potential]) -> float:
    """log of the bound on the product of potentials."""
    for potential in potentials:
        if not np.isfinite(potential.log_bound):
            raise OptionError(
                f"branch_and_bound needs a bound on every potential, and the log_bound of {quoted(potential)} is "
                f"{potential.log_bound}. Declare the largest log value that it can take, as in TextPotential(..., log_bound=0)."
            )
    return float(sum(potential.log_bound for potential in potentials))
