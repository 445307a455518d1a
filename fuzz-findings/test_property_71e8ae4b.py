r"""Regex('\\\\m', engine='xgrammar'): on stderr: [02:58:07] /project/cpp/regex_converter.cc:100: Warning: Regex parsing warning at position 1: Escape sequence '\\m' is not recognized. The character itself will be matched

Found by `python -m tests.fuzz --kind property --seed 10006`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_property_71e8ae4b() -> None:
    found = disagreement("Regex('\\\\m', engine='xgrammar')", members=[], others=[])
    assert not isinstance(found, Disagreement), found
