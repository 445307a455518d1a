"""Several tokens in one pass where the constraint leaves no choice of text.

Where a grammar forces what comes next (the fixed text of a template, the names of a schema's fields), the text is certain,
but the tokens that spell it are not: each way to cut it up has its own probability, and what the likeliest one leaves over
is mass like any other. So forced text is only ever a guess at tokens. They are fed together with the token before them, while the pass
has room for them at little extra cost; a population that goes that way then finds its log probabilities computed, and one that
goes another way has lost nothing. No probability, weight or draw depends on it.
"""

from __future__ import annotations

from smc.constraints.base import ConstraintRows, ForetellingRows
from smc.models.base import Anticipates, LanguageModel, ModelRows, Tokenizes

ROOM = 16
"""Tokens of one pass up to which more of them cost little, since it is the weights that take their time to read."""


def anticipate(model: LanguageModel, model_rows: ModelRows, constraint_rows: ConstraintRows) -> None:
    """Tell the model's rows which tokens are likely to follow them, as far as that is forced and the next pass has room."""
    if not (isinstance(model_rows, Anticipates) and isinstance(constraint_rows, ForetellingRows)):
        return
    if not isinstance(model, Tokenizes):
        return
    rows = model_rows.unknown.tolist()
    each = ROOM // len(rows) - 1 if rows else 0
    if each < 1:
        return
    guesses = {}
    for row in rows:
        # the last token may be cut elsewhere, depending on what follows the forced text
        tokens = model.tokenize(constraint_rows.forced_text(row))[:-1][:each]
        if tokens:
            guesses[row] = tokens
    if guesses:
        model_rows.anticipate(guesses)
