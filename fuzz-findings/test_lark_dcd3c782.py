r"""Lark(\'start: start~0..2\\nT: ("b" | /(?:[^\\\\w]+)??/ | /(^)/)~2\\n%ignore "({"\', engine=\'llguidance\'): on stderr: [03:09:35] /project/cpp/regex_converter.cc:100: Warning: Regex parsing warning at position 2: \'^\' should be at the start of the regex, but found in the middle. It is ignored.

Found by `python -m tests.fuzz --kind lark --seed 10003`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_lark_dcd3c782() -> None:
    found = disagreement('Lark(\'start: start~0..2\\nT: ("b" | /(?:[^\\\\w]+)??/ | /(^)/)~2\\n%ignore "({"\', engine=\'llguidance\')', members=[], others=[])
    assert not isinstance(found, Disagreement), found
