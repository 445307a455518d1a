"""All fuzzers."""

from __future__ import annotations

from tests.fuzz.fuzzer import Fuzzer
from tests.fuzz.regexes import PROPERTIES, REGEX

FUZZERS: dict[str, Fuzzer] = {fuzzer.name: fuzzer for fuzzer in (REGEX, PROPERTIES)}
