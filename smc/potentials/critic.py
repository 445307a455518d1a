"""Another language model as a potential: a critic, or a factor in a product of experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from smc.errors import OptionError, PromptError, quoted, true_or_false, within
from smc.models.base import LanguageModel, ModelRows, Prompt
from smc.portable import Portable
from smc.potentials.base import PotentialRows
from smc.potentials.failures import Answer, PotentialError
from smc.potentials.text import Question, TextBased
from smc.vocabulary import Vocabulary, to_bytes


@dataclass(frozen=True)
class ModelCritic(Portable):
    """phi(y) = p_critic(y | prompt)^power, so that the target is a product of experts, p(y) p_critic(y)^power.

    Where the critic has the same tokens as the model, it scores the sequence of tokens. It reads them as they are
    written, one row for each distinct prefix, and the running value is p_critic(prefix)^power. With other tokens, and
    under token healing (where the first token is no whole token of the text), it
    scores the finished text, in its own tokenisation (prompt and text together where the prompt's tokens stay what they
    are; otherwise the text alone; the longest tokens from the left where its tokenizer does not give the text back byte
    by byte), and there is no running value. Its forward passes are not in ``result.cost``.

    A ratio such as p_a / p_b is two potentials, ``ModelCritic(a, prompt), ModelCritic(b, prompt, power=-1)``. A
    negative power has no `log_bound`, and is an error on what the critic holds impossible.

    Attributes:
        model: the critic.
        prompt: what it reads before y: text, token ids or chat messages.
        power: any number but 0.
        count_stop: whether p_critic(y) includes its stop event (all its stop tokens together), so that y is a finished
            sequence to the critic too; if not, p_critic(y) is its probability of beginning with y.

    Raises:
        OptionError: a power of 0, or something that is no model. PromptError: a prompt that the critic cannot take.
        PotentialError: (in a run) prompt and sequence are longer than the critic's context, or a negative power meets
            probability 0.
    """

    model: LanguageModel
    prompt: Prompt
    power: float = 1.0
    count_stop: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.model, type) or not isinstance(self.model, LanguageModel):
            raise OptionError(
                f"ModelCritic takes a language model first and then its prompt, not {quoted(self.model)}."
            )
        true_or_false("count_stop", self.count_stop)
        if within("power", self.power, -np.inf, np.inf) == 0:
            raise OptionError("power=0 makes every sequence equal: leave the critic out.")
        self._ids  # noqa: B018  (a bad prompt is refused before any run)

    @property
    def log_bound(self) -> float:
        return 0.0 if self.power > 0 else np.inf

    def start(self, vocabulary: Vocabulary) -> PotentialRows:
        """One row: the empty continuation of the prompt."""
        if vocabulary is self.model.vocabulary or vocabulary.tokens == self.model.vocabulary.tokens:
            return _CriticRows(self, self.model.start(self._ids), np.zeros(1), 0)
        return self._rescored.start(vocabulary)

    @cached_property
    def _ids(self) -> tuple[int, ...]:
        return self.model.encode(self.prompt)

    @cached_property
    def _rescored(self) -> _Rescored:
        return _Rescored(self)

    def log_phi(self, log_probs: np.ndarray) -> np.ndarray:
        """[N] log p_critic to [N] log phi.

        Raises:
            PotentialError: a negative power of 0.
        """
        if self.power < 0 and (log_probs == -np.inf).any():
            raise PotentialError(
                f"A ModelCritic with power={self.power:g} met a sequence that the critic holds impossible, whose phi would be "
                "infinite. Use a positive power, or a constraint that excludes such sequences."
            )
        return self.power * log_probs

    def log_stop(self, rows: ModelRows) -> np.ndarray:
        """[R] log p of the critic's stop event, or 0 if that does not count."""
        if not self.count_stop:
            return np.zeros(len(rows))
        stops = list(self.model.vocabulary.stop_ids)
        return torch.logsumexp(rows.log_probs[:, stops].double(), dim=1).cpu().numpy()

    def see_that_it_fits(self, length: int) -> None:
        """Raise a PotentialError if the prompt and `length` tokens exceed the critic's context."""
        limit = self.model.context_length
        if limit is not None and len(self._ids) + length > limit:
            raise PotentialError(
                f"A ModelCritic has read its prompt of {len(self._ids)} tokens and {length} more, which is over its context of "
                f"{limit}. Shorten its prompt, lower max_tokens, or use a critic with a longer context."
            )

    def sequence_log_probs(self, sequences: Sequence[tuple[int, ...]]) -> np.ndarray:
        """[N] log p of sequences of the critic's tokens after the prompt, read together: one row a distinct prefix.

        Takes as many forward passes as the longest has tokens, and one more for the stop.
        """
        lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
        self.see_that_it_fits(int(lengths.max(initial=0)))
        total, row = np.zeros(len(sequences)), np.zeros(len(sequences), dtype=np.int64)
        rows = self.model.start(self._ids)
        for place in range(int(lengths.max(initial=0)) + 1):
            ended, going = np.flatnonzero(lengths == place), np.flatnonzero(lengths > place)
            if len(ended):
                total[ended] += self.log_stop(rows)[row[ended]]
            if len(going):
                steps = np.array([(row[i], sequences[int(i)][place]) for i in going], dtype=np.int64)
                distinct, child = np.unique(steps, axis=0, return_inverse=True)
                child = child.reshape(-1)
                total[going] += _gather(rows, distinct[:, 0], distinct[:, 1])[child]
                row[going] = child
                rows = rows.advance(distinct[:, 0], distinct[:, 1])
        return total

    def encode_continuation(self, text: str) -> tuple[int, ...] | None:
        """The critic's tokens for a text after its prompt (see the class); None if they cannot spell it."""
        vocabulary = self.model.vocabulary

        def spelled(ids: Sequence[int]) -> tuple[int, ...] | None:
            kept = tuple(i for i in ids if i not in vocabulary.special_ids and i not in vocabulary.stop_ids)
            return kept if vocabulary.spell(kept) == to_bytes(text) else None

        try:
            if isinstance(self.prompt, str):
                together = self.model.encode(self.prompt + text)
                if (
                    together[: len(self._ids)] == self._ids
                    and (found := spelled(together[len(self._ids) :])) is not None
                ):
                    return found
            alone = spelled(self.model.encode(text)) if text else ()
        except PromptError:  # text that the tokenizer cannot take, such as bytes that are not UTF-8
            alone = None
        return self._longest_tokens(to_bytes(text)) if alone is None else alone

    def _longest_tokens(self, data: bytes) -> tuple[int, ...] | None:
        ids, at = [], 0
        while at < len(data):
            ends = range(min(len(data), at + self._longest), at, -1)
            token = next((self._spelling[data[at:end]] for end in ends if data[at:end] in self._spelling), None)
            if token is None:
                return None
            ids.append(token)
            at += len(self.model.vocabulary.tokens[token])
        return tuple(ids)

    @cached_property
    def _spelling(self) -> dict[bytes, int]:
        """The first token of each string of bytes."""
        vocabulary = self.model.vocabulary
        return {vocabulary.tokens[i]: int(i) for i in np.flatnonzero(vocabulary.spelling)[::-1]}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._spelling), default=0)


