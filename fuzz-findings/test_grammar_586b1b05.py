r"""((('repeat', ('ref', 0), 0, 2),), 'EBNF', 'xgrammar', False)

Found by `python -m tests.fuzz --kind grammar --seed 2`.
"""

from tests.fuzz.kinds import FUZZERS


def test_grammar_586b1b05() -> None:
    FUZZERS['grammar'].examine(((('repeat', ('ref', 0), 0, 2),), 'EBNF', 'xgrammar', False))
