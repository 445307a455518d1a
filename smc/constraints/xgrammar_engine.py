"""Grammars enforced by xgrammar: one matcher for each row."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import torch
import xgrammar as xgr

from smc.constraints.caching import CompiledOnce, per_vocabulary
from smc.constraints.first_word import first_word_note
from smc.constraints.grammar_check import NO_NAMES, check_grammar, refuse_circular
from smc.constraints.matcher_rows import MatcherRows
from smc.constraints.nesting import too_deep
from smc.constraints.notes import LanguageNote
from smc.constraints.productivity import Rules, owners, productive, size
from smc.constraints.time_limit import Deadline, finish_or_kill, finish_within
from smc.constraints.token_sets import TokenSets
from smc.errors import ConstraintError, EmptyLanguageError
from smc.vocabulary import Vocabulary, to_bytes

T = TypeVar("T")

ENGINE = "xgrammar"

COMPILE_SECONDS = 30.0
"""How long one constraint may take to compile."""

MAX_LIGHT = 50_000
"""Largest size of a grammar that is compiled at once: some 5 to 25 s for 49,152 tokens. The engine cannot be told to stop, so
what is larger is first tried in a process that can be ended, for no longer than COMPILE_SECONDS."""


class XGrammarRows(MatcherRows):
    """R matchers, one for each prefix."""

    def _copy(self, matcher: xgr.GrammarMatcher) -> xgr.GrammarMatcher:
        return matcher.fork()

    def _refusal(self, matcher: xgr.GrammarMatcher, token: int) -> str | None:
        if matcher.accept_token(token):
            return None
        return "complete" if matcher.is_completed() else "incomplete"

    def _forced(self, matcher: xgr.GrammarMatcher) -> bytes:
        # nothing where it could be endless, which the engine does not survive
        if not self._compiled.ends or matcher.is_completed():
            return b""
        return to_bytes(matcher.find_jump_forward_string())


class XGrammarConstraint(CompiledOnce):
    """A grammar compiled for one vocabulary.

    Attributes:
        notes: what of the language this vocabulary cannot spell.
        ends: whether every prefix is known to have a completion.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        grammar: xgr.CompiledGrammar,
        accepts: Callable[[bytes], bool | None] | None = None,
        notes: tuple[LanguageNote, ...] = (),
        ends: bool = False,
    ) -> None:
        self.ends = ends
        self._grammar = grammar
        self._accepts = accepts or self.generates
        self._vocabulary = vocabulary
        self._sets = TokenSets.of(vocabulary)
        self._first = self.fill([self._matcher()])
        self.notes = (*notes, *first_word_note(vocabulary, self._first.numpy()[0]))

    @property
    def is_dead(self) -> bool:
        """Whether not even the first token can be chosen."""
        return not bool(self._first.any())

    def start(self) -> XGrammarRows:
        """One row: the empty prefix."""
        return XGrammarRows(self, [self._matcher()], self._first)

    def accepts(self, data: bytes) -> bool:
        """Whether a finished string passes the validator of the constraint that the user wrote."""
        said = self._accepts(data)
        return self.generates(data) if said is None else said

    def generates(self, data: bytes) -> bool:
        """Whether the engine's own language holds `data`, asked of a fresh matcher, byte by byte."""
        matcher = self._matcher()
        return bool(matcher.accept_string(data)) and matcher.is_completed()

    def spell(self, token: int) -> bytes:
        """The bytes of a token."""
        return self._vocabulary.tokens[token]

    def fill(self, matchers: list[xgr.GrammarMatcher]) -> torch.Tensor:
        """[R, W] int32: the engine's masks of text, and the stop tokens where a prefix is complete."""
        # In numpy: a few hundred kilobytes are not worth waking torch's thread pool, which stalls where cores are shared.
        words = np.zeros((len(matchers), len(self._sets)), dtype=np.int32)
        packed = torch.from_numpy(words)
        if len(matchers) == 1:
            matchers[0].fill_next_token_bitmask(packed)
        elif matchers:
            xgr.BatchGrammarMatcher().batch_fill_next_token_bitmask(matchers, packed)
        self._sets.settle(words, [matcher.is_completed() for matcher in matchers])
        return packed

    def _matcher(self) -> xgr.GrammarMatcher:
        # The default `terminate_without_stop_token=False` keeps stopping a choice, so that it is part of Z_t.
        return xgr.GrammarMatcher(self._grammar)


