"""Grammars enforced by llguidance: one matcher for each row. An optional package.

By itself the engine narrows a mask to one token wherever the grammar leaves no choice of bytes: the token with which a
tokenizer would begin the forced bytes (``test`` and not ``t``, ``te``, ``tes``). That leaves out tokenisations which have
probability, so it is switched off here (``no_forcing``), and the masks are the whole language's, as xgrammar's are.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from smc.constraints.caching import CompiledOnce, per_vocabulary
from smc.constraints.first_word import first_word_note
from smc.constraints.matcher_rows import MatcherRows
from smc.constraints.notes import LanguageNote
from smc.constraints.time_limit import Deadline, finish_within
from smc.constraints.token_sets import TokenSets
from smc.errors import ConstraintError, EmptyLanguageError, MissingPackageError
from smc.vocabulary import Vocabulary

ENGINE = "llguidance"

COMPILE_SECONDS = 30.0
"""How long one constraint may take to compile."""

# The engine's defaults suit servers that would rather fail than wait. A failure here would lose probability.
_LIMITS = {
    "initial_lexer_fuel": 20_000_000,
    "step_lexer_fuel": 20_000_000,
    "step_max_items": 2_000_000,
    "max_items_in_row": 20_000,
    "max_lexer_states": 1_000_000,
}

_NO_FORCING = '\n%llguidance {"no_forcing": true}\n'  # after the grammar, so that line numbers stay the user's


class LLGuidanceRows(MatcherRows):
    """R matchers, one for each prefix."""

    def _copy(self, matcher: Any) -> Any:
        return matcher.deep_copy()

    def _refusal(self, matcher: Any, token: int) -> str | None:
        complete = matcher.is_accepting()  # before the move: a refused token leaves the matcher in error
        moved = self._compiled.spells(token) and matcher.consume_token(token)
        if moved or _gave_up(matcher):  # a row on which the engine gave up goes on as a dead end
            return None
        return "complete" if complete else "incomplete"

    def _forced(self, matcher: Any) -> bytes:
        # Forced bytes are known whether or not the masks are narrowed to them. Of a copy, since asking moves the parser
        # on: after very long texts its mask is another one.
        return b"" if matcher.is_stopped() else bytes(matcher.deep_copy().compute_ff_bytes())


class LLGuidanceConstraint(CompiledOnce):
    """A grammar compiled for one vocabulary.

    Args:
        vocabulary: the model's tokens.
        grammar: text that the engine has read before without an error.
        accepts: the terminal validator, None where it cannot tell; by default the engine's own acceptance.
        notes: what of the language this vocabulary cannot spell.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        grammar: str,
        matcher: Any,
        accepts: Callable[[bytes], bool | None] | None = None,
        notes: tuple[LanguageNote, ...] = (),
    ) -> None:
        self._grammar = grammar
        self._matcher = matcher
        self._accepts = accepts or self.generates
        self._vocabulary = vocabulary
        self._sets = TokenSets.of(vocabulary)
        self._first = self.fill([matcher.deep_copy()])
        self.notes = (*notes, *first_word_note(vocabulary, self._first.numpy()[0]))
        self._bytes: Any = None

    @property
    def is_dead(self) -> bool:
        """Whether not even the first token can be chosen."""
        return not bool(self._first.any())

    def start(self) -> LLGuidanceRows:
        """One row: the empty prefix."""
        return LLGuidanceRows(self, [self._matcher.deep_copy()], self._first)

    def accepts(self, data: bytes) -> bool:
        """Whether a finished string passes the validator of the constraint that the user wrote."""
        said = self._accepts(data)
        return self.generates(data) if said is None else said

    def generates(self, data: bytes) -> bool:
        """Whether the engine's own language holds `data`, however a tokenizer would cut it."""
        if self._bytes is None:
            self._bytes = _matcher(_byte_tokenizer(), self._grammar)
        matcher = self._bytes.deep_copy()
        return bool(matcher.try_consume_tokens(list(data)) == len(data) and matcher.is_accepting())

    def spells(self, token: int) -> bool:
        """Whether a token is ordinary text."""
        return bool(self._vocabulary.spelling[token])

    def spell(self, token: int) -> bytes:
        """The bytes of a token."""
        return self._vocabulary.tokens[token]

    def fill(self, matchers: list[Any]) -> torch.Tensor:
        """[R, W] int32: the engine's masks of text, and the stop tokens where a prefix is complete.

        The engine's own end token is not used: it is also set, alone, where nothing at all may follow.
        """
        words = np.zeros((len(matchers), len(self._sets)), dtype=np.int32)
        complete = [matcher.is_accepting() for matcher in matchers]  # before the masks: a mask may end a matcher
        for row, matcher in zip(words, matchers, strict=True):
            if not matcher.is_stopped():
                matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
            if matcher.is_stopped():  # at an end, in a dead end, or in error: no text may follow
                _gave_up(matcher)
                row[:] = 0
        self._sets.settle(words, complete)
        return torch.from_numpy(words)


