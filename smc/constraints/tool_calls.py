"""Prose in which a model may, or must, call tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import xgrammar as xgr

from smc.constraints.assembly import Assembly, Format, either, embedded, fixed, free, pattern, repeated, sequence
from smc.constraints.caching import shortened, text_of
from smc.constraints.json_reader import closed
from smc.constraints.json_schema import JSONSchema, Whitespace
from smc.constraints.notes import LanguageNote, language_of, located
from smc.constraints.span_checks import InCalls
from smc.constraints.validated import PrefixCheck
from smc.errors import ConstraintError, EmptyLanguageError, OptionError, one_of, quoted, true_or_false
from smc.vocabulary import to_bytes

After = Literal["text", "end"]

_BLANKS = {*" \n\r\t"}
_SPACE: dict[str, str] = {"compact": "", "bounded": "[ \\n\\r\\t]{0,2}", "free": "[ \\n\\r\\t]*"}


@dataclass(frozen=True)
class Tool:
    """A function's name and what its arguments must be: a JSON object that follows a schema."""

    name: str
    arguments: JSONSchema


class ToolCall(NamedTuple):
    """One call in a finished text."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, init=False)
class ToolCalls(Assembly):
    """Prose, and calls of tools in it, each written as ``begin {"name": "...", "arguments": {...}} end``.

    `begin` is the trigger: prose may hold anything but it, and once it is written, a well-formed call of one of the tools
    must follow. Until then nothing is masked but control tokens (and tokens that write `begin` and then something that is
    no call), so log Z_t is near 0 in prose. ``result.posterior(key=lambda text: bool(tools.calls(text)))`` is the posterior
    probability of calling at all.

    Args:
        tools: each ``{"name": ..., "parameters": schema}``, or that under the key "function" beside
            ``"type": "function"``. The parameters are a schema of an object; "input_schema" and "inputSchema" mean the
            same. Without them (or with None or ``{}``) the tool takes none, and any key that is not known to describe a
            tool is refused, lest it be the parameters under another name.
        required: whether there must be a call.
        several: whether there may be more than one; prose may stand between them.
        begin, end: what stands around a call. Where `begin` or `end` is a control token of the model, that token counts as
            text of that spelling, throughout the constraint; a stop token of the model cannot be one.
        after: what may follow the last call: "text" (prose) or "end" (nothing).
        whitespace: between the elements of a call, as in :class:`JSONSchema`; the same also inside `begin` and `end`.
        keys: how the two members of a call are named.
        closed: whether objects and arrays of the parameters that do not say so are closed, as in :class:`JSONSchema`.

    The validator reads the calls: names and order of the two members as given, arguments valid under the tool's schema by
    :meth:`JSONSchema.is_valid`, no trigger in prose, as many calls as allowed.

    Raises:
        EmptyLanguageError: no tools.
        ConstraintError: a tool without a name or with one that is taken, parameters that are no schema of an object; a
            `begin` that is empty or overlaps itself, an empty `end`; on `compile`, a stop token as `begin` or `end`, or
            parameters that cannot be enforced or met (the message names the tool).
        OptionError: unknown `after` or `whitespace`, `keys` that are not two different texts, or a yes or no that is not
            True or False.
    """

    tools: tuple[Tool, ...]
    required: bool
    several: bool
    begin: str
    end: str
    after: After
    whitespace: Whitespace
    keys: tuple[str, str]

    def __init__(
        self,
        tools: Iterable[Mapping[str, Any]],
        *,
        required: bool = False,
        several: bool = False,
        begin: str = "<tool_call>",
        end: str = "</tool_call>",
        after: After = "text",
        whitespace: Whitespace = "bounded",
        keys: tuple[str, str] = ("name", "arguments"),
        closed: bool = False,
    ) -> None:
        one_of("whitespace", whitespace, _SPACE)
        one_of("after", after, ["text", "end"])
        true_or_false("closed", closed)
        for option, marker in (("begin", begin), ("end", end)):
            if not text_of(f"{option} of ToolCalls", marker):
                raise ConstraintError(f"ToolCalls needs a text as {option}: without it, prose and calls look alike.")
        if any(begin.startswith(begin[cut:]) for cut in range(1, len(begin))):
            raise ConstraintError(
                f"ToolCalls cannot use begin={quoted(begin)}: it overlaps itself, so it could begin in two places at once. "
                "Choose another, by adding a line break for example."
            )
        if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
            raise ConstraintError(
                f"ToolCalls takes a list of tools, each {{'name': ..., 'parameters': schema}}, not {quoted(tools)}."
            )
        read = tuple(_tool(tool, place, whitespace, closed) for place, tool in enumerate(tools))
        if not read:
            raise EmptyLanguageError(
                "ToolCalls has no tools: give at least one, as {'name': ..., 'parameters': schema}."
            )
        names = [tool.name for tool in read]
        if taken := next((name for name in names if names.count(name) > 1), None):
            raise ConstraintError(f"ToolCalls: two tools are named {quoted(taken)}. Give each a name of its own.")
        for name, value in dict(
            tools=read,
            required=true_or_false("required", required),
            several=true_or_false("several", several),
            begin=begin,
            end=end,
            after=after,
            whitespace=whitespace,
            keys=_read_keys(keys),
        ).items():
            object.__setattr__(self, name, value)

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """What the tools' schemas have to say, each under the tool's name."""
        return tuple(
            note for tool in self.tools for note in located(language_of(tool.arguments).notes, f"tool {tool.name}")
        )

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        return (self.begin, self.end)

    def calls(self, text: str) -> list[ToolCall]:
        """The calls in a finished text, in order; none for prose.

        Raises:
            ConstraintError: the text is not in the language.
        """
        found = self._read(text)
        if found is None:
            raise ConstraintError(
                f"The text {shortened(text)!r} is not prose with well-formed calls of the given tools."
            )
        return found

    def holds(self, text: str) -> bool:
        return self._read(text) is not None

    def prefix_check(self) -> PrefixCheck[Any] | None:
        if not any(tool.arguments.wider for tool in self.tools):
            return None
        name, arguments = (_spelled(json.dumps(key, ensure_ascii=False)) for key in self.keys)
        string = rb'"(?:[^"\\]|\\.)*"'
        return InCalls(
            begin=to_bytes(self.begin),
            opening=_spaced(rb"\{", name, b":", rb"(" + string + rb")", b",", arguments, b":"),
            closing=_spaced(rb"\}", _spelled(self.end)),
            tools={
                to_bytes(json.dumps(tool.name, ensure_ascii=False)): tool.arguments.checker() for tool in self.tools
            },
            closed=closed,
        )

    # ------------------------------------------------------------------ reading

    def _read(self, text: str) -> list[ToolCall] | None:
        calls: list[ToolCall] = []
        at = 0
        while (trigger := text.find(self.begin, at)) >= 0:
            read = self._call(text, trigger + len(self.begin))
            if read is None or (calls and not self.several):
                return None
            call, at = read
            calls.append(call)
        if not calls:
            return None if self.required else calls
        return calls if self.after == "text" or at == len(text) else None

    def _call(self, text: str, at: int) -> tuple[ToolCall, int] | None:
        """The call whose trigger ends at `at`, and where what closes it ends."""
        reader = _Reader(text, at)
        name_key, arguments_key = self.keys
        try:
            reader.expect("{")
            reader.expect(json.dumps(name_key, ensure_ascii=False))
            reader.expect(":")
            name, _ = reader.value()
            reader.expect(",")
            reader.expect(json.dumps(arguments_key, ensure_ascii=False))
            reader.expect(":")
            arguments, spelled = reader.value()
            reader.expect("}")
            reader.expect(self.end)
        except (ValueError, RecursionError):
            return None
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None or not tool.arguments.is_valid(spelled):
            return None
        return ToolCall(tool.name, arguments), reader.at

    # ------------------------------------------------------------------ writing

    def format(self, tokens: xgr.TokenizerInfo) -> Format:
        prose = free(without=self.begin)
        call = sequence(prose, self._call_format(tokens))
        calling = repeated(call) if self.several else call
        whole = sequence(calling, prose) if self.after == "text" else calling
        return whole if self.required else either(prose, whole)

    def _call_format(self, tokens: xgr.TokenizerInfo) -> Format:
        space = pattern(_SPACE[self.whitespace]) if _SPACE[self.whitespace] else fixed("")
        name_key, arguments_key = (fixed(json.dumps(key, ensure_ascii=False)) for key in self.keys)

        def spaced(*elements: Format) -> Format:
            return sequence(*(piece for element in elements for piece in (space, element)))

        def rest(tool: Tool) -> Format:
            name = fixed(json.dumps(tool.name, ensure_ascii=False))
            with _named_tool(tool.name):
                arguments = embedded(tool.arguments, tokens)
            return spaced(name, fixed(","), arguments_key, fixed(":"), arguments)

        opening = sequence(fixed(self.begin), spaced(fixed("{"), name_key, fixed(":")))
        return sequence(opening, either(*map(rest, self.tools)), spaced(fixed("}"), fixed(self.end)))

    @property
    def _named(self) -> str:
        return f"The ToolCalls of {shortened(', '.join(tool.name for tool in self.tools))}"


def _spelled(text: str) -> bytes:
    return re.escape(to_bytes(text))


def _spaced(*elements: bytes) -> re.Pattern[bytes]:
    """Elements of JSON with blanks before each."""
    return re.compile(b"".join(rb"[ \n\r\t]*" + element for element in elements), re.DOTALL)


class _Reader:
    """Moves through JSON text, element by element."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    def expect(self, element: str) -> None:
        """Skip whitespace and `element`; ValueError if something else stands there."""
        self._skip_blanks(element)
        if not self.text.startswith(element, self.at):
            raise ValueError(f"{element} expected")
        self.at += len(element)

    def value(self) -> tuple[Any, bytes]:
        """The next JSON value and its spelling."""
        self._skip_blanks()
        value, end = json.JSONDecoder().raw_decode(self.text, self.at)
        spelled, self.at = to_bytes(self.text[self.at : end]), end
        return value, spelled

    def _skip_blanks(self, element: str = "") -> None:
        # an element may itself begin with whitespace, as an `end` on a line of its own does
        while self.text[self.at : self.at + 1] in _BLANKS and not (element and self.text.startswith(element, self.at)):
            self.at += 1