@dataclass(frozen=True)
class _CriticRows:
    """The critic's own rows beside the model's.

    Attributes:
        log_probs: [R] log p_critic of each prefix.
        length: tokens of each.
    """

    critic: ModelCritic
    rows: ModelRows
    log_probs: np.ndarray
    length: int

    def __len__(self) -> int:
        return len(self.log_probs)

    @property
    def log_prefix(self) -> np.ndarray:
        return self.critic.log_phi(self.log_probs)

    def log_complete(self, rows: np.ndarray) -> np.ndarray:
        if not len(rows):
            return np.zeros(0)
        self.critic.see_that_it_fits(self.length)
        return self.critic.log_phi((self.log_probs + self.critic.log_stop(self.rows))[rows])

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> _CriticRows:
        log_probs = np.zeros(0)
        if len(parents):
            self.critic.see_that_it_fits(self.length)
            log_probs = self.log_probs[parents] + _gather(self.rows, parents, tokens)
        return _CriticRows(self.critic, self.rows.advance(parents, tokens), log_probs, self.length + 1)

    def fork(self, rows: np.ndarray) -> _CriticRows:
        return _CriticRows(self.critic, self.rows.fork(rows), self.log_probs[rows], self.length)


@dataclass(frozen=True)
class _Rescored(TextBased):
    """Finished texts, scored by a critic with other tokens."""

    critic: ModelCritic

    @property
    def log_bound(self) -> float:
        return self.critic.log_bound

    def judge(self, text: str) -> float:
        return float(self._scores([text])[0])

    def _ask(self, asked: list[tuple[Question, str]]) -> list[Answer]:
        return self._scores([text for _, text in asked]).tolist()

    def _scores(self, texts: Sequence[str]) -> np.ndarray:
        encoded = [self.critic.encode_continuation(text) for text in texts]
        log_probs = np.full(len(texts), -np.inf)
        known = [i for i, ids in enumerate(encoded) if ids is not None]
        log_probs[known] = self.critic.sequence_log_probs([ids for ids in encoded if ids is not None])
        return self.critic.log_phi(log_probs)


def _gather(rows: ModelRows, parents: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[N] float64 log p of a token after each of the given rows."""
    log_probs = rows.log_probs
    at = torch.as_tensor(parents, device=log_probs.device), torch.as_tensor(tokens, device=log_probs.device)
    return log_probs[at].double().cpu().numpy()
