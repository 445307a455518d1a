r"""Lark(\'start: "0"\\nT: /(?!a)/i\', engine=\'xgrammar\'): on stderr: [03:09:39] /project/cpp/fsm_builder.cc:1330: Warning: Lookahead assertion is not supported and is ignored in regex: (?!a)

Found by `python -m tests.fuzz --kind lark --seed 10005`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_lark_cd5f1abf() -> None:
    found = disagreement('Lark(\'start: "0"\\nT: /(?!a)/i\', engine=\'xgrammar\')', members=[], others=[])
    assert not isinstance(found, Disagreement), found
