r"""Regex('([\\\\P{Alphabetic}])', engine='llguidance'): on stderr: [02:58:04] /project/cpp/regex_converter.cc:100: Warning: Regex parsing warning at position 3: Escape sequence '\\P' is not recognized. The character itself will be matched

Found by `python -m tests.fuzz --kind property --seed 10004`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_property_74c40157() -> None:
    found = disagreement("Regex('([\\\\P{Alphabetic}])', engine='llguidance')", members=[], others=[])
    assert not isinstance(found, Disagreement), found
