r"""Regex('[\\\\p{L}]', engine='llguidance'): on stderr: [02:58:03] /project/cpp/regex_converter.cc:100: Warning: Regex parsing warning at position 2: Escape sequence '\\p' is not recognized. The character itself will be matched

Found by `python -m tests.fuzz --kind property --seed 10001`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_property_a1963dd4() -> None:
    found = disagreement("Regex('[\\\\p{L}]', engine='llguidance')", members=[], others=[])
    assert not isinstance(found, Disagreement), found
