"""What is wrong with a grammar is said when it is compiled, with the name of the rule."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
import xgrammar as xgr
from constraint_tools import AB, BYTES, allowed_ids, expected_mask, spell, walks

from smc import SMCSampler, TableModel
from smc.constraints import EBNF, GBNF, Choice, Constraint, JSONSchema, Lark, Regex, StructuralTag
from smc.constraints.coverage import Coverage
from smc.constraints.notes import language_of, refuse_narrowing
from smc.constraints.productivity import CHARACTERS, CHARACTERS_STAR, CHOICES, LITERAL, REPEAT, RULE, Rules
from smc.errors import ConstraintError, EmptyLanguageError, NarrowedLanguageError
from smc.vocabulary import Vocabulary

# (constraint, what the message says)
ENDLESS: list[tuple[Constraint, str]] = [
    (EBNF('root ::= "a" root'), r"no finite text.*\(rule 'root'\).*a way to end"),
    (EBNF('root ::= "a" root', engine="llguidance"), r"no finite text.*\(rule 'root'\)"),
    (EBNF('root ::= a | b\na ::= "x" b\nb ::= "y" a'), r"no finite text.*rules 'a', 'b'"),
    (EBNF('root ::= "x" a\na ::= b\nb ::= "y" b'), r"no finite text.*\(rule 'b'\)"),
    (EBNF('root ::= root "a"'), "no finite text.*'root'"),
    (GBNF("root ::= 1st\n1st ::= 1st"), r"no finite text.*\(rule '1st'\)"),
    (Lark('start: "a" more\nmore: "b" more'), "no finite text.*'more'"),
    (Lark('start: "a" start'), r"no finite text.*'start'"),
    (Lark('start: "a" start', engine="llguidance"), r"no finite text.*'start'"),
]
UNPRODUCTIVE: list[tuple[Constraint, str]] = [
    (EBNF('root ::= "a" | never\nnever ::= "b" never'), r"can never be completed \(rule 'never'\).*check=False"),
    (EBNF('root ::= "a" list?\nlist ::= "(" (item ",")+ ")"\nitem ::= item "b"'), r"\(rule 'item'\)"),
    (EBNF('root ::= "a" | none\nnone ::= "b" []'), r"\(rule 'none'\).*empty class"),
    (GBNF('root ::= "a" never{0,2}\nnever ::= [a-z] never'), r"\(rule 'never'\)"),
    (GBNF('root ::= "a" never{0,2}\nnever ::= [a-z] never', engine="llguidance"), r"\(rule 'never'\)"),
    (Lark('start: "a" | never\nnever: "b" never'), r"\(rule 'never'\)"),
    (Lark('start: "a" | never\nnever: "b" never', engine="llguidance"), r"\(rule 'never'\)"),
]


@pytest.mark.parametrize(("constraint", "message"), ENDLESS)
def test_a_grammar_without_a_finite_text(constraint: Constraint, message: str) -> None:
    with pytest.raises(EmptyLanguageError, match=message):
        constraint.compile(BYTES)


@pytest.mark.parametrize(("constraint", "message"), UNPRODUCTIVE)
def test_an_unproductive_rule_is_named(constraint: Constraint, message: str) -> None:
    with pytest.raises(ConstraintError, match=message) as caught:
        constraint.compile(BYTES)
    assert not isinstance(caught.value, EmptyLanguageError)
    assert "\n" not in str(caught.value)


def test_rules_that_nothing_uses_do_not_matter() -> None:
    assert EBNF('root ::= "a"\nnever ::= "b" never').compile(BYTES).accepts(b"a")


def test_optional_parts_of_a_schema_may_be_impossible() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/node"}}}
    assert JSONSchema({**schema, "$defs": {"node": node}}).compile(BYTES).accepts(b'{"a": 1}')


def bits(*stops: str) -> TableModel:
    """ "a" three times in four, and each stop token as often as the others."""
    return TableModel(
        ["a", "b", *stops], stops, lambda prefix: {"a": 0.75, **{stop: 0.25 / len(stops) for stop in stops}}
    )


@pytest.mark.parametrize(
    "constraint",
    [
        EBNF('root ::= "a" root', check=False),
        GBNF('root ::= "a" root', check=False),
        EBNF('root ::= "a" root', check=False, engine="llguidance"),
        Lark('start: "a" start', check=False, engine="llguidance"),
    ],
)
@pytest.mark.parametrize("branching", ["sample", "enumerate"])
def test_what_never_ends_is_censored_and_does_not_hang(constraint: Constraint, branching: str) -> None:
    model = bits("<eos>")
    result = SMCSampler(model, constraint, n_particles=4, branching=branching, max_tokens=6).run("")
    assert result.status == "censored"
    assert result.posterior() == {}
    assert result.log_censored_mass == pytest.approx(7 * math.log(0.75), rel=1e-12)  # six tokens, and a seventh


def test_without_the_checks_an_unproductive_alternative_costs_its_mass() -> None:
    model = TableModel(["a", "b", "<eos>"], "<eos>", lambda prefix: {"a": 0.5, "b": 0.25, "<eos>": 0.25})
    constraint = EBNF('root ::= "a" | never\nnever ::= "b" never', check=False)
    result = SMCSampler(model, constraint, n_particles=8, max_tokens=5, stop_fraction=0).run("")
    assert result.posterior() == {"a": pytest.approx(1.0)}
    assert result.log_evidence == pytest.approx(math.log(0.5 * 0.25), rel=1e-12)
    assert result.log_censored_mass == pytest.approx(6 * math.log(0.25), rel=1e-12)


# What the vocabulary lacks. AB has the letters a and b only.
@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (EBNF('root ::= "a" x\nx ::= "\u00e9"'), r"vocabulary can spell: it needs 'é' \(U\+00E9\) \(rule 'x'\)"),
        (EBNF("root ::= [a-b] [c-z]"), r"needs a character such as 'c' \(U\+0063\)"),
        (GBNF('root ::= "cab"'), r"needs 'c' \(U\+0063\) \(rule 'root'\)"),
        (Lark('start: A\nA: "xyz"'), r"'x' \(U\+0078\), 'y' .*\(rule 'A'\)"),
        (Regex("ab\u00e9"), r"regex 'abé' .*needs 'é' \(U\+00E9\)\."),
        (Choice(["c"]), r"needs 'c' \(U\+0063\)\."),
        (JSONSchema({"const": "a"}), r"needs '\"' \(U\+0022\)\."),
        (EBNF('root ::= "</s>"'), r"needs '<' \(U\+003C\), '/' \(U\+002F\), 's'"),  # the spelling of a special token
    ],
)
def test_characters_that_the_vocabulary_lacks(constraint: Constraint, message: str) -> None:
    with pytest.raises(EmptyLanguageError, match=message):
        constraint.compile(AB)


def test_a_rule_that_the_vocabulary_cannot_spell_is_an_error_and_an_alternative_is_a_note() -> None:
    with pytest.raises(ConstraintError, match=r"cannot spell: it needs 'é' \(U\+00E9\) \(rule 'accent'\)") as caught:
        EBNF('root ::= "a" | accent\naccent ::= "\u00e9" "a"').compile(AB)
    assert not isinstance(caught.value, EmptyLanguageError)
    grammar = EBNF('root ::= "a" | ("\u00e9" "a")+')
    compiled = grammar.compile(AB)
    (note,) = language_of(grammar, compiled).loses_values
    assert (note.at, note.keyword) == ("rule 'root'", "vocabulary")
    assert note.what.endswith("for want of 'é' (U+00E9)")
    for engine in ("xgrammar", "llguidance"):
        choice = Choice(["a", "c"], engine=engine)
        assert "for want of 'c' (U+0063)" in str(language_of(choice, choice.compile(AB)).loses_values)
        with pytest.raises(NarrowedLanguageError, match=r"'c' \(U\+0063\)"):
            refuse_narrowing(choice, choice.compile(AB))
        refuse_narrowing(choice)  # nothing is known without the vocabulary
    assert allowed_ids(compiled.start(), AB) == {0}
    unchecked = EBNF('root ::= "a" | accent\naccent ::= "\u00e9" "a"', check=False)
    assert allowed_ids(unchecked.compile(AB).start(), AB) == {0}


def test_a_class_of_one_character_is_spelled_as_the_character_is() -> None:
    accents = Vocabulary(("\u00e9".encode(), b"</s>"), (1,), frozenset({1}))  # nothing else
    for constraint in (
        EBNF("root ::= [\u00e9]"),
        GBNF("root ::= [\u00e9]{2}"),
        EBNF("root ::= [\u00e9]", engine="llguidance"),
    ):
        assert allowed_ids(constraint.compile(accents).start(), accents) == {0}
    with pytest.raises(EmptyLanguageError, match=r"it needs '\u00e9' \(U\+00E9\)"):
        EBNF("root ::= [\u00e9]").compile(AB)


def test_classes_over_all_of_unicode_are_no_error() -> None:
    for vocabulary in (AB, BYTES):
        for constraint in (EBNF('root ::= [^"]* any\nany ::= [\\u0000-\\U0010ffff]'), Regex("[^x]+")):
            assert not language_of(constraint, constraint.compile(vocabulary)).notes


def test_coverage_is_that_of_the_characters_one_by_one() -> None:
    for octets in (b"ab\xc3\xa9", b"\xe2\x82\xac\xac", b"a\xf0\x9f\x98\x80", bytes(range(256))):
        vocabulary = Vocabulary((octets, b"</s>"), (1,), frozenset({1}))
        coverage = Coverage.of(vocabulary)
        for low, high in [
            (0x61, 0x62),
            (0xE9, 0xE9),
            (0x80, 0x10FFFF),
            (0x20AC, 0x20AC),
            (0x1F600, 0x1F600),
            (0x63, 0x7F),
        ]:
            some = any(
                set(chr(code).encode()) <= set(octets) for code in range(low, high + 1) if not 0xD800 <= code < 0xE000
            )
            assert coverage.spells(CHARACTERS, (0, low, high)) == some, (octets, low, high)
        assert coverage.spells(CHARACTERS_STAR, (0, 0x4E00, 0x4E00))


def test_a_stop_token_as_a_terminal() -> None:
    """Its text is ordinary text, spelled by ordinary tokens. The token itself is never allowed: naming it is an error."""
    vocabulary = Vocabulary((*(bytes([byte]) for byte in range(256)), b"</s>", b"<end>"), (256,), frozenset({256, 257}))
    for constraint in (
        EBNF('root ::= "a" "</s>" "b"?'),
        GBNF('root ::= "a</s>" "b"?'),
        Lark('start: "a" "</s>" "b"?'),
        Lark('start: "a" "</s>" "b"?', engine="llguidance"),
        Regex("a</s>b?"),
    ):
        compiled = constraint.compile(vocabulary)
        assert allowed_ids(spell(compiled.start(), "a"), vocabulary) == {ord("<")}
        assert allowed_ids(spell(compiled.start(), "a</s>"), vocabulary) == {ord("b"), 256}
        assert compiled.accepts(b"a</s>b")
        assert not compiled.accepts(b"a")
    alternative = EBNF('root ::= "a" Token(256) | "b"').compile(vocabulary)  # a warning, as for missing characters
    assert allowed_ids(spell(alternative.start(), "a"), vocabulary) == set()  # a dead end, and not the end of the text
    for constraint in (
        EBNF('root ::= "a" end | "b"\nend ::= Token(257)'),
        Lark('start: "a" end | "b"\nend: </s>'),
        Lark('start: "a" end | "b"\nend: <[257]>'),
        Lark('start: "a" end | "b"\nend: <[257]>', engine="llguidance"),
    ):
        with pytest.raises(ConstraintError, match=r"token 25[67], a stop or special token.*\(rule 'end'\)"):
            constraint.compile(vocabulary)
    tag = StructuralTag({"type": "structural_tag", "format": {"type": "token", "token": 256}})
    with pytest.raises(EmptyLanguageError, match="token 256, a stop or special token"):
        tag.compile(vocabulary)


# --- random grammars against their languages, derived from their rules alone

LETTERS, LONGEST = "ab()", 4
PIECES = ["".join(text) for length in (1, 2, 3) for text in itertools.product(LETTERS, repeat=length)]
SMALL = Vocabulary((*(piece.encode() for piece in PIECES), b"</s>"), (len(PIECES),), frozenset({len(PIECES)}))


def random_grammar(seed: int) -> str:
    rng = random.Random(seed)
    names = ["root", "x", "y"][: rng.randint(1, 3)]

    def element(depth: int) -> str:
        kind = rng.random()
        if kind < 0.4:
            return '"' + "".join(rng.choices(LETTERS, k=rng.randint(1, 2))) + '"'
        if kind < 0.5:
            return rng.choice(["[ab]", "[a-b)]"])
        if kind < 0.75 or depth == 0:
            return rng.choice(names)
        return f"({alternatives(depth - 1)})" + rng.choice(["", "*", "+", "?", "{1,2}", "{2}", "{0,2}", "{1,}"])

    def alternatives(depth: int) -> str:
        return " | ".join(
            " ".join(element(depth) for _ in range(rng.randint(1, 3))) if rng.random() > 0.1 else '""'
            for _ in range(rng.randint(1, 3))
        )

    return "\n".join(f'{name} ::= {alternatives(2)} | "a"' for name in names)


def texts_of(text: str) -> set[str]:
    """All texts of at most LONGEST letters, by the least fixed point over sets of texts. No engine's matcher is asked."""
    rules = Rules.read(xgr.Grammar.from_ebnf(text))
    known: list[set[str]] = [set() for _ in rules.bodies]

    def joined(left: set[str], right: set[str]) -> set[str]:
        return {a + b for a in left for b in right if len(a + b) <= LONGEST}

    def repeated(part: set[str], least: int, most: int) -> set[str]:
        power = found = {""}
        if least:
            for _ in range(least):
                power = joined(power, part)
            found = power
        for _ in range(LONGEST if most < 0 else most - least):
            found = found | joined(found, part)
        return found

    def derive(expression: int) -> set[str]:
        kind, operands = rules.expressions[expression]
        if kind == LITERAL:
            return {bytes(operands).decode()}
        if kind in (CHARACTERS, CHARACTERS_STAR):
            bounds = list(zip(operands[1::2], operands[2::2], strict=True))
            letters = {c for c in LETTERS if any(low <= ord(c) <= high for low, high in bounds) != bool(operands[0])}
            return letters if kind == CHARACTERS else repeated(letters, 0, -1)
        if kind == RULE:
            return known[operands[0]]
        if kind == REPEAT:
            return repeated(known[operands[0]], operands[1], operands[2])
        if kind == CHOICES:
            return set().union(*map(derive, operands))
        texts = {""}  # the empty text, or a sequence
        for part in operands:
            texts = joined(texts, derive(part))
        return texts

    while True:
        found = [derive(body) for body in rules.bodies]
        if found == known:
            return known[rules.root]
        known = found


