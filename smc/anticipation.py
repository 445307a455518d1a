"""Several tokens in one pass where the constraint leaves no choice of text.

Where a grammar forces what comes next (the fixed text of a template, the names of a schema's fields), the text is certain,
but the tokens that spell it are not: each way to cut it up has its own probability, and what the likeliest one leaves over
is mass like any other. So forced text is only ever a guess at tokens. They are fed together with the token before them, while
the pass has room for them at little extra cost; a population that goes that way then finds its log probabilities computed, and
one that goes another way has lost nothing. No probability, weight or draw depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from smc.constraints.base import ConstraintRows, ForetellingRows
from smc.models.base import Anticipates, LanguageModel, ModelRows, Tokenizes

ROOM = 16
"""Tokens of one pass up to which more of them cost little, since it is the weights that take their time to read."""

_BYTES = 8  # of a token, as a rule at most: so much of a forced text is looked at for each


class Ahead(NamedTuple):
    """One run before a pass.

    Attributes:
        model_rows, constraint_rows: its rows. left: tokens that each of them may still have, its own not counted.
    """

    model_rows: ModelRows
    constraint_rows: ConstraintRows
    left: int


def anticipate(model: LanguageModel, runs: Sequence[Ahead]) -> None:
    """Tell the rows of the runs of one pass which tokens are likely to follow, as far as that is forced and there is room."""
    if not isinstance(model, Tokenizes):
        return
    unknown = [_unknown(run.model_rows) for run in runs]
    n = sum(map(len, unknown))
    each = ROOM // n - 1 if n else 0
    if each < 1:
        return
    for run, rows in zip(runs, unknown, strict=True):
        if isinstance(run.constraint_rows, ForetellingRows) and isinstance(run.model_rows, Anticipates):
            guesses = {
                int(row): tokens
                for row in rows
                if (tokens := _tokens(model, run.constraint_rows.forced_text(int(row)), min(each, run.left)))
            }
            if guesses:
                run.model_rows.anticipate(guesses)


def _unknown(rows: ModelRows) -> np.ndarray:
    return rows.unknown if isinstance(rows, Anticipates) else np.arange(len(rows))


def _tokens(model: Tokenizes, text: str, most: int) -> tuple[int, ...]:
    """The first tokens of a forced text; not the last one, which may be cut elsewhere, depending on what follows."""
    if not text or most < 1:
        return ()
    return model.tokenize(text[: _BYTES * (most + 1)])[:-1][:most]
