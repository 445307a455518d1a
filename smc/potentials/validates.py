"""The condition that Pydantic accepts what was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from smc.errors import OptionError, quoted, shortened, true_or_false
from smc.potentials.text import TextCondition


@dataclass(frozen=True)
class Validates(TextCondition):
    """phi is 1 where a Pydantic model accepts the finished text, with all its validators, and 0 where it does not.

    No opinion of prefixes: a constraint such as ``JSONSchema(Model.model_json_schema())`` keeps them on the way, and
    this condition adds what a schema cannot say.

    Attributes:
        model: a Pydantic model, any type that Pydantic can check, or a TypeAdapter.
        read: turns the text into the object to be checked (``yaml.safe_load``, for instance). A ValueError means that
            the text is not of that format, so phi is 0. None reads JSON as Pydantic does.
        strict: no conversions, such as of "1" to 1. None leaves that to the model.
        memo: see :class:`smc.potentials.TextBased`.

    Exceptions other than a ValidationError (or a ValueError of `read`) are failures (:mod:`smc.potentials.failures`).

    Raises:
        OptionError: a type that Pydantic cannot check, or a `read` that is no function.
    """

    model: Any
    read: Callable[[str], object] | None = None
    strict: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strict is not None:
            true_or_false("strict", self.strict)
        if isinstance(self.model, str):  # which pydantic would take for the name of a type that comes later
            raise OptionError(f"Validates takes a type, such as a Pydantic model class, not {quoted(self.model)}.")
        if self.read is not None and not callable(self.read):
            raise OptionError(f"read must be a function of the text, such as yaml.safe_load, not {quoted(self.read)}.")
        try:
            self._adapter  # noqa: B018  (a type that cannot be checked is refused before any run)
        except PydanticUserError as error:
            reason = error.message.splitlines()[0].strip().rstrip(".")
            raise OptionError(f"Validates cannot check {quoted(self.model)}: {shortened(str(reason), 200)}.") from error

    @cached_property
    def _adapter(self) -> TypeAdapter:
        return self.model if isinstance(self.model, TypeAdapter) else TypeAdapter(self.model)

    def holds(self, text: str) -> bool:
        try:
            if self.read is None:
                self._adapter.validate_json(text, strict=self.strict)
            else:
                self._adapter.validate_python(self.read(text), strict=self.strict)
        except ValueError:  # a ValidationError is one, and so is what says that the text is no Unicode or no JSON
            return False
        return True
