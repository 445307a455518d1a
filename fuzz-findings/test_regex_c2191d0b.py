r"""Regex('[-\\\\-a]', engine='llguidance'): '\\\\' is no member; the validator says yes

Found by `python -m tests.fuzz --kind regex --seed 6`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_regex_c2191d0b() -> None:
    found = disagreement("Regex('[-\\\\-a]', engine='llguidance')", members=[], others=['\\'])
    assert not isinstance(found, Disagreement), found
