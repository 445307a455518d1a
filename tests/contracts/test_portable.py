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

import pytest
from constraint_tools import BYTES
from portable_values import EXAMPLES, PROMPT, behaviour, sampler, table

import smc
from smc.constraints import Constraint
from smc.errors import SMCError
from smc.portable import Portable
from smc.trie import Node, Trie

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
    missing = {kind.__qualname__ for kind in PUBLIC - set(EXAMPLES) if not kind.__name__.endswith("Rows")}
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


def test_constraints_and_samplers_work_in_another_process() -> None:
    constraints = [EXAMPLES[kind]() for kind in EXAMPLES if issubclass(kind, smc.constraints.caching.CompileOnce)]
    for constraint in constraints:
        constraint.compile(BYTES)
    run = sampler(branching="sample")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        assert process.submit(behaviours, [*constraints, run]).result() == behaviours([*constraints, run])


def behaviours(values: list[Any]) -> list[Any]:
    return [behaviour(value) for value in values]


def test_what_was_learned_travels() -> None:
    twist = smc.LearnedTwist()
    learning = sampler(twist=twist)
    for key in "abc":
        learning.run(PROMPT, key)
    sent = pickled(learning)
    (ours,), (theirs,) = learning.twist._memories.values(), sent.twist._memories.values()
    assert theirs.trie.log_open == ours.trie.log_open < 0
    assert theirs.context.constraint is sent._compiled  # so that the next run finds it
    sent.run(PROMPT, "d")
    assert len(sent.twist._memories) == 1
    assert pickled(smc.LearnedTwist())._memories == {}


def test_a_deep_trie_travels() -> None:
    trie = Trie()
    node = trie.root
    for _ in range(5000):
        node = node.child(7)
    assert depth(pickled(trie).root) == depth(copy.deepcopy(trie).root) == 5000


def depth(node: Node) -> int:
    found = 0
    while node.children:
        (node,), found = node.children.values(), found + 1
    return found


def test_memories_stay_behind() -> None:
    memo = smc.MemoModel(table())
    memo.start(()).log_probs  # noqa: B018  (is remembered)
    assert len(memo) == 1
    assert len(pickled(memo)) == 0
    constraint = smc.JSONSchema({"type": "object"})
    size = len(pickle.dumps(constraint))
    constraint.compile(BYTES)
    assert len(pickle.dumps(constraint)) == size < 300


def test_a_part_of_a_compiled_constraint_says_what_to_send() -> None:
    compiled = smc.JSONSchema({"multipleOf": 3}).compile(BYTES)
    with pytest.raises(TypeError, match="send the constraint, and compile that where it arrives"):
        pickle.dumps(compiled.compiled)


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(smc.errors).values() if isclass(kind) and issubclass(kind, SMCError)]
)
def test_errors_come_back_from_another_process(kind: type) -> None:
    error = kind("what was wrong")
    assert str(pickled(error)) == "what was wrong"
