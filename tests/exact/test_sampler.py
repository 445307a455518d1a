"""The sampler as a user meets it: options, iteration, seeds, statuses, results."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from toys import SECTION_7, TOYS

from smc import Choice, FiniteLanguage, Job, Proposal, Regex, SMCSampler, TableModel, TextPotential, baselines
from smc.errors import ModelError, OptionError, PromptError, SMCError
from smc.exact import enumerate_posterior
from smc.potentials import ProductRows

TOY = SECTION_7["00000, 1xxxx at .1"]


def sampler(**options) -> SMCSampler:
    return SMCSampler(TOY.model, TOY.constraint, **{"max_tokens": 5, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_particles": 0}, "n_particles must be a whole number of at least 1"),
        ({"n_particles": 2.5}, "n_particles"),
        ({"n_particles": True}, "n_particles"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"branching": "beam"}, "'enumerate', 'sample'"),
        ({"branching": "sample", "resampling": "best"}, "'stratified'"),
        ({"branching": "sample", "resampling": "optimal"}, "identity"),
        ({"resampling": "systematic"}, "belongs to branching='sample'"),
        ({"draws": "joint"}, "'independent'"),
        ({"finished": "stay"}, "'compete'"),
        ({"ess_threshold": 1.5}, r"in \[0, 1\]"),
        ({"target_power": 0}, "above 0"),
        ({"stop_fraction": 1}, "stop_fraction"),
        ({"stop": "never"}, "'roulette'"),
        ({"replicates": 0}, "replicates"),
        ({"seed": -1}, "seed"),
        ({"proposal": Proposal(temperature=2)}, "branching='sample'"),
        ({"branching": "sample", "proposal": {"temperature": 2}}, "must be a Proposal"),
        ({"potentials": TextPotential(len)}, "list of potentials"),
        ({"potentials": [len]}, "list of potentials"),
        ({"target_power": "2"}, "target_power"),
        ({"target_power": math.inf}, "finite"),
        ({"ess_threshold": "0.5", "branching": "sample"}, "ess_threshold"),
        ({"stop_fraction": None}, "stop_fraction"),
        ({"branching": None}, "branching"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        sampler(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0},
        {"temperature": math.inf},
        {"temperature": "a"},
        {"top_k": 0},
        {"top_k": 2.5},
        {"top_p": 0},
        {"top_p": 1.5},
    ],
)
def test_bad_proposals_are_refused(options: dict) -> None:
    with pytest.raises(OptionError):
        Proposal(**options)


def test_a_bare_schema_is_no_constraint() -> None:
    with pytest.raises(OptionError, match="Wrap it: JSONSchema"):
        SMCSampler(TOY.model, {"type": "object"})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="Wrap it"):
        SMCSampler(TOY.model, Regex)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="HFModel"):
        SMCSampler(None, Regex("a"))  # type: ignore[arg-type]


def test_a_prompt_beyond_the_context_is_refused_with_the_numbers() -> None:
    model = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"a": 0.5, "<eos>": 0.5}, context_length=10)
    run = SMCSampler(model, Regex("a*"), max_tokens=6).run
    with pytest.raises(PromptError, match=r"5 tokens and max_tokens is 6.*context of 10.*at most 5"):
        run("aaaaa")
    with pytest.raises(PromptError, match="Shorten the prompt"):
        run("a" * 12)


def test_a_prompt_that_no_token_spells_is_refused() -> None:
    with pytest.raises(PromptError, match="character 1"):
        sampler().run("0?")


@pytest.mark.parametrize("prompt", [b"01", None, 5, [7], ["0"]])
def test_what_is_no_prompt_is_refused(prompt) -> None:
    with pytest.raises(PromptError):
        sampler().run(prompt)


def test_bad_tables_are_named() -> None:
    with pytest.raises(ModelError, match="stop token"):
        TableModel(["a"], "<eos>", lambda prefix: {})
    for probs in (None, {"a": 0.7, "<eos>": 0.7}, {"a": -0.5, "<eos>": 1.5}, {"b": 1.0}):
        with pytest.raises(ModelError):
            SMCSampler(TableModel(["a", "<eos>"], "<eos>", lambda prefix, p=probs: p), Regex("a*")).run("")


def test_nan_logits_are_an_error_with_advice() -> None:
    class Broken(TableModel):
        def log_probs(self, prefix):
            return np.full(3, np.nan)

    model = Broken(["0", "1", "<eos>"], "<eos>", lambda prefix: {})
    with pytest.raises(ModelError, match="NaN"):
        SMCSampler(model, FiniteLanguage(["0"])).run("")


def test_potentials_that_are_no_weights_are_refused() -> None:
    for bad in (math.nan, math.inf):
        for potential in (TextPotential(lambda text, b=bad: b), TextPotential(len, prefix=lambda text, b=bad: b)):
            with pytest.raises(SMCError, match="potential"):
                sampler(potentials=[potential]).run("")
        final = TextPotential(lambda text, b=bad: b)
        with pytest.raises(SMCError, match="potential"):
            enumerate_posterior(TOY.model, TOY.constraint, "", potentials=[final], max_tokens=5)
    with pytest.raises(OptionError, match="log_bound"):
        TextPotential(len, log_bound=math.nan)


def test_prompt_is_part_of_the_prefix_and_not_of_the_text() -> None:
    model = TableModel(
        ["0", "1", "<eos>"], "<eos>", lambda prefix: {"<eos>": 1} if len(prefix) >= 3 else {"0": 0.25, "1": 0.75}
    )
    result = SMCSampler(model, FiniteLanguage(["1"]), max_tokens=2).run("01")
    assert result.posterior() == {"1": 1.0}
    assert math.exp(result.log_evidence) == pytest.approx(0.75)
    assert SMCSampler(model, FiniteLanguage(["1"]), max_tokens=2).run([0, 1]).log_evidence == result.log_evidence


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_same_seed_same_answer(branching: str) -> None:
    options = dict(n_particles=3, branching=branching, seed=11)
    first, again = sampler(**options).run("", key="k"), sampler(**options).run("", key="k")
    assert replace(first, cost=again.cost) == again
    others = [tuple(sampler(**{**options, "seed": s}).run("", key="k").posterior()) for s in range(8)]
    assert len(set(others)) > 1


def test_run_many_equals_one_by_one() -> None:
    other = FiniteLanguage(["00000", "11111"])
    jobs = [Job("", key="x"), Job("", constraint=other, key="y")]
    run = sampler(n_particles=2, seed=5)
    x, y = run.run_many(jobs)
    assert x.posterior() == run.run("", key="x").posterior()
    assert (
        y.posterior() == SMCSampler(TOY.model, other, n_particles=2, seed=5, max_tokens=5).run("", key="y").posterior()
    )
    for twice in ([Job("", key="x"), Job("", key="x")], [Job(""), Job("")]):
        with pytest.raises(OptionError, match="same key"):
            run.run_many(twice)
    with pytest.raises(OptionError, match="list of Job"):
        run.run_many(["text"])  # type: ignore[list-item]


def test_run_many_refuses_a_bad_job_before_the_first_one_runs() -> None:
    model = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"a": 0.5, "<eos>": 0.5}, context_length=10)
    calls: list[str] = []

    def note(text: str) -> float:
        calls.append(text)
        return 0.0

    run = SMCSampler(model, Regex("a{1,3}"), max_tokens=6, potentials=[TextPotential(note)])
    with pytest.raises(PromptError):
        run.run_many([Job("a", key="fits"), Job("aaaaaa", key="too long")])
    assert not calls


def test_a_caller_can_watch_and_stop() -> None:
    run = sampler(n_particles=64, stop_fraction=0)
    states = []
    for state in run.steps(""):
        states.append(state)
        if state.step == 2:
            break
    assert [s.step for s in states] == [0, 1, 2]
    assert len(states[-1].population) == 3  # 00, 10, 11
    partial = run.result(states[-1])
    assert partial.status == "censored"
    assert math.exp(partial.log_censored_mass) == pytest.approx(0.91)
    assert partial.posterior() == {}
    assert partial.best() is None
    assert partial.advice is not None


def test_rows_are_distinct_prefixes_and_counts_are_particles() -> None:
    for state in sampler(n_particles=40, branching="sample", ess_threshold=1.0, stop_fraction=0).steps(""):
        tokens = [lineage.tokens() for lineage in state.population.lineages]
        assert len(set(tokens)) == len(tokens)
        assert all(len(t) == state.step for t in tokens)
        if state.step <= 5:
            assert state.population.count.sum() == 40


def test_trace_and_cost_account_for_every_row() -> None:
    result = sampler(n_particles=64, stop_fraction=0).run("")
    assert [row.step for row in result.trace] == [1, 2, 3, 4, 5, 6]
    assert [row.rows for row in result.trace] == [2, 3, 5, 9, 17, 0]
    assert result.cost.forward_rows == 1 + 2 + 3 + 5 + 9 + 17
    assert result.cost.passes == 6
    assert result.trace[-1].log_finished_mass == pytest.approx(result.log_evidence)
    assert math.exp(result.trace[1].log_kept) == pytest.approx(0.9 + 0.1 * 0.1)
    assert not any(row.resampled for row in result.trace)


def test_resampling_is_triggered_by_the_threshold() -> None:
    def resampled(threshold: float) -> bool:
        run = sampler(n_particles=50, branching="sample", ess_threshold=threshold, stop_fraction=0)
        return any(row.resampled for row in run.run("").trace)

    assert resampled(1.0)
    assert not resampled(0.0)


def test_retired_particles_make_room_and_mass_is_kept() -> None:
    """Half of the particles finish at once; resampling the others returns them to K with their mass."""
    # after one token: "a" stops for sure; "b" goes on, its children weigh differently so that resampling triggers
    table = {
        (): {"a": 0.5, "b": 0.5},
        ("a",): {"<eos>": 1.0},
        ("b",): {"a": 0.5, "b": 0.5},
        ("b", "a"): {"a": 0.05, "b": 0.95},
        ("b", "b"): {"a": 1.0},
    }
    model = TableModel(["a", "b", "<eos>"], "<eos>", lambda prefix: table.get(prefix, {"<eos>": 1.0}))
    run = SMCSampler(
        model,
        Choice(["a", "baa", "bba"]),
        n_particles=8,
        branching="sample",
        ess_threshold=0.8,
        max_tokens=4,
        stop_fraction=0,
    )
    states = list(run.steps(""))
    assert [int(s.population.count.sum()) for s in states] == [8, 8, 4, 8, 0]
    assert math.exp(states[3].population.log_total) == pytest.approx(0.25 + 0.25 * 0.05)
    result = run.result(states[-1])
    assert math.exp(result.log_evidence) == pytest.approx(0.5 + 0.25 + 0.25 * 0.05)


def test_nothing_is_resampled_once_nothing_is_live() -> None:
    toy = TOYS["critic"]
    for finished in ("retire", "compete"):
        run = SMCSampler(
            toy.model,
            toy.constraint,
            n_particles=7,
            branching="sample",
            finished=finished,
            ess_threshold=1.0,
            max_tokens=2,
        )
        result = run.run("")
        assert not result.trace[-1].resampled
        assert sum(s.count for s in result.sequences) == 7


def test_statuses_say_what_to_do() -> None:
    model = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"a": 1.0} if len(prefix) < 9 else {"<eos>": 1.0})
    censored = SMCSampler(model, Regex("a*"), max_tokens=3).run("")
    assert censored.status == "censored"
    assert "max_tokens" in censored.advice
    dead = SMCSampler(TableModel(["a", "b", "<eos>"], "<eos>", lambda prefix: {"b": 1.0}), FiniteLanguage(["a"])).run(
        ""
    )
    assert (dead.status, dead.log_evidence) == ("dead", -math.inf)
    assert dead.validity == 0
    never = SMCSampler(model, Regex("a{9}"), potentials=[TextPotential(lambda text: -math.inf)], max_tokens=9).run("")
    assert never.status == "rejected"
    early = [
        TextPotential(lambda text: 0.0, prefix=lambda text, n=least: -math.inf if len(text) >= n else 0.0)
        for least in (0, 2)
    ]
    for potential in early:
        assert SMCSampler(model, Regex("a{9}"), potentials=[potential], max_tokens=9).run("").status == "rejected"
    assert SMCSampler(model, Regex("a*"), max_tokens=3, replicates=2).run("").status == "censored"
    again = SMCSampler(
        model, Regex("a{9}"), potentials=[TextPotential(lambda text: -math.inf)], max_tokens=9, replicates=2
    )
    assert again.run("").status == "rejected"
    assert all(r.advice and r.posterior() == {} and r.sample(3) == [] for r in (censored, dead, never))


def test_result_groups_samples_and_ranks() -> None:
    result = sampler(n_particles=64, stop_fraction=0).run("")
    by_first = result.posterior(key=lambda text: text[0])
    assert by_first["1"] == pytest.approx(90000 / 90001)
    assert result.best().text == "11111"
    assert result.expectation(lambda text: float(text == "11111")) == pytest.approx(result.posterior()["11111"])
    drawn = result.sample(200, seed=1)
    assert len(drawn) == 200
    assert drawn == result.sample(200, seed=1)
    # "11111" has probability .729: fewer than 100 of 200 has probability below 1e-11
    assert drawn.count("11111") >= 100
    assert result.ess_kind == "concentration"


def test_concentration_does_not_grow_with_replicates() -> None:
    options = dict(n_particles=64, stop_fraction=0)
    assert sampler(**options, replicates=5).run("").ess == pytest.approx(sampler(**options).run("").ess)


def test_states_can_be_printed_however_long_they_are() -> None:
    model = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"a": 1.0} if len(prefix) < 1500 else {"<eos>": 1.0})
    *_, state = SMCSampler(model, Regex("a{1300,2000}"), max_tokens=1200).steps("")
    assert "Lineage" in repr(state.population)


def test_mass_at_max_tokens_is_censored_however_small() -> None:
    model = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"a": 0.05, "<eos>": 0.95})
    for stop in ("bound", "roulette"):
        result = SMCSampler(model, Regex("a*"), max_tokens=2, stop_fraction=1e-3, stop=stop).run("")
        assert result.status == "max_tokens"
        assert math.exp(result.log_censored_mass) == pytest.approx(0.05**3)


def test_best_ranks_by_target_not_by_weight() -> None:
    """With one row the survivor carries everybody's mass, but its own target is what it is."""
    result = sampler(n_particles=1, seed=2, stop_fraction=0).run("")
    (only,) = result.sequences
    assert only.log_target == pytest.approx(only.log_prob)
    assert result.certified_mass == pytest.approx(math.exp(only.log_prob))
    assert only.log_mass > only.log_target


