"""How much rounding entered the weights: finished sequences scored again by another model of the same tokenizer.

A run in bfloat16 or float16 samples the posterior of the model as it is rounded there. Its finished sequences y carry
weights W_y whose expectation is p(y)^a phi(y), with p as that run computed it. The same model in float32 gives p'(y), and
W_y (p'(y) / p(y))^a is properly weighted for the target p'(y)^a phi(y), because p(y) is the very number that the run
put into W_y: along a path the expected weight of a child is its parent's times p^a, so W / p^a keeps its expectation
from step to step, even where rounding makes p depend on what else was in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from smc.constraints.base import Constraint
from smc.distances import total_variation
from smc.errors import ModelError, OptionError, quoted, within
from smc.inputs import see_that_it_is_a_model
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.result import FinishedSequence, SMCResult, ess_of, log_total, merge_sequences, see_that_it_is_a_result
from smc.scoring import scored
from smc.vocabulary import Vocabulary, to_bytes

_ROUNDING = 1e-9  # relative: two ways to compute a log target


@dataclass(frozen=True)
class Change:
    """One finished sequence under two models. Differences are after minus before, in nats.

    Attributes:
        before: as the run reports it.
        after: under the other model, with the corrected weight. Where that model holds the sequence impossible, `log_prob`
            and `log_weight` are minus infinity and `kept_path` ends before the step that is.
    """

    before: FinishedSequence
    after: FinishedSequence

    @property
    def log_prob(self) -> float:
        """Difference of log p."""
        return self.after.log_prob - self.before.log_prob

    @property
    def log_q(self) -> float:
        """Difference of log q, the log probability under local masking."""
        return self.after.log_q - self.before.log_q

    @property
    def log_kept_mass(self) -> float:
        """Difference of log prod Z_t."""
        return self.after.log_kept_mass - self.before.log_kept_mass


@dataclass(frozen=True)
class Rescored:
    """A result before and after the correction of its weights.

    Attributes:
        before: the run's result.
        after: the same finished sequences under the other model, weighted for its posterior; those that it holds
            impossible are left out. ``after.log_evidence`` estimates the other model's evidence as well as
            ``before.log_evidence`` does the run's: exp of it is unbiased if nothing was censored or left unexplored and the
            run's model holds nothing impossible that the other holds possible. What the run did not finish or refused
            (censored, unexplored, rejected and dead mass, the trace) is stated as the run's model saw it. There are no estimates by
            replicate, whose sequences a result does not tell apart.
        changes: one for each of ``before.sequences``, in their order.
        model: what the other model is called.
    """

    before: SMCResult
    after: SMCResult
    changes: tuple[Change, ...]
    model: str

    @cached_property
    def largest_difference(self) -> float:
        """The largest absolute difference of log p, in nats; NaN without sequences."""
        return max((abs(change.log_prob) for change in self.changes), default=float("nan"))

    @cached_property
    def largest_kept_difference(self) -> float:
        """The largest absolute difference of log prod Z_t, in nats, over the sequences possible under both models."""
        possible = [abs(c.log_kept_mass) for c in self.changes if c.after.log_prob > -np.inf]
        return max(possible, default=float("nan"))

    @cached_property
    def mean_difference(self) -> float:
        """The mean absolute difference of log p under the posterior of the run, in nats; NaN without sequences."""
        if not self.changes:
            return float("nan")
        return float(self.before.weights @ np.array([abs(change.log_prob) for change in self.changes]))

    @cached_property
    def ess_kept(self) -> float:
        """(E r)^2 / E r^2 of the correction's ratios r under the run's posterior: 1 if they are equal, near 0 if one rules.

        The share of the effective sample size that the correction leaves. NaN without sequences.
        """
        log_ratio = np.array([c.after.log_weight - c.before.log_weight for c in self.changes])
        if not (log_ratio > -np.inf).any():
            return float("nan")
        ratio = np.exp(log_ratio - log_ratio.max())
        return float((self.before.weights @ ratio) ** 2 / (self.before.weights @ ratio**2))

    @cached_property
    def total_variation(self) -> float:
        """Between the two posteriors over strings; NaN if one of them is empty."""
        before, after = self.before.posterior(), self.after.posterior()
        return total_variation(before, after) if before and after else float("nan")

    def summary(self) -> str:
        """What rounding did, in words."""
        if not self.changes:
            return (
                f"Nothing to score again with {self.model}: no sequence finished. {self.before.advice or ''}".rstrip()
            )
        longest = max(len(change.before.tokens) for change in self.changes)
        lines = [
            f"{len(self.changes)} finished sequences of up to {longest} tokens, scored again with {self.model}:",
            f"- log p differs by at most {self.largest_difference:.3g} nats ({self.mean_difference:.3g} on average under the "
            f"posterior), log of the kept mass by at most {self.largest_kept_difference:.3g};",
            f"- the posteriors are {self.total_variation:.3g} apart in total variation, and the correction keeps "
            f"{self.ess_kept:.1%} of the effective sample size;",
        ]
        best, other = self.before.best(), self.after.best()
        if best is not None and other is not None:
            same = "the same" if best.tokens == other.tokens else f"{quoted(other.text)} instead of {quoted(best.text)}"
            lines.append(f"- the best sequence is {same};")
        before, after = self.before.log_evidence, self.after.log_evidence
        if before is not None and after is not None:
            lines.append(f"- log evidence: {before:.4f} in the run, {after:.4f} corrected ({after - before:+.3g}).")
        if impossible := sum(change.after.log_prob == -np.inf for change in self.changes):
            lines.append(f"{impossible} of them are impossible under {self.model}.")
        left = np.logaddexp(self.before.log_censored_mass, self.before.log_unexplored_mass)
        if left > -np.inf:
            lines.append(
                f"Mass that the run did not finish (log {left:.2f}) could not be scored again; the evidence leaves it out."
            )
        return "\n".join(lines)


def rescore(
    result: SMCResult,
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    potentials: Sequence[Potential] = (),
    *,
    target_power: float = 1.0,
    max_rows: int = 128,
) -> Rescored:
    """Score a result's finished sequences with another model of the same tokenizer and correct their weights.

    Args:
        result: of a method whose weights estimate the posterior, such as SMCSampler.
        model: usually the run's own in float32; with the same tokens and stop tokens.
        constraint, prompt, target_power: as in the run.
        potentials: to be evaluated again, where they have changed too (a critic in float32, say); left out, phi(y) is what
            the result says.
        max_rows: the most sequences that are scored at once.

    Raises:
        OptionError: no result or no model; the result's weights are no importance weights, or it was made with another
            target_power.
        ModelError: the model has other tokens. PromptError: not the prompt of a healed result, or too long for the model.
        ConstraintError: the constraint does not allow a sequence.
    """
    see_that_it_is_a_result("rescore", result, "The order is rescore(result, model, constraint, prompt).")
    see_that_it_is_a_model(model)
    if not result.weighted:
        raise OptionError(
            f"The weights of {result.method!r} do not estimate the posterior, so there is nothing to correct. For log p and log q of its "
            "sequences under another model use smc.scoring.score(model, constraint, prompt, sequences)."
        )
    power = within("target_power", target_power, 0, np.inf, without_low=True)
    for s in result.sequences:
        expected = power * s.log_prob + s.log_potential
        if not abs(s.log_target - expected) <= _ROUNDING * max(1.0, abs(expected)):
            raise OptionError(
                f"target_power={power:g} does not fit the result: {quoted(s.text)} has log p {s.log_prob:.6g} and log target {s.log_target:.6g}. "
                "Give the target_power of the run."
            )
        _see_that_it_spells(s, model.vocabulary, result.healed)
    tokens = list(dict.fromkeys(s.tokens for s in result.sequences))
    found, cost = scored(
        tokens, model, constraint, prompt, potentials, power=power, max_rows=max_rows, healed=result.healed
    )
    by_tokens = dict(zip(tokens, found, strict=True))
    changes = tuple(Change(s, _corrected(s, by_tokens[s.tokens], power, bool(potentials))) for s in result.sequences)
    sequences = merge_sequences([change.after for change in changes if change.after.log_weight > -np.inf])
    shift = log_total(sequences) - log_total(result.sequences) if result.sequences else 0.0
    after = replace(
        result,
        sequences=sequences,
        log_evidence=None if result.log_evidence is None else result.log_evidence + shift,
        ess=ess_of(sequences, result.ess_kind),
        cost=result.cost + cost,
        log_evidence_replicates=(),
    )
    return Rescored(result, after, changes, getattr(model, "name", type(model).__name__))


def _corrected(
    before: FinishedSequence, other: FinishedSequence, power: float, new_potential: bool
) -> FinishedSequence:
    """The sequence under the other model, its weight times the ratio of the targets."""
    log_phi = other.log_potential if new_potential else before.log_potential
    log_target = power * other.log_prob + log_phi
    return replace(
        before,
        log_weight=before.log_weight + (log_target - before.log_target),
        log_prob=other.log_prob,
        kept_path=other.kept_path,
        log_potential=log_phi,
        log_target=log_target,
    )


def _see_that_it_spells(sequence: FinishedSequence, vocabulary: Vocabulary, healed: str) -> None:
    """Raise a ModelError if the tokens stand for another text in this vocabulary."""
    expected = to_bytes(healed) + sequence.data
    if (
        not all(0 <= token < len(vocabulary) for token in sequence.tokens)
        or vocabulary.spell(sequence.tokens) != expected
    ):
        raise ModelError(
            f"The model has other tokens: those of {quoted(sequence.text)} do not spell it there. Rescore with a model of the same tokenizer."
        )
