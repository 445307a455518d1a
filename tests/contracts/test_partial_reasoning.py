"""Reasoning before an answer: masks, readings, the exact posterior of the answer, bad input."""

import re

import numpy as np
import pytest
from partial_tools import mask_after, posterior_by_hand, reachable, uneven, vocabulary

from smc import Choice, FiniteLanguage, JSONSchema, Regex, TableModel
from smc.constraints.reasoning import Reasoned, Reasoning
from smc.constraints.template import Free, Template
from smc.constraints.tool_calls import ToolCalls
from smc.errors import ConstraintError, OptionError
from smc.exact import enumerate_posterior
from smc.vocabulary import byte_vocabulary

ANSWER = JSONSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
THOUGHT = '<think>so {"n" is\xe9 </thin</think>\n\n{"n": 3}'


def test_masks_agree_with_the_engine_byte_by_byte() -> None:
    tokens = vocabulary("</think>\n\n{", "</think>x", "<think>", 'ab</think>{"', special=["<|x|>"])
    for reasoning in (Reasoning(ANSWER), Reasoning(ANSWER, required=False)):
        compiled, text = reasoning.compile(tokens), THOUGHT.encode()
        for cut in range(len(text) + 1):
            assert mask_after(compiled, tokens, text[:cut]) == reachable(reasoning, tokens, text[:cut]), text[:cut]


@pytest.mark.parametrize(
    ("reasoning", "text", "parts"),
    [
        (Reasoning(ANSWER), THOUGHT, Reasoned('so {"n" is\xe9 </thin', '{"n": 3}')),
        (Reasoning(ANSWER), '{"n": 3}', None),
        (Reasoning(ANSWER, required=False), '{"n": 3}', Reasoned(None, '{"n": 3}')),
        (Reasoning(ANSWER, required=False), THOUGHT, Reasoned('so {"n" is\xe9 </thin', '{"n": 3}')),
        (Reasoning(ANSWER, begin=""), 'ok</think>{"n": 3}', Reasoned("ok", '{"n": 3}')),
        (Reasoning(ANSWER, begin=""), '{"n": 3}', None),
        (Reasoning(ANSWER), '<think></think>{"n": 3}', Reasoned("", '{"n": 3}')),
        (Reasoning(ANSWER), '<think></think></think>{"n": 3}', None),
        (Reasoning(ANSWER), '<think></think>\n\n\n{"n": 3}', None),
        (Reasoning(ANSWER, max_chars=2), '<think>abc</think>{"n": 3}', None),
        (Reasoning(Choice(["yes"]), begin="[", end="]"), "[a]yes", Reasoned("a", "yes")),
        (
            Reasoning(Template("The answer is ", Free())),
            "<think>a</think>The answer is 5",
            Reasoned("a", "The answer is 5"),
        ),
    ],
)
def test_a_text_is_taken_apart(reasoning: Reasoning, text: str, parts: Reasoned | None) -> None:
    compiled = reasoning.compile(byte_vocabulary())
    assert compiled.accepts(text.encode()) is (parts is not None)
    if parts is None:
        with pytest.raises(ConstraintError, match="no thought followed by an answer"):
            reasoning.split(text)
        return
    assert reasoning.split(text) == parts
    assert compiled.generates(text.encode())


def test_tools_may_follow_a_thought() -> None:
    tools = ToolCalls([{"name": "ping"}])
    reasoning = Reasoning(tools)
    compiled = reasoning.compile(byte_vocabulary())
    text = '<think>I might <tool_call> it</think>\nok <tool_call>{"name": "ping", "arguments": {}}</tool_call>'
    assert compiled.generates(text.encode())
    assert tools.calls(reasoning.split(text).answer) == [("ping", {})]
    assert not compiled.accepts(text.replace("ping", "pong").encode())


@pytest.mark.parametrize("options", [{}, {"required": False}, {"begin": ""}])
def test_exact_posterior_of_the_answer(options: dict) -> None:
    tokens = ["[", "]", "hm", "yes", "no", "]no", " ", "<eos>"]
    model = TableModel(tokens, "<eos>", uneven(tokens))
    reasoning = Reasoning(Choice(["yes", "no"]), **{"begin": "[", "end": "]", **options})
    opening = "" if options.get("begin") == "" else r"\["
    law = rf"{opening}[^]]*\] ?(yes|no)" + ("|yes|no" if options.get("required") is False else "")
    by_hand = posterior_by_hand(model, "<eos>", 5, lambda text: bool(re.fullmatch(law.replace(" ?", " {0,2}"), text)))
    total = sum(by_hand.values())
    exact = enumerate_posterior(model, reasoning, "", max_tokens=5)
    assert np.exp(exact.log_evidence) == pytest.approx(total, rel=1e-12)
    said_yes = sum(p for text, p in by_hand.items() if text.endswith("yes")) / total
    posterior = exact.posterior(key=lambda text: reasoning.split(text).answer)
    assert posterior["yes"] == pytest.approx(said_yes, rel=1e-12)
    assert set(posterior) == {"yes", "no"}


def test_a_thought_marked_by_control_tokens() -> None:
    tokens = vocabulary(special=["<think>", "</think>", "<|x|>"])
    begin, end, other = 256, 257, 258
    compiled = Reasoning(Choice(["yes"])).compile(tokens)
    assert mask_after(compiled, tokens, b"") == {begin, ord("<")}
    thinking = mask_after(compiled, tokens, [begin, ord("a")])
    assert end in thinking
    assert other not in thinking
    assert mask_after(compiled, tokens, [begin, ord("a"), end, ord("\n")]) == {*b" \n\r\t", ord("y")}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Reasoning("yes"), "wrap it"),  # type: ignore[arg-type]
        (lambda: Reasoning(FiniteLanguage(["a"])), "cannot hold FiniteLanguage"),
        (lambda: Reasoning(Regex("a"), end=""), "as end"),
        (lambda: Reasoning(Regex("a"), begin="", required=False), "leave out required=False"),
    ],
)
def test_bad_input_is_refused_by_name(make, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        make()


def test_a_bad_limit_is_refused() -> None:
    with pytest.raises(OptionError, match="max_chars"):
        Reasoning(Regex("a"), max_chars=-1)
