"""What callers give, checked before any work starts."""

from __future__ import annotations

from collections.abc import Sequence

from smc.constraints.base import CompiledConstraint, Constraint
from smc.errors import OptionError, PromptError, quoted
from smc.models.base import KnowsMemory, LanguageModel, Prompt
from smc.potentials import Potential


def compiled(constraint: Constraint, model: LanguageModel) -> CompiledConstraint:
    """Compile a constraint for a model's vocabulary.

    Raises:
        ConstraintError, EmptyLanguageError: see :meth:`Constraint.compile`.
        OptionError: not a constraint at all, or not a model.
    """
    see_that_it_is_a_model(model)
    if isinstance(constraint, type) or not isinstance(constraint, Constraint):
        raise OptionError(
            f"The constraint is a {type(constraint).__name__}, which is not a constraint. Wrap it: JSONSchema(...) for a schema, "
            "Regex(...) for a pattern, EBNF(...) or GBNF(...) for a grammar, Choice([...]) for a list. The order is model, "
            "constraint, prompt."
        )
    return constraint.compile(model.vocabulary)


def see_that_it_is_a_model(model: object) -> None:
    """Raise an OptionError unless something is a model."""
    if isinstance(model, type) or not isinstance(model, LanguageModel):
        swapped = " The order is model, constraint, prompt." if isinstance(model, (Constraint, str)) else ""
        raise OptionError(
            f"The model is a {type(model).__name__}. Use HFModel.load, HFModel.from_pretrained or TableModel.{swapped}"
        )


def checked_potentials(potentials: Sequence[Potential]) -> tuple[Potential, ...]:
    """Potentials as a tuple.

    Raises:
        OptionError: not a list of potentials.
    """
    if not isinstance(potentials, Sequence) or not all(
        isinstance(p, Potential) and not isinstance(p, type) for p in potentials
    ):
        raise OptionError(
            f"potentials must be a list of potentials, such as [TextPotential(score)], not {quoted(potentials)}."
        )
    return tuple(potentials)


def prompt_ids(model: LanguageModel, prompt: Prompt, max_tokens: int, rows: int | None = 1) -> tuple[int, ...]:
    """Encode a prompt and see that it fits.

    Args:
        rows: as many as are sure to be live at a time; None to leave memory aside.

    Raises:
        PromptError: the prompt and `max_tokens` together exceed the model's context.
        MemoryLimitError: so many rows behind this prompt do not fit in memory.
    """
    ids = model.encode(prompt)
    limit = model.context_length
    if limit is not None and len(ids) + max_tokens > limit:
        room = limit - len(ids)
        remedy = f"Set max_tokens to at most {room}, or shorten the prompt." if room > 0 else "Shorten the prompt."
        raise PromptError(
            f"The prompt has {len(ids)} tokens and max_tokens is {max_tokens}, together more than the model's context of {limit}. {remedy}"
        )
    if rows is not None and isinstance(model, KnowsMemory):
        model.check_memory(len(ids), max_tokens, rows)
    return ids
