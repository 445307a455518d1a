"""Independent runs as one estimate: by evidence, by states, and as the library's own replicates do it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import toy_study
from record_factory import log, record, sequence

from experiments.analysis.pooling import pool
from experiments.evaluate import judged, sampled_record
from experiments.tasks import Instance
from smc import FiniteLanguage, SMCSampler, TableModel, baselines
from smc.result import combine

LANGUAGE = FiniteLanguage(toy_study.STRINGS)


def model() -> TableModel:
    return TableModel(vocab=["0", "1", "<eos>"], eos="<eos>", next_probs=toy_study.next_probs)


def stored(result: Any, **fields: Any) -> dict[str, Any]:
    return {"task": "toy", "instance": "i", "method": "smc"} | sampled_record(result, model().vocabulary) | fields


def run(seed: int, **options: Any) -> Any:
    return SMCSampler(model(), LANGUAGE, n_particles=3, max_tokens=8, seed=seed, **options).run("00")


def weights(pooled: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for s in pooled["sequences"]:
        found[s["text"]] = found.get(s["text"], 0.0) + s["weight"]
    return found


@pytest.mark.parametrize("options", [{"branching": "sample"}, {"branching": "enumerate"}], ids=lambda o: o["branching"])
def test_pooled_runs_are_the_librarys_replicates(options: dict[str, Any]) -> None:
    results = [run(seed, **options) for seed in range(4)]
    pooled, expected = pool([stored(r) for r in results]), combine(results)
    assert weights(pooled) == pytest.approx(expected.posterior(), rel=1e-12)
    assert pooled["log_evidence"] == pytest.approx(expected.log_evidence, rel=1e-12)
    assert pooled["ess"] == pytest.approx(expected.ess, rel=1e-9)
    assert pooled["scores"]["validity"] == pytest.approx(expected.validity, rel=1e-12)
    assert pooled["status"] == expected.status
    assert pooled["cost"]["forward_rows"] == expected.cost.forward_rows
    assert (pooled["n_particles"], pooled["repeats"]) == (12, 4)
    assert math.fsum(s["weight"] for s in pooled["sequences"]) == pytest.approx(1.0)
    assert [s["weight"] for s in pooled["sequences"]] == sorted(
        (s["weight"] for s in pooled["sequences"]), reverse=True
    )


def test_samples_of_local_masking_pool_by_counts() -> None:
    results = [baselines.local_masking(model(), LANGUAGE, "00", n_particles=5, max_tokens=8, seed=s) for s in range(3)]
    pooled = pool([stored(r) for r in results])
    counts: dict[str, int] = {}
    for s in (s for r in results for s in r.sequences):
        counts[s.text] = counts.get(s.text, 0) + s.count
    assert weights(pooled) == pytest.approx({text: n / 15 for text, n in counts.items()}, rel=1e-12)
    assert (pooled["log_evidence"], pooled["weighted"]) == (None, False)
    assert pooled["ess"] == pytest.approx(15.0)


def test_a_run_without_evidence_counts_as_zero_mass() -> None:
    good = record([sequence("a", 1.0, log_weight=math.log(0.2))], log_evidence=math.log(0.2), log_rejected_mass=log(0.2),
                  scores={"validity": 0.5})  # fmt: skip
    nothing = record([], log_evidence=None, log_rejected_mass=log(0.4), status="rejected", advice="Loosen it.",
                     scores={"validity": 0.0})  # fmt: skip
    pooled = pool([good, nothing])
    assert math.exp(pooled["log_evidence"]) == pytest.approx(0.1)
    assert math.exp(pooled["log_rejected_mass"]) == pytest.approx(0.3)
    assert pooled["scores"]["validity"] == pytest.approx(0.25)
    assert (pooled["status"], pooled["advice"]) == ("complete", None)
    both = pool([nothing, nothing])
    assert (both["sequences"], both["ess"], both["advice"]) == ([], 0.0, "Loosen it.")
    assert both["scores"] == {"validity": 0.0, "accuracy": None, "log_prob": None, "best_accuracy": None}


def test_heavier_evidence_weighs_more() -> None:
    first = record([sequence("a", 1.0, log_weight=math.log(0.3), correct=1.0)], log_evidence=math.log(0.3))
    second = record([sequence("b", 1.0, log_weight=math.log(0.1), correct=0.0)], log_evidence=math.log(0.1))
    assert weights(pool([first, second])) == pytest.approx({"a": 0.75, "b": 0.25})
    assert pool([first, second])["scores"]["accuracy"] == pytest.approx(0.75)


def test_chains_count_by_their_states_and_not_by_how_often_proposals_failed() -> None:
    def chains(text: str, states: int, share: float) -> dict[str, Any]:
        return record([sequence(text, 1.0, log_weight=math.log(share), count=states)], log_evidence=None,
                      log_rejected_mass=log(1 - share), scores={"validity": share})  # fmt: skip

    pooled = pool([chains("a", 4, 0.9), chains("b", 4, 0.1)])
    assert weights(pooled) == pytest.approx({"a": 0.5, "b": 0.5})
    assert pooled["scores"]["validity"] == pytest.approx(0.5)
    assert weights(pool([chains("a", 4, 0.5), chains("b", 2, 0.5)])) == pytest.approx({"a": 2 / 3, "b": 1 / 3})


def test_pooling_pooled_runs_changes_nothing() -> None:
    a, b, c = (stored(run(seed, branching="sample")) for seed in range(3))
    once, twice = pool([a, b, c]), pool([pool([a, b]), c])
    assert weights(twice) == pytest.approx(weights(once), rel=1e-12)
    assert twice["log_evidence"] == pytest.approx(once["log_evidence"], rel=1e-12)
    assert (twice["repeats"], twice["n_particles"], twice["cost"]) == (3, 9, once["cost"])
    assert weights(pool([a])) == pytest.approx({s["text"]: s["weight"] for s in pool([a])["sequences"]})


def test_a_pooled_record_is_judged_like_any_other() -> None:
    task, instance = toy_study.ToyTask(), Instance("i", "00", LANGUAGE, "bits", "000")
    runs = [stored(run(seed, branching="sample")) for seed in range(3)]
    after = judged(pool(runs), task, instance)
    before = pool([judged(r, task, instance) for r in runs])
    assert before["scores"] == pytest.approx(after["scores"])
    assert after["scores"]["accuracy"] == pytest.approx(weights(after).get("000", 0.0))


def test_the_best_sequence_is_the_one_of_highest_target() -> None:
    likely = sequence("b", 0.0, log_prob=-1.0, correct=0.0, log_weight=-5.0)
    heavy = sequence("a", 1.0, log_prob=-3.0, correct=1.0, log_weight=0.0)
    assert pool([record([heavy]), record([likely])])["scores"]["best_accuracy"] == 0.0
    aimed = [s | {"log_target": t} for s, t in ((heavy, -1.0), (likely, -2.0))]
    assert pool([record([s]) for s in aimed])["scores"]["best_accuracy"] == 1.0


def test_measures_are_averaged_and_what_holds_of_all_together_is_left_to_the_task() -> None:
    first = record([sequence("a", 1.0, log_weight=0.0, measures={"qed": 1.0})], scores={"together/unique": 1.0})
    second = record([sequence("b", 1.0, log_weight=0.0, measures={"qed": 0.5})], scores={"together/unique": 1.0})
    scores = pool([first, second])["scores"]
    assert scores["measure/qed"] == pytest.approx(0.75)
    assert "together/unique" not in scores


def test_runs_of_different_things_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing to pool"):
        pool([])
    with pytest.raises(ValueError, match="method"):
        pool([record(method="smc"), record(method="mcmc")])
    with pytest.raises(ValueError, match="instance"):
        pool([record(instance="a"), record(instance="b")])


def test_inputs_are_left_as_they_were() -> None:
    result = run(0, branching="sample")
    a, b = stored(result), stored(replace(result))
    before = repr(a)
    pool([a, b])
    assert repr(a) == before
