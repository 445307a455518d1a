"""What the contract tests of constraints share: small vocabularies, walks and a brute-force oracle."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from smc.constraints import CompiledConstraint, ConstraintRows, unpack
from smc.vocabulary import Vocabulary

# Every byte, then two stop tokens, a control token spelled like text, padding, and tokens of several bytes.
STOPS = (256, 257)
CONTROL = 258
MERGES = (b"aa", b"ab", b"ba", b'{"', b'"}', b'":', b'a"', b"00", b"12", "é".encode(), " é".encode()[:2], b"cat")
BYTES = Vocabulary(
    (*(bytes([byte]) for byte in range(256)), b"</s>", b"<eot>", b"a", b"", *MERGES),
    STOPS,
    frozenset({256, 257, CONTROL}),
)

# Small enough for every token at every prefix; token 4 is a control token that looks like "a".
AB = Vocabulary((b"a", b"b", b"ab", b"aa", b"a", b"", b"</s>", b"<eot>", b"ba"), (6, 7), frozenset({4, 6, 7}))


def allowed_ids(rows: ConstraintRows, vocabulary: Vocabulary, row: int = 0) -> set[int]:
    """The ids that the mask allows in a row, out of all bits that the mask has."""
    packed = rows.allowed
    assert packed.shape == (len(rows), -(-len(vocabulary) // 32))
    bits = unpack(packed, packed.shape[1] * 32)[row].numpy()
    return set(np.flatnonzero(bits).tolist())


def step(rows: ConstraintRows, *tokens: int) -> ConstraintRows:
    """One row, extended by several tokens."""
    for token in tokens:
        rows = rows.advance(np.array([0]), np.array([token]))
    return rows


def spell(rows: ConstraintRows, text: str | bytes) -> ConstraintRows:
    """One row, extended by the single-byte tokens of BYTES."""
    return step(rows, *(text.encode() if isinstance(text, str) else text))


def walks(compiled: CompiledConstraint, vocabulary: Vocabulary, depth: int) -> dict[tuple[int, ...], set[int]]:
    """The mask of every prefix of at most `depth` tokens that the masks themselves lead to."""
    masks: dict[tuple[int, ...], set[int]] = {}
    level: list[tuple[tuple[int, ...], ConstraintRows]] = [((), compiled.start())]
    for _ in range(depth + 1):
        following = []
        for prefix, rows in level:
            masks[prefix] = allowed_ids(rows, vocabulary)
            for token in sorted(masks[prefix] - set(vocabulary.stop_ids)):
                child = rows.fork(np.array([0])).advance(np.array([0]), np.array([token]))
                following.append(((*prefix, token), child))
        level = following
    return masks


def expected_mask(prefix: Iterable[int], members: Iterable[bytes], vocabulary: Vocabulary) -> set[int]:
    """The oracle: a token is allowed if some member begins with what it makes; stops where the prefix is a member."""
    written = vocabulary.spell(prefix)
    members = set(members)
    allowed = {
        token
        for token in range(len(vocabulary))
        if vocabulary.spelling[token]
        and any(member.startswith(written + vocabulary.tokens[token]) for member in members)
    }
    return allowed | (set(vocabulary.stop_ids) if written in members else set())