@pytest.mark.parametrize("seeds", [range(0, 15), range(15, 30)], ids=["first", "second"])
def test_random_grammars_allow_what_their_rules_derive(seeds: range) -> None:
    """Recursion on the left, in the middle and on the right, nested repetitions, ambiguity, for both engines: masks to a depth
    of one token, and acceptance of every short text."""
    all_texts = ["".join(text) for length in range(LONGEST + 1) for text in itertools.product(LETTERS, repeat=length)]
    for seed in seeds:
        text = random_grammar(seed)
        language = texts_of(text)
        compiled = EBNF(text).compile(SMALL)
        assert {t for t in all_texts if compiled.accepts(t.encode())} == language, text
        for prefix, mask in walks(compiled, SMALL, depth=1).items():
            written = SMALL.spell(prefix).decode()
            if len(written) > 1:
                continue  # what may follow is decided by texts longer than those at hand
            must = expected_mask(prefix, {t.encode() for t in language}, SMALL)
            assert mask >= must, (text, written)
            assert (mask & {len(PIECES)}) == (must & {len(PIECES)}), (text, written)
        other = EBNF(text, engine="llguidance").compile(SMALL)
        assert {t for t in all_texts if other.accepts(t.encode())} == language, text
        assert walks(other, SMALL, depth=1) == walks(compiled, SMALL, depth=1), text


