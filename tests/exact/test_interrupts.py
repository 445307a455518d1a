"""Ctrl-C at any line of an adaptive sampler leaves what it has learned right, so that a later call goes on from there."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
from toys import TOYS

from smc import baselines
from smc.interrupts import whole
from smc.trie import OPEN, Node, Trie, TrieStore

TOY = next(iter(TOYS.values()))
FILES = ("smc/trie.py", "smc/baselines/guided.py", "smc/baselines/accept_reject.py", "smc/interrupts.py")


def interrupted(at: int, call: Any) -> bool:
    """Run a call with Ctrl-C at the line number `at` of those files; whether there was such a line."""
    left = at

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return left <= 0


def assert_consistent(trie: Trie) -> None:
    """Every mass is what its parts add up to."""

    def visit(node: Node, length: int) -> None:
        if node.apart is not None:
            below = [child.log_p + trie.log_mass(child, length + 1) for child in node.children.values()]
            assert node.log_mass is not None
            np.testing.assert_allclose(node.log_mass, np.logaddexp.reduce([node.apart, *below]), atol=1e-12)
        for child in node.children.values():
            visit(child, length + 1)

    visit(trie.root, 0)


@pytest.fixture(autouse=True)
def python_handles_interrupts() -> Iterator[None]:
    """As in a session: a process that was started in the background ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("method", [baselines.cars, baselines.ars])
def test_a_store_outlives_an_interrupt_at_any_line(method: Any) -> None:
    stops, at = 0, 1
    while True:
        store = TrieStore()

        def call(store: TrieStore = store) -> Any:
            return method(TOY.model, TOY.constraint, "", n_particles=3, max_tokens=TOY.max_tokens, store=store)

        if not interrupted(at, call):
            break
        stops += 1
        for trie in store._tries.values():
            trie.settle()
            assert_consistent(trie)
            assert trie.log_mass(trie.root, 0)[OPEN] >= float(np.log(float(sum(TOY.targets().values())))) - 1e-12
        call()
        at += 127  # a prime, so that in the end every kind of line has been hit
    assert stops > 10


def test_a_block_ends_before_it_is_interrupted() -> None:
    done = []

    def block() -> None:
        with whole():
            signal.raise_signal(signal.SIGINT)
            done.append("first")
            done.append("second")
        done.append("third")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["first", "second"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
