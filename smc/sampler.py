"""Sequential Monte Carlo over token sequences under a constraint."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from smc.branching import Branching, Enumerate, Offspring, Sample, Weights, from_options
from smc.children import Children
from smc.constraints.base import CheckableRows, CompiledConstraint, Constraint, ConstraintRows, checker
from smc.constraints.notes import language_of, refuse_narrowing
from smc.constraints.prefixed import prefixed
from smc.constraints.refusals import refuses
from smc.draws import Draws, RandomDraws, generator
from smc.errors import OptionError, SMCError, about_job, at_least, one_of, quoted, true_or_false, within, without_effect
from smc.healing import Boundary, heal
from smc.inputs import checked_potentials, compiled, prompt_ids
from smc.models.base import LanguageModel, ModelRows, Prompt
from smc.packing import Request, outcomes, stream
from smc.population import Population, extended
from smc.portable import Portable
from smc.potentials import Potential, ProductRows
from smc.prompts import is_chat
from smc.proposal import Proposal
from smc.resampling import effective_sample_size, log_sum_exp
from smc.result import (
    Cost,
    EssKind,
    FinishedSequence,
    SMCResult,
    Status,
    TraceRow,
    ess_of,
    finish,
    log_total,
    mask_cost,
    merge_sequences,
    pass_cost,
)
from smc.twists import LearnsRefusals, Twist, TwistContext, TwistRows
from smc.vocabulary import to_text


@dataclass(frozen=True)
class Job:
    """One prompt of many, with what differs from the sampler's own settings.

    Attributes:
        prompt: text, token ids or chat messages.
        constraint, potentials: None for the sampler's own.
        key: names the job; its random numbers derive from (seed, key, replicate) alone, never from its place.
    """

    prompt: Prompt
    constraint: Constraint | None = None
    potentials: Sequence[Potential] | None = None
    key: str = ""


@dataclass(frozen=True)
class State:
    """A run between two steps. Frozen; but `step` consumes the rows, so step each state once.

    Attributes:
        step: tokens generated so far.
        population: the live prefixes.
        finished: sequences that ended, with absolute weights.
        trace: one row a step.
        log_finished_mass: log of their mass: the running estimate of the evidence.
        log_rejected, log_dead: mass refused by the validator, at its end or before, and mass that ran into dead ends.
        refused: whether the validator or a potential has refused anything, a prefix or a sequence.
        written: bytes that every sequence spells before its text (:mod:`smc.healing`); empty without token healing.
        log_unexplored: bound on the mass that early stopping left behind; minus infinity while running.
    """

    step: int
    population: Population
    finished: tuple[FinishedSequence, ...]
    log_finished_mass: float
    trace: tuple[TraceRow, ...]
    log_rejected: float
    log_dead: float
    log_unexplored: float
    cost: Cost
    key: str
    draws: Draws
    model_rows: ModelRows
    constraint_rows: ConstraintRows
    potential_rows: ProductRows
    twist_rows: TwistRows | None
    refused: bool
    written: bytes = b""


class SMCSampler(Portable):
    """Samples a language model's posterior under a constraint, p(y) 1[y in L] phi(y) / Z.

    One step, in the textbook's words: *generate* the children of every live prefix, *branch* to a properly weighted
    choice of them, *reweight* by the potentials, *resample*. E[exp(result.log_evidence)] = Z.

    Args:
        model: any :class:`smc.models.LanguageModel`.
        constraint: the language L; compiled here for the model's tokenizer.
        n_particles: K.
        branching: "enumerate" (all children compete with their exact masses; optimal resampling keeps the K best
            places; the default) or "sample" (each particle draws a child; the reference).
        resampling: for "sample": "systematic" (default), "multinomial", "stratified", "residual", "ssp" or "killing"; for
            "enumerate": "optimal", the only one.
        ess_threshold: for "sample": resample when the ESS falls below this share of the particles in play (0.5).
        draws: for "sample": particles on one prefix draw jointly ("systematic", the default) or apart ("independent").
        finished: "retire" (a finished sequence leaves the population for good; the default) or "compete" (it stays in
            resampling).
        target_power: a in the target p(y)^a phi(y); above 1 sharpens towards search.
        proposal: what "sample" draws from, if not the masked model itself.
        potentials: soft conditions phi.
        twist: a guess at the future of prefixes, which steers what survives and leaves the target alone. With one that
            learns from run to run, results depend on the runs before, so the seed alone does not fix them.
        max_tokens: tokens before the stop. What is live then is censored and reported.
        stop_fraction: end once the mass that could still finish is below this share of what has; 0 never ends early.
        stop: "bound" reports the rest as `log_unexplored_mass`, and never ends a run early where nothing bounds the
            rest (a power below 1, a potential without `log_bound`); "roulette" ends by Russian roulette, without bias.
        seed: root of all randomness.
        replicates: independent runs, averaged in the linear domain, which gives `log_evidence_error`.
        strict_language: refuse a constraint of which the engine cannot produce every value, instead of noting that in
            ``result.language.narrower``.
        token_healing: take the last tokens of a prompt back to the text s that they spell, where a token could run from
            the prompt into the continuation, and spell s again. With x the prompt that is left, the target is p(y | x)
            on the token sequences of s·L and log_evidence is log p(s·L | x); texts and potentials are without s, tokens
            (which `max_tokens` counts) with it, so a ModelCritic scores the text in its own tokens. Chat messages end
            whole and stay as they are (:mod:`smc.healing`).

    Raises:
        OptionError: an option value that does not exist or does not go with another, or one that would have no effect.
        ConstraintError: the constraint cannot be compiled for this model.
        NarrowedLanguageError: `strict_language`, and the engine leaves out part of the language.
    """

    def __init__(
        self,
        model: LanguageModel,
        constraint: Constraint,
        *,
        n_particles: int = 16,
        branching: str | Branching = "enumerate",
        resampling: str | None = None,
        ess_threshold: float | None = None,
        draws: str | None = None,
        finished: str | None = None,
        target_power: float = 1.0,
        proposal: Proposal | None = None,
        potentials: Sequence[Potential] = (),
        twist: Twist | None = None,
        max_tokens: int = 256,
        stop_fraction: float = 1e-6,
        stop: str = "bound",
        seed: int = 0,
        replicates: int = 1,
        strict_language: bool = False,
        token_healing: bool = False,
    ):
        self.model, self.constraint = model, constraint
        self.strict_language = true_or_false("strict_language", strict_language)
        self.token_healing = true_or_false("token_healing", token_healing)
        self.potentials = self._checked(potentials)
        _ = self._compiled  # what cannot be enforced is refused here
        self.n_particles = at_least("n_particles", n_particles, 1)
        self.max_tokens = at_least("max_tokens", max_tokens, 1)
        self.replicates = at_least("replicates", replicates, 1)
        self.seed = at_least("seed", seed, 0)
        self.target_power = within("target_power", target_power, 0, np.inf, without_low=True)
        self.stop_fraction = within("stop_fraction", stop_fraction, 0, 1, without_high=True)
        self.stop = one_of("stop", stop, ["bound", "roulette"])
        if self.stop == "roulette" and self.stop_fraction == 0:
            raise OptionError(
                "stop='roulette' begins once what is live is below stop_fraction of what has finished, and stop_fraction=0 "
                "never ends a run: give it a value such as 0.01, or leave out stop."
            )
        if proposal is not None and not isinstance(proposal, Proposal):
            raise OptionError(
                f"proposal must be a Proposal(temperature=..., top_k=..., top_p=...), not {quoted(proposal)}."
            )
        if twist is not None and (isinstance(twist, type) or not isinstance(twist, Twist)):
            raise OptionError(f"twist must be a twist, such as LearnedTwist(), not {quoted(twist)}.")
        if twist is not None and self.token_healing:
            raise OptionError(
                "A twist cannot guide a run with token_healing: it knows the language, not what is written before it. "
                "Leave one of them out."
            )
        self.twist = twist
        if isinstance(branching, Branching):
            without_effect(
                {
                    "resampling": resampling,
                    "ess_threshold": ess_threshold,
                    "draws": draws,
                    "finished": finished,
                    "proposal": proposal,
                },
                f"A {type(branching).__name__} object brings its own options: set them there, or leave them out.",
            )
            if getattr(branching, "n_particles", n_particles) != n_particles:
                raise OptionError(
                    f"n_particles={n_particles}, but the {type(branching).__name__} object has "
                    f"{getattr(branching, 'n_particles', None)}. Give both the same number."
                )
            if twist is not None and (branching.asks or not branching.proper):
                raise OptionError(
                    f"twist cannot steer {type(branching).__name__}, which has no use for it. Leave it out."
                )
            self.method, self.branching = type(branching).__name__.lower(), branching
        else:
            self.method = "smc" if branching == "enumerate" else "smc_sample"
            self.branching = from_options(branching, n_particles, resampling, ess_threshold, draws, finished, proposal)

    def named(self, method: str) -> SMCSampler:
        """The same sampler, whose results go by another name."""
        other = copy.copy(self)
        other.method = method
        return other

    # ------------------------------------------------------------------ running

    def run(self, prompt: Prompt, key: str = "", draws: Draws | None = None) -> SMCResult:
        """Run to the end.

        Args:
            prompt: text, token ids, or chat messages.
            key: names the run; random numbers derive from (seed, key, replicate).
            draws: another source of randomness, for tests that visit every outcome and for chains.

        Raises:
            PromptError: the prompt is not one, or leaves no room for `max_tokens` in the model's context.
            MemoryLimitError: it does not fit in memory.
            ModelError: the model returned NaN.
        """
        ((_, outcome),) = outcomes([self.request(prompt, key, draws)])
        if isinstance(outcome, SMCError):
            raise outcome
        return outcome

    def request(self, prompt: Prompt, key: str = "", draws: Draws | None = None) -> Request:
        """What `run` does, to share batches with requests of other samplers: see :func:`smc.packing.stream`.

        Raises:
            OptionError, PromptError, MemoryLimitError: it cannot be run.
        """
        # enumeration fills its places as soon as the language is large enough; drawn particles may share a row
        rows = self.n_particles if isinstance(self.branching, Enumerate) else 1
        prompt_ids(self.model, prompt, self.max_tokens, rows)
        generator(self.seed, key)  # refuses a key that is no text
        return Request(self, prompt, key, draws)

    def run_many(self, jobs: Sequence[Job], batch_rows: int | None = None) -> list[SMCResult]:
        """Run several jobs in shared batches; results as `run` gives for each alone, in the order of the jobs.

        On a table model they are the same to the last bit, whatever shares the batch. On a neural model rounding depends on
        the batch, and a draw that it flips changes what follows.

        Args:
            jobs: each with a key of its own.
            batch_rows: rows of one forward pass, over all jobs and replicates; None for 64, or n_particles if that is more.
                It bounds memory, too: as a rule no more rows are live (:mod:`smc.packing`). 1 runs one job after the other.

        Raises:
            OptionError, PromptError, ConstraintError: for any of the jobs, before the first one runs.
            SMCError: a job failed, naming its key (use :meth:`stream` to keep what the others gave).
        """
        results = {job.key: result for job, result in self.stream(jobs, batch_rows)}
        return [results[job.key] for job in jobs]

    def stream(self, jobs: Sequence[Job], batch_rows: int | None = None) -> Iterator[tuple[Job, SMCResult]]:
        """Jobs and their results, each as soon as it is there, so that a caller can store it; otherwise as `run_many`.

        If a job fails, no waiting job starts any more; those under way end and are handed out before the error is raised.
        When memory runs out, fewer rows go on at a time, with the same results and one
        :class:`smc.errors.MemoryLimitWarning`.

        Raises:
            OptionError, PromptError, ConstraintError: for any of the jobs, at once.
            SMCError: a job failed, naming its key. MemoryLimitError: it does not fit in memory, even alone.
        """
        if not all(isinstance(job, Job) for job in jobs):
            raise OptionError("run_many and stream take a list of Job(prompt, constraint=..., key=...).")
        by_key = {job.key: job for job in jobs}
        if len(by_key) != len(jobs):
            raise OptionError(
                "Two jobs have the same key (or none), so they would share their random numbers. Give each job a key of "
                "its own."
            )
        requests = [self._request(job) for job in jobs]
        return ((by_key[request.key], result) for request, result in stream(requests, batch_rows))

    def steps(
        self, prompt: Prompt, key: str = "", replicate: int | None = None, draws: Draws | None = None
    ) -> Iterator[State]:
        """Iterate over states, the initial one first, so that a caller can watch or stop a run.

        ``sampler.result(state)`` gives the result so far; live mass counts as censored there.

        Args:
            replicate: which of the sampler's `replicates` to step over, 0 being the first. States are those of one run,
                so with several it must be given; ``smc.result.combine`` makes one result of the results of all.

        Raises:
            OptionError: several replicates, and none is chosen. Others as for :meth:`run`.
        """
        if replicate is None:
            if self.replicates > 1:
                raise OptionError(
                    f"steps goes over one run, and this sampler makes replicates={self.replicates}: choose one of them by "
                    f"replicate=0 to {self.replicates - 1}, or leave out replicates."
                )
            replicate = 0
        return self._states(self.init(prompt, key, at_least("replicate", replicate, 0), draws))

    def _states(self, state: State) -> Iterator[State]:
        yield state
        while not self.done(state):
            state = self.step(state)
            yield state

    def init(self, prompt: Prompt, key: str = "", replicate: int = 0, draws: Draws | None = None) -> State:
        """The state before the first step: all particles on the empty continuation."""
        started = time.perf_counter()
        ids = prompt_ids(self.model, prompt, self.max_tokens, rows=None)
        boundary = heal(self.model.vocabulary, ids) if self.token_healing and not is_chat(prompt) else Boundary(ids)
        language = boundary.compiled(self.constraint, self._compiled, self.model.vocabulary)
        potential_rows = ProductRows.start(boundary.potentials(self.potentials), self.model.vocabulary)
        log_prefix = float(potential_rows.log_prefix[0]) if self.branching.proper else 0.0
        track = isinstance(self.branching, Sample) and self.branching.tracks_eves and self._fates_are_apart
        start = Population.initial(self.n_particles, log_prefix, track)
        return State(
            step=0,
            population=start if log_prefix > -np.inf else Population.empty(),
            finished=(),
            log_finished_mass=-np.inf,
            trace=(),
            log_rejected=-np.inf,
            log_dead=-np.inf,
            log_unexplored=-np.inf,
            cost=Cost(
                tokens=max(len(boundary.ids) - 1, 0),
                potential_failures=potential_rows.failures,
                seconds=time.perf_counter() - started,
            ),
            key=key,
            draws=draws if draws is not None else RandomDraws(generator(self.seed, key, replicate)),
            model_rows=self.model.start(boundary.ids),
            constraint_rows=language.start(),
            potential_rows=potential_rows,
            twist_rows=None if self.twist is None else self.twist.start(self._twist_context(ids)),
            refused=log_prefix == -np.inf,
            written=boundary.written,
        )

    def done(self, state: State) -> bool:
        """Whether nothing is live, max_tokens is reached, or the rest is negligible."""
        return not len(state.population) or state.step > self.max_tokens or state.log_unexplored > -np.inf

    def step(self, state: State) -> State:
        """One step of every live particle. Consumes the rows of `state`."""
        started = time.perf_counter()
        population, draws, failures_before = state.population, state.draws, state.potential_rows.failures

        # 1. generate: what the model thinks comes next, what the constraint allows of it, what a twist expects of that
        log_probs = state.model_rows.log_probs
        forward = pass_cost(state.model_rows)
        if self.branching.asks:
            check = checker(state.constraint_rows)
            children = Children.to_ask(log_probs, self.model.vocabulary, len(population), check)
        else:
            children = Children.of(log_probs, state.constraint_rows.allowed, self.model.vocabulary)
        twist = None if state.twist_rows is None else state.twist_rows.look(children).checked(children)

        # 2. branch: a properly weighted choice of children
        targets = children.powered(self.target_power)
        offspring = self.branching.branch(targets, twist, population, self._pool(state.finished), draws)
        log_kept = children.log_kept if offspring.log_kept is None else offspring.log_kept
        log_lost = np.where(log_kept == -np.inf, 0.0, -np.inf)
        if twist is not None:
            log_lost = np.maximum(log_lost, twist.log_doomed(targets))

        # 3. reweight by the potentials: ended sequences by their final value, the others by the running one, and by 0
        #    those that the constraint refuses before their end
        ended, log_rejected, refused = self._end(state, children, log_kept, offspring)
        finished = _reweighted(state.finished, offspring.pool) + ended
        potential_rows = state.potential_rows.advance(offspring.parents, offspring.tokens)
        log_prefix = potential_rows.log_prefix
        live = offspring.live
        if self.branching.proper:
            gain = log_prefix - population.log_prefix[offspring.parents]
            live = live.gain(gain)
        gone = refuses(state.constraint_rows, offspring.parents, offspring.tokens)
        log_rejected = _log_add(log_rejected, log_sum_exp(live.log_mass[gone]))
        live = live.gain(np.where(gone, -np.inf, 0.0))
        if isinstance(state.twist_rows, LearnsRefusals):
            state.twist_rows.refuse(offspring.parents[gone], offspring.tokens[gone])
        keep = np.flatnonzero(live.log_weight > -np.inf)
        refused = refused or len(keep) < len(live)
        ess = effective_sample_size(live.log_priority, live.count)
        in_play = population.in_play - int(offspring.stopped.count.sum())

        # 4. resample
        live = live.take(keep)
        resampled = self.branching.resample(live, in_play, self._pool(finished), draws)
        if resampled is not None:
            keep, live, in_play = keep[resampled.index], resampled.live, int(resampled.live.count.sum())
            finished = _reweighted(finished, resampled.pool, resamplings=1)

        # 5. move every kind of rows to the survivors
        parents, tokens = offspring.parents[keep], offspring.tokens[keep]
        log_prob = children.gather(parents, tokens) if offspring.log_prob is None else offspring.log_prob[keep]
        lineages = extended(population.lineages, parents, tokens, log_prob, log_kept, live.log_survival)
        state = replace(
            state,
            step=state.step + 1,
            population=Population(lineages, live.log_weight, live.count, log_prefix[keep], in_play, live.eves),
            finished=finished,
            log_finished_mass=(
                log_total(finished) if self.branching.compete else _log_add(state.log_finished_mass, log_total(ended))
            ),
            log_rejected=_log_add(state.log_rejected, log_rejected),
            log_dead=_log_add(state.log_dead, log_sum_exp(population.log_mass + log_lost)),
            refused=state.refused or refused,
            model_rows=state.model_rows.advance(parents, tokens),
            constraint_rows=state.constraint_rows.advance(parents, tokens),
            potential_rows=potential_rows if len(keep) == len(offspring.parents) else potential_rows.fork(keep),
            twist_rows=None if state.twist_rows is None else state.twist_rows.advance(parents, tokens),
        )

        # 6. see whether what is left is worth going on for, and account for the step
        state = self._maybe_stop(state)
        row = TraceRow(
            step=state.step,
            rows=len(state.population),
            particles=int(state.population.count.sum()),
            ess=ess,
            log_live_mass=state.population.log_total,
            log_finished_mass=state.log_finished_mass,
            log_kept=log_sum_exp(population.log_mass + log_kept) - population.log_total,
            resampled=resampled is not None or offspring.thinned,
            dead=offspring.dead,
        )
        answered = self.branching.asks and isinstance(state.constraint_rows, CheckableRows)  # without any mask
        masks = Cost() if answered else mask_cost(state.constraint_rows)
        seconds = time.perf_counter() - started
        failures = potential_rows.failures - failures_before
        other = Cost(checks=offspring.checks, potential_failures=failures, seconds=seconds)
        cost = forward + masks + other
        return replace(state, trace=(*state.trace, row), cost=state.cost + cost)

    def result(self, state: State) -> SMCResult:
        """The result of a state; live mass counts as censored unless early stopping has bounded it."""
        stopped_early = state.log_unexplored > -np.inf
        kind: EssKind = "concentration" if isinstance(self.branching, Enumerate) else "sampling"
        log_censored = -np.inf if stopped_early else state.population.log_total
        sequences = merge_sequences([s for s in state.finished if s.log_weight > -np.inf])
        status: Status
        if log_censored > -np.inf:
            status = "max_tokens" if sequences else "censored"
        elif sequences:
            status = "early_stop" if stopped_early else "complete"
        else:
            status = "rejected" if state.refused else "dead"
        return SMCResult(
            method=self.method,
            n_particles=self.n_particles,
            sequences=sequences,
            status=status,
            weighted=self.branching.proper,
            log_evidence=state.log_finished_mass if self.branching.proper else None,
            log_censored_mass=log_censored,
            log_unexplored_mass=state.log_unexplored if self.stop == "bound" else -np.inf,
            log_rejected_mass=state.log_rejected,
            log_dead_mass=state.log_dead,
            ess=ess_of(sequences, kind),
            ess_kind=kind,
            trace=state.trace,
            cost=state.cost,
            seed=self.seed,
            key=state.key,
            scheme=self.branching.scheme_name,
            language=language_of(self.constraint, self._compiled),
            healed=to_text(state.written),
        )

    # ------------------------------------------------------------------ inside

    def _pool(self, finished: tuple[FinishedSequence, ...]) -> Weights:
        """The weights of the finished sequences that take part in resampling."""
        competing = finished if self.branching.compete else ()
        tracked = bool(competing) and competing[0].eves is not None
        return Weights(
            np.array([s.log_weight for s in competing]),
            np.array([s.count for s in competing], dtype=np.int64),
            eves=_eve_table(competing, self.n_particles) if tracked else None,
        )

    def _twist_context(self, ids: tuple[int, ...]) -> TwistContext:
        return TwistContext(self.model, ids, self.constraint, self._compiled, self.target_power, self.max_tokens)

    @cached_property
    def _compiled(self) -> CompiledConstraint:
        return self._enforced(self.constraint)

    def _enforced(self, constraint: Constraint) -> CompiledConstraint:
        language = compiled(constraint, self.model)
        if self.strict_language:
            refuse_narrowing(constraint, language)
        if self.token_healing:
            prefixed("", constraint)  # a kind that cannot be is refused here, before any prompt
        return language

    def _request(self, job: Job) -> Request:
        try:
            return self._for_job(job).request(job.prompt, job.key)
        except SMCError as error:
            raise about_job(job.key, error) from error

    def _for_job(self, job: Job) -> SMCSampler:
        if job.constraint is None and job.potentials is None:
            return self
        other = copy.copy(self)
        if job.constraint is not None:
            other.constraint, other._compiled = job.constraint, self._enforced(job.constraint)
        if job.potentials is not None:
            other.potentials = self._checked(job.potentials)
        return other

    def _checked(self, potentials: Sequence[Potential]) -> tuple[Potential, ...]:
        checked = checked_potentials(potentials)
        alien = [type(p).__name__ for p in checked if not getattr(p, "healable", True)]
        if self.token_healing and alien:
            raise OptionError(
                f"{alien[0]} cannot judge a run with token_healing, under which the text begins inside a token. Leave one of them out."
            )
        return checked

    def _end(
        self, state: State, children: Children, log_kept: np.ndarray, offspring: Offspring
    ) -> tuple[tuple[FinishedSequence, ...], float, bool]:
        """Turn ended particles into sequences: weigh by the potentials, ask the validator.

        Returns the sequences with positive weight, the log mass that the validator refused, and whether anything
        was refused at all.
        """
        rows, weights = offspring.stop_parents, offspring.stopped
        if not len(rows):
            return (), -np.inf, False
        log_phi = state.potential_rows.log_complete(rows)
        log_stop = children.log_stop
        resamplings = sum(row.resampled for row in state.trace)
        ended, rejected = [], [-np.inf]
        for i, row in enumerate(rows):
            log_weight = float(weights.log_weight[i])
            if self.branching.proper:
                log_weight += float(log_phi[i] - state.population.log_prefix[row])
            sequence = finish(
                state.population.lineages[row],
                self.model.vocabulary,
                log_stop=float(log_stop[row]),
                log_kept=float(log_kept[row]),
                log_phi=float(log_phi[i]),
                target_power=self.target_power,
                log_survival=(
                    float(weights.log_survival[i])
                    if weights.log_survival is not None and self._fates_are_apart
                    else None
                ),
            )
            sequence = replace(
                sequence,
                data=sequence.data[len(state.written) :],
                log_weight=log_weight,
                count=int(weights.count[i]),
                eves=None if weights.eves is None else _eves(weights.eves[i]),
                resamplings=resamplings,
            )
            valid = self._compiled.accepts(sequence.data)
            if not valid or (log_phi[i] == -np.inf and not self.branching.proper):
                rejected.append(sequence.log_mass)
            elif log_weight > -np.inf:
                ended.append(sequence)
        return tuple(ended), log_sum_exp(np.array(rejected)), len(ended) < len(rows)

    @property
    def _fates_are_apart(self) -> bool:
        """Whether prefixes live on apart from each other. Roulette decides for all of them at once, so that neither
        descent nor chances of survival would tell the variance."""
        return self.stop_fraction == 0 or self.stop != "roulette"

    def _maybe_stop(self, state: State) -> State:
        """Early stop once the mass that could still finish is negligible; by roulette if the caller wants no bias."""
        population = state.population
        if not self.branching.proper or self.stop_fraction == 0 or not len(population) or not state.finished:
            return state
        if state.step > self.max_tokens:
            return state  # it ends here anyway, and what is live is censored
        limit = np.log(self.stop_fraction) + state.log_finished_mass
        if self.stop == "roulette":
            log_survive = population.log_total - limit
            if log_survive >= 0:
                return state
            if state.draws.bernoulli(float(np.exp(log_survive))):
                return replace(state, population=replace(population, log_weight=population.log_weight - log_survive))
            return replace(state, log_unexplored=population.log_total)
        if self.target_power < 1:
            return state  # sequences may then weigh more than the prefix that they come from
        log_bound = log_sum_exp(population.log_mass - population.log_prefix) + sum(p.log_bound for p in self.potentials)
        return replace(state, log_unexplored=float(log_bound)) if log_bound < limit else state


def _log_add(a: float, b: float) -> float:
    return float(np.logaddexp(a, b))


def _reweighted(
    finished: tuple[FinishedSequence, ...], weights: Weights | None, resamplings: int = 0
) -> tuple[FinishedSequence, ...]:
    """The pool with new weights, after so many resamplings more; what was not chosen goes."""
    if weights is None:
        return finished
    return tuple(
        replace(
            s,
            log_weight=float(weights.log_weight[i]),
            count=int(weights.count[i]),
            eves=None if weights.eves is None else _eves(weights.eves[i]),
            resamplings=s.resamplings + resamplings,
            survival_path=_survived(s.survival_path, weights, i),
        )
        for i, s in enumerate(finished)
        if weights.count[i] > 0
    )


def _survived(path: tuple[float, ...] | None, weights: Weights, item: int) -> tuple[float, ...] | None:
    """The chances with which a finished sequence was kept, after it has been kept once more."""
    if path is None or weights.log_survival is None:
        return None
    return (*path[:-1], path[-1] + float(weights.log_survival[item]))


def _eves(counts: np.ndarray) -> tuple[tuple[int, int], ...]:
    """[K] counts by eve as pairs (eve, count)."""
    return tuple((int(e), int(counts[e])) for e in np.flatnonzero(counts))


def _eve_table(sequences: Sequence[FinishedSequence], n_particles: int) -> np.ndarray:
    """[N, K] the inverse of :func:`_eves`."""
    table = np.zeros((len(sequences), n_particles), dtype=np.int64)
    for i, sequence in enumerate(sequences):
        for eve, count in sequence.eves or ():
            table[i, eve] = count
    return table
