"""Differential fuzzers: random inputs, held against somebody else's implementation. ``python -m tests.fuzz --help``."""
