r"""Regex('\\\\z?', engine='xgrammar'): on stderr: [02:58:04] /project/cpp/regex_converter.cc:100: Warning: Regex parsing warning at position 1: Escape sequence '\\z' is not recognized. The character itself will be matched

Found by `python -m tests.fuzz --kind property --seed 10005`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_property_601d954e() -> None:
    found = disagreement("Regex('\\\\z?', engine='xgrammar')", members=[], others=[])
    assert not isinstance(found, Disagreement), found
