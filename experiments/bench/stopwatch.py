"""Times the stages of real runs, by putting a clock around the methods that they go through.

Nothing is re-enacted: while the clocks are in place, a run does what it always does. Each moment counts for one stage, the
innermost that is under way.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from experiments.bench.common import synchronise
from smc import HFModel
from smc.children import Children
from smc.constraints.base import CompiledConstraint

STAGES = ("prefill", "forward", "mask", "branch", "move", "transfer")
"""The prompt's pass; the other passes; masks; children and the choice among them; rows that move; the host's waits."""


class Stopwatch:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._under_way: list[str] = []
        self._mark = 0.0

    def _charge(self) -> None:
        """Charge the time since the last mark to the innermost stage."""
        synchronise()
        now = time.perf_counter()
        if self._under_way:
            self.seconds[self._under_way[-1]] += now - self._mark
        self._mark = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Charge a block to a stage."""
        self._charge()
        self._under_way.append(name)
        try:
            yield
        finally:
            self._charge()
            self._under_way.pop()

    def clocked(self, function: Callable[..., Any], name: Callable[[], str]) -> Callable[..., Any]:
        """The same function, charged to the stage that `name` gives at the time of the call."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.stage(name()):
                return function(*args, **kwargs)

        return timed


@contextmanager
def clocks(model: HFModel, constraint: CompiledConstraint, branching: type) -> Iterator[Stopwatch]:
    """Put clocks around the stages of runs inside the block.

    Args:
        model: what runs; its rows' class is clocked.
        constraint: any constraint of the class that runs.
        branching: the class of branching.
    """
    watch = Stopwatch()

    def forward() -> str:
        return "forward" if "branch" in watch.seconds else "prefill"

    with ExitStack() as stack:

        def replace(owner: Any, name: str, new: Any) -> None:
            stack.enter_context(patch.object(owner, name, new))

        model_rows, constraint_rows = type(model.start((0,))), type(constraint.start())
        replace(model_rows, "log_probs", property(watch.clocked(getter(model_rows, "log_probs"), forward)))
        replace(model_rows, "advance", watch.clocked(model_rows.advance, lambda: "move"))
        if hasattr(type(model), "evaluate"):
            replace(type(model), "evaluate", watch.clocked(type(model).evaluate, forward))
        replace(constraint_rows, "allowed", property(watch.clocked(getter(constraint_rows, "allowed"), lambda: "mask")))
        replace(constraint_rows, "advance", watch.clocked(constraint_rows.advance, lambda: "move"))
        replace(branching, "branch", watch.clocked(branching.branch, lambda: "branch"))  # type: ignore[attr-defined]
        replace(Children, "of", staticmethod(watch.clocked(Children.of, lambda: "branch")))
        for module, name, function in transfers():
            replace(module, name, watch.clocked(function, lambda: "transfer"))
        yield watch


def getter(owner: type, name: str) -> Callable[..., Any]:
    """The function behind a property."""
    function: Callable[..., Any] = getattr(owner, name).fget
    return function


def transfers() -> list[tuple[Any, str, Callable[..., Any]]]:
    """The function by which the host waits for the device, under every name that a module of ours knows it by."""
    host: Any = sys.modules.get("smc.host")
    if host is None:
        return []
    fetch: Callable[..., Any] = host.fetch
    modules: list[Any] = [module for name, module in sys.modules.items() if name.startswith("smc.")]
    return [(module, "fetch", fetch) for module in modules if getattr(module, "fetch", None) is fetch]


@dataclass
class Move:
    """One move of rows, and the tokens that they were then given in advance: row to tokens."""

    parents: np.ndarray
    tokens: np.ndarray
    guesses: dict[int, tuple[int, ...]] = field(default_factory=dict)


@contextmanager
def recorded_moves(model: HFModel) -> Iterator[list[Move]]:
    """The moves that the model's rows make inside the block, step by step, of a single run; the first is to the prompt."""
    rows: Any = type(model.start((0,)))
    nothing = np.empty(0, dtype=np.int64)
    moves = [Move(nothing, nothing)]

    def advance(self: Any, parents: np.ndarray, tokens: np.ndarray) -> Any:
        moves.append(Move(np.array(parents), np.array(tokens)))
        return before["advance"](self, parents, tokens)

    def anticipate(self: Any, guesses: dict[int, tuple[int, ...]]) -> None:
        moves[-1].guesses.update(guesses)
        before["anticipate"](self, guesses)

    new = {"advance": advance, "anticipate": anticipate}
    before = {name: getattr(rows, name) for name in new if hasattr(rows, name)}
    with ExitStack() as stack:
        for name in before:
            stack.enter_context(patch.object(rows, name, new[name]))
        yield moves
