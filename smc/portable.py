"""Values that travel: to a file, to another process, or into a deep copy."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self


class Portable:
    """A value that is pickled and deep-copied without what was made on demand.

    What a `cached_property` holds (engines, validators, remembered answers) follows from the other attributes and often cannot
    travel, so it stays behind and is made anew where the value arrives. A shallow copy stays here and keeps all of it.
    """

    def __getstate__(self) -> dict[str, Any]:
        kinds = type(self).__mro__
        on_demand = {name for kind in kinds for name, made in vars(kind).items() if isinstance(made, cached_property)}
        return {name: value for name, value in vars(self).items() if name not in on_demand}

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other
