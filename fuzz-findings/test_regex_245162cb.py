r"""Regex('(?:^?)?', engine='xgrammar'): on stderr: [02:58:00] /project/cpp/regex_converter.cc:100: Warning: Regex parsing warning at position 4: '^' should be at the start of the regex, but found in the middle. It is ignored.

Found by `python -m tests.fuzz --kind regex --seed 8`.
"""

from tests.fuzz.engines import Disagreement, disagreement


def test_regex_245162cb() -> None:
    found = disagreement("Regex('(?:^?)?', engine='xgrammar')", members=[], others=[])
    assert not isinstance(found, Disagreement), found
