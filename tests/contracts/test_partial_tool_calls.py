"""Tool calls in prose: masks, readings, exact posteriors for every option, control tokens as triggers, bad input."""

import json
import re

import numpy as np
import pytest
from constraint_tools import allowed_ids, step
from partial_tools import mask_after, posterior_by_hand, reachable, uneven, vocabulary

from smc import JSONSchema, SMCSampler, TableModel
from smc.constraints.tool_calls import ToolCall, ToolCalls
from smc.errors import ConstraintError, EmptyLanguageError, OptionError
from smc.exact import enumerate_posterior
from smc.vocabulary import byte_vocabulary

WEATHER = {
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
}
PING = {"type": "function", "function": {"name": "ping", "description": "nothing"}}
SEARCH = {
    "name": "search",
    "parameters": {
        "$defs": {"term": {"enum": ["é", "b"]}},
        "type": "object",
        "properties": {"terms": {"type": "array", "items": {"$ref": "#/$defs/term"}, "uniqueItems": True}},
        "required": ["terms"],
    },
}
TOOLS = [WEATHER, PING, SEARCH]
ONE = '<tool_call>\n{"name": "weather", "arguments": {"city": "a </tool_call> b", "days": 3}}\n</tool_call>'
TWO = '<tool_call>{"name": "ping", "arguments": {}}</tool_call>'
TOKENS = vocabulary(
    "<tool_call>",
    "x<tool_call>\n{",
    "x<tool_call>x",
    '"weather',
    '", "',
    '"}}',
    '": ',
    "}}\n</tool_call> so",
    " <",
    special=["<|x|>"],
)


def test_masks_agree_with_the_engine_byte_by_byte() -> None:
    tools = ToolCalls(TOOLS)
    compiled = tools.compile(TOKENS)
    text = f"so {ONE} é".encode()
    for cut in range(len(text) + 1):
        assert mask_after(compiled, TOKENS, text[:cut]) == reachable(tools, TOKENS, text[:cut]), text[:cut]


def test_prose_loses_nothing_but_control_tokens_and_broken_triggers() -> None:
    compiled = ToolCalls(TOOLS).compile(TOKENS)
    bad = TOKENS.tokens.index(b"x<tool_call>x")
    for prose in (b"", b"hello", b"\xff\x00\xc3", b'{"name": "', b"a </tool_call>"):
        mask = mask_after(compiled, TOKENS, prose)
        assert mask == set(np.flatnonzero(TOKENS.maskable).tolist()) - {bad}
    trigger = mask_after(compiled, TOKENS, b"a <tool_call")
    assert set(np.flatnonzero(TOKENS.maskable).tolist()) - trigger == {bad}
    assert mask_after(compiled, TOKENS, b"a <tool_call>") == {ord(" "), ord("\n"), ord("\r"), ord("\t"), ord("{")}


def test_required_calls_keep_the_stop_out_of_the_prose() -> None:
    compiled = ToolCalls(TOOLS, required=True).compile(TOKENS)
    stops = set(TOKENS.stop_ids)
    assert not stops & mask_after(compiled, TOKENS, b"hello")
    assert stops <= mask_after(compiled, TOKENS, TWO.encode())


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("after", ["text", "end"])
def test_every_option_has_its_language(required: bool, several: bool, after: str) -> None:
    tools = ToolCalls(TOOLS, required=required, several=several, after=after)
    compiled = tools.compile(byte_vocabulary())
    expected = {
        "": not required,
        "only prose": not required,
        f"so {ONE}": True,
        f"{TWO} and so": after == "text",
        ONE + TWO: several,
        f"a {ONE} b {TWO}": several,
        f"a {ONE} b {TWO} c": several and after == "text",
        "a <tool_call>": False,
        f"{TWO} <tool_call>": False,
        TWO.replace("ping", "pong"): False,
        TWO.replace("{}", '{"a": 1}'): False,
        ONE.replace('"days": 3', '"days": "3"'): False,
        ONE.replace("</tool_call>", "<tool_call>", 1): True,  # inside a string
    }
    for text, member in expected.items():
        assert compiled.accepts(text.encode()) is member, text
        assert compiled.generates(text.encode()) is member, text


def test_calls_are_read_in_order() -> None:
    tools = ToolCalls(TOOLS, several=True)
    weather = ToolCall("weather", {"city": "a </tool_call> b", "days": 3})
    assert tools.calls(f"a {ONE} b {TWO} c") == [weather, ToolCall("ping", {})]
    assert tools.calls("prose") == []
    with pytest.raises(ConstraintError, match="not prose with well-formed calls"):
        tools.calls("a <tool_call>")


def test_arguments_are_validated_under_the_schema_of_the_tool() -> None:
    """References are those of the tool's own schema, and what the engine overlooks is refused at the end."""
    tools = ToolCalls(TOOLS)
    compiled = tools.compile(byte_vocabulary())
    text = '<tool_call>{"name": "search", "arguments": {"terms": ["é", %s]}}</tool_call>'
    assert compiled.accepts((text % '"b"').encode())
    assert not compiled.accepts((text % '"é"').encode())
    assert not compiled.accepts((text % '"c"').encode())
    assert not compiled.generates((text % '"c"').encode())


