"""The grammatical place of every token of a text, whole or broken."""

from __future__ import annotations

import random

import pytest

from experiments.places import END, json_spans, places_of


def by_character(text: str) -> list[str]:
    """The place of each character, one token a character."""
    return places_of(text, None, list(text))[:-1]


def test_places_of_a_json_text() -> None:
    tokens = [
        '{"',
        "name",
        '":',
        ' "',
        "P",
        "aris",
        '",',
        ' "',
        "n",
        '": ',
        "-1",
        "2.5",
        ",",
        '"ok":',
        " tru",
        "e",
        "}",
    ]
    assert places_of("".join(tokens), None, tokens) == [
        "opening", "key", "key", "string value: start", "string value: start", "string value: inside",
        "string value: end", "key", "key", "key", "number value", "number value", "separator", "key", "literal",
        "literal", "closing", END,
    ]  # fmt: skip


def test_strings_in_arrays_are_values_and_those_of_objects_in_arrays_are_keys() -> None:
    text = '["a", {"b": ["c"]}, "d"]'
    keys = [i for i, place in enumerate(by_character(text)) if place == "key"]
    assert [text[i] for i in keys] == list('"b"')
    assert by_character(text)[text.index(' "d"')] == "string value: start"


def test_an_empty_string_has_a_start_and_an_end() -> None:
    assert [name for _, name in json_spans('{"a":""}')] == [
        "opening", "key", "separator", "string value: start", "string value: end", "closing",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ('{"a": "b', "string value: start"),
        ('{"a": "bc', "string value: inside"),
        ('{"a": "b\\"c', "string value: inside"),
        ('{"a": "b\\', "string value: inside"),
        ('{"a": ', "separator"),
        ('{"a": 1 ]}', "closing"),
        ("}", "start"),
        ("[nul", "literal"),
        ("[-", "number value"),
        ("{name", "key"),
    ],
)
def test_broken_json_still_has_places(text: str, last: str) -> None:
    assert (by_character(text) or ["start"])[-1] == last


def test_other_text_has_a_start_and_an_inside() -> None:
    assert places_of("2024-05", None, ["20", "24", "-", "05"]) == ["start", "inside", "inside", "inside", END]
    assert places_of("", None, []) == [END]
    assert places_of("", None, [""]) == ["start", END]


def test_a_task_names_its_own_places() -> None:
    spans = [(0, "year"), (4, "separator"), (5, "month")]
    assert places_of("2024-05", spans, ["2", "024-", "0", "5"]) == ["year", "year", "month", "month", END]
    assert places_of("x2024", [(1, "year")], ["x", "2024"]) == ["start", "year", END]


def test_parts_of_a_character_belong_to_it() -> None:
    # "é" is two bytes; each is a token of its own, which alone is no UTF-8.
    assert places_of("éa", [(0, "first"), (1, "second")], ["\udcc3", "\udca9", "a"]) == [
        "first",
        "first",
        "second",
        END,
    ]
    assert places_of("\udcc3a", [(0, "first"), (1, "second")], ["\udcc3", "a"]) == ["first", "second", END]


def test_any_text_has_one_place_a_token() -> None:
    rng = random.Random(0)
    for _ in range(300):
        text = "".join(rng.choice('{}[]:,"\\ \n1-e.tné\udc80') for _ in range(rng.randrange(12)))
        for whole in (text, "{" + text, "[" + text):
            assert len(places_of(whole, None, list(whole))) == len(whole) + 1
            starts = [start for start, _ in json_spans(whole)]
            assert starts == sorted(set(starts))