def test_masks_of_recursive_roots_hold_tokens_that_close_several_levels() -> None:
    """Tokens that run across the end of the root rule where the root is used inside itself."""
    for constraint in (
        EBNF('root ::= "(" root ")" | "a"+'),
        GBNF('root ::= "(" root ")" | "a"+'),
        Lark('start: "(" start ")" | /a+/'),
        EBNF('root ::= "(" root ")" | "a"+', engine="llguidance"),
        Lark('start: "(" start ")" | /a+/', engine="llguidance"),
    ):
        rows = constraint.compile(SMALL).start()
        for piece in ("(((", "a"):
            rows = rows.advance(*_one(PIECES.index(piece)))
        assert {PIECES[token] for token in allowed_ids(rows, SMALL)} == {
            *("a", "aa", "aaa", "a)", "aa)", "a))", ")", "))", ")))"),
        }


def test_masks_of_schemas_that_refer_to_themselves_hold_tokens_that_close_several_levels() -> None:
    vocabulary = Vocabulary((*(bytes([byte]) for byte in range(256)), b"</s>", b"}}", b"}}}"), (256,), frozenset({256}))
    schema = {
        "type": "object",
        "properties": {"n": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    rows = JSONSchema(schema, whitespace="compact").compile(vocabulary).start()
    assert allowed_ids(spell(rows, '{"n":{"n":null'), vocabulary) == {ord("}"), 257}


def _one(token: int) -> tuple[np.ndarray, np.ndarray]:
    return np.array([0]), np.array([token])