@pytest.mark.parametrize(
    ("whitespace", "spaces", "fits"),
    [
        ("compact", "", True),
        ("compact", " ", False),
        ("bounded", "\n ", True),
        ("bounded", "   ", False),
        ("free", " " * 9, True),
    ],
)
def test_whitespace_is_a_matter_of_the_mask(whitespace: str, spaces: str, fits: bool) -> None:
    tools = ToolCalls([PING], whitespace=whitespace)
    call = f'<tool_call>{spaces}{{{spaces}"name":{spaces}"ping",{spaces}"arguments"{spaces}:{{}}{spaces}}}{spaces}</tool_call>'
    compiled = tools.compile(byte_vocabulary())
    assert compiled.generates(call.encode()) is fits
    assert compiled.accepts(call.encode())


def test_markers_and_keys_are_the_callers_choice() -> None:
    tools = ToolCalls([PING], begin="```json\n", end="\n```", keys=("fn", "args"), required=True)
    text = 'now\n```json\n{"fn": "ping", "args": {}}\n```\ndone'
    compiled = tools.compile(byte_vocabulary())
    assert compiled.generates(text.encode())
    assert tools.calls(text) == [ToolCall("ping", {})]


# A language small enough to list: the wrapper of a call comes in few tokens.
PIECES = [
    '<t>{"name":"f","arguments":{"n":',
    '<t>{"name":"g","arguments":{',
    "1",
    "2",
    "}}</t>",
    "hi",
    "<",
    "t>",
    "<eos>",
]
MODEL = TableModel(PIECES, "<eos>", uneven(PIECES))
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def small(**options) -> ToolCalls:
    tools = [{"name": "f", "parameters": NUMBER}, {"name": "g"}]
    return ToolCalls(tools, begin="<t>", end="</t>", whitespace="compact", **options)


@pytest.mark.parametrize("options", [{}, {"required": True}, {"after": "end"}])
def test_exact_posterior_and_the_probability_of_calling(options: dict) -> None:
    """Against the list of all token sequences of at most four tokens, and the law that a regex states."""
    tools = small(**options)
    call = re.compile(r'<t>\{"name":("f","arguments":\{"n":[12]+\}|"g","arguments":\{\})\}</t>')

    def member(text: str) -> bool:
        found = call.search(text)
        if found is None:
            return "<t>" not in text and not options.get("required")
        rest = text[found.end() :]
        return "<t>" not in text[: found.start()] + "|" + rest and not (rest and options.get("after") == "end")

    by_hand = posterior_by_hand(MODEL, "<eos>", 4, member)
    total = sum(by_hand.values())
    exact = enumerate_posterior(MODEL, tools, "", max_tokens=4)
    assert np.exp(exact.log_evidence) == pytest.approx(total, rel=1e-12)
    assert exact.posterior() == pytest.approx({text: p / total for text, p in by_hand.items()}, rel=1e-12)
    assert exact.log_rejected_mass == -np.inf
    calling = sum(p for text, p in by_hand.items() if "<t>" in text) / total
    assert 0 < calling <= 1
    assert exact.posterior(key=lambda text: bool(tools.calls(text)))[True] == pytest.approx(calling, rel=1e-12)


def test_runs_estimate_the_probability_of_calling() -> None:
    tools = small(several=True)
    exact = enumerate_posterior(MODEL, tools, "", max_tokens=4).posterior(lambda text: bool(tools.calls(text)))
    result = SMCSampler(MODEL, tools, n_particles=64, max_tokens=4, seed=1).run("")
    assert result.posterior(lambda text: bool(tools.calls(text)))[True] == pytest.approx(exact[True], abs=0.03)


def test_a_trigger_that_is_a_control_token_counts_as_its_text() -> None:
    tokens = vocabulary("call", special=["<tool_call>", "</tool_call>", "<|x|>"])
    begin, end, other = (tokens.tokens.index(name) for name in (b"<tool_call>", b"</tool_call>", b"<|x|>"))
    tools = ToolCalls([PING])
    compiled = tools.compile(tokens)
    prose = mask_after(compiled, tokens, b"hi ")
    assert begin in prose
    assert other not in prose
    path = [begin, *b'\n{"name": "ping", "arguments": {}}\n', end, *b" done"]
    assert end in allowed_ids(step(compiled.start(), *path[:-6]), tokens)
    assert set(tokens.stop_ids) <= allowed_ids(step(compiled.start(), *path), tokens)
    assert tools.calls(tokens.spell(path).decode()) == [ToolCall("ping", {})]
    assert not compiled.accepts(tokens.spell([begin]))


def test_a_trigger_that_is_a_stop_token_is_refused_when_the_model_is_known() -> None:
    with pytest.raises(ConstraintError, match=r"'<eot>', which is a stop token of this model"):
        ToolCalls([PING], end="<eot>").compile(vocabulary(stops=["<eot>"]))


def test_notes_name_the_tool() -> None:
    notes = ToolCalls(TOOLS).notes
    assert {note.at.split(":")[0] for note in notes} <= {"tool weather", "tool ping", "tool search"}
    assert len(notes) == sum(len(getattr(tool.arguments, "notes", ())) for tool in ToolCalls(TOOLS).tools)