def test_bytes_that_are_not_utf8_are_kept_apart() -> None:
    model = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"<eos>": 1} if prefix else {"a": 1})
    result = SMCSampler(model, FiniteLanguage(["a"])).run("")
    broken = replace(result.sequences[0], data=b"\xff")
    other = replace(result.sequences[0], data=b"\xfe")
    merged = replace(result, sequences=(broken, other)).posterior()
    assert len(merged) == 2
    assert all(text.encode("utf-8", "surrogateescape") in (b"\xff", b"\xfe") for text in merged)


def test_baselines_share_inputs_and_results() -> None:
    local = baselines.local_masking(TOY.model, TOY.constraint, "", n_particles=200, max_tokens=5, seed=4)
    weighted = baselines.importance_resampling(TOY.model, TOY.constraint, "", n_particles=200, max_tokens=5, seed=4)
    assert local.log_evidence is None
    assert not local.weighted
    assert weighted.weighted
    # the same samples, with and without weights
    assert {(s.text, s.count) for s in local.sequences} == {(s.text, s.count) for s in weighted.sequences}
    for s in local.sequences:
        assert s.log_mass == pytest.approx(math.log(s.count / 200))
    for s in weighted.sequences:
        assert s.log_weight == pytest.approx(s.log_kept_mass - math.log(200))
    assert math.exp(weighted.log_evidence) == pytest.approx(
        np.mean([math.exp(s.log_kept_mass) for s in local.sequences for _ in range(s.count)])
    )
    # seed 4: the count of "00000" is binomial(200, .1); more than 45 has probability below 1e-6
    assert local.posterior()["00000"] < 45 / 200


