r"""Regex('[a-\\\\w]', engine='xgrammar'): 'b' is a member; the mask blocks it

Found by `python -m tests.fuzz --kind regex --seed 3`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_regex_abf5b747() -> None:
    found = disagreement("Regex('[a-\\\\w]', engine='xgrammar')", members=['b'], others=[])
    assert not isinstance(found, Disagreement), found
