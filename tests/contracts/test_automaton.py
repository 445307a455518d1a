"""Token automata hold exactly the token sequences that the constraint lets through and its validator accepts."""

import importlib.util
from itertools import product

import numpy as np
import pytest
from constraint_tools import AB, BYTES, CONTROL, STOPS, allowed_ids, step, walks

from smc.constraints import EBNF, Choice, Constraint, Everything, FiniteLanguage, Intersection, JSONSchema, Regex
from smc.constraints.automaton import AutomatonError, TokenAutomaton, explore, from_regex, token_automaton
from smc.errors import MissingPackageError, OptionError
from smc.vocabulary import Vocabulary

needs_outlines = pytest.mark.skipif(
    importlib.util.find_spec("outlines_core") is None, reason="the package outlines-core is not installed"
)
SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": ["ab", "é"]}, "b": {"type": "boolean"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def explored(constraint: Constraint, vocabulary: Vocabulary, **options) -> TokenAutomaton:
    return explore(constraint.compile(vocabulary), vocabulary, **options)


def sequences(automaton: TokenAutomaton, length: int) -> set[tuple[int, ...]]:
    """All accepted token sequences of at most `length` tokens."""
    found, level = set(), {(): 0}
    for _ in range(length + 1):
        found |= {tokens for tokens, state in level.items() if automaton.accepting[state]}
        following = {}
        for tokens, state in level.items():
            edges = automaton.edges(state)
            for token, target in zip(automaton.token[edges], automaton.target[edges], strict=True):
                following[(*tokens, int(token))] = int(target)
        level = following
    return found


def spellings(members: list[bytes], vocabulary: Vocabulary, length: int) -> set[tuple[int, ...]]:
    """The oracle: every sequence of text tokens that spells a member."""
    text = np.flatnonzero(vocabulary.spelling).tolist()
    return {
        tokens for n in range(length + 1) for tokens in product(text, repeat=n) if vocabulary.spell(tokens) in members
    }


def assert_well_formed(automaton: TokenAutomaton, vocabulary: Vocabulary) -> None:
    """Sorted, deterministic, text tokens only, every state useful."""
    order = automaton.source * len(vocabulary) + automaton.token
    assert (np.diff(order) > 0).all()
    assert vocabulary.spelling[automaton.token].all()
    assert np.isfinite(automaton.distance).all()
    assert len(automaton.first_edge) == len(automaton) + 1


@pytest.mark.parametrize("kind", [FiniteLanguage, Choice])
@pytest.mark.parametrize("members", [["ab"], ["", "a", "aab"], ["ab", "ba", "abba", "aaa"], ["a", "b", "ab", "ba"]])
def test_exploration_gives_every_spelling_of_every_member(kind, members: list[str]) -> None:
    automaton = explored(kind(members), AB)
    assert_well_formed(automaton, AB)
    assert sequences(automaton, 4) == spellings([m.encode() for m in members], AB, 4)
    assert automaton.exact_for is kind(members).compile(AB)


@pytest.mark.parametrize(
    ("constraint", "depth"),
    [
        (Regex("(a|ba)?(b|aa)"), 5),
        (EBNF('root ::= "a" tail | "" \n tail ::= "b" | "bb"'), 4),
        (Intersection(FiniteLanguage(["ab", "ba", "aa"]), Regex("a.*")), 3),
    ],
)
def test_exploration_agrees_with_the_masks(constraint: Constraint, depth: int) -> None:
    """On every prefix that the masks lead to (these languages have no dead ends and no rejected members)."""
    compiled = constraint.compile(AB)
    automaton = explore(compiled, AB)
    assert_well_formed(automaton, AB)
    for prefix, allowed in walks(compiled, AB, depth).items():
        state = 0
        for token in prefix:
            state = int(automaton.step(np.array([state]), np.array([token]))[0])
        edges = automaton.edges(state)
        stops = set(AB.stop_ids) if automaton.accepting[state] else set()
        assert set(automaton.token[edges].tolist()) | stops == allowed


def test_equal_futures_are_one_state() -> None:
    """After "xa" and "yb" the same texts follow, so they are one state: start, two middles, three before the end, the end."""
    automaton = explored(FiniteLanguage(["xa12", "yb12"]), BYTES)
    # start -x-> . -a-> *, start -y-> . -b-> *, * -1-> . -2-> end, * -12-> end
    assert len(automaton) == 6
    assert len(automaton.token) == 7
    assert automaton.distance.tolist()[0] == 3
    assert sorted(automaton.distance.tolist()) == [0, 1, 1, 2, 2, 3]
    # sources come before targets, the start first
    assert (automaton.source < automaton.target).all()


def test_step() -> None:
    automaton = explored(FiniteLanguage(["ab", "b"]), AB)
    a, b, ab, control, stop = 0, 1, 2, 4, 6
    assert (automaton.step(np.array([0, 0]), np.array([control, stop])) == -1).all()
    after_a, after_b, after_ab = automaton.step(np.array([0, 0, 0]), np.array([a, b, ab]))
    assert after_b == after_ab
    assert automaton.accepting.tolist() == [s == after_b for s in range(len(automaton))]
    assert automaton.step(np.array([after_a, after_a, after_b, -1]), np.array([b, a, b, a])).tolist() == [
        after_b,
        -1,
        -1,
        -1,
    ]


