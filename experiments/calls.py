"""What a method is asked for, and the sampler that a call with the options of a method config stands for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from smc import Proposal, SMCSampler
from smc.errors import OptionError
from smc.twists import Twist


@dataclass(frozen=True)
class Call:
    """What a method is asked for: the prompt, its constraint and potentials, and what the randomness derives from."""

    model: Any
    constraint: Any
    prompt: Any
    key: str
    seed: int
    max_tokens: int
    potentials: tuple[Any, ...] = ()

    def arguments(self) -> dict[str, Any]:
        """All of it by name, as the methods of `smc` take it."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def of_sampler(self) -> dict[str, Any]:
        """What a sampler is made from: all but the prompt and the key, which it runs on."""
        return {name: value for name, value in self.arguments().items() if name not in ("prompt", "key")}


def smc_sampler(
    call: Call,
    *,
    branching: str,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    twist: Twist | None = None,
    **options: Any,
) -> SMCSampler:
    """The sampler of a call with the options of :class:`experiments.config.SMCConfig`.

    Raises:
        OptionError: an option value that does not exist or does not go with another.
        ConstraintError: the constraint cannot be compiled for this model.
    """
    shape = Proposal(temperature, top_k, top_p)
    if branching == "enumerate" and not shape.is_plain:
        raise OptionError(
            "temperature, top_k and top_p shape what branching=sample draws; branching=enumerate draws nothing from the "
            "model. Leave them out, or use branching=sample."
        )
    proposal = None if shape.is_plain else shape
    return SMCSampler(**call.of_sampler(), branching=branching, proposal=proposal, twist=twist, **options)
