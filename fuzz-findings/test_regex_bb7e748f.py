r"""Regex('[a\\\\-a]', engine='xgrammar'): '-' is a member; the validator says no

Found by `python -m tests.fuzz --kind regex --seed 5`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_regex_bb7e748f() -> None:
    found = disagreement("Regex('[a\\\\-a]', engine='xgrammar')", members=['-'], others=[])
    assert not isinstance(found, Disagreement), found
