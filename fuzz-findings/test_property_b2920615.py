r"""Regex('\\\\R', engine='llguidance'): on stderr: [02:58:03] /project/cpp/regex_converter.cc:100: Warning: Regex parsing warning at position 1: Escape sequence '\\R' is not recognized. The character itself will be matched

Found by `python -m tests.fuzz --kind property --seed 10002`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_property_b2920615() -> None:
    found = disagreement("Regex('\\\\R', engine='llguidance')", members=[], others=[])
    assert not isinstance(found, Disagreement), found
