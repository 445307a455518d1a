"""Every public value can be pickled and deep-copied, before it is used and after, and does the same afterwards."""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import pickle
import pkgutil
from concurrent.futures import ProcessPoolExecutor
from inspect import isabstract, isclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from constraint_tools import BYTES
from portable_values import EXAMPLES, PROMPT, behaviour, bits, sampler, table

import smc
from smc.constraints import Constraint
from smc.errors import SMCError
from smc.portable import Portable

MODULES = [smc, *(importlib.import_module(found.name) for found in pkgutil.walk_packages(smc.__path__, "smc."))]


def public(module: ModuleType) -> list[type]:
    """The classes that a module means for users."""
    named = [getattr(module, name) for name in getattr(module, "__all__", ())]
    own = [value for value in vars(module).values() if isclass(value) and value.__module__ == module.__name__]
    values = [value for value in own if issubclass(value, Portable) and not value.__name__.startswith("_")]
    return [kind for kind in (*named, *values) if isclass(kind) and not isabstract(kind)]


PUBLIC = {
    kind
    for module in MODULES
    for kind in public(module)
    if not getattr(kind, "_is_protocol", False) and not issubclass(kind, BaseException) and kind is not Portable
} - {smc.constraints.assembly.Assembly}


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def test_there_is_an_example_of_every_public_class() -> None:
    rows_and_bases = {kind for kind in PUBLIC if kind.__name__.endswith("Rows") or "TextBased" in kind.__name__}
    missing = {kind.__qualname__ for kind in PUBLIC - set(EXAMPLES) - rows_and_bases}
    assert not missing, f"add examples to portable_values.py: {sorted(missing)}"


@pytest.mark.parametrize("send", [pickled, copy.deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_values_travel_before_and_after_use(kind: type, send: Any) -> None:
    value = EXAMPLES[kind]()
    before = send(value)
    assert behaviour(value) == behaviour(before)
    after = send(value)
    assert behaviour(after) == behaviour(value)  # the second use of both: what learns has learned the same
    if isinstance(value, Constraint):
        assert after == before == value
        assert hash(after) == hash(value)


@pytest.mark.parametrize(
    "constraint",
    [EXAMPLES[kind]() for kind in EXAMPLES if issubclass(kind, smc.constraints.caching.CompileOnce)],
    ids=lambda constraint: type(constraint).__name__,
)
def test_compiled_constraints_travel_as_what_they_are_compiled_from(constraint: Constraint) -> None:
    compiled = constraint.compile(BYTES)
    again, vocabulary = pickled((compiled, BYTES))
    assert again.start().allowed.tolist() == compiled.start().allowed.tolist()
    assert again is pickled(constraint).compile(vocabulary) or vocabulary is not again  # made once a vocabulary
    assert copy.copy(constraint) == constraint