def test_greedy_masking_takes_the_likeliest_allowed_token() -> None:
    # unmasked, "b" is likelier than "a"; then stopping (two tokens together) beats going on
    table = {(): {"a": 0.3, "b": 0.6, "<eos>": 0.1}, ("a",): {"a": 0.4, "<eos>": 0.3, "<end>": 0.3}}
    model = TableModel(["a", "b", "<eos>", "<end>"], ["<eos>", "<end>"], lambda prefix: table.get(prefix, {"<eos>": 1}))
    result = baselines.greedy_masking(model, Regex("a+"), "", max_tokens=5)
    assert result.posterior() == {"a": 1.0}
    assert result.log_evidence is None
    (only,) = result.sequences
    assert math.exp(only.log_prob) == pytest.approx(0.3 * 0.6)
    assert [math.exp(z) for z in only.kept_path] == pytest.approx([0.3, 1.0])
    assert result.validity == 1


def test_unconstrained_samples_are_checked() -> None:
    model = TableModel(
        ["0", "1", "<eos>"], "<eos>", lambda prefix: {"<eos>": 1} if len(prefix) == 2 else {"0": 0.5, "1": 0.5}
    )
    result = baselines.unconstrained(model, Choice(["00", "01"]), "", n_particles=400, max_tokens=3, seed=0)
    assert set(result.posterior()) == {"00", "01"}
    # seed 0: the valid share is binomial(400, 1/2) / 400; beyond .1 from 1/2 has probability below 1e-4
    assert abs(result.validity - 0.5) < 0.1
    assert all(s.log_kept_mass == pytest.approx(0) for s in result.sequences)


