"""The errors of the experiments side, kept apart from `smc.errors` so that reading records needs no torch."""

from __future__ import annotations


class ExperimentError(ValueError):
    """Bad input to an experiment. The message is one paragraph: what was wrong, where, and what to do."""


class BusyError(ExperimentError):
    """Another process is at work on the same thing."""


class OutOfReach(ExperimentError):
    """A method cannot run on a task, whatever its options. A sweep passes over the pair."""


class RunFailed(ExperimentError):
    """A run ended in an exception that nobody expected. The message names it and the file with its traceback."""


class InstanceFailed(Exception):
    """An unexpected exception, its cause, while a run was at one of its instances."""

    def __init__(self, instance: str) -> None:
        super().__init__(instance)
        self.instance = instance
