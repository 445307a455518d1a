r"""Lark(\'start: /$a/\\nT: "0"\', engine=\'xgrammar\'): \'a\' is no member; the validator says yes

Found by `python -m tests.fuzz --kind lark --seed 10004`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_lark_5f35aff2() -> None:
    found = disagreement('Lark(\'start: /$a/\\nT: "0"\', engine=\'xgrammar\')', members=[], others=['a'])
    assert not isinstance(found, Disagreement), found
