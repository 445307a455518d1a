r"""Lark('start: (HEXDIGIT)~0..2\\nT: /(?!([&&\\\\]|_\\\\x61-0]))/is~2\\n%import common.HEXDIGIT', engine='llguidance'): on stderr: [03:10:52] /project/cpp/fsm_builder.cc:1330: Warning: Lookahead assertion is not supported and is ignored in regex: (?!([&&\\]|_\\x61-0]))

Found by `python -m tests.fuzz --kind lark --seed 40004`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_lark_b469dffd() -> None:
    found = disagreement("Lark('start: (HEXDIGIT)~0..2\\nT: /(?!([&&\\\\]|_\\\\x61-0]))/is~2\\n%import common.HEXDIGIT', engine='llguidance')", members=[], others=[])
    assert not isinstance(found, Disagreement), found