def compile_grammar(
    vocabulary: Vocabulary,
    what: str,
    parse: Callable[[xgr.TokenizerInfo], xgr.Grammar],
    accepts: Callable[[bytes], bool | None] | None = None,
    *,
    located: bool = True,
    written: Mapping[str, str] = NO_NAMES,
    check: bool = True,
    deadline: Deadline | None = None,
) -> XGrammarConstraint:
    """Compile what `parse` reads, within COMPILE_SECONDS.

    Args:
        vocabulary: the model's tokens.
        what: names the constraint in errors, as in "The regex '[a-z'".
        parse: makes the grammar; it may use the tokenizer's special tokens.
        accepts: the terminal validator, None where it cannot tell; by default the engine's own acceptance.
        located: whether lines and columns in the engine's messages are those of the user's text.
        written: the user's name of each rule of the user's text, by the engine's name for it. Each must be productive; if
            there are none, only the language as a whole must not be empty.
        check: False leaves out these checks, so that a grammar with parts that never end runs as it is.
        deadline: when it must be done, if that is earlier: part of the time was spent before.

    Raises:
        ConstraintError: the engine cannot read the constraint, or takes too long; a rule that can never be completed.
        EmptyLanguageError: no sequence of tokens satisfies it.
    """
    tokens, compiler = per_vocabulary(vocabulary, "xgrammar", _compiler)
    deadline = deadline or Deadline(COMPILE_SECONDS)

    def read() -> tuple[xgr.Grammar, Rules, tuple[LanguageNote, ...], bool]:
        grammar = parse(tokens)
        rules = Rules.read(grammar)
        refuse_circular(rules, what, written)
        notes = check_grammar(rules, what, vocabulary, written) if check else ()
        ends = owners(rules, NO_NAMES).keys() <= productive(rules)
        # A mask takes the end of the root rule for the end of the text, even where the root is used inside itself: after
        # ``((a`` it would leave out the token ``))``. So the root must be a rule that nothing uses.
        if rules.root_is_used:
            grammar = xgr.Grammar.concat(grammar)
        return grammar, rules, notes, ends

    grammar, rules, notes, ends = _in_time(what, read, located, deadline)
    if size(rules) > MAX_LIGHT:
        _in_time(what, lambda: _done(compiler.compile_grammar(grammar)), located, deadline, finish_or_kill)
        deadline = Deadline(COMPILE_SECONDS)  # it takes as long again
    compiled_grammar = _in_time(what, lambda: compiler.compile_grammar(grammar), located, deadline)
    compiled = XGrammarConstraint(vocabulary, compiled_grammar, accepts, notes, ends)
    if compiled.is_dead:
        raise EmptyLanguageError(
            f"{what} allows no first token: either it describes no text at all, or the model's vocabulary cannot "
            "spell how its texts begin. Check it for alternatives that can never be completed."
        )
    return compiled


def _done(made: object) -> bytes:
    return b""  # nothing of it is wanted here but that it is done


def read_rules(
    vocabulary: Vocabulary,
    what: str,
    parse: Callable[[xgr.TokenizerInfo], xgr.Grammar],
    *,
    located: bool = True,
    written: Mapping[str, str] = NO_NAMES,
    check: bool = True,
) -> tuple[Rules, tuple[LanguageNote, ...]]:
    """The rules of a grammar that another engine will enforce, with the checks of `compile_grammar`, its arguments and its
    time limit.

    Raises:
        ConstraintError: the grammar cannot be read, or not in time; a rule that can never be completed.
        EmptyLanguageError: no finite text.
    """
    tokens, _ = per_vocabulary(vocabulary, "xgrammar", _compiler)

    def work() -> tuple[Rules, tuple[LanguageNote, ...]]:
        rules = Rules.read(parse(tokens))
        return rules, check_grammar(rules, what, vocabulary, written) if check else ()

    return _in_time(what, work, located)


