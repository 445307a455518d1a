r"""Lark(\'start: WS\\nT: "0"\\n%ignore "0"\\n%import common.WS\', engine=\'xgrammar\'): \'0\\n0\' is a member; the validator says no

Found by `python -m tests.fuzz --kind lark --seed 20001`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_lark_f0a59b9b() -> None:
    found = disagreement('Lark(\'start: WS\\nT: "0"\\n%ignore "0"\\n%import common.WS\', engine=\'xgrammar\')', members=['0\n0'], others=[])
    assert not isinstance(found, Disagreement), found
