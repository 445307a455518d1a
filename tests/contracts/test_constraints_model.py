"""The same contracts over the whole vocabulary of a real model."""

from __future__ import annotations

import numpy as np
import pytest
from constraint_tools import allowed_ids, step

from smc.constraints import Choice, Constraint, FiniteLanguage, JSONSchema, Regex
from smc.errors import MissingPackageError
from smc.models.huggingface import HFModel
from smc.vocabulary import Vocabulary

pytestmark = pytest.mark.model

CALL = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    try:
        return HFModel.load("smollm2-135m").vocabulary
    except MissingPackageError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(
    ("constraint", "prefix"),
    [
        (JSONSchema(CALL, whitespace="compact"), b'{"city":"New '),
        (JSONSchema(CALL), b'{"city": "Paris", '),
        (Regex("[0-9]{4}-[0-9]{2}-[0-9]{2}"), b"2024-"),
        (FiniteLanguage(["yes", "yesterday", "\u00e9t\u00e9"]), b"yes"),
    ],
    ids=["string", "bounded", "date", "finite"],
)
def test_mask_allows_exactly_what_advance_accepts(
    constraint: Constraint, prefix: bytes, vocabulary: Vocabulary
) -> None:
    byte_ids = {
        spelled: token
        for token, spelled in enumerate(vocabulary.tokens)
        if len(spelled) == 1 and vocabulary.spelling[token]
    }
    rows = step(constraint.compile(vocabulary).start(), *(byte_ids[bytes([byte])] for byte in prefix))
    allowed = allowed_ids(rows, vocabulary)
    assert allowed
    assert not allowed & (set(vocabulary.special_ids) - set(vocabulary.stop_ids))
    for token in np.flatnonzero(vocabulary.spelling).tolist():
        try:
            rows.fork(np.array([0])).advance(np.array([0]), np.array([token]))
            accepted = True
        except RuntimeError:
            accepted = False
        assert accepted == (token in allowed), (token, vocabulary.tokens[token])


def test_finite_language_equals_choice(vocabulary: Vocabulary) -> None:
    options = ["New York", "New Delhi", "Newark", "N", "", "S\u00e3o Paulo", "\u6771\u4eac"]
    left, right = FiniteLanguage(options).compile(vocabulary).start(), Choice(options).compile(vocabulary).start()
    level = [(left, right)]
    visited = 0
    while level:
        left, right = level.pop()
        allowed = allowed_ids(left, vocabulary)
        assert allowed == allowed_ids(right, vocabulary)
        visited += 1
        for token in sorted(allowed - set(vocabulary.stop_ids))[:3]:
            at, to = np.array([0]), np.array([token])
            level.append((left.fork(at).advance(at, to), right.fork(at).advance(at, to)))
    assert visited > 20