def compile_llguidance(
    vocabulary: Vocabulary,
    what: str,
    grammar: Callable[[], str],
    accepts: Callable[[bytes], bool | None] | None = None,
    *,
    located: bool = False,
    notes: tuple[LanguageNote, ...] = (),
    deadline: Deadline | None = None,
) -> LLGuidanceConstraint:
    """Compile what `grammar` writes, within COMPILE_SECONDS.

    Args:
        vocabulary: the model's tokens.
        what: names the constraint in errors, as in "The regex '[a-z'".
        grammar: makes the grammar: Lark text, or what one of ``LLMatcher.grammar_from_*`` returns.
        accepts: the terminal validator, None where it cannot tell; by default the engine's own acceptance.
        located: whether lines and columns in the engine's messages are those of the user's text.
        notes: what of the language is known to be left out for this vocabulary.
        deadline: when it must be done, if that is earlier: part of the time was spent before.

    Raises:
        MissingPackageError: llguidance is not installed.
        ConstraintError: the engine cannot read the constraint, or takes too long.
        EmptyLanguageError: no sequence of tokens satisfies it, as far as its first token shows or the engine says.
    """
    engine_package()
    tokenizer = per_vocabulary(vocabulary, ENGINE, _tokenizer)

    def work() -> LLGuidanceConstraint:
        text = full_masks(grammar())
        matcher = _matcher(tokenizer, text)
        if matcher.is_error():
            raise _explained(what, _without_panic(matcher.get_error(), text), located)
        return LLGuidanceConstraint(vocabulary, text, matcher, accepts, notes)

    try:
        compiled = finish_within(COMPILE_SECONDS if deadline is None else deadline.left, work)
    except ConstraintError:
        raise
    except TimeoutError:
        raise ConstraintError(
            f"{what} took more than {COMPILE_SECONDS:g} s to compile. Simplify it: lower the bounds of repetitions or "
            "drop them (use * or +), and cut nested repetitions and large alternatives."
        ) from None
    except ValueError as error:
        raise _explained(what, str(error), located) from None
    if compiled.is_dead:
        raise EmptyLanguageError(
            f"{what} allows no first token: either it describes no text at all, or the model's vocabulary cannot "
            "spell how its texts begin. Check it for alternatives that can never be completed."
        )
    return compiled


def engine_package() -> Any:
    """The engine's module.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        import llguidance
    except ImportError:
        raise MissingPackageError(
            "engine='llguidance' needs a package that is not installed. Run: pip install 'smc[llguidance]'"
        ) from None
    return llguidance


def full_masks(grammar: str) -> str:
    """The grammar with the option that keeps the masks whole; a grammar wrapped as JSON is unwrapped into Lark text.

    Raises:
        ConstraintError: JSON with more than one grammar in it.
    """
    if not grammar.lstrip().startswith("{"):
        return grammar + _NO_FORCING
    parts = json.loads(grammar)["grammars"]
    if len(parts) != 1:
        raise ConstraintError("Only one grammar at a time: write it as one Lark grammar, with %json for schemas in it.")
    schema, text = parts[0].get("json_schema"), parts[0].get("lark_grammar")
    if text is None:
        text = f"start: %json {json.dumps(schema, ensure_ascii=False)}"
    return str(text) + _NO_FORCING


class _Tokens:
    """The view of a vocabulary that the engine asks for."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokens: list[bytes], stops: list[int], special: list[int]) -> None:
        self.tokens, self.eos_token_id, self.special_token_ids = tokens, stops[0], special

    def __call__(self, text: str) -> list[int]:
        # Asked for nothing but the tokens of forced text, which `full_masks` switches off.
        raise NotImplementedError("A vocabulary has no tokenizer.")


