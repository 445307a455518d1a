"""The side-by-side benches: cells that outlive a killed run, the worker's protocol, references, clocks, tables. No real model."""

import argparse
import importlib
import inspect
import io
import json
import pkgutil
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import xgrammar as xgr

from experiments import bench
from experiments.bench import genlm_worker, growth, linear, memory, packing, step, versus_generate, versus_genlm
from experiments.bench.common import Cells, interleaved, parsed, parser, table
from experiments.bench.genlm_client import Worker
from experiments.bench.reference import Reference, certify
from experiments.bench.stopwatch import Stopwatch, clocks, recorded_moves
from experiments.bench.vocabularies import Named, spelled_by, tiny_llama
from experiments.errors import ExperimentError
from experiments.tasks import Instance
from smc import Checked, Choice, JSONSchema, Regex, SMCSampler, TableModel
from smc.exact import enumerate_posterior
from smc.models.token_bytes import token_bytes

# ---------------------------------------------------------------------- cells


def test_cells_are_measured_once_and_survive_the_process(tmp_path):
    path, asked = tmp_path / "deep" / "x.json", []

    def measure():
        asked.append(1)
        return {"seconds": 1.5}

    assert Cells(path, {"threads": 2}).get("a", measure) == {"seconds": 1.5}
    again = Cells(path, {"threads": 2})
    assert again.get("a", measure) == {"seconds": 1.5}
    assert len(asked) == 1
    assert again.get("b", lambda: 2) == 2
    assert set(json.loads(path.read_text())["cells"]) == {"a", "b"}


def test_fresh_cells_forget(tmp_path):
    Cells(tmp_path / "x.json", {}).put("a", 1)
    assert "a" not in Cells(tmp_path / "x.json", {}, fresh=True)


