r"""((('repeat', ('ref', 3), 2, 2),), 'GBNF', 'xgrammar', False)

Found by `python -m tests.fuzz --kind grammar --seed 30008`.
"""

from tests.fuzz.kinds import FUZZERS


def test_grammar_dc34a740() -> None:
    FUZZERS['grammar'].examine(((('repeat', ('ref', 3), 2, 2),), 'GBNF', 'xgrammar', False))
