r"""Lark(\'start: "0"\\nT: "0"\\n%ignore WS\\n%import common.WS\', engine=\'xgrammar\'): \'\\n0\' is a member; the validator says no

Found by `python -m tests.fuzz --kind lark --seed 40003`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_lark_75b00261() -> None:
    found = disagreement('Lark(\'start: "0"\\nT: "0"\\n%ignore WS\\n%import common.WS\', engine=\'xgrammar\')', members=['\n0'], others=[])
    assert not isinstance(found, Disagreement), found