def test_dead_ends_and_rejected_texts_are_no_part_of_it() -> None:
    """The mask lets "b" begin (each part has its own way on), and lets a newline pass that the validator refuses."""
    dead = Intersection(FiniteLanguage(["aa", "ba"]), FiniteLanguage(["aa", "bb"]))
    assert sequences(explored(dead, AB), 4) == spellings([b"aa"], AB, 4)
    newline = Regex("a\\n|a.")
    rejected = Regex("a(?!\\n)[ab\\n]")
    vocabulary = Vocabulary((b"a", b"\n", b"b", b"</s>"), (3,))
    assert allowed_ids(step(rejected.compile(vocabulary).start(), 0), vocabulary) == {0, 1, 2}
    assert sequences(explored(rejected, vocabulary), 3) == {(0, 0), (0, 2)}
    assert sequences(explored(newline, vocabulary), 3) == {(0, 0), (0, 1), (0, 2)}


def test_the_empty_language_is_one_state() -> None:
    nothing = Intersection(FiniteLanguage(["aa", "ba"]), FiniteLanguage(["ab", "bb"]))
    automaton = explored(nothing, AB)
    assert (len(automaton), len(automaton.token)) == (1, 0)
    assert automaton.distance.tolist() == [np.inf]
    assert automaton.step(np.array([0]), np.array([0])).tolist() == [-1]


def test_only_the_empty_text() -> None:
    automaton = explored(FiniteLanguage([""]), AB)
    assert automaton.accepting.tolist() == [True]
    assert automaton.distance.tolist() == [0]


def test_too_many_states() -> None:
    with pytest.raises(AutomatonError, match=r"at most 50 states.*LearnedTwist"):
        explored(Regex("a*"), AB, max_states=50)
    with pytest.raises(AutomatonError, match="at most 3 states"):
        explored(FiniteLanguage(["abab"]), AB, max_states=3)
    assert len(explored(FiniteLanguage(["abab"]), AB, max_states=5)) == 5
    with pytest.raises(OptionError, match="max_states"):
        explored(FiniteLanguage(["a"]), AB, max_states=0)


# ------------------------------------------------------------------ through a regex


@needs_outlines
@pytest.mark.parametrize(
    "pattern",
    [
        "(a|ba)?(b|aa)",
        "a{2,4}b?",
        r"202[0-4]-(0[1-9]|1[0-2])",
        "(é|cat)é?",
        "x|",
        "aa12|ab12",
        "a(ba)?(aa)?",
        r'\{"a"\}',
    ],
)
def test_a_regex_gives_the_engine_s_automaton(pattern: str) -> None:
    """The same token sequences as exploration, with characters of several bytes split over tokens."""
    automaton = from_regex(pattern, BYTES)
    assert_well_formed(automaton, BYTES)
    assert automaton.exact_for is None
    exact = explored(Regex(pattern), BYTES)
    assert sequences(automaton, 8) == sequences(exact, 8)
    assert not {*STOPS, CONTROL} & set(automaton.token.tolist())


@needs_outlines
def test_a_regex_with_an_infinite_language() -> None:
    automaton = token_automaton(Regex("(ab)+"), Regex("(ab)+").compile(AB), AB, max_states=40)
    assert_well_formed(automaton, AB)
    members = [b"ab" * n for n in range(1, 5)]
    assert sequences(automaton, 4) == spellings(members, AB, 4)


@needs_outlines
@pytest.mark.parametrize("whitespace", ["compact", "bounded", "free"])
def test_a_schema_goes_through_a_regex_where_exploration_is_too_large(whitespace) -> None:
    """The engine's mask allows every edge along random walks, and stopping where the automaton accepts."""
    constraint = JSONSchema(SCHEMA, whitespace=whitespace)
    compiled = constraint.compile(BYTES)
    automaton = token_automaton(constraint, compiled, BYTES, max_states=200)
    assert_well_formed(automaton, BYTES)
    assert (automaton.exact_for is compiled) == (whitespace == "compact")
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(20):
        state, rows, text = 0, compiled.start(), b""
        for _ in range(60):
            edges = automaton.edges(state)
            allowed = allowed_ids(rows, BYTES)
            assert set(automaton.token[edges].tolist()) <= allowed
            if automaton.accepting[state]:
                assert set(STOPS) <= allowed
                assert compiled.accepts(text)
                ended += 1
                break
            token = int(rng.choice(automaton.token[edges]))
            state = int(automaton.step(np.array([state]), np.array([token]))[0])
            rows, text = step(rows, token), text + BYTES.tokens[token]
    assert ended > 0


@needs_outlines
def test_regexes_that_cannot_be_used() -> None:
    with pytest.raises(AutomatonError, match="outlines-core cannot use it"):
        from_regex("(a", AB)
    with pytest.raises(AutomatonError, match="more than max_states=3"):
        from_regex("a{9}", AB, max_states=3)
    schema = JSONSchema({"type": "string", "not": {"const": "a"}}, whitespace="free")
    with pytest.raises(AutomatonError):
        token_automaton(schema, schema.compile(BYTES), BYTES, max_states=2)
    with pytest.raises(AutomatonError, match=r'missing tokens .*"c"'):
        from_regex("a|bc", AB)


def test_constraints_without_any_automaton() -> None:
    for constraint in (Everything(), EBNF('root ::= "a" root | "b"'), Intersection(Regex("a*"), Regex("[ab]*"))):
        with pytest.raises(
            AutomatonError, match=rf"{type(constraint).__name__}.*no token automaton of at most 30 states"
        ):
            token_automaton(constraint, constraint.compile(AB), AB, max_states=30)


def test_without_the_package_exploration_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "outlines_core", None)
    finite, infinite = Regex("a|b"), Regex("a+")
    assert len(token_automaton(finite, finite.compile(AB), AB)) == 2
    with pytest.raises(MissingPackageError, match="pip install 'smc\\[lookahead\\]'"):
        token_automaton(infinite, infinite.compile(AB), AB, max_states=20)
    schema = JSONSchema(SCHEMA)
    with pytest.raises(MissingPackageError, match="lookahead"):
        token_automaton(schema, schema.compile(BYTES), BYTES, max_states=20)
