"""What an engine makes of a constraint, asked by walking its masks; and where that differs from an oracle's word."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

import smc
from smc.constraints.base import CompiledConstraint, Constraint, unpack
from smc.constraints.notes import Language, language_of
from smc.errors import EmptyLanguageError, SMCError
from smc.vocabulary import Vocabulary

# Every byte; two stop tokens, a control token spelled like text, padding; and tokens of several bytes, of which some begin or end in
# the middle of a character.
_MERGES = [
    "aa",
    "ab",
    "ba",
    "bb",
    "a-",
    "00",
    "01",
    "10",
    ".a",
    "\\n",
    "a]",
    "aé",
    "éa",
    '{"',
    '":',
    '"}',
    ',"',
    "[[",
    "]]",
    '"a',
    'a"',
    "true",
    "null",
    "-1",
    "0.",
    "ab1",
    "é",
    "😀",
]
_BROKEN = (b"a\xc3", b"\xa9a", b"\xf0\x9f", b"\x98\x80", b" \n", b"\n\n")
VOCABULARY = Vocabulary(
    (
        *(bytes([byte]) for byte in range(256)),
        *(b"</s>", b"<eot>", b"a", b""),
        *(merge.encode() for merge in _MERGES),
        *_BROKEN,
    ),
    stop_ids=(256, 257),
    special_ids=frozenset({256, 257, 258}),
)
_LONGEST = max(map(len, VOCABULARY.tokens))
_IDS = {text: token for token, text in enumerate(VOCABULARY.tokens) if VOCABULARY.spelling[token]}

Spellings = str | tuple[str, ...]
"""One text, or the texts that all stand for one value."""


@dataclass(frozen=True)
class Disagreement:
    """Where an engine and the oracle differ.

    Attributes:
        cause: names the kind, the same for inputs that fail in the same way.
        what: a sentence for whoever reads it.
        texts: on what; None if the constraint itself could not be used.
    """

    cause: str
    what: str
    texts: Spellings | None = None


@dataclass(frozen=True)
class Refused:
    """The constraint was refused with an error that speaks to the user."""

    reason: str


def disagreement(
    written: str, members: Sequence[Spellings], others: Sequence[Spellings], *, narrower: bool = False
) -> Disagreement | Refused | None:
    """The first difference between a constraint and what an oracle says of some texts; None if there is none.

    Notes of the constraint are believed: where it says "wider" the mask may let others through, as long as the validator refuses them;
    where it says that values are lost, members may be missing. Of a value with several spellings one must be let through.

    Args:
        written: the constraint in Python, as in ``Regex("a+", engine="llguidance")``.
        members, others: texts that the language has, and texts that it does not have.
        narrower: whether the caller knows that the mask leaves texts out.
    """
    with printed() as prints:
        try:
            found = _compare(written, members, others, narrower)
        except SMCError as error:
            found = Refused(str(error))
        except Exception as error:
            place = _place(error)
            found = Disagreement(f"{type(error).__name__} {place}", f"{type(error).__name__}: {error} ({place})"[:500])
        said = prints()
    if said and not isinstance(found, Disagreement):
        return Disagreement(f"prints {_words(said)}", f"on stderr: {said.strip()[:300]}")
    return found


def constraint_of(written: str) -> Constraint:
    """The constraint that a piece of Python says."""
    made: Constraint = eval(written, {name: getattr(smc, name) for name in smc.__all__})
    return made


def _compare(
    written: str, members: Sequence[Spellings], others: Sequence[Spellings], narrower: bool
) -> Disagreement | Refused | None:
    constraint = constraint_of(written)
    try:
        compiled = constraint.compile(VOCABULARY)
    except EmptyLanguageError as error:
        if not members or narrower or language_of(constraint).loses_values:
            return None
        return Disagreement("called empty", f"called empty, yet {members[0]!r} is a member: {error}", members[0])
    language = language_of(constraint, compiled)
    narrower = narrower or bool(language.loses_values)
    texts = [_spellings(entry) for entry in (*members, *others)]
    accepted = [{compiled.accepts(text.encode()) for text in spelled} for spelled in texts]
    let_through = walk(compiled, [text.encode() for spelled in texts for text in spelled])
    at = 0
    for index, (entry, spelled) in enumerate(zip((*members, *others), texts, strict=True)):
        walked, at = let_through[at : at + len(spelled)], at + len(spelled)
        member = index < len(members)
        if member in accepted[index] and len(accepted[index]) == 1:
            problem = _of_masks(walked, member, narrower, _is_wider(language))
        elif narrower and member:
            problem = None
        else:
            problem = f"the validator says {'no' if member else 'yes'}"
        if problem:
            word = "a member" if member else "no member"
            return Disagreement(f"{constraint.engine}: {problem} of {word}", f"{entry!r} is {word}; {problem}", entry)
    return None


def _of_masks(walked: Sequence[tuple[bool, bool]], member: bool, narrower: bool, wider: bool) -> str | None:
    """What is wrong with the masks of the spellings of one value, each walked byte by byte and by long tokens."""
    if any(by_bytes != by_tokens for by_bytes, by_tokens in walked):
        return "the mask depends on the tokenisation"
    through = any(by_bytes for by_bytes, _ in walked)
    if member and not through and not narrower:
        return "the mask blocks it"
    if not member and through and not wider:
        return "the mask lets it through without a note"
    return None


def _is_wider(language: Language) -> bool:
    # that a key may be written twice says nothing of texts that do not
    return any("twice" not in note.what for note in language.wider)


def walk(compiled: CompiledConstraint, texts: Sequence[bytes]) -> list[tuple[bool, bool]]:
    """Whether the masks lead through each text and let it end: byte by byte, and by the longest tokens. All walk as one batch."""
    walkers = [tokens for text in texts for tokens in (list(text), longest(text))]
    ended = [False] * len(walkers)
    stop = VOCABULARY.stop_ids[0]
    alive, rows = list(range(len(walkers))), compiled.start()
    if walkers:
        rows = rows.fork(np.zeros(len(walkers), dtype=np.int64))
    step = 0
    while alive:
        allowed = unpack(rows.allowed, len(VOCABULARY)).numpy()
        parents, tokens, following = [], [], []
        for row, walker in enumerate(alive):
            if step == len(walkers[walker]):
                ended[walker] = bool(allowed[row, stop])
            elif allowed[row, walkers[walker][step]]:
                parents.append(row)
                tokens.append(walkers[walker][step])
                following.append(walker)
        alive, step = following, step + 1
        if alive:
            rows = rows.advance(np.array(parents), np.array(tokens))
    return list(zip(ended[::2], ended[1::2], strict=True))


def longest(text: bytes) -> list[int]:
    """A text in the longest tokens from the left."""
    tokens, at = [], 0
    while at < len(text):
        width = next(width for width in range(_LONGEST, 0, -1) if text[at : at + width] in _IDS)
        tokens.append(_IDS[text[at : at + width]])
        at += width
    return tokens


@contextmanager
def printed() -> Iterator[Callable[[], str]]:
    """Catches what is written to the file descriptor of stderr, by C++ too. Gives a function that returns it so far."""
    with tempfile.TemporaryFile() as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield lambda: os.pread(file.fileno(), 10_000, 0).decode(errors="replace")
        finally:
            os.dup2(before, 2)
            os.close(before)


def _spellings(entry: Spellings) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else entry


def _words(text: str) -> str:
    """A message without what differs from one input to the next."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"^\[[\d:]+\] \S+/", "", line)
    return re.sub(r"[^A-Za-z_.]+", " ", line)[:60].strip()


def _place(error: BaseException) -> str:
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "nowhere" if at is None else f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}"