@pytest.mark.parametrize("content", ["", "[]", '{"cells": {}}', '{"settings": {"threads": 2}, "cells": {}, "'])
def test_a_file_that_is_none_of_these_is_refused(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(ExperimentError, match="--fresh"):
        Cells(tmp_path / "x.json", {"threads": 2})


def test_cells_of_other_settings_are_not_mixed(tmp_path):
    Cells(tmp_path / "x.json", {"threads": 1}).put("a", 1)
    with pytest.raises(ExperimentError, match=r"'threads': 1.*'threads': 2"):
        Cells(tmp_path / "x.json", {"threads": 2})


def test_a_measurement_that_fails_leaves_the_others(tmp_path):
    cells = Cells(tmp_path / "x.json", {})
    cells.put("a", 1)
    with pytest.raises(RuntimeError):
        cells.get("b", lambda: (_ for _ in ()).throw(RuntimeError()))
    assert "a" in Cells(tmp_path / "x.json", {})
    assert "b" not in Cells(tmp_path / "x.json", {})


def test_rounds_take_turns_and_the_first_does_not_count():
    order = []

    def clock(name, values):
        left = iter(values)

        def measure():
            order.append(name)
            return next(left)

        return measure

    found = interleaved({"a": clock("a", [99, 1, 5, 2]), "b": clock("b", [0, 7, 7, 8])}, 3)
    assert found == {"a": 2, "b": 7}
    assert "".join(order) == "abababab"


def test_table():
    assert table(["x", "y"], [[1, "a"]]) == "| x | y |\n|---|---|\n| 1 | a |"


# ---------------------------------------------------------------------- the worker


JOB = dict(sampler="awrs", language="json", prompt=[1], schema="{}", grammar="", particles=2, max_tokens=3, seed=0)


def answers(lines, make):
    out = io.StringIO()
    genlm_worker.serve([json.dumps(line) for line in lines], out, make)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_the_worker_answers_line_by_line():
    found = answers(
        [{"folder": "f"}, JOB, {**JOB, "seed": 5}],
        lambda setting: lambda run: genlm_worker.Answer(float(run.seed), None, {"é\udcff": 1.0}),
    )
    assert found[0] == {"ready": True}
    assert [a["seconds"] for a in found[1:]] == [0.0, 5.0]
    assert found[1]["posterior"] == {"é\udcff": 1.0}


def test_an_error_is_an_answer_and_the_worker_goes_on():
    def make(setting):
        def run(job):
            if job.seed:
                raise AssertionError("log_q")
            return genlm_worker.Answer(1.0, -2.0)

        return run

    found = answers([{}, {**JOB, "seed": 1}, JOB, {"alien": 1}, JOB], make)
    assert found[1] == {"error": "AssertionError: log_q"}
    assert found[2]["log_evidence"] == found[4]["log_evidence"] == -2.0
    assert "alien" in found[3]["error"]


FAKE = """
import sys
from experiments.bench.genlm_worker import Answer, serve
def make(setting):
    if setting.get("broken"): raise ValueError("no model")
    def run(job):
        if job.seed == 1: raise SystemExit(3)
        if job.seed == 2: import time; time.sleep(60)
        return Answer(0.5, -1.0, {job.schema: 1.0})
    return run
serve(sys.stdin, sys.stdout, make)
"""


def fake(**options):
    return Worker([sys.executable, "-c", FAKE], options.pop("setting", {}), **options)


def test_a_worker_that_dies_is_started_again():
    with fake() as worker:
        assert worker.ask(JOB)["posterior"] == {"{}": 1.0}
        assert "status 3" in worker.ask({**JOB, "seed": 1})["error"]
        assert worker.ask(JOB)["seconds"] == 0.5


def test_a_worker_that_hangs_is_given_up():
    with fake(limit=1) as worker:
        started = time.monotonic()
        assert "may take 1 s" in worker.ask({**JOB, "seed": 2})["error"]
        assert time.monotonic() - started < 30


def test_a_worker_that_cannot_start_says_why():
    with fake(setting={"broken": True}) as worker, pytest.raises(ExperimentError, match="no model"):
        worker.ask(JOB)


def test_a_missing_environment_names_the_command_that_makes_it(tmp_path):
    with pytest.raises(ExperimentError, match="make bench-genlm"):
        Worker.of_python(tmp_path / "python", {})


def test_the_grammar_that_is_sent_is_the_language_that_is_enforced():
    schema = JSONSchema(
        {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"], "additionalProperties": False},
        whitespace="compact",
    )
    text = versus_genlm.grammar_text(schema)
    info = xgr.TokenizerInfo([bytes([b]) for b in range(256)] + [b""], vocab_size=257, stop_token_ids=[256])
    compiled = xgr.GrammarCompiler(info).compile_grammar(text)

    def generates(data):
        matcher = xgr.GrammarMatcher(compiled)
        return matcher.accept_string(data) and matcher.is_completed()

    assert generates('{"s":"\\u00e9é\\n"}'.encode())
    for wrong in (b'{"s": "a"}', b'{"s":"a\x00"}', b'{"s":"a\n"}', b'{"s":"a"', b"{}"):
        assert not generates(wrong)


# ---------------------------------------------------------------------- references and errors

BITS = TableModel(["0", "1", "."], ".", lambda prefix: {"0": 0.5, "1": 0.3, ".": 0.2})
SHORT = Regex("(00|1)+0?")


@pytest.mark.parametrize("bound_rows", [5, 10_000])
def test_a_reference_encloses_the_exact_evidence(bound_rows):
    exact = enumerate_posterior(BITS, SHORT, "", max_tokens=8)
    reference = Reference(**certify(BITS, SHORT, BITS.encode("0"), 8, bound_rows, estimate_rows=4))
    assert reference.log_lower - 1e-12 <= exact.log_evidence <= reference.log_upper + 1e-12
    assert len(reference.estimates) == 2
    if bound_rows > 5:
        assert reference.total_variation_bound == pytest.approx(0, abs=1e-12)
        assert reference.posterior == pytest.approx(exact.posterior())
        assert reference.total_variation(exact.posterior()) == pytest.approx(0, abs=1e-12)


REFERENCE = Reference(-2.1, -1.9, -2.0, [-2.0], {"a": 0.75, "b": 0.25}, 10, 4)


@pytest.mark.parametrize(
    ("estimate", "expected"), [(-2.0, (0, 0, 0.1)), (-2.3, (0.2, 0.3, 0.4)), (-1.5, (0.4, 0.5, 0.6))]
)
def test_errors_within_certified_bounds(estimate, expected):
    assert REFERENCE.error(estimate) == pytest.approx(expected)


def test_total_variation_counts_strings_on_either_side():
    assert REFERENCE.total_variation({"a": 0.5, "c": 0.5}) == pytest.approx(0.5)


def test_runs_without_an_estimate_count_nowhere_but_are_told():
    runs = [
        {"seconds": 1.0, "log_evidence": -2.3, "posterior": {"a": 1.0}},
        {"seconds": 3.0, "log_evidence": -1.9, "posterior": {"a": 0.75, "b": 0.25}},
        {"seconds": 9.0, "log_evidence": None, "posterior": {}},
        {"error": "died"},
    ]
    found = versus_genlm.errors(runs, REFERENCE)
    assert (found.runs, found.lost, found.seconds) == (2, 2, 2.0)
    assert found.point == pytest.approx((0.3**2 + 0.1**2) / 2)
    assert found.distance == pytest.approx(0.125)
    assert versus_genlm.errors(runs[2:], REFERENCE) is None


def test_the_tables_of_a_study(tmp_path):
    cells = Cells(tmp_path / "x.json", {})
    cells.put("p | reference", asdict(REFERENCE))

    def answer(instance, method, seed):
        if method == versus_genlm.ITS_JSON:
            return {"seconds": 50.0, "log_evidence": -1.0, "posterior": {}}
        off = 0.01 if method.ours else 1.0
        return {"seconds": 1.0 if method.ours else 10.0, "log_evidence": -2.0 + off, "posterior": {"a": 1.0}}

    class Prompt:
        id = "p"

    def seeds(method):
        return 1 if method == versus_genlm.ITS_JSON else 2

    versus_genlm.measure(cells, [Prompt], seeds, answer)
    wall = versus_genlm.wall_part(cells, ["p"], seeds)
    assert "`enumerate` 16 is 50 times and `sample` 16 50 times as fast" in wall
    assert "(target: 25, and 50 where the passes allow)" in wall
    error = versus_genlm.error_part(cells, ["p"], seeds)
    # (1 / 0.01)^2 in error and 10 in time; certified: 0.9^2 against 0.11^2
    assert "| genlm-control 16, AWRS | `enumerate` 16 | 1e+05 | 1e+05 | 669 |" in error
    assert "-2.1000 | -1.9000" in versus_genlm.reference_part(cells, ["p"])
    assert "seed 1" in next(name for name in json.loads((tmp_path / "x.json").read_text())["cells"] if "seed 1" in name)


def test_no_run_of_ours_finds_what_an_earlier_one_has_learned(tiny, monkeypatch):
    made = []
    compiling = JSONSchema._compile
    monkeypatch.setattr(JSONSchema, "_compile", lambda self, v: made.append(self) or compiling(self, v))
    schema = JSONSchema({"enum": ["ab", "b"]}, whitespace="compact", closed=True)
    first = versus_genlm.anew(tiny, schema)
    assert first == schema
    assert first is not schema  # the validator's verdicts lie with it
    before = first.compile(tiny.vocabulary)
    assert versus_genlm.anew(tiny, schema).compile(tiny.vocabulary) is not before

    instance = Instance(id="x", prompt="ab", constraint=schema, display="", reference="")
    made.clear()
    run = versus_genlm.runner(tiny, worker=None)
    results = [run(instance, versus_genlm.OURS[0], seed=0) for _ in range(2)]
    assert len(made) == 3  # warming up, and each of the two
    assert results[0]["log_evidence"] == results[1]["log_evidence"]


def test_what_is_stored_is_not_run_again(tmp_path):
    cells, ran = Cells(tmp_path / "x.json", {}), []

    def answer(instance, method, seed):
        ran.append(method)
        return {"error": "no luck"} if method == versus_genlm.ITS_JSON else {"seconds": 1.0, "log_evidence": None}

    class Prompt:
        id = "p"

    versus_genlm.measure(cells, [Prompt], lambda method: 1, answer)
    versus_genlm.measure(Cells(tmp_path / "x.json", {}), [Prompt], lambda method: 1, answer)
    assert len(ran) == len(versus_genlm.METHODS)


# ---------------------------------------------------------------------- clocks


@pytest.fixture(scope="module")
def tiny():
    tokens = [bytes([b]) for b in range(256)] + [b"ab", b" the", b'{"', "日".encode()]
    return tiny_llama(Named("tiny", spelled_by(tokens)))


def test_the_innermost_stage_is_charged(monkeypatch):
    now = iter([0.0, 1.0, 3.0, 7.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    watch = Stopwatch()
    with watch.stage("outer"), watch.stage("inner"):
        pass
    assert watch.seconds == {"outer": 1.0 + 4.0, "inner": 2.0}


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_clocks_time_a_run_and_change_nothing(tiny, branching):
    sampler = SMCSampler(tiny, step.FREE_STRING, n_particles=4, branching=branching, max_tokens=6, stop_fraction=0)
    before = sampler.run((40, 41), key="k")
    rows = type(tiny.start((0,)))
    untouched = rows.log_probs, rows.advance
    started = time.perf_counter()
    with clocks(tiny, step.FREE_STRING.compile(tiny.vocabulary), type(sampler.branching)) as watch:
        clocked = sampler.run((40, 41), key="k")
    whole = time.perf_counter() - started
    assert clocked.log_evidence == before.log_evidence
    assert clocked.posterior() == before.posterior()
    assert {"prefill", "forward", "mask", "branch", "move"} <= set(watch.seconds)
    assert all(value > 0 for value in watch.seconds.values())
    assert sum(watch.seconds.values()) <= whole
    assert (rows.log_probs, rows.advance) == untouched


def test_bare_passes_are_those_of_the_run(tiny):
    task = step.Task("t", (40, 41, 42), step.FREE_STRING, 6)
    sampler = step.sampler_of(tiny, task, "enumerate", 4)
    with recorded_moves(tiny) as moves:
        result = sampler.run(task.prompt)
    moves = moves[: len(result.trace)]
    assert len(step.bare_passes(tiny, task, moves)) == result.cost.passes == len(result.trace)
    assert 1 + sum(len(move.parents) for move in moves) == result.cost.forward_rows


def test_bare_passes_are_given_in_advance_what_the_run_was(tiny):
    task = step.Task("t", (40, 41, 42), Choice(["qzqzqzqz"]), 20)
    sampler = step.sampler_of(tiny, task, "enumerate", 2)
    with recorded_moves(tiny) as moves:
        result = sampler.run(task.prompt)
    moves = moves[: len(result.trace)]
    counted = []
    forward = type(tiny.model).forward

    def count(self, *args, **kwargs):
        counted.append(1)
        return forward(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(tiny.model), "forward", count)
        step.bare_passes(tiny, task, moves)
    assert len(counted) == result.cost.passes


def test_a_cell_of_the_split_and_its_page(tiny):
    cell = step.measure(tiny, step.Task("free string", (40, 41), step.FREE_STRING, 5), "sample", 3, repeats=1)
    assert cell["passes"] == 6
    assert 0 < cell["prefill"] < cell["bare"]
    text = "\n".join(step.page({("free string", "sample", 3): cell}))
    assert f"{cell['run'] / cell['bare']:.3f}" in text
    shares = [
        float(part.strip().rstrip("%"))
        for part in text.split("\n")
        if "| 3 |" in part
        for part in part.split("|")
        if "%" in part
    ]
    assert sum(shares) == pytest.approx(100, abs=0.5)


# ---------------------------------------------------------------------- vocabularies, masks, memory, generate


def test_a_tokenizer_that_spells_given_bytes():
    tokens = [*(bytes([b]) for b in range(256)), b"\xff\x00 x", "ü日".encode()]
    tokenizer = spelled_by(tokens)
    assert token_bytes(tokenizer, len(tokenizer))[: len(tokens)] == tuple(tokens)
    assert tokenizer.eos_token_id == len(tokens)


@pytest.mark.parametrize("state", growth.STATES)
def test_masks_are_filled_where_the_text_stands(tiny, state):
    schema, prefix = growth.STATES[state]
    whole = {"type": "object", "properties": {"s": schema}, "required": ["s"], "additionalProperties": False}
    compiled = JSONSchema(whole, whitespace="compact").compile(tiny.vocabulary)
    tokens = growth.next_tokens(tiny, compiled, prefix, 16)
    assert len(tokens) == 16
    assert not {*tokens} & {*tiny.vocabulary.stop_ids}
    assert growth.fill(tiny, compiled, prefix, tokens) > 0


def test_a_string_without_end_keeps_all_its_rows(tiny):
    states = growth.endless(tiny, 5, (40, 41), max_tokens=30)
    rows = [len(state.population) for state in states]
    assert len(rows) > 20
    assert set(rows[3:-1]) == {5}


def test_tables_of_growth():
    particles = {
        "sample | p | 16": {"seconds": 2.0, "passes": 10, "rows": 4.0},
        "sample | p | 1024": {"seconds": 9.0, "passes": 10, "rows": 40.0},
    }
    assert "| `sample` | p | 1024 | 9.00 | 4.50 | 4.50 | 10 | 40.0 | 900 ms | 22.5 ms |" in growth.particles_part(
        particles
    )
    text = growth.particles_part({**particles, "sample | q | 16": {"seconds": 1.0, "passes": 10, "rows": 4.0}})
    assert text.endswith("`sample`, K = 1024 over K = 16, by prompt: 4.50 (target: 6).")
    assert "`sample` with `stop_fraction=1e-06` (the default), `enumerate` with 0.001" in text
    prompt = {"50 | 64": 0.1, "2000 | 64": 0.2}
    assert "| 2000 | 200 ms (2.00) |" in growth.prompt_part(prompt)
    assert "| 512 | 300 ms | 3.00 |" in growth.output_part({"32": 0.1, "512": 0.3})


def test_whole_runs_of_growth_end_where_the_page_says(tiny, monkeypatch):
    default = inspect.signature(SMCSampler).parameters["stop_fraction"].default
    assert growth.STOP_FRACTION["sample"] == default
    assert growth.STOP_FRACTION["enumerate"] == 1e-3
    ends = []

    class Watched(SMCSampler):
        def __init__(self, *args, **options):
            ends.append((options["branching"], options["stop_fraction"]))
            super().__init__(*args, **options)

    def tool_calls(n, examples):
        return [Instance(f"i{i}", "ab", Choice(["qz", "zq"]), "", "") for i in range(n)]

    monkeypatch.setattr(growth, "SMCSampler", Watched)
    monkeypatch.setattr(growth, "tool_calls", tool_calls)
    options = argparse.Namespace(prompts=2, sample=[1, 2], enumerate=[2], repeats=1, quick=False)
    cell = growth.by_particles(tiny, options)
    assert list(cell) == [
        "sample | i0 | 1",
        "sample | i0 | 2",
        "sample | i1 | 1",
        "sample | i1 | 2",
        "enumerate | i0 | 2",
    ]
    assert set(ends) == set(growth.STOP_FRACTION.items())


def test_packing_discards_a_round_and_alternates(tmp_path):
    ran = []

    def work(width):
        ran.append(width)
        return {"seconds": float(len(ran))}

    cells = Cells(tmp_path / "x.json", {})
    found = packing.measured(cells, "bare", 3, work)
    assert ran == [1, 64, 1, 64, 64, 1, 1, 64]
    assert {width: [run["seconds"] for run in runs] for width, runs in found.items()} == {1: [3, 6, 7], 64: [4, 5, 8]}
    assert packing.measured(cells, "bare", 3, work) == found
    assert len(ran) == 8
    packing.measured(cells, "bare", 4, work)
    assert ran[8:] == [1, 64, 64, 1]


def test_memory_is_told_over_what_was_held(monkeypatch):
    peak = memory.Peak("cpu")
    before = peak.reset()
    held = np.ones(64 * memory.MIB // 8)
    del held
    assert 60 * memory.MIB < peak.read() - before < 100 * memory.MIB
    assert peak.reset() < before + 30 * memory.MIB


def test_page_of_memory():
    mib = memory.MIB
    cells = {
        (n, length): {"whole": (n + length) * mib, "later": length * mib} for n in (1, 64) for length in (50, 2000)
    }
    text = memory.page(cells, [50, 2000], [1, 64])
    assert "| 2000 less 50 | 1950 | 1950 |" in text
    assert "| 2000 | 2001 | 2064 |" in text


def test_tokens_before_the_stop():
    assert versus_generate.kept([5, 6, 2, 2], [2]) == 2
    assert versus_generate.kept([5, 6], [2, 3]) == 2
    assert versus_generate.kept([3], [2, 3]) == 0


def test_generate_with_the_processor_writes_the_language(tiny):
    compiler = xgr.GrammarCompiler(versus_generate.tokens(tiny))
    grammar = compiler.compile_grammar(xgr.Grammar.from_ebnf('root ::= "qzqzq"'))
    found = versus_generate.generated(tiny, (40, 41), 3, 0, grammar)
    assert (found["tokens"], found["steps"], found["sequences"]) == (3 * 5, 6, 3)


def test_generate_without_it_is_free(tiny):
    found = versus_generate.generated(tiny, (40, 41), 3, 0, None)
    assert found["tokens"] > 3 * 5


def test_local_masking_counts_the_tokens_of_every_sequence(tiny):
    instance = Instance(id="x", prompt="ab", constraint=Choice(["qzqzq"]), display="", reference="")
    found = versus_generate.ours(tiny, instance, (40, 41), 3, 0)
    assert (found["tokens"], found["steps"], found["sequences"]) == (3 * 5, 6, 3)


def test_given_up_sequences_count_the_tokens_that_they_had(tiny):
    """Refused, dead and unfinished: never as many tokens as a sequence may have."""
    checked = Checked(lambda text: text.startswith("qzqz"[: len(text)]) and len(text) <= 4, lambda text: False)
    instance = Instance(id="x", prompt="ab", constraint=checked, display="", reference="")
    found = versus_generate.ours(tiny, instance, (40, 41), 3, 0)  # all refused at their end
    assert (found["tokens"], found["steps"]) == (3 * 4, 5)
    checked = Checked(lambda text: text in ("", "q", "qz"), lambda text: False)  # nothing goes on from "qz"
    instance = Instance(id="x", prompt="ab", constraint=checked, display="", reference="")
    assert versus_generate.ours(tiny, instance, (40, 41), 3, 0)["tokens"] == 3 * 2
    instance = Instance(id="x", prompt="ab", constraint=Regex("(q|z)*#"), display="", reference="")
    endless = versus_generate.ours(tiny, instance, (40, 41), 4, 0)
    assert 0 < endless["tokens"] <= 4 * versus_generate.MAX_TOKENS


@pytest.mark.parametrize(("flags", "stem"), [([], "generate"), (["--examples"], "generate-examples")])
def test_generate_with_examples_has_files_of_its_own(tiny, tmp_path, monkeypatch, flags, stem):
    instance = Instance(id="x", prompt="ab", constraint=JSONSchema({"enum": ["a"]}), display="", reference="")
    monkeypatch.setattr(versus_generate, "tool_calls", lambda n, examples: [instance])
    monkeypatch.setattr(versus_generate.HFModel, "load", lambda name: tiny)
    monkeypatch.setattr(versus_generate, "MAX_TOKENS", 4)
    arguments = ["x", *flags, "--seeds", "1", "--sequences", "2", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    versus_generate.main()
    assert {path.name for path in tmp_path.iterdir()} == {f"{stem}.json", f"{stem}.md"}
    command = " ".join(["python -m experiments.bench.versus_generate", *flags])
    assert f"Made by `{command}`" in (tmp_path / f"{stem}.md").read_text()


BENCHES = [
    name
    for found in pkgutil.iter_modules(bench.__path__)
    if "def main(" in (Path(bench.__path__[0]) / f"{(name := found.name)}.py").read_text()
]


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_has_a_quick_version_that_leaves_committed_pages_alone(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"experiments.bench.{name}")
    committed = "results/reference" if name == "methods" else "results/bench"
    monkeypatch.setattr("sys.argv", [name, "--quick", "--out", committed])
    with pytest.raises(SystemExit) as refused:
        module.main()
    assert refused.value.code == 2
    assert "--quick never writes over the pages in" in capsys.readouterr().err


def test_a_quick_bench_runs_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["linear", "--quick", "--out", str(tmp_path), "--rows", "1"])
    linear.main()
    assert (tmp_path / "linear.md").read_text().startswith("**A quick run, to see that the bench runs.")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "block, 1 rows ..."
    assert re.fullmatch(r"block, 1 rows: \d+\.\d s", next(line for line in lines if line.startswith("block, 1 rows:")))


def test_quick_settings_yield_to_what_is_given() -> None:
    made = parser("A bench.")
    made.add_argument("--rows", type=int, nargs="+", default=[64, 128])
    assert parsed(made, dict(rows=[1]), []).rows == [64, 128]
    made = parser("A bench.")
    made.add_argument("--rows", type=int, nargs="+", default=[64, 128])
    options = parsed(made, dict(rows=[1]), ["--quick"])
    assert (options.rows, options.out, options.fresh) == ([1], Path("results/quick"), True)
    made = parser("A bench.")
    made.add_argument("--rows", type=int, nargs="+", default=[64, 128])
    assert parsed(made, dict(rows=[1]), ["--quick", "--rows", "2", "--out", "elsewhere"]).rows == [2]


def test_rounds_say_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    interleaved({"a": lambda: 1.0, "b": lambda: 2.0}, repeats=1, discard=1)
    said = [line.strip().split(":")[0] for line in capsys.readouterr().err.splitlines() if ":" in line]
    assert said == ["round 1 of 2, a", "round 1 of 2, b", "round 2 of 2, a", "round 2 of 2, b"]
