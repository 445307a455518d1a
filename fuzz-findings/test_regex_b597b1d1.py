r"""Regex('[a\\\\-a]', engine='llguidance'): '-' is a member; the validator says no

Found by `python -m tests.fuzz --kind regex --seed 7`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_regex_b597b1d1() -> None:
    found = disagreement("Regex('[a\\\\-a]', engine='llguidance')", members=['-'], others=[])
    assert not isinstance(found, Disagreement), found
