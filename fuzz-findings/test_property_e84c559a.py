r"""Regex('\\\\K', engine='xgrammar'): '' is a member; the mask blocks it

Found by `python -m tests.fuzz --kind property --seed 10003`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_property_e84c559a() -> None:
    found = disagreement("Regex('\\\\K', engine='xgrammar')", members=[''], others=[])
    assert not isinstance(found, Disagreement), found
