"""JSON inside longer texts is refused as early as on its own, and never where a member of the language begins so."""

import itertools

import pytest
from partial_tools import vocabulary

from smc import JSONSchema, Reasoning, ToolCalls
from smc.constraints.prefixed import prefixed
from smc.constraints.refusals import refused
from smc.constraints.validated import Validated
from smc.vocabulary import byte_vocabulary

SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}},
    "required": ["x"],
}
PLAIN = {"name": "plain", "parameters": {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]}}
TOOLS = [{"name": "f\u00e9", "parameters": SCHEMA}, PLAIN]
BYTES = byte_vocabulary()


def refusal(constraint, text: str) -> int | None:
    """After how many bytes of the text it is refused; None if never."""
    compiled = constraint.compile(BYTES)
    assert isinstance(compiled, Validated)
    state = compiled.check.start()
    data = text.encode()
    for at, byte in enumerate(data):
        state = compiled.check.advance(state, bytes([byte]))
        if state is None:
            return at + 1
    return None


def call(arguments: str, name: str = "f\u00e9") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


GOOD = [
    "so } <tool_call",
    call('{"x": [1, 2]}'),
    f"a {call(chr(123) + chr(34) + 'x' + chr(34) + ': []' + chr(125))} b {call(chr(123) + chr(34) + 'x' + chr(34) + ': [3]' + chr(125))} c",
    call('{"s": "} <tool_call> {[1,1]"}', "plain"),
    call('{"x": [1], "y": {"z": "}"}}'),
]


@pytest.mark.parametrize("text", GOOD)
@pytest.mark.parametrize("cut", [1, 2, 3, 7, 1000])
def test_nothing_that_is_valid_is_refused_however_it_is_cut(text: str, cut: int) -> None:
    tools = ToolCalls(TOOLS, several=True)
    compiled = tools.compile(BYTES)
    assert isinstance(compiled, Validated)
    state = compiled.check.start()
    data = text.encode()
    for at in range(0, len(data), cut):
        state = compiled.check.advance(state, data[at : at + cut])
        assert state is not None
    assert text == GOOD[0] or compiled.accepts(data)


def test_a_call_is_refused_where_the_value_closes_that_breaks_its_schema() -> None:
    tools = ToolCalls(TOOLS, several=True)
    bad = 'well, <tool_call>{"name": "f\u00e9", "arguments": {"x": [1, 1'
    assert refusal(tools, bad + "]") == len(bad.encode()) + 1
    assert refusal(tools, bad) is None  # 1 may yet become 10
    second = call('{"x": [4]}') + bad
    assert refusal(tools, second + "]") == len(second.encode()) + 1
    assert refusal(tools, call('{"s": "[1, 1]"}', "plain")) is None


def test_an_answer_after_a_thought_and_a_text_behind_a_prompt_are_checked_too() -> None:
    schema = JSONSchema(SCHEMA)
    thought = '<think>{"x": [1, 1]} hm </think>\n{"x": [1, 1'
    assert refusal(Reasoning(schema), thought + ",") == len(thought) + 1
    opened = 'hm </think>{"x": [1, 1'
    assert refusal(Reasoning(schema, begin=""), opened + ",") == len(opened) + 1
    behind = 'ab{"x": [1, 1'
    assert refusal(prefixed("ab", schema), behind + ",") == len(behind) + 1
    assert refusal(prefixed("", schema), behind[2:] + ",") == len(behind) - 1


def test_pieces_may_straddle_every_border() -> None:
    tools = ToolCalls(TOOLS, several=True)
    compiled = tools.compile(BYTES)
    assert isinstance(compiled, Validated)
    text = ("a" + call('{"x": [1, 1]}') + "b").encode()
    for first, second in itertools.combinations(range(1, len(text)), 2):
        state = compiled.check.start()
        for piece in (text[:first], text[first:second], text[second:]):
            state = None if state is None else compiled.check.advance(state, piece)
        assert state is None, (first, second)


def test_what_the_mask_enforces_alone_is_not_checked() -> None:
    closed = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    for constraint in (
        ToolCalls([{"name": "f", "parameters": closed}]),
        Reasoning(JSONSchema(closed)),
        prefixed("a", JSONSchema(closed)),
    ):
        assert not isinstance(constraint.compile(BYTES), Validated)


def test_rows_of_tool_calls_refuse() -> None:
    tokens = vocabulary("<tool_call>", '{"name": "fé", "arguments": {"x": [1, 1], ', special=[])
    rows = ToolCalls(TOOLS, whitespace="bounded").compile(tokens).start()
    for token in (
        tokens.tokens.index(b"<tool_call>"),
        tokens.tokens.index('{"name": "fé", "arguments": {"x": [1, 1], '.encode()),
    ):
        rows = rows.advance([0], [token])
    assert refused(rows).tolist() == [True]
    assert not rows.allowed.any()