def test_unconstrained_counts_what_potentials_forbid() -> None:
    model = TableModel(
        ["0", "1", "<eos>"], "<eos>", lambda prefix: {"<eos>": 1} if len(prefix) == 2 else {"0": 0.5, "1": 0.5}
    )
    potential = TextPotential(lambda text: -math.inf if text == "01" else 3.0)
    result = baselines.unconstrained(
        model, Choice(["00", "01"]), "", n_particles=400, max_tokens=3, potentials=[potential], seed=0
    )
    assert set(result.posterior()) == {"00"}
    assert result.log_evidence is None
    # seed 0: binomial(400, 1/4) / 400; beyond .1 from 1/4 has probability below 1e-5
    assert abs(result.validity - 0.25) < 0.1


def test_baselines_count_what_potentials_forbid() -> None:
    no_ones = TextPotential(lambda text: -math.inf if "1" in text else 0.0)
    local = baselines.local_masking(
        TOY.model, TOY.constraint, "", n_particles=100, potentials=[no_ones], max_tokens=5, seed=0
    )
    assert set(local.posterior()) == {"00000"}
    assert local.validity == pytest.approx(1 - math.exp(local.log_rejected_mass))
    greedy = baselines.greedy_masking(TOY.model, TOY.constraint, "", potentials=[no_ones], max_tokens=5)
    assert (greedy.status, greedy.validity) == ("rejected", 0)


