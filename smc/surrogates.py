"""Surrogates: models of the model that are simple enough to be summed over a whole language.

A surrogate stands for the model on the prefixes that a constraint lets through. It is fitted to samples of local
masking, which follow q(y), together with the mass Z_t that the mask left at each step, and p(y) = q(y) prod Z_t: an
event of probability q counts Z_t, and what the mask took counts as lost. So a surrogate's probabilities need not sum
to 1, and the mass that it gives to a whole language is a guess at the evidence. (Samples of the model itself would do
without Z_t, but where the evidence is small hardly any of them shows what comes inside the language.)

Smoothing counts for `smoothing` events more than were seen: spread evenly over text tokens and the stop for a unigram,
like the unigram after each context of a bigram, and for a hidden Markov model like the unigram in all hidden states
together, in equal proportion, so that an event that none of them has seen tells nothing about the hidden state. So
whatever a mask may allow keeps a positive probability.

What a surrogate remembers of a prefix is its *memory*, an array with one row for each prefix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from smc.baselines.local import local_masking
from smc.constraints.automaton import TokenAutomaton
from smc.constraints.base import Constraint
from smc.draws import generator
from smc.errors import OptionError, at_least, one_of, quoted, within, without_effect
from smc.future_mass import FutureMass, HiddenFuture, LastTokenFuture, updated
from smc.models.base import LanguageModel, Prompt
from smc.result import Cost
from smc.vocabulary import Vocabulary

Samples = Sequence[Sequence[int]]
"""Token ids of each sample, the last one a stop token; without one the sample was cut off."""

Kept = Sequence[Sequence[float] | np.ndarray]
"""Z_t of each event of each sample: the share of the model's mass that the mask left."""


