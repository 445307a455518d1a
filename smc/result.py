"""What a run returns: weighted sequences, the evidence, and everything that was lost on the way."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Literal, TypeVar, overload

import numpy as np

from smc.constraints.base import CheckableRows, ConstraintRows
from smc.constraints.notes import Language
from smc.draws import generator
from smc.errors import OptionError, at_least, function_of
from smc.models.base import Anticipates, ModelRows
from smc.population import Lineage
from smc.resampling import effective_sample_size, log_sum_exp
from smc.variance import descent_variance, selection_variance
from smc.vocabulary import Vocabulary, to_text

Key = TypeVar("Key", bound=Hashable)
Status = Literal["complete", "early_stop", "max_tokens", "incomplete", "censored", "rejected", "dead"]

EssKind = Literal["sampling", "concentration"]
_STATUSES: tuple[Status, ...] = ("incomplete", "max_tokens", "early_stop", "complete", "censored", "rejected", "dead")

_ADVICE = {
    "incomplete": "The budget ran out before any sequence was accepted. Raise it, or use a method that never leaves the "
    "mask (SMCSampler, cars).",
    "censored": "No sequence finished: all mass was still live at max_tokens. Raise max_tokens, or use a constraint "
    "that ends (bounded repetition and whitespace).",
    "rejected": "Sequences finished but none has positive weight: the validator or a potential refused them all. The "
    "engine's language may be wider than what was written; simplify the constraint or loosen the potential.",
    "dead": "Every sequence ran into a dead end with nothing allowed. The constraint may be unsatisfiable, or its "
    "characters may be missing from the model's vocabulary.",
}


@dataclass(frozen=True)
class Cost:
    """What a run used. Cost follows distinct prefixes, not particles.

    Attributes:
        forward_rows: rows of model input summed over passes.
        passes: forward passes.
        tokens: tokens fed to the model, the prompt included.
        masks: masks filled. checks: single (row, token) questions asked of a constraint.
        potential_failures: rows on which a potential failed and the caller chose to go on (see
            :mod:`smc.potentials.failures`).
        seconds: wall time; of a forward pass that several runs shared, the part of its rows. So the seconds of jobs that
            ran together sum to about the time that passed.
    """

    forward_rows: int = 0
    passes: int = 0
    tokens: int = 0
    masks: int = 0
    checks: int = 0
    potential_failures: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Cost)))


def pass_cost(rows: ModelRows) -> Cost:
    """What the log probabilities of some rows cost: a token each in one pass, but for what was fed in advance.

    To be asked once they are there, where tokens may be fed in advance.
    """
    fed = rows.fed if isinstance(rows, Anticipates) else None
    n_rows, n_tokens = (len(rows), len(rows)) if fed is None else fed
    return Cost(forward_rows=n_rows, passes=int(n_rows > 0), tokens=n_tokens)


def mask_cost(rows: ConstraintRows) -> Cost:
    """What the masks of some rows cost: one each, and the questions that a constraint without masks has to ask for it."""
    asked = rows.checks_per_mask if isinstance(rows, CheckableRows) else 0
    return Cost(masks=len(rows), checks=len(rows) * asked)


@dataclass(frozen=True)
class FinishedSequence:
    """One finished token sequence. Logs are in nats.

    Attributes:
        tokens: token ids, the stop token left out.
        data: the bytes that they spell.
        log_weight: log weight of one particle; the sequence stands for `count` of them.
        count: particles that ended on this sequence.
        log_prob: log p(y) under the model, the stop event included, at power 1.
        kept_path: log Z_t of every step, the stop step included.
        log_potential: log phi(y).
        log_target: log of the unnormalised target, a log p(y) + log phi(y); known exactly for every sequence.
        eves: (e, how many of its particles descend from particle e of the start); None where that is not tracked.
        resamplings: how many resamplings its particles went through.
        survival_path: log of the chance with which each step kept the sequence's prefix among its rivals, the stop step
            included; None where prefixes are not kept independently of each other.
    """

    tokens: tuple[int, ...]
    data: bytes
    log_weight: float
    count: int
    log_prob: float
    kept_path: tuple[float, ...]
    log_potential: float
    log_target: float
    eves: tuple[tuple[int, int], ...] | None = None
    resamplings: int = 0
    survival_path: tuple[float, ...] | None = None

    @property
    def text(self) -> str:
        """The string; bytes that are not UTF-8 are kept apart by surrogateescape."""
        return to_text(self.data)

    @property
    def log_mass(self) -> float:
        """log of the summed weight of its particles."""
        return self.log_weight + float(np.log(self.count))

    @cached_property
    def log_kept_mass(self) -> float:
        """log prod Z_t: the mass that the mask left standing along the sequence. Its complement is the lost mass."""
        return float(sum(self.kept_path))

    @property
    def log_q(self) -> float:
        """log probability under local masking, log p - log prod Z_t."""
        return self.log_prob - self.log_kept_mass


def finish(
    lineage: Lineage,
    vocabulary: Vocabulary,
    *,
    log_stop: float,
    log_kept: float,
    log_phi: float,
    target_power: float,
    log_survival: float | None = None,
) -> FinishedSequence:
    """The sequence that a prefix becomes when it stops, one particle that weighs its exact target.

    Args:
        log_stop, log_kept: log p of the stop event and log Z_t of the stop step. log_phi: log phi(y).
        log_survival: log of the chance with which the stop step kept it; None where such chances are not followed.
    """
    tokens, log_prob = lineage.tokens(), lineage.log_prob + log_stop
    log_target = target_power * log_prob + log_phi
    return FinishedSequence(
        tokens=tokens,
        data=vocabulary.spell(tokens),
        log_weight=log_target,
        count=1,
        log_prob=log_prob,
        kept_path=(*lineage.kept_path(), log_kept),
        log_potential=log_phi,
        log_target=log_target,
        survival_path=None if log_survival is None else (*lineage.survival_path(), log_survival),
    )


@dataclass(frozen=True)
class TraceRow:
    """The population after one step.

    Attributes:
        step: tokens generated so far.
        rows: distinct live prefixes. particles: live particles on them.
        ess: effective sample size of the live particles, before any resampling.
        log_live_mass, log_finished_mass: log of the mass that is live, and of all that has finished so far.
        log_kept: log of the mean surviving mass Z_t of this step, over the live mass that entered it.
        resampled: whether prefixes were kept or dropped by chance: ancestors resampled, or places chosen among more children
            than there is room for.
        dead: particles that found nothing allowed.
    """

    step: int
    rows: int
    particles: int
    ess: float
    log_live_mass: float
    log_finished_mass: float
    log_kept: float
    resampled: bool
    dead: int


@dataclass(frozen=True)
class SMCResult:
    """Weighted finished sequences and the accounts of a run. Logs are in nats.

    Attributes:
        method: what made it.
        n_particles: K.
        sequences: the finished sequences with positive weight, heaviest first.
        status: "complete" (all mass ended), "early_stop" (what remained was negligible), "max_tokens" (some was
            censored), "incomplete" (a budget of draws or rows ran out before the method had what was asked for;
            perhaps without any sequence), or one of three without any sequence: "censored", "rejected", "dead".
        weighted: whether the weights estimate the posterior; if not they are equal (local masking) or meaningless.
        log_evidence: log of the estimate of Z; None for methods that have none. exp of it is unbiased; see
            `log_unexplored_mass` for early stops.
        log_censored_mass: live mass at max_tokens, never forced and never dropped silently.
        log_unexplored_mass: a bound on what early stopping left out of the evidence.
        log_rejected_mass: mass that the validator refused: of finished sequences, and of prefixes that it gave up before
            their end (some of what such a prefix weighs might have left the mask later).
        log_dead_mass: mass of particles that ran into a dead end (before the step that killed them), and of prefixes
            that a twist proved to have no future (they might have been censored or rejected later).
        ess: effective sample size of the finished particles. With `ess_kind` "concentration" (enumerated populations)
            it says how concentrated the posterior is, not how good the estimate is.
        trace: one row a step (of the first replicate).
        log_evidence_replicates: the estimate of each replicate.
        scheme: how the particles were branched and resampled, in words; empty for methods without particles.
        language: the engine that made the masks, and where its language differs from the one that was written
            (``language.narrower`` are warnings: what the posterior leaves out).
        acceptance: share of proposals that were accepted, for methods that accept or refuse; otherwise None.
        healed: what token healing took back from the prompt: tokens spell it before `text`, and the evidence includes it.
    """

    method: str
    n_particles: int
    sequences: tuple[FinishedSequence, ...]
    status: Status
    weighted: bool
    log_evidence: float | None
    log_censored_mass: float
    log_unexplored_mass: float
    log_rejected_mass: float
    log_dead_mass: float
    ess: float
    ess_kind: EssKind
    trace: tuple[TraceRow, ...]
    cost: Cost
    seed: int = 0
    key: str = ""
    log_evidence_replicates: tuple[float, ...] = field(default=())
    scheme: str = ""
    acceptance: float | None = None
    language: Language = field(default_factory=Language)
    healed: str = ""

    @property
    def advice(self) -> str | None:
        """What to do about a run that returned nothing; None where there are sequences."""
        return None if self.sequences else _ADVICE.get(self.status)

    @cached_property
    def weights(self) -> np.ndarray:
        """[N] normalised weights of `sequences`; they sum to 1."""
        log_mass = np.array([s.log_mass for s in self.sequences])
        return np.exp(log_mass - log_sum_exp(log_mass)) if len(log_mass) else log_mass

    @overload
    def posterior(self) -> dict[str, float]: ...
    @overload
    def posterior(self, key: Callable[[str], Key]) -> dict[Key, float]: ...
    def posterior(self, key: Callable[[str], Hashable] | None = None) -> dict:
        """Probability of each string, tokenisations merged, likeliest first; empty if nothing finished.

        A ratio of unbiased estimates: consistent, not unbiased.

        Args:
            key: groups strings, for example ``lambda s: json.loads(s)["label"]``.

        Raises:
            OptionError: a key that is no function.
        """
        if key is not None:
            function_of("key", key, "a text")
        return merged_by_key(self.sequences, self.weights, key)

    def expectation(self, f: Callable[[str], float]) -> float:
        """Posterior expectation of f(string); NaN if nothing finished."""
        if not self.sequences:
            return float("nan")
        return float(sum(w * f(s.text) for s, w in zip(self.sequences, self.weights, strict=True)))

    def sample(self, n: int, seed: int = 0) -> list[str]:
        """n strings drawn from the weighted sequences (with replacement)."""
        at_least("n", n, 0)
        if not self.sequences:
            return []
        rng = generator(seed, "result.sample")
        return [
            self.sequences[i].text for i in rng.choice(len(self.sequences), size=n, p=self.weights / self.weights.sum())
        ]

    def best(self) -> FinishedSequence | None:
        """The sequence with the highest exact target p(y)^a phi(y), not the heaviest.

        A survivor of resampling may carry a large weight for mass that it merely represents.
        """
        return max(self.sequences, key=lambda s: (s.log_target, s.data), default=None)

    @cached_property
    def log_certified_mass(self) -> float:
        """log of the summed exact targets of the distinct finished sequences: a lower bound on log Z."""
        return log_sum_exp(np.array(list({s.tokens: s.log_target for s in self.sequences}.values())))

    @property
    def certified_mass(self) -> float:
        """exp of :attr:`log_certified_mass`."""
        return float(np.exp(self.log_certified_mass))

    @cached_property
    def log_evidence_error(self) -> float:
        """Standard error of `log_evidence` in nats (delta method).

        From independent replicates where there are at least two, else from this one run where chances of survival or descent
        were followed (:func:`smc.diagnostics.single_run_variance`).

        Returns:
            The error; NaN where neither tells it (use ``replicates=M``).
        """
        if self.log_evidence is None or self.log_evidence == -np.inf:
            return float("nan")
        if len(self.log_evidence_replicates) > 1:
            relative = np.exp(np.array(self.log_evidence_replicates) - self.log_evidence)
            return float(relative.std(ddof=1) / np.sqrt(len(relative)))
        if self.follows_descent and len(self.share_by_eve) == 1:
            return float("nan")  # the variance is 1 then, whatever it really is
        variance = self.relative_variance
        return float(np.sqrt(variance)) if variance >= 0 else float("nan")

    @property
    def follows_survival(self) -> bool:
        """Whether the chances with which prefixes were kept are known (``branching="enumerate"``)."""
        return bool(self.sequences) and all(s.survival_path is not None for s in self.sequences)

    @property
    def follows_descent(self) -> bool:
        """Whether it is known which particles of the start the finished ones descend from (independent draws)."""
        return bool(self.sequences) and all(s.eves is not None for s in self.sequences)

    @cached_property
    def relative_variance(self) -> float:
        """Var(Z-hat) / Z^2 told from one run; NaN where it is not told (see :mod:`smc.variance`)."""
        if len(self.log_evidence_replicates) > 1 or self.log_evidence is None:
            return float("nan")
        if self.follows_survival:
            return selection_variance(
                [s.tokens for s in self.sequences], [s.survival_path or () for s in self.sequences], self.weights
            )
        if self.follows_descent and self.n_particles > 1:
            return descent_variance(self.share_by_eve, self.n_particles)
        return float("nan")

    @cached_property
    def share_by_eve(self) -> np.ndarray:
        """[E, R] share of Z-hat of the descendants of each eve (that has any) that went through 0, 1, .. resamplings."""
        found = [
            (eve, s.resamplings, count * weight / s.count)
            for s, weight in zip(self.sequences, self.weights, strict=True)
            for eve, count in s.eves or ()
        ]
        eve, resamplings, share = (np.array(column) for column in zip(*found, strict=True))
        _, eve = np.unique(eve, return_inverse=True)
        table = np.zeros((eve.max() + 1, resamplings.max() + 1))
        np.add.at(table, (eve, resamplings), share)
        return table

    @cached_property
    def validity(self) -> float:
        """Share of the mass that ended as a valid sequence: finished against finished, rejected, censored and dead."""
        good = log_total(self.sequences)
        everything = log_sum_exp(np.array([good, self.log_rejected_mass, self.log_censored_mass, self.log_dead_mass]))
        return float(np.exp(good - everything)) if everything > -np.inf else 0.0


def see_that_it_is_a_result(taker: str, value: object, hint: str = "") -> None:
    """Raise an OptionError unless something is the result of a run; `taker` is who wants it, `hint` what else to do."""
    if not isinstance(value, SMCResult):
        what = value.__name__ if isinstance(value, type) else type(value).__name__
        raise OptionError(f"{taker} takes an SMCResult, which is what a run returns, not {what}. {hint}".rstrip())


def merged_by_key(
    sequences: Sequence[FinishedSequence], weights: np.ndarray, key: Callable[[str], Hashable] | None
) -> dict:
    """Sum weights by string (or by key of the string), largest first."""
    merged: dict = defaultdict(float)
    for sequence, weight in zip(sequences, weights, strict=True):
        merged[sequence.text if key is None else key(sequence.text)] += float(weight)
    return dict(sorted(merged.items(), key=lambda item: -item[1]))


def log_total(sequences: Sequence[FinishedSequence]) -> float:
    """log of the summed mass of sequences."""
    return log_sum_exp(np.array([s.log_mass for s in sequences]))


def ess_of(sequences: Sequence[FinishedSequence], kind: EssKind) -> float:
    """Effective sample size of finished particles; for "concentration" that of the distinct sequences' masses."""
    if kind == "sampling":
        return effective_sample_size(
            np.array([s.log_weight for s in sequences]), np.array([s.count for s in sequences])
        )
    masses: dict[tuple[int, ...], float] = {}
    for s in sequences:
        masses[s.tokens] = float(np.logaddexp(masses.get(s.tokens, -np.inf), s.log_mass))
    return effective_sample_size(np.array(list(masses.values())), np.ones(len(masses)))


