"""Given token sequences as a model sees them, under a constraint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from smc.constraints.base import Constraint, unpack
from smc.errors import ConstraintError, ModelError, OptionError, PromptError, at_least, quoted, within
from smc.frontier import Frontier, Walk
from smc.healing import Boundary, heal
from smc.inputs import checked_potentials, compiled
from smc.models.base import Anticipates, LanguageModel, Prompt
from smc.potentials import Potential
from smc.result import Cost, FinishedSequence
from smc.vocabulary import to_text


def score(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    sequences: Sequence[Sequence[int]],
    potentials: Sequence[Potential] = (),
    *,
    target_power: float = 1.0,
    max_rows: int = 128,
) -> tuple[FinishedSequence, ...]:
    """Given token sequences (without the stop) as a model sees them: log p, log q, log prod Z_t, log phi, log target.

    Prefixes that sequences share are run through the model once, as long as they are among the same `max_rows` sequences
    in order. A model that can take several tokens of a row in one pass gets them, `max_rows` tokens a pass at most. Each
    sequence is one particle that weighs its exact target. The validator is not asked.

    Raises:
        ConstraintError: the constraint does not allow a sequence. PromptError: prompt and sequence are too long.
        OptionError: a sequence that is no list of token ids, no model, or no constraint.
    """
    tokens = [_token_ids(sequence) for sequence in sequences]
    power = within("target_power", target_power, 0, np.inf, without_low=True)
    return scored(tokens, model, constraint, prompt, potentials, power=power, max_rows=max_rows, healed="")[0]


def _token_ids(sequence: Sequence[int]) -> tuple[int, ...]:
    if isinstance(sequence, Sequence | np.ndarray) and all(isinstance(token, (int, np.integer)) for token in sequence):
        return tuple(int(token) for token in sequence)
    raise OptionError(
        f"sequences must be lists of token ids, such as [s.tokens for s in result.sequences], and one is {quoted(sequence)}."
    )


def scored(
    sequences: Sequence[tuple[int, ...]],
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    potentials: Sequence[Potential],
    *,
    power: float,
    max_rows: int,
    healed: str,
) -> tuple[tuple[FinishedSequence, ...], Cost]:
    """What :func:`score` gives, and what it cost; `healed` is what token healing took back from the prompt."""
    at_least("max_rows", max_rows, 1)
    language, vocabulary = compiled(constraint, model), model.vocabulary
    for sequence in sequences:
        if not all(0 <= token < len(vocabulary) for token in sequence):
            raise ModelError(
                f"The sequence {quoted(sequence)} has tokens that the model lacks. Use a model of the same tokenizer."
            )
    boundary = _boundary(model, prompt, healed)
    longest = max(map(len, sequences), default=0)
    if model.context_length is not None and len(boundary.ids) + longest > model.context_length:
        raise PromptError(
            f"The prompt has {len(boundary.ids)} tokens and a sequence {longest}, together more than the model's context of "
            f"{model.context_length}. Use a model with a longer context."
        )
    root = Frontier.start(
        model,
        boundary.compiled(constraint, language, vocabulary),
        boundary.potentials(checked_potentials(potentials)),
        boundary.ids,
    )
    # in order, so that sequences with a common beginning are scored together
    order = sorted(range(len(sequences)), key=lambda i: sequences[i])
    found: dict[int, FinishedSequence] = {}
    cost = Cost(tokens=max(len(boundary.ids) - 1, 0))
    for start in range(0, len(order), max_rows):
        chosen = order[start : start + max_rows]
        walk = Walk.start(root.fork(np.zeros(1, dtype=np.int64)), len(chosen))
        for place, ended, spent in _walked(walk, [sequences[i] for i in chosen], power, max_rows):
            found[chosen[place]] = replace(ended, data=ended.data[len(boundary.written) :])
            cost += spent
    return tuple(found[i] for i in range(len(sequences))), cost


def _walked(
    walk: Walk, sequences: Sequence[tuple[int, ...]], power: float, max_tokens: int
) -> Iterator[tuple[int, FinishedSequence, Cost]]:
    """Walk sequences from the empty prefix, one row for each distinct prefix, with `max_tokens` tokens a pass at most.

    Yields:
        A sequence's place, the sequence scored, and what was spent since the last one.
    """
    places, spent = np.arange(len(sequences)), Cost()  # the sequence of each walker
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    for length in range(int(lengths.max()) + 1):
        frontier = walk.frontier
        _foretell(walk, [sequences[place] for place in places.tolist()], max_tokens)
        frontier.children  # noqa: B018  (only then is it known how many tokens the pass took)
        spent += frontier.expansion_cost
        ends = lengths[places] == length
        for walker in np.flatnonzero(ends):
            (sequence,) = frontier.finish(walk.row[[walker]], power)
            if sequence.log_prob == -np.inf:
                _see_that_it_may_stop(frontier, int(walk.row[walker]))
            yield int(places[walker]), sequence, spent
            spent = Cost()
        going = np.flatnonzero(~ends)
        if not len(going):
            return
        tokens = np.array([sequences[place][length] for place in places[going]], dtype=np.int64)
        possible = frontier.children.gather(walk.row[going], tokens) > -np.inf
        for walker, token in zip(going[~possible], tokens[~possible], strict=True):
            row, place = int(walk.row[walker]), int(places[walker])
            _see_that_it_is_allowed(frontier, row, int(token))
            yield place, _impossible(frontier, row, sequences[place]), spent
            spent = Cost()
        going, tokens = going[possible], tokens[possible]
        if not len(going):
            return
        walk, places = walk.move(going, tokens), places[going]


def _foretell(walk: Walk, sequences: Sequence[tuple[int, ...]], max_tokens: int) -> None:
    """Tell the model's rows what follows in the longest sequence that goes through each, as far as the pass has room.

    Args:
        sequences: those of the walkers, which all begin with their walker's prefix.
    """
    rows, length = walk.frontier.model_rows, walk.frontier.length
    if not isinstance(rows, Anticipates):
        return
    longest: dict[int, tuple[int, ...]] = {}
    for row, sequence in zip(walk.row.tolist(), sequences, strict=True):
        longest[row] = max(longest.get(row, ()), sequence[length:], key=len)
    unknown = rows.unknown.tolist()
    each = max_tokens // len(unknown) - 1 if unknown else 0
    guesses = {row: longest[row][:each] for row in unknown if longest[row][:each]} if each > 0 else {}
    if guesses:
        rows.anticipate(guesses)


def _impossible(frontier: Frontier, row: int, tokens: tuple[int, ...]) -> FinishedSequence:
    """A sequence that the constraint allows and the model holds impossible after the given prefix."""
    so_far = frontier.lineages[row]
    return FinishedSequence(
        tokens=tokens,
        data=frontier.vocabulary.spell(tokens),
        log_weight=-np.inf,
        count=1,
        log_prob=-np.inf,
        kept_path=so_far.kept_path(),
        log_potential=float(frontier.potential_rows.log_prefix[row]),
        log_target=-np.inf,
    )


def _see_that_it_may_stop(frontier: Frontier, row: int) -> None:
    if not _allowed(frontier, row)[list(frontier.vocabulary.stop_ids)].any():
        text = to_text(frontier.vocabulary.spell(frontier.lineages[row].tokens()))
        raise ConstraintError(f"The constraint does not let {quoted(text)} end there. Give the constraint of the run.")


def _see_that_it_is_allowed(frontier: Frontier, row: int, token: int) -> None:
    if not _allowed(frontier, row)[token]:
        text = to_text(frontier.vocabulary.spell(frontier.lineages[row].tokens()))
        raise ConstraintError(
            f"The constraint does not allow the token {quoted(to_text(frontier.vocabulary.tokens[token]))} after {quoted(text)}. Give the constraint of the run."
        )


def _allowed(frontier: Frontier, row: int) -> torch.Tensor:
    """[V] bool, on the CPU."""
    return unpack(frontier.constraint_rows.allowed[row : row + 1].cpu(), len(frontier.vocabulary))[0]


def _boundary(model: LanguageModel, prompt: Prompt, healed: str) -> Boundary:
    """Where the sequences begin."""
    ids = model.encode(prompt)
    if not healed:
        return Boundary(ids)
    boundary = heal(model.vocabulary, ids)
    if to_text(boundary.written) != healed:
        raise PromptError(
            f"Token healing took {quoted(healed)} back from the prompt of the result, and would take {quoted(to_text(boundary.written))} back from this one. "
            "Give the prompt of the run."
        )
    return boundary
