r"""Lark(\'start: T?\\nT: "]K"\\n%ignore "0"\', engine=\'xgrammar\'): \'0\' is a member; the validator says no

Found by `python -m tests.fuzz --kind lark --seed 10002`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_lark_332f4cde() -> None:
    found = disagreement('Lark(\'start: T?\\nT: "]K"\\n%ignore "0"\', engine=\'xgrammar\')', members=['0'], others=[])
    assert not isinstance(found, Disagreement), found