@runtime_checkable
class Surrogate(Protocol):
    """A model whose mass inside an automaton's language can be computed."""

    def __len__(self) -> int:
        """V, the tokens of the vocabulary that it knows."""
        ...

    def begin(self) -> np.ndarray:
        """[1, ...] the memory of the empty prefix."""
        ...

    def after(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """[R, ...] the memories after one token each."""
        ...

    def future(self, automaton: TokenAutomaton, horizon: int, power: float) -> FutureMass:
        """Future masses of p^power for up to `horizon` tokens before the stop."""
        ...


@dataclass(frozen=True, eq=False)
class Unigram:
    """Events that do not depend on the prefix.

    Attributes:
        event: [V + 1] probability of each token, and of the stop as the last. They need not sum to 1.
    """

    event: np.ndarray

    @classmethod
    def fit(
        cls,
        samples: Samples,
        vocabulary: Vocabulary,
        kept: Kept | None = None,
        smoothing: float = 1.0,
    ) -> Self:
        """Relative frequencies, smoothed.

        Args (of every `fit`):
            samples: token ids, each sample ended by a stop token (or cut off before one).
            kept: Z_t of each event of each sample, the stop included; None for samples of the model itself.
            smoothing: events that the prior counts for, above 0.

        Raises:
            OptionError: no samples, samples with a stop token inside or ids outside the vocabulary, `kept` of another
                shape or outside [0, 1], or smoothing that is not above 0.
        """
        within("smoothing", smoothing, 0, np.inf, without_low=True)
        events = _Events.of(samples, vocabulary, kept)
        (frequency,), (total,) = events.frequencies(np.ones((len(events.flat), 1)), events.flat_kept)
        return cls((total * frequency + smoothing * _uniform(vocabulary)) / (total + smoothing))

    def __len__(self) -> int:
        return len(self.event) - 1

    def begin(self) -> np.ndarray:
        return np.ones((1, 1))

    def after(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        return memory

    def future(self, automaton: TokenAutomaton, horizon: int, power: float) -> FutureMass:
        return HiddenFuture.of(automaton, np.ones(1), np.ones((1, 1)), self.event[None], horizon, power)


@dataclass(frozen=True, eq=False)
class Bigram:
    """Events that depend on the token before them. Tokens without statistics of their own share one context.

    After context c an event that it has seen has the probability given, any other ``backoff[c] * unigram[event]``.

    Attributes:
        unigram: [V + 1] probability of each token, and of the stop as the last.
        context: [V] the context that each token leaves: its own, or 0 for the shared one. Context 1 is the beginning.
        backoff: [C] weight of the unigram after each context.
        seen_context, seen_event, seen_probability: [N] what contexts have seen, sorted by context and event.
    """

    unigram: np.ndarray
    context: np.ndarray
    backoff: np.ndarray
    seen_context: np.ndarray
    seen_event: np.ndarray
    seen_probability: np.ndarray

    BEGINNING: ClassVar[int] = 1

    @classmethod
    def fit(
        cls,
        samples: Samples,
        vocabulary: Vocabulary,
        kept: Kept | None = None,
        smoothing: float = 1.0,
    ) -> Self:
        """Smoothed relative frequencies of pairs; arguments and errors as for :meth:`Unigram.fit`."""
        unigram = Unigram.fit(samples, vocabulary, kept, smoothing).event
        events = _Events.of(samples, vocabulary, kept)
        width = len(unigram)
        before = np.array([e for row in events.rows for e in (-1, *row[:-1])])  # -1: the beginning
        own = np.unique(before[before >= 0])
        context = np.zeros(len(vocabulary), dtype=np.int64)
        context[own] = 2 + np.arange(len(own))
        at = np.where(before < 0, cls.BEGINNING, context[before])
        n_seen = np.bincount(at, weights=events.flat_count, minlength=2 + len(own))
        pair, which = np.unique(at * width + events.flat, return_inverse=True)
        seen_context, seen_event = np.divmod(pair, width)
        n_pair = np.bincount(which, weights=events.flat_count * events.flat_kept)
        probability = (n_pair + smoothing * unigram[seen_event]) / (n_seen[seen_context] + smoothing)
        return cls(unigram, context, smoothing / (n_seen + smoothing), seen_context, seen_event, probability)

    @classmethod
    def of_table(cls, first: np.ndarray, following: np.ndarray) -> Self:
        """A Markov chain: ``first`` [V + 1] and, after each token, ``following`` [V, V + 1]; the stop comes last."""
        n_tokens = len(following)
        table = np.concatenate([first[None], following])
        backoff = np.zeros(n_tokens + 2)
        row, event = np.divmod(np.arange(table.size), n_tokens + 1)
        return cls(first, 2 + np.arange(n_tokens), backoff, 1 + row, event, table.ravel())

    def __len__(self) -> int:
        return len(self.context)

    @cached_property
    def stop(self) -> np.ndarray:
        """[C] probability of the stop after each context."""
        stop = self.backoff * self.unigram[-1]
        seen = self.seen_event == len(self)
        stop[self.seen_context[seen]] = self.seen_probability[seen]
        return stop

    def seen_by(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What each of N contexts has seen, as pairs: a position in `contexts`, and one in `seen_event`."""
        first = np.searchsorted(self.seen_context, np.arange(len(self.backoff) + 1))
        many = np.diff(first)[contexts]
        position = np.repeat(np.arange(len(contexts)), many)
        rank = np.arange(len(position)) - np.repeat(np.cumsum(many) - many, many)
        return position, first[contexts][position] + rank

    def log_excess(self, power: float) -> np.ndarray:
        """[N] log of what p^power of a seen event has beyond (back-off weight times unigram)^power."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p = power * np.log(self.seen_probability)
            log_rest = power * np.log(self.backoff[self.seen_context] * self.unigram[self.seen_event])
            return np.where(log_rest < log_p, log_p + np.log1p(-np.exp(log_rest - log_p)), -np.inf)

    def begin(self) -> np.ndarray:
        return np.array([self.BEGINNING])

    def after(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        return self.context[tokens]

    def future(self, automaton: TokenAutomaton, horizon: int, power: float) -> FutureMass:
        return LastTokenFuture.of(automaton, self, horizon, power)


@dataclass(frozen=True, eq=False)
class HMM:
    """A hidden Markov model: a hidden state emits a token, or the stop, and moves on (Rabiner, 1989).

    Under a power the masses are those of E[p(y | hidden path)^power]: the sum of p(y)^power itself has no recursion.
    The two agree for one hidden state, or at power 1.

    Attributes:
        initial: [H]. transition: [H, H], rows sum to 1.
        emission: [H, V + 1] probability of each token, and of the stop as the last. Rows need not sum to 1.
    """

    initial: np.ndarray
    transition: np.ndarray
    emission: np.ndarray

    @classmethod
    def fit(
        cls,
        samples: Samples,
        vocabulary: Vocabulary,
        kept: Kept | None = None,
        smoothing: float = 1.0,
        *,
        n_states: int = 32,
        iterations: int = 30,
        seed: int = 0,
    ) -> Self:
        """Baum-Welch (Baum et al., 1970) from hidden states that follow position and last token.

        Iterations are EM for the likelihood of the samples, which never falls; emissions then count what was kept.
        Other arguments and errors as for :meth:`Unigram.fit`.
        """
        at_least("n_states", n_states, 1)
        at_least("iterations", iterations, 0)
        unigram = Unigram.fit(samples, vocabulary, smoothing=smoothing).event
        events = _Events.of(samples, vocabulary, kept)
        law = _first_guess(events, n_states, generator(at_least("seed", seed, 0), "hmm"))
        moves = np.einsum("n,nti,ntj->ij", events.count, law[:, :-1], law[:, 1:])
        mix = smoothing / (smoothing + events.flat_count.sum())
        own = law[events.here]
        model = cls._from_counts(events, law, moves, own, mix, unigram)
        for _ in range(iterations):
            law, moves = model._smoothed(events)
            own = law[events.here] * model._own_share(events, mix * unigram)
            model = cls._from_counts(events, law, moves, own, mix, unigram)
        if kept is None:
            return model
        unigram = Unigram.fit(samples, vocabulary, kept, smoothing).event
        return cls(model.initial, model.transition, _mixture(events, own, events.flat_kept, mix, unigram))

    @classmethod
    def _from_counts(
        cls, events: _Events, law: np.ndarray, moves: np.ndarray, own: np.ndarray, mix: float, unigram: np.ndarray
    ) -> Self:
        """The M step, from what :meth:`_smoothed` returns and how far each event is each hidden state's own [M, H]."""
        initial = events.count @ law[:, 0]
        total = moves.sum(axis=1, keepdims=True)
        # a state from which no sample goes on may go anywhere
        transition = np.where(total > 0, moves / np.where(total > 0, total, 1.0), 1 / len(moves))
        emission = _mixture(events, own, np.ones(len(events.flat)), mix, unigram)
        return cls(initial / initial.sum(), transition, emission)

    def _own_share(self, events: _Events, background: np.ndarray) -> np.ndarray:
        """[M, H] the chance that an event came from the hidden state's own law and not from the unigram mixed in."""
        return 1 - background[events.flat, None] / self.emission.T[events.flat]

    def _smoothed(self, events: _Events) -> tuple[np.ndarray, np.ndarray]:
        """The E step: forward and backward, scaled at every position.

        Returns:
            [N, T, H] the law of the hidden state at each event given its whole sample, zero after the end; and [H, H]
            the expected number of moves from each hidden state to each.
        """
        likelihood, forward, scale = self._forward(events)
        backward = np.ones_like(forward)
        moves = np.zeros_like(self.transition)
        for t in reversed(range(forward.shape[1] - 1)):
            inside = events.here[:, t + 1, None]
            following = inside * likelihood[:, t + 1] * backward[:, t + 1] / scale[:, t + 1, None]
            backward[:, t] = np.where(inside, following @ self.transition.T, 1.0)
            moves += self.transition * ((events.count[:, None] * forward[:, t]).T @ following)
        return forward * backward * events.here[:, :, None], moves

    def _forward(self, events: _Events) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Likelihoods of events [N, T, H], filtered laws [N, T, H], probabilities of events given the past [N, T]."""
        likelihood = np.where(events.here[:, :, None], self.emission.T[events.padded], 1.0)
        forward, scale = np.empty_like(likelihood), np.empty(likelihood.shape[:2])
        law = np.broadcast_to(self.initial, forward[:, 0].shape)
        for t in range(forward.shape[1]):
            joint = law * likelihood[:, t]
            scale[:, t] = joint.sum(axis=1)
            forward[:, t] = joint / scale[:, t, None]
            law = forward[:, t] @ self.transition
        return likelihood, forward, scale

    def log_likelihood(self, samples: Samples, vocabulary: Vocabulary) -> float:
        """log probability of all samples together, nats. Every event must be possible."""
        events = _Events.of(samples, vocabulary)
        _, _, scale = self._forward(events)
        return float(events.count @ np.log(scale).sum(axis=1))

    def __len__(self) -> int:
        return self.emission.shape[1] - 1

    def begin(self) -> np.ndarray:
        return self.initial[None]

    def after(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        return updated(memory, self.emission.T[tokens]) @ self.transition

    def future(self, automaton: TokenAutomaton, horizon: int, power: float) -> FutureMass:
        return HiddenFuture.of(automaton, self.initial, self.transition, self.emission, horizon, power)


_RANDOM = 0.2  # share of the first guess at hidden states that is random


class Fitted(NamedTuple):
    """A surrogate, and what its samples cost: methods that use it should be charged for it."""

    surrogate: Surrogate
    cost: Cost


def fit_surrogate(
    kind: str,
    model: LanguageModel,
    constraint: Constraint,
    prompts: Sequence[Prompt],
    *,
    n_samples: int = 256,
    max_tokens: int = 256,
    smoothing: float = 1.0,
    n_states: int | None = None,
    iterations: int | None = None,
    seed: int = 0,
) -> Fitted:
    """Draw samples by local masking, `n_samples` after each prompt, and fit a surrogate to them and their kept mass.

    Samples that share a prefix share its forward pass. They are drawn under keys of their own, so a run with the same
    seed is independent of them, as it must be for its evidence to be unbiased.

    Args:
        kind: "unigram", "bigram" or "hmm".
        prompts: a list, even of one.
        smoothing: see :meth:`Unigram.fit`. n_states, iterations: see :meth:`HMM.fit`; for "hmm" only
            (by default 32 and 30).

    Raises:
        OptionError: an unknown kind, no list of prompts, or no sample that finished within max_tokens.
        PromptError, ConstraintError: as for the sampler.
    """
    one_of("kind", kind, ["unigram", "bigram", "hmm"])
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not prompts:
        raise OptionError(f"prompts must be a list of prompts, not {quoted(prompts)}. For one prompt, write [prompt].")
    at_least("n_samples", n_samples, 1)
    if kind != "hmm":
        without_effect(
            {"n_states": n_states, "iterations": iterations}, f"A {kind} has no hidden states: leave it out."
        )
    results = [
        local_masking(
            model, constraint, prompt, n_particles=n_samples, max_tokens=max_tokens, seed=seed, key=f"surrogate {i}"
        )
        for i, prompt in enumerate(prompts)
    ]
    sequences = [s for result in results for s in result.sequences for _ in range(s.count)]
    if not sequences:
        raise OptionError(
            f"fit_surrogate: none of {n_samples} samples by local masking finished (status {results[0].status!r}), so there "
            "is nothing to fit to. Raise max_tokens or n_samples, or correct the constraint."
        )
    samples = [(*s.tokens, model.vocabulary.stop_ids[0]) for s in sequences]
    kept = [np.exp(s.kept_path) for s in sequences]
    cost = sum((result.cost for result in results), Cost())
    if kind == "unigram":
        return Fitted(Unigram.fit(samples, model.vocabulary, kept, smoothing), cost)
    if kind == "bigram":
        return Fitted(Bigram.fit(samples, model.vocabulary, kept, smoothing), cost)
    hidden = {"n_states": 32 if n_states is None else n_states, "iterations": 30 if iterations is None else iterations}
    return Fitted(HMM.fit(samples, model.vocabulary, kept, smoothing, **hidden, seed=seed), cost)


@dataclass(frozen=True)
class _Events:
    """Samples as events, equal ones counted: token ids, and V for the stop.

    Attributes:
        width: V + 1.
        rows: [N] the events of each distinct sample. count: [N] how many samples it stands for.
        flat, flat_count: [M] all rows one after the other. flat_kept: [M] Z_t of each event.
    """

    width: int
    rows: list[tuple[int, ...]]
    count: np.ndarray
    flat: np.ndarray
    flat_count: np.ndarray
    flat_kept: np.ndarray

    @staticmethod
    def of(samples: Samples, vocabulary: Vocabulary, kept: Kept | None = None) -> _Events:
        """Checked and counted; samples without any event are left out."""
        if kept is None:
            kept = [np.ones(len(sample)) for sample in samples]
        if len(kept) != len(samples) or any(len(k) != len(s) for k, s in zip(kept, samples, strict=True)):
            raise OptionError("kept must have one number for each event of each sample, the stop included.")
        counted = Counter(
            (_as_events(sample, vocabulary), tuple(map(float, k))) for sample, k in zip(samples, kept, strict=True)
        )
        counted.pop(((), ()), None)
        if not counted:
            raise OptionError("A surrogate needs samples to be fitted to: none was given, or all are empty.")
        rows = [row for row, _ in counted]
        count = np.array([*counted.values()], dtype=np.float64)
        flat_kept = np.array([z for _, k in counted for z in k])
        if not ((flat_kept >= 0) & (flat_kept <= 1 + 1e-6)).all():
            raise OptionError("kept holds numbers outside [0, 1]: give the masses Z_t themselves, not their logs.")
        flat = np.array([event for row in rows for event in row])
        return _Events(len(vocabulary) + 1, rows, count, flat, np.repeat(count, [len(row) for row in rows]), flat_kept)

    @cached_property
    def padded(self) -> np.ndarray:
        """[N, T] events, -1 after the end."""
        table = np.full((len(self.rows), max(map(len, self.rows))), -1)
        for line, row in zip(table, self.rows, strict=True):
            line[: len(row)] = row
        return table

    @cached_property
    def here(self) -> np.ndarray:
        """[N, T] bool: where there is an event."""
        return self.padded >= 0

    def frequencies(self, share: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Relative frequencies of events in H laws, and how many events each law has.

        Args:
            share: [M, H] how much of each event belongs to each law. factor: [M] what an event counts when it is seen.

        Returns:
            [H, V + 1] and [H]; zeros where a law has no events.
        """
        weight = share * self.flat_count[:, None]
        total = weight.sum(axis=0)
        seen = [np.bincount(self.flat, weights=column * factor, minlength=self.width) for column in weight.T]
        return np.array(seen) / np.where(total > 0, total, 1.0)[:, None], total


def _as_events(sample: Sequence[int], vocabulary: Vocabulary) -> tuple[int, ...]:
    """Token ids as events: a stop token at the end is the stop event."""
    row = tuple(map(int, sample))
    if any(not 0 <= token < len(vocabulary) for token in row):
        raise OptionError(f"A sample has the token id {max(row)}; the vocabulary has ids 0 to {len(vocabulary) - 1}.")
    if any(token in vocabulary.stop_ids for token in row[:-1]):
        raise OptionError("A sample has a stop token before its end. Cut it there: what follows a stop is not text.")
    return (*row[:-1], len(vocabulary)) if row and row[-1] in vocabulary.stop_ids else row


def _uniform(vocabulary: Vocabulary) -> np.ndarray:
    """[V + 1] the same for each text token and the stop."""
    prior = np.append(vocabulary.spelling, True).astype(np.float64)
    return prior / prior.sum()


def _mixture(events: _Events, own: np.ndarray, factor: np.ndarray, mix: float, unigram: np.ndarray) -> np.ndarray:
    """[H, V + 1] emissions: each hidden state's relative frequencies, with the unigram mixed in."""
    frequency, _ = events.frequencies(own, factor)
    return (1 - mix) * frequency + mix * unigram


def _first_guess(events: _Events, n_states: int, rng: np.random.Generator) -> np.ndarray:
    """[N, T, H] laws to begin with: mostly the context of an event, partly at random.

    A context is the position and the event before. The most frequent ones get a hidden state each; any other shares
    that of the most frequent context of its position, if there is one, and else that of the least frequent context.
    """
    n, length = events.padded.shape
    before = np.concatenate([np.full((n, 1), -1), events.padded[:, :-1]], axis=1)[events.here]
    at = np.broadcast_to(np.arange(length), (n, length))[events.here]
    contexts, which = np.unique(np.stack([at, before], axis=1), axis=0, return_inverse=True)
    which = which.reshape(-1)
    frequent = np.argsort(-np.bincount(which, weights=events.flat_count), kind="stable")[:n_states]
    state = np.full(len(contexts), len(frequent) - 1)
    for rank in reversed(range(len(frequent))):  # so that the most frequent context of a position has the last word
        state[contexts[:, 0] == contexts[frequent[rank], 0]] = rank
    state[frequent] = np.arange(len(frequent))
    law = _RANDOM * rng.dirichlet(np.ones(n_states), size=(n, length)) * events.here[:, :, None]
    law[events.here, state[which]] += 1 - _RANDOM
    return law
