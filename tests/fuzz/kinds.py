"""All fuzzers."""

from __future__ import annotations

from tests.fuzz.ecma import ECMA_PATTERNS
from tests.fuzz.fuzzer import Fuzzer
from tests.fuzz.grammars import GRAMMARS
from tests.fuzz.larks import LARKS
from tests.fuzz.regexes import PROPERTIES, REGEX
from tests.fuzz.samplers import SAMPLERS
from tests.fuzz.schemas import SCHEMAS

FUZZERS: dict[str, Fuzzer] = {
    fuzzer.name: fuzzer for fuzzer in (REGEX, PROPERTIES, ECMA_PATTERNS, SCHEMAS, LARKS, GRAMMARS, SAMPLERS)
}
