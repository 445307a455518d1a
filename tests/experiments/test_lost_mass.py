"""Lost mass by grammatical place, by hand."""

from __future__ import annotations

import pytest
from record_factory import record, sequence

from experiments.analysis import lost_mass
from experiments.analysis.lost_mass import PlaceLoss, by_place, sentence


def drawn(instance: str, *paths: tuple[list[str], list[float], int]) -> dict[str, object]:
    sequences = [sequence("x", 0.5, path=path, count=count, places=places) for places, path, count in paths]
    return record(sequences, instance=instance, method="local_masking")


def test_places_are_summed_along_a_sample_and_averaged_over_samples_then_instances() -> None:
    records = [
        drawn("i0", (["key", "key", "end"], [-1.0, -0.5, -0.5], 3), (["key", "literal", "end"], [-2.0, -4.0, 0.0], 1)),
        drawn("i1", (["key", "end"], [-1.0, 0.0], 7)),
    ]
    # key: (3 * 1.5 + 2) / 4 = 1.625 and 1; literal: 1 and nothing; end: 0.375 and 0.
    assert by_place(records) == [
        PlaceLoss("key", pytest.approx(1.3125), 1.0),
        PlaceLoss("literal", pytest.approx(0.5), pytest.approx(0.125)),
        PlaceLoss("end", pytest.approx(0.1875), 1.0),
    ]
    assert lost_mass.total(by_place(records)) == pytest.approx(2.0)


def test_seeds_of_an_instance_count_together_and_kept_mass_above_one_is_rounding() -> None:
    seeds = [drawn("i0", (["end"], [z], 1)) for z in (-1.0, 1e-9)]
    assert by_place(seeds) == [PlaceLoss("end", pytest.approx(0.5), 1.0)]


def test_records_without_places_say_nothing() -> None:
    assert by_place([record([sequence("x", 1.0)])]) == []
    assert by_place([]) == []
    assert sentence([]) is None


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([PlaceLoss("key", 1.5, 1.0), PlaceLoss("end", 0.5, 1.0)],
         "The mask removes 2.00 nats a sample, 75% of it at “key” and 25% at the stop."),
        ([PlaceLoss("start", 1.0, 1.0)], "The mask removes 1.00 nats a sample, 100% of it at the first token."),
        ([PlaceLoss("end", 0.001, 1.0)],
         "The mask removes next to nothing (less than 0.01 nats a sample): the model stays inside the language by itself."),
    ],
)  # fmt: skip
def test_the_sentence(losses: list[PlaceLoss], words: str) -> None:
    assert sentence(losses) == words
