"""Templates: masks against the engine byte by byte, splitting, exact posteriors, control tokens, bad input."""

import re

import numpy as np
import pytest
from constraint_tools import allowed_ids, step
from partial_tools import mask_after, posterior_by_hand, reachable, uneven, vocabulary

from smc import EBNF, Choice, FiniteLanguage, Intersection, JSONSchema, Regex, SMCSampler, TableModel
from smc.constraints import Constraint
from smc.constraints.template import Free, Template
from smc.errors import ConstraintError, OptionError
from smc.exact import enumerate_posterior
from smc.vocabulary import Vocabulary, byte_vocabulary

STRING, INTEGER = JSONSchema({"type": "string"}), JSONSchema({"type": "integer"})
TOKENS = vocabulary(
    '" and', '", ', '"', "12 and", "a\n\nb", "\n\n", "\n\n\n", "x\n", "yes. B", "é".encode()[:1], special=["<|x|>"]
)

TEMPLATES = {
    "strings before text": (Template("say ", STRING, " and ", INTEGER, " and ", STRING), b'say "ab" and 12 and "x"'),
    "choice, free text, JSON": (
        Template(Choice(["yes", "no"]), ". Because ", Free(until="\n\n"), JSONSchema({"type": "object"})),
        b"yes. Because of \xff\xc3\n that\n\n{}",
    ),
    "free text to the end": (Template(EBNF('root ::= "a" | "a" root'), ":", Free()), b"aa: \x00 free \xe2 text"),
    "limited free text": (Template(Free(until="!", max_chars=3), INTEGER, Free(max_chars=2)), "éa!12é".encode()),
    "one inside another": (Template("<", Template(Regex("[ab]{1,2}"), Free(until=">")), STRING), b'<abc>"x"'),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_masks_agree_with_the_engine_byte_by_byte(name: str) -> None:
    """Along a member of the language: also tokens that straddle two parts, after the closing quote of a string say."""
    template, member = TEMPLATES[name]
    compiled = template.compile(TOKENS)
    for cut in range(len(member) + 1):
        assert mask_after(compiled, TOKENS, member[:cut]) == reachable(template, TOKENS, member[:cut]), member[:cut]
    assert compiled.accepts(member)
    assert set(TOKENS.stop_ids) <= mask_after(compiled, TOKENS, member)


def test_a_token_may_hold_the_end_of_a_string_and_what_follows() -> None:
    compiled = Template("say ", STRING, " and ", INTEGER).compile(TOKENS)
    straddling = TOKENS.tokens.index(b'" and')
    assert straddling in mask_after(compiled, TOKENS, b'say "ab')
    assert TOKENS.tokens.index(b'", ') not in mask_after(compiled, TOKENS, b'say "ab')


@pytest.mark.parametrize(
    ("template", "text", "pieces"),
    [
        (Template("a: ", Free("\n"), INTEGER), "a: so\n-12", ("a: ", "so\n", "-12")),
        (Template(Free("\n\n"), Free()), "a\n\n\nb", ("a\n\n", "\nb")),
        (Template(Free("\n\n"), Choice(["b"])), "a\n\n\nb", ("a\n\n\n", "b")),
        (Template(Free("\n\n"), Choice(["b"])), "a\n\n\n\nb", None),
        (Template(INTEGER, INTEGER), "12", ("1", "2")),
        (Template(INTEGER, Free()), "12a", ("12", "a")),
        (Template(Regex("a*"), Regex("a*b")), "aab", ("", "aab")),
        (Template(Regex("a*"), "a"), "aaa", ("aa", "a")),
        (Template(STRING, Free()), '"a" and "b"', ('"a"', ' and "b"')),
        (Template(STRING, Free()), '"a', None),
        (Template(Free(until="!", max_chars=2), "a"), "éé!a", ("éé!", "a")),
        (Template(Free(until="!", max_chars=1), "a"), "éé!a", None),
        (Template(Free(max_chars=1)), "é", ("é",)),
        (Template(Free(max_chars=1)), "éa", None),
        (Template("a", Template(Free("b"), "c")), "axbc", ("a", "xbc")),
        (Template(JSONSchema({"type": "object"}), "x"), '{"a": "x"}x', ('{"a": "x"}', "x")),
        (Template(JSONSchema({"type": "array", "uniqueItems": True}), "x"), "[1, 1]x", None),
    ],
)
def test_split_takes_a_text_apart(template: Template, text: str, pieces: tuple[str, ...] | None) -> None:
    assert template.split(text) == pieces
    compiled = template.compile(byte_vocabulary())
    assert compiled.accepts(text.encode()) is (pieces is not None)


SPLIT = ["", "a", "b", "ab", "ba", "a!b", "!b", "a!", "aa!b", "!!b", "a!!b", "ab!ab", "bb!b", "!a", "b!aa"]


@pytest.mark.parametrize(
    "template",
    [
        Template(Free("!"), Regex("[ab]")),
        Template(Free("!!"), "b"),
        Template(Choice(["a", "ab"]), Free("!"), Free()),
        Template(Regex("a*"), Regex("[ab]*"), "!", Regex("b?")),
    ],
)
def test_the_validator_accepts_what_the_engine_generates(template: Template) -> None:
    """No text is refused at the end that the mask lets through, and none is missing: both read the same language."""
    compiled = template.compile(byte_vocabulary())
    for text in SPLIT:
        assert compiled.accepts(text.encode()) == compiled.generates(text.encode()), text


def test_exact_posterior() -> None:
    """yes or no, free text up to a full stop, then a digit; tokens straddle the parts."""
    tokens = ["y", "n", "es", "o", ".", "1", "2", "o.", ".1", "x", "<eos>"]
    model = TableModel(tokens, "<eos>", uneven(tokens))
    template = Template(Choice(["yes", "no"]), Free(until="."), Regex("[12]"))
    exact = enumerate_posterior(model, template, "", max_tokens=5)
    by_hand = posterior_by_hand(model, "<eos>", 5, lambda text: bool(re.fullmatch(r"(yes|no)[^.]*\.[12]", text)))
    total = sum(by_hand.values())
    assert len(by_hand) > 20
    assert np.exp(exact.log_evidence) == pytest.approx(total, rel=1e-12)
    assert exact.log_rejected_mass == -np.inf
    assert exact.posterior() == pytest.approx({text: p / total for text, p in by_hand.items()}, rel=1e-12)


def test_free_text_loses_only_control_tokens() -> None:
    """Z_t along a run: 1 less the control token in free text that may end, less the stop too in free text that may not."""
    probs = {"a": 0.4, "b": 0.3, ".": 0.1, "<|x|>": 0.05, "<eos>": 0.15}
    model = TableModel(list(probs), "<eos>", lambda prefix: probs)
    model.vocabulary = Vocabulary(model.vocabulary.tokens, model.vocabulary.stop_ids, frozenset({3}))
    result = enumerate_posterior(model, Template(Free(until="."), Free()), "", max_tokens=4)
    (sequence,) = [s for s in result.sequences if s.text == "ab.b"]
    assert sequence.kept_path == pytest.approx(np.log([0.8, 0.8, 0.8, 0.95, 0.95]), rel=1e-12)


def test_a_run_returns_what_the_template_says() -> None:
    tokens = ["y", "n", "es", "o", ".", "1", "x", "<eos>"]
    model = TableModel(tokens, "<eos>", uneven(tokens))
    template = Template(Choice(["yes", "no"]), Free(until="."), INTEGER)
    result = SMCSampler(model, template, n_particles=256, max_tokens=6).run("")
    assert result.sequences
    assert all(template.split(s.text) is not None for s in result.sequences)
    assert result.log_rejected_mass == -np.inf


def test_a_control_token_that_a_fixed_text_spells_counts_as_that_text() -> None:
    tokens = vocabulary("think", special=["<think>", "<|x|>"])
    marker, other = tokens.tokens.index(b"<think>"), tokens.tokens.index(b"<|x|>")
    compiled = Template("a<think>\n", Free("!")).compile(tokens)
    assert allowed_ids(step(compiled.start(), ord("a")), tokens) == {marker, ord("<")}
    free = allowed_ids(step(compiled.start(), ord("a"), marker, ord("\n")), tokens)
    assert other not in free
    assert compiled.accepts(b"a<think>\nb!")


def test_a_control_token_spelled_like_ordinary_text_stays_out() -> None:
    tokens = vocabulary(special=["a", "<|x|>"])
    for template in (Template("a", Free()), Template(Free("a"), "b"), Template(Free())):
        mask = mask_after(template.compile(tokens), tokens, b"")
        assert not mask & {256, 257}


def test_a_stop_token_in_a_fixed_text_is_refused() -> None:
    with pytest.raises(ConstraintError, match=r"'</s>', which is a stop token"):
        Template("a</s>b").compile(vocabulary())
    with pytest.raises(ConstraintError, match="stop token"):
        Template(Free(until="</s>"), "b").compile(vocabulary())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Template(), "no parts"),
        (lambda: Template(5), "wrap it"),  # type: ignore[arg-type]
        (lambda: Template(Regex), "wrap it"),  # type: ignore[arg-type]
        (lambda: Template(Free(), "b"), "Part 0 of a Template is free text without an end"),
        (lambda: Template("a\0"), "NUL"),
        (lambda: Template(FiniteLanguage(["a"])), "cannot hold FiniteLanguage enforced by 'finite'"),
        (lambda: Template(Intersection(Regex("a"), Regex("a"))), "cannot hold Intersection"),
        (lambda: Free(until=""), "before it begins"),
        (lambda: Free(until=5), "must be a string"),  # type: ignore[arg-type]
        (lambda: Template("a", Regex("(")).compile(byte_vocabulary()), "opens a group"),
    ],
)
def test_bad_input_is_refused_by_name(make, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        make()


def test_a_bad_limit_is_refused() -> None:
    with pytest.raises(OptionError, match="max_chars"):
        Free(max_chars=-1)


def test_templates_are_values() -> None:
    def make() -> Constraint:
        return Template("a", Free(until="b"), Choice(["x", "y"]))

    assert make() == make()
    assert hash(make()) == hash(make())
    tokens = byte_vocabulary()
    assert make().compile(tokens) is make().compile(tokens)