def combine(results: Sequence[SMCResult]) -> SMCResult:
    """Independent replicates as one result: averaged in the linear domain, so that the evidence stays unbiased."""
    if len(results) == 1:
        return results[0]
    shift = float(np.log(len(results)))

    def mean(values: Sequence[float]) -> float:
        return log_sum_exp(np.array(values)) - shift

    sequences = merge_sequences([replace(s, log_weight=s.log_weight - shift) for r in results for s in r.sequences])
    evidence = [r.log_evidence for r in results if r.log_evidence is not None]
    return replace(
        results[0],
        sequences=sequences,
        # the most telling status of any replicate, those with sequences first
        status=min((r.status for r in results), key=_STATUSES.index),
        log_evidence=mean(evidence) if len(evidence) == len(results) else None,
        log_censored_mass=mean([r.log_censored_mass for r in results]),
        log_unexplored_mass=mean([r.log_unexplored_mass for r in results]),
        log_rejected_mass=mean([r.log_rejected_mass for r in results]),
        log_dead_mass=mean([r.log_dead_mass for r in results]),
        ess=ess_of(sequences, results[0].ess_kind),
        cost=sum((r.cost for r in results), Cost()),
        log_evidence_replicates=tuple(evidence),
    )


def merge_sequences(sequences: Sequence[FinishedSequence]) -> tuple[FinishedSequence, ...]:
    """Heaviest first; entries of equal tokens, particle weight and history become one with the counts added."""
    merged: dict[tuple[tuple[int, ...], float, int], FinishedSequence] = {}
    for s in sequences:
        at = (s.tokens, s.log_weight, s.resamplings)
        merged[at] = _merged(merged[at], s) if at in merged else s
    return tuple(sorted(merged.values(), key=lambda s: (-s.log_mass, s.tokens)))


def _merged(a: FinishedSequence, b: FinishedSequence) -> FinishedSequence:
    eves = None
    if a.eves is not None and b.eves is not None:
        eves = tuple(sorted((Counter(dict(a.eves)) + Counter(dict(b.eves))).items()))
    return replace(a, count=a.count + b.count, eves=eves, survival_path=None)