def check_readable(
    vocabulary: Vocabulary,
    what: str,
    parse: Callable[[xgr.TokenizerInfo], xgr.Grammar],
    written: Mapping[str, str] = NO_NAMES,
) -> tuple[LanguageNote, ...]:
    """The checks of `compile_grammar` for text that another engine will read too, within its time limit; none if xgrammar
    cannot read it.

    Raises:
        ConstraintError: a rule that can never be completed; they take too long. EmptyLanguageError: no finite text.
    """
    tokens, _ = per_vocabulary(vocabulary, "xgrammar", _compiler)

    def work() -> tuple[LanguageNote, ...]:
        try:
            rules = Rules.read(parse(tokens))
        except (RuntimeError, ValueError, TypeError):
            return ()
        return check_grammar(rules, what, vocabulary, written)

    return _in_time(what, work)


def _in_time(
    what: str,
    work: Callable[[], T],
    located: bool = True,
    deadline: Deadline | None = None,
    finish: Callable[[float, Callable[[], T]], T] = finish_within,
) -> T:
    """What `work` makes of a constraint within COMPILE_SECONDS, or by a deadline; the engine's errors are explained."""
    try:
        return finish(COMPILE_SECONDS if deadline is None else deadline.left, work)
    except ConstraintError:
        raise
    except TimeoutError:
        raise too_slow(what) from None
    except RecursionError:
        raise too_deep(what) from None
    except (RuntimeError, ValueError, TypeError) as error:
        raise _explained(what, error, located) from None


def too_slow(what: str) -> ConstraintError:
    """The error for a constraint that takes too long; `what` names it."""
    return ConstraintError(
        f"{what} took more than {COMPILE_SECONDS:g} s to compile. Simplify it: long bounded repetitions of wide "
        "character classes such as [a-z ]{1,200} cost most, so lower the bound or drop it (use * or +), "
        "and cut nested repetitions and large alternatives."
    )


def _compiler(vocabulary: Vocabulary) -> tuple[xgr.TokenizerInfo, xgr.GrammarCompiler]:
    # Control tokens and padding are given as nothing, so that they never match as text (inside a JSON string, say).
    silent = ~vocabulary.maskable
    text = [b"" if silent[token] else spelled for token, spelled in enumerate(vocabulary.tokens)]
    info = xgr.TokenizerInfo(
        text, xgr.VocabType.RAW, vocab_size=len(vocabulary), stop_token_ids=list(vocabulary.stop_ids)
    )
    threads = max(1, min(8, os.cpu_count() or 1))
    # Its cache (ours is per_vocabulary) would print each grammar and read it back, and what it prints is not always what it
    # was: "\xf6" before "e" comes out as the one escape \xf6e.
    return info, xgr.GrammarCompiler(info, max_threads=threads, cache_enabled=False)


# What the engine says when it sees for itself that nothing can match.
_NOTHING = re.compile(
    r"cannot accept any value|must not be empty|greater than max|minimum greater than|empty range|exceeds maximum limit"
)


def _explained(what: str, error: Exception, located: bool) -> ConstraintError:
    """The engine's reason without the C++ around it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = re.sub(r"^\[[\d:]+\] \S+:\d+: ", "", lines[0])
    reason = re.sub(r"^Check failed: .*? is false: ", "", reason)
    reason = re.sub(r"^EBNF (parser|lexer) error at ", "", reason)
    if not located:
        reason = re.sub(r"^line \d+, column \d+: ", "", reason)
    kind = EmptyLanguageError if _NOTHING.search(reason) else ConstraintError
    return kind(
        f"{what} cannot be used: {reason.strip().rstrip('.')}. Correct it, or leave out what the engine does not support."
    )