def test_shaped_proposals_reach_only_what_they_keep() -> None:
    log_mass = torch.log(torch.tensor([[0.5, 0.3, 0.12, 0.05, 0.03]], dtype=torch.float64))
    assert Proposal(top_k=2).shape(log_mass).exp()[0].tolist() == pytest.approx([0.625, 0.375, 0, 0, 0])
    assert Proposal(top_p=0.9).shape(log_mass).exp()[0].tolist() == pytest.approx(
        [v / 0.92 for v in (0.5, 0.3, 0.12)] + [0, 0]
    )
    # after the mask: only the last two are allowed, and .9 of their mass keeps both
    masked = torch.log(torch.tensor([[0, 0, 0, 0.05, 0.03]], dtype=torch.float64))
    assert Proposal(top_p=0.9).shape(masked).exp()[0].tolist() == pytest.approx([0, 0, 0, 0.625, 0.375])
    assert Proposal(temperature=2).shape(log_mass).exp().sum() == pytest.approx(1)


def test_potential_rows_are_called_once_a_distinct_row() -> None:
    calls: list[str] = []

    def note(text: str) -> float:
        calls.append(text)
        return 0.0

    rows = ProductRows.start([TextPotential(note, prefix=note)], TOY.model.vocabulary)
    assert rows.log_prefix.tolist() == [0.0]
    rows = rows.advance(np.array([0, 0]), np.array([0, 1]))
    assert calls == [""]  # nothing is judged before somebody asks
    assert rows.log_prefix.tolist() == rows.log_prefix.tolist() == [0.0, 0.0]
    assert rows.fork(np.array([1])).log_prefix.tolist() == [0.0]
    assert calls == ["", "0", "1"]