def _tokenizer(vocabulary: Vocabulary) -> Any:
    # Control tokens and padding are given as nothing, so that they never match as text. So is a token with the byte
    # 0xFF first: the engine marks its own special tokens by it, and it begins no text that is UTF-8.
    tokens = [
        text if spells and not text.startswith(b"\xff") else b""
        for text, spells in zip(vocabulary.tokens, vocabulary.spelling.tolist(), strict=True)
    ]
    stops = list(vocabulary.stop_ids)
    special = sorted({*vocabulary.special_ids, *stops})
    return engine_package().LLTokenizer(_Tokens(tokens, stops, special), eos_token=stops)


@cache
def _byte_tokenizer() -> Any:
    """One token for each byte: for texts that no vocabulary has cut."""
    tokens = [bytes([byte]) for byte in range(255)] + [b"", b"</s>"]
    return engine_package().LLTokenizer(_Tokens(tokens, [256], [256]), eos_token=[256])


def _matcher(tokenizer: Any, grammar: str) -> Any:
    package = engine_package()
    return package.LLMatcher(tokenizer, grammar, log_level=0, limits=package.LLParserLimits(**_LIMITS))


def _gave_up(matcher: Any) -> bool:
    """Whether a matcher is in error because the engine gave up (a limit, an internal error), and not over a token or in a
    dead end. Says so: it costs the prefix its mass as a dead end does, but it is none."""
    reason = next(iter(matcher.get_error().splitlines()), "")
    if not reason or any(refusal in reason for refusal in _REFUSALS):
        return False
    logging.getLogger("smc").warning(
        "llguidance gave up on a prefix, which counts as a dead end: %s. Simplify the grammar, or use xgrammar.", reason
    )
    return True


# What a matcher's error says of a dead end, of a token that does not fit, and of one after the end of a text.
_REFUSALS = ("NoExtensionBias", "doesn't satisfy the grammar", "parser stopped in consume_token; no error message")

# What the engine says when it sees for itself that nothing can match.
_NOTHING = re.compile(r"[Uu]nsatisfiable")


# Names of special tokens in Lark text; strings, regexes and comments are skipped.
_SPECIAL = re.compile(r'"(?:[^"\\]|\\.)*"|/(?:[^/\\\n]|\\.)+/|//[^\n]*|(<[^\s<>"/\[\]]+>)')


def _without_panic(error: str, grammar: str) -> str:
    """The engine's error, or what its panic is about: it has none of the special tokens, and panics when one is named."""
    if not error.startswith("panic: "):
        return error
    named = sorted({match[1] for match in _SPECIAL.finditer(grammar) if match[1]})
    if named and "removal index" in error:
        return f"unknown special token {', '.join(named)}"
    return f"the engine fails on it, by a mistake of its own ({next(iter(error.splitlines())).removeprefix('panic: ')})"


def _explained(what: str, error: str, located: bool) -> ConstraintError:
    """The engine's reason without its excerpt of the source."""
    reason = next(iter(error.strip().splitlines()), "") or "the engine gives no reason"
    detail = re.search(r"^error: (.*)", error, re.MULTILINE)
    place = re.match(r"(?:at )?(\d+)\((\d+)\): ", reason)
    reason = re.sub(r"^(at )?\d+\(\d+\): ", "", detail[1] if detail else reason)
    reason = re.sub(r"^failed to compile JSON schema: ", "", reason)
    where = f"line {place[1]}, column {place[2]}: " if place and located else ""
    kind = EmptyLanguageError if _NOTHING.search(reason) else ConstraintError
    return kind(
        f"{what} cannot be used: {where}{reason.strip().rstrip('.')}. Correct it, or leave out what the engine does not support."
    )
