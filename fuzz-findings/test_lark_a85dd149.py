r"""Lark(\'start: "."\\nT: "0"\\n%ignore "0"\', engine=\'xgrammar\'): \'0.\' is a member; the validator says no

Found by `python -m tests.fuzz --kind lark --seed 40001`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_lark_a85dd149() -> None:
    found = disagreement('Lark(\'start: "."\\nT: "0"\\n%ignore "0"\', engine=\'xgrammar\')', members=['0.'], others=[])
    assert not isinstance(found, Disagreement), found
