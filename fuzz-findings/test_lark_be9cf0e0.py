r"""Lark(\'start: WS\\nT: "0"\\n%ignore "0"\\n%import common.WS\', engine=\'xgrammar\'): \'0\\n\' is a member; the validator says no

Found by `python -m tests.fuzz --kind lark --seed 40002`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_lark_be9cf0e0() -> None:
    found = disagreement('Lark(\'start: WS\\nT: "0"\\n%ignore "0"\\n%import common.WS\', engine=\'xgrammar\')', members=['0\n'], others=[])
    assert not isinstance(found, Disagreement), found