@pytest.mark.parametrize(
    ("tools", "options", "error", "message"),
    [
        ([], {}, EmptyLanguageError, "no tools"),
        ([{"parameters": {}}], {}, ConstraintError, "Tool 0"),
        (["ping"], {}, ConstraintError, "Tool 0"),
        ([PING, PING], {}, ConstraintError, "two tools are named 'ping'"),
        (
            [{"name": "a", "parameters": {"type": "array"}}],
            {},
            ConstraintError,
            "of the tool 'a' are no schema of an object",
        ),
        (
            [{"name": "a", "parameters": {"required": 5}}],
            {},
            ConstraintError,
            "of the tool 'a': .*invalid at /required",
        ),
        (None, {}, ConstraintError, "takes a list of tools, each .*, not None"),
        (PING, {}, ConstraintError, "takes a list of tools"),
        ("ping", {}, ConstraintError, "takes a list of tools"),
        ([{"name": "a", "parameters": []}], {}, ConstraintError, r"of the tool 'a' are no schema of an object: \[\]"),
        ([{"name": "a", "parameters": False}], {}, ConstraintError, "of the tool 'a' are no schema of an object"),
        ([{"name": "a", "params": {}}], {}, ConstraintError, "tool 'a' has no 'parameters', and its key 'params'"),
        (
            [{"type": "function", "function": {"name": "a"}, "parameters": {"required": ["x"]}}],
            {},
            ConstraintError,
            "tool 'a' has no 'parameters', and its key 'parameters' .*inside 'function'",
        ),
        (
            [{"name": "a", "parameters": {"type": "object"}, "input_schema": {"type": "object"}}],
            {},
            ConstraintError,
            "its parameters twice, under 'parameters' and 'input_schema'",
        ),
        ([PING], {"keys": ("name",)}, OptionError, "keys of ToolCalls must be two texts"),
        ([PING], {"keys": (1, 2)}, OptionError, "keys of ToolCalls must be two texts"),
        ([PING], {"keys": "ab"}, OptionError, "keys of ToolCalls must be two texts"),
        ([PING], {"keys": ("a", "")}, OptionError, "keys of ToolCalls must be two texts"),
        ([PING], {"keys": ("name", "name")}, OptionError, "two different texts"),
        ([PING], {"begin": ""}, ConstraintError, "as begin"),
        ([PING], {"end": ""}, ConstraintError, "as end"),
        ([PING], {"begin": "<<"}, ConstraintError, "overlaps itself"),
        ([PING], {"after": "prose"}, OptionError, "after='prose'"),
        ([PING], {"whitespace": "none"}, OptionError, "whitespace='none'"),
    ],
)
def test_bad_input_is_refused_by_name(tools, options, error, message) -> None:
    with pytest.raises(error, match=message):
        ToolCalls(tools, **options)


@pytest.mark.parametrize("key", ["parameters", "input_schema", "inputSchema"])
def test_parameters_by_any_of_their_names(key: str) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    described = {"description": "...", "anything": "else"}
    assert ToolCalls([{"name": "f", key: schema, **described}]) == ToolCalls([{"name": "f", "parameters": schema}])


@pytest.mark.parametrize("tool", [{"parameters": None}, {"parameters": {}}, {"description": "...", "strict": True}])
def test_without_parameters_there_are_no_arguments(tool: dict) -> None:
    tools = ToolCalls([{"name": "ping", **tool}])
    assert tools == ToolCalls([{"name": "ping"}])
    assert tools.holds('<tool_call>{"name": "ping", "arguments": {}}</tool_call>')
    assert not tools.holds('<tool_call>{"name": "ping", "arguments": {"a": 1}}</tool_call>')


def test_parameters_that_cannot_be_met_are_those_of_a_tool() -> None:
    never = {"type": "object", "properties": {"x": False}, "required": ["x"]}
    with pytest.raises(EmptyLanguageError, match=r"The parameters of the tool 'g': .* describes no value"):
        ToolCalls([PING, {"name": "g", "parameters": never}]).compile(TOKENS)


def test_tool_calls_are_values() -> None:
    assert ToolCalls(TOOLS) == ToolCalls(json.loads(json.dumps(TOOLS)))
    assert hash(ToolCalls(TOOLS)) == hash(ToolCalls(TOOLS))
    assert ToolCalls(TOOLS) != ToolCalls(TOOLS, required=True)
    assert ToolCalls([WEATHER]).tools[0].arguments == JSONSchema(WEATHER["parameters"])


@pytest.mark.parametrize(("closed", "held"), [(False, True), (True, False)])
def test_parameters_are_open_unless_closed(closed: bool, held: bool) -> None:
    tools = ToolCalls([WEATHER], closed=closed, whitespace="compact")
    compiled = tools.compile(TOKENS)
    extra = b'<tool_call>{"name":"weather","arguments":{"city":"a","wind":1}}</tool_call>'
    assert compiled.accepts(extra) is held
    assert compiled.generates(extra) is held