_PARAMETERS = ("parameters", "input_schema", "inputSchema")
_DESCRIPTIONS = {"name", "title", "description", "strict", "type", "function", "annotations", "cache_control"}
_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


def _tool(tool: object, place: int, whitespace: Whitespace, closed: bool) -> Tool:
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(tool, Mapping) or not isinstance(function, Mapping) or not isinstance(name, str) or not name:
        raise ConstraintError(
            f"Tool {place} of ToolCalls is {quoted(tool)}: give {{'name': ..., 'parameters': schema}}, or that as "
            "'function' beside 'type': 'function'."
        )
    text_of(f"The name of tool {place}", name)
    parameters = _parameters(tool, function, name)
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise ConstraintError(
            f"The parameters of the tool {quoted(name)} are no schema of an object: {quoted(parameters)}. Give "
            "{'type': 'object', 'properties': {...}}."
        )
    with _named_tool(name):
        return Tool(name, JSONSchema({"type": "object", **parameters}, whitespace=whitespace, closed=closed))


def _parameters(tool: Mapping[str, Any], function: Mapping[str, Any], name: str) -> object:
    """What a tool says of its parameters. Without any, what is not known to describe it might be them, and is refused."""
    given = [key for key in _PARAMETERS if function.get(key) is not None]
    if len(given) > 1:
        raise ConstraintError(
            f"The tool {quoted(name)} has its parameters twice, under {quoted(given[0])} and {quoted(given[1])}: keep one."
        )
    if given:
        return function[given[0]] if function[given[0]] != {} else _NO_PARAMETERS
    others = [key for keys in (function, tool) for key in keys if key not in _DESCRIPTIONS and keys[key] is not None]
    if others:
        raise ConstraintError(
            f"The tool {quoted(name)} has no 'parameters', and its key {quoted(others[0])} is not known. Call its parameters "
            f"'parameters' (inside 'function', if there is that), or leave {quoted(others[0])} out if it takes none."
        )
    return _NO_PARAMETERS


@contextmanager
def _named_tool(name: str) -> Iterator[None]:
    """Errors about the parameters of a tool say which tool."""
    try:
        yield
    except ConstraintError as error:
        raise type(error)(f"The parameters of the tool {quoted(name)}: {error}") from None


def _read_keys(keys: object) -> tuple[str, str]:
    if not isinstance(keys, tuple | list) or len(keys) != 2 or not all(isinstance(key, str) and key for key in keys):
        raise OptionError(f"keys of ToolCalls must be two texts, such as ('name', 'arguments'), not {quoted(keys)}.")
    name, arguments = (text_of("A key of ToolCalls", key) for key in keys)
    if name == arguments:
        raise OptionError(f"keys of ToolCalls must be two different texts, not {quoted(keys)}.")
    return name, arguments
