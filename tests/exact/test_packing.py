"""Many runs in one batch: the results of each alone, full passes, nothing lost when a job fails or memory runs out."""

from __future__ import annotations

import itertools
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from smc import EBNF, Choice, FiniteLanguage, Job, LearnedTwist, Regex, SMCResult, SMCSampler, TableModel, TextPotential
from smc.baselines.steering import Steering
from smc.errors import MemoryLimitError, MemoryLimitWarning, ModelError, OptionError, PromptError, SMCError
from smc.memory import is_out_of_memory
from smc.models.table import TableRows
from smc.packing import Request, stream
from smc.potentials import PotentialError
from smc.result import combine

TOKENS = ["0", "1", "<eos>"]


def uneven(prefix: tuple[str, ...]) -> dict[str, float]:
    """Probabilities that differ from prefix to prefix."""
    x = sum((i + 2) * (token == "1") for i, token in enumerate(prefix)) % 7
    stop = 0.05 * (len(prefix) % 4)
    one = (1 - stop) * (x + 1) / 9
    return {"0": 1 - stop - one, "1": one, "<eos>": stop}


class Counting(TableModel):
    """A table model that computes the rows of several runs together, and notes how many of each."""

    def __init__(self, next_probs: Callable = uneven, limit: float = np.inf, kept: float = np.inf):
        super().__init__(TOKENS, "<eos>", next_probs)
        self.passes: list[list[int]] = []
        self.limit, self.kept = limit, kept  # rows that fit in a pass, and rows that can be live
        self.live: weakref.WeakSet[TableRows] = weakref.WeakSet()

    def start(self, prompt: Sequence[int]) -> TableRows:
        return Rows(self, (tuple(prompt),))

    def evaluate(self, rows: Sequence[TableRows]) -> None:
        if sum(map(len, rows)) > self.limit or sum(map(len, self.live)) > self.kept:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore lines.")
        self.passes.append([len(part) for part in rows])


class Rows(TableRows):
    """Rows that their model can count for as long as anybody holds them."""

    def __init__(self, model: Counting, prefixes: tuple[tuple[int, ...], ...]):
        super().__init__(model, prefixes)
        model.live.add(self)

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> Rows:
        self._model.live.discard(self)
        return Rows(self._model, super().advance(parents, tokens)._prefixes)


def timeless(result: SMCResult) -> SMCResult:
    return replace(result, cost=replace(result.cost, seconds=0.0))


def alone(sampler: SMCSampler, prompt: str, key: str) -> SMCResult:
    """A job by itself, step by step, with nothing that packs."""
    results = []
    for replicate in range(sampler.replicates):
        *_, last = sampler.steps(prompt, key, replicate)
        results.append(sampler.result(last))
    return timeless(combine(results))


def ones(text: str) -> float:
    return 0.3 * text.count("1")


LANGUAGE = Regex("[01]{1,5}")
JOBS = [
    Job("", key="a"),
    Job("01", key="b", constraint=FiniteLanguage(["000", "10101", "11"])),
    Job("110", key="c", potentials=[TextPotential(ones, prefix=ones, log_bound=2)]),
    Job("0", key="d", constraint=EBNF('root ::= "0" root "1" | "1"')),
    Job("1", key="e", constraint=Regex("0{6}1*"), potentials=[TextPotential(lambda text: -0.5 * len(text))]),
    Job("0000", key="f", constraint=Choice(["1"])),
    Job("11", key="g", potentials=[TextPotential(lambda text: 0.0, prefix=lambda text: -np.inf)]),
]
OPTIONS = {
    "enumerate": {},
    "sample": {"branching": "sample"},
    "resampled always": {"branching": "sample", "ess_threshold": 1.0, "resampling": "multinomial", "draws": "independent"},
    "compete": {"branching": "sample", "finished": "compete", "ess_threshold": 0.9},
    "replicates": {"branching": "sample", "replicates": 2},
    "power": {"target_power": 2.0},
    "roulette": {"branching": "sample", "stop": "roulette", "stop_fraction": 0.2},
    "steering": {"branching": Steering(4, 2, True)},
}  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_results_are_those_of_each_job_alone(options: dict) -> None:
    sampler = SMCSampler(Counting(), LANGUAGE, **{"n_particles": 4, "max_tokens": 8, "seed": 3, **options})
    expected = [alone(sampler._for_job(job), job.prompt, job.key) for job in JOBS]
    assert len({r.status for r in expected}) > 1
    for batch_rows in (1, 2, 9, 1000):
        assert list(map(timeless, sampler.run_many(JOBS, batch_rows))) == expected, batch_rows
    backwards = sampler.run_many(JOBS[::-1], 3)
    assert list(map(timeless, backwards[::-1])) == expected
    for job, result in zip(JOBS, expected, strict=True):
        assert timeless(sampler._for_job(job).run(job.prompt, job.key)) == result


def test_models_that_do_not_pack_give_the_same() -> None:
    jobs = [job for job in JOBS if job.key in "abc"]
    options = dict(n_particles=4, max_tokens=8, branching="sample", replicates=2)
    packed = SMCSampler(Counting(), LANGUAGE, **options).run_many(jobs)
    plain = SMCSampler(TableModel(TOKENS, "<eos>", uneven), LANGUAGE, **options).run_many(jobs)
    assert list(map(timeless, packed)) == list(map(timeless, plain))


# ---------------------------------------------------------------------- filling the batch


def until(prefix: tuple[str, ...]) -> dict[str, float]:
    """The prompt's ones say how many tokens follow: one step each, and one for the stop."""
    n = prefix.index("0")
    return {"<eos>": 1.0} if len(prefix) >= 2 * n + 1 else {"0": 1.0}


def lengths(*steps: int) -> list[Job]:
    """Jobs of one row each that take so many steps."""
    return [Job("1" * (n - 1) + "0", key=f"{i}: {n}") for i, n in enumerate(steps)]


def single(model: TableModel, **options) -> SMCSampler:
    return SMCSampler(model, Regex("0*"), **{"n_particles": 1, "max_tokens": 9, **options})


@pytest.mark.parametrize("order", list(itertools.permutations([1, 3, 5])))
def test_every_order_of_ending(order: tuple[int, ...]) -> None:
    sampler = single(Counting(until))
    jobs = lengths(*order)
    ends = [(job.key, result.cost.passes) for job, result in sampler.stream(jobs, batch_rows=1000)]
    assert ends == sorted(((job.key, n) for job, n in zip(jobs, order, strict=True)), key=lambda end: end[1])
    for batch_rows in (1, 2):
        assert [r.cost.passes for r in sampler.run_many(jobs, batch_rows)] == list(order)


def test_whoever_ends_is_replaced_at_once() -> None:
    model = Counting(until)
    single(model).run_many(lengths(4, 1, 1, 2), batch_rows=2)
    assert model.passes == [[1, 1]] * 4  # eight steps in four passes of two: there is no shorter way
    model.passes.clear()
    single(model).run_many(lengths(4, 1, 1, 2), batch_rows=1)
    assert model.passes == [[1]] * 8
    model.passes.clear()
    single(model, replicates=4).run_many(lengths(3, 3), batch_rows=4)
    assert model.passes == [[1] * 4] * 6


def test_replicates_share_passes_in_a_plain_run() -> None:
    model = Counting(until)
    result = single(model, replicates=5).run("110")
    assert model.passes == [[1] * 5] * 3
    assert (result.cost.passes, result.cost.forward_rows) == (15, 15)


def test_no_pass_is_wider_than_asked() -> None:
    for batch_rows in (4, 5, 7, 16):
        model = Counting()
        sampler = SMCSampler(model, LANGUAGE, n_particles=4, max_tokens=8, branching="sample")
        sampler.run_many([Job("01", key=str(i)) for i in range(12)], batch_rows)
        assert max(map(sum, model.passes)) <= batch_rows
        assert max(map(max, model.passes)) == 4
        assert max(map(len, model.passes)) > 1 or batch_rows < 8


def test_a_run_wider_than_a_pass_runs_by_itself() -> None:
    model = Counting()
    SMCSampler(model, LANGUAGE, n_particles=4, max_tokens=8).run_many([Job("", key="a"), Job("", key="b")], 2)
    assert max(map(sum, model.passes)) == 4
    assert max(map(len, model.passes)) == 1


def test_runs_that_need_few_rows_make_room_for_more() -> None:
    """Eight particles on one row each: once one run has shown that, a pass of sixteen rows takes sixteen runs."""
    model = Counting(until)
    sampler = SMCSampler(model, Regex("0*"), n_particles=8, branching="sample", max_tokens=9)
    sampler.run_many(lengths(*[3] * 34), batch_rows=16)
    assert model.passes == [[1, 1]] * 3 + [[1] * 16] * 6


def test_the_default_is_64_rows_or_one_run() -> None:
    model = Counting(until)
    single(model).run_many(lengths(*[2] * 70))
    assert [len(rows) for rows in model.passes] == [64, 64, 6, 6]
    model.passes.clear()
    SMCSampler(model, Regex("0*"), n_particles=100, max_tokens=9).run_many(lengths(2, 2))
    assert [len(rows) for rows in model.passes] == [1, 1, 1, 1]


def test_results_come_as_soon_as_they_are_there() -> None:
    model = Counting(until)
    results = single(model).stream(lengths(5, 2, 3), batch_rows=2)
    job, _ = next(results)
    assert (job.key, len(model.passes)) == ("1: 2", 2)
    job, _ = next(results)
    assert len(model.passes) == 5
    results.close()


def test_no_jobs_no_results() -> None:
    assert single(Counting(until)).run_many([]) == []


def test_runs_that_learn_from_each_other_keep_their_order() -> None:
    jobs = [Job("0", key=str(i)) for i in range(3)]

    def sampler() -> SMCSampler:
        return SMCSampler(Counting(), LANGUAGE, n_particles=2, max_tokens=8, twist=LearnedTwist(), replicates=2)

    one = sampler()
    assert list(map(timeless, sampler().run_many(jobs))) == [alone(one, job.prompt, job.key) for job in jobs]


# ---------------------------------------------------------------------- accounts


def test_shared_time_is_shared_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    class Slow(Counting):
        def evaluate(self, rows: Sequence[TableRows]) -> None:
            nonlocal now
            now += 12.0
            super().evaluate(rows)

    monkeypatch.setattr("time.perf_counter", lambda: now)
    model = Slow(lambda prefix: {"0": 0.5, "1": 0.5} if len(prefix) < 2 else {"<eos>": 1.0})
    jobs = [Job("", key="one", constraint=Choice(["00"])), Job("", key="three", constraint=Choice(["01", "10", "11"]))]
    one, three = SMCSampler(model, LANGUAGE, n_particles=3, max_tokens=3, stop_fraction=0).run_many(jobs)
    assert model.passes == [[1, 1], [1, 2], [1, 3]]
    assert one.cost.seconds == pytest.approx(6 + 4 + 3)
    assert three.cost.seconds == pytest.approx(6 + 8 + 9)
    assert (one.cost.forward_rows, one.cost.passes) == (3, 3)
    assert (three.cost.forward_rows, three.cost.passes) == (6, 3)


# ---------------------------------------------------------------------- failures


def drained(results: Iterator[tuple[Job, SMCResult]]) -> tuple[list[str], Exception | None]:
    """The keys of what came out, and the error that came last."""
    found = []
    try:
        for job, _ in results:
            found.append(job.key)
    except SMCError as error:
        return found, error
    return found, None


def failing(text: str) -> float:
    if text.endswith("00"):
        raise KeyError("x")
    return 0.0


def test_a_failure_lets_those_under_way_end_and_nobody_start() -> None:
    model = Counting(until)
    bad = replace(lengths(4)[0], key="bad", potentials=[TextPotential(failing, prefix=failing)])
    first, second, third, fourth = lengths(1, 6, 3, 2)
    found, error = drained(single(model, replicates=2).stream([first, bad, second, third, fourth], batch_rows=6))
    assert found == ["0: 1", "2: 3", "1: 6"]  # the last one was still waiting when the bad one failed
    assert isinstance(error, PotentialError)
    assert re.search(r"^Job 'bad': .*KeyError", str(error))
    assert isinstance(error.__cause__, PotentialError)
    with pytest.raises(PotentialError, match=r"^A potential raised KeyError"):
        single(model, potentials=[TextPotential(failing)]).run("1110")


def test_the_run_at_fault_is_found_when_a_shared_pass_fails() -> None:
    class Broken(Counting):
        def log_probs(self, prefix: tuple[int, ...]) -> np.ndarray:
            return np.full(3, np.nan) if prefix[0] == 0 else super().log_probs(prefix)

        def evaluate(self, rows: Sequence[TableRows]) -> None:
            if any(prefix[0] == 0 for part in rows for prefix in part._prefixes):
                raise ModelError("NaN somewhere.")

    jobs = [*lengths(3), Job("0", key="bad"), *lengths(9, 5)[1:]]
    found, error = drained(single(Broken(until)).stream(jobs))
    assert found == ["0: 3", "1: 5"]
    assert isinstance(error, ModelError)
    assert str(error).startswith("Job 'bad'")


def test_errors_of_any_class_name_the_job() -> None:
    class Picky(SMCError):
        def __init__(self, a: int, b: int):
            super().__init__(f"{a} and {b}")

    class Fails(Counting):
        def log_probs(self, prefix: tuple[int, ...]) -> np.ndarray:
            raise Picky(1, 2)

    with pytest.raises(SMCError, match="Job '0: 2': 1 and 2"):
        single(Fails(until)).run_many(lengths(2))


def test_what_is_no_input_error_comes_out_at_once() -> None:
    class Crashes(Counting):
        def evaluate(self, rows: Sequence[TableRows]) -> None:
            raise RuntimeError("shape mismatch")

    with pytest.raises(RuntimeError, match="shape mismatch"):
        single(Crashes(until)).run_many(lengths(2))


def test_bad_input_is_refused_before_anything_runs_and_names_the_job() -> None:
    model = Counting(until)
    sampler = single(model)
    good = lengths(2)
    with pytest.raises(PromptError, match=r"Job 'x': .*'\?'"):
        sampler.stream([*good, Job("0?", key="x")])
    with pytest.raises(OptionError, match=r"Job 'x': .*not a constraint"):
        sampler.stream([*good, Job("0", key="x", constraint="0*")])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="key must be a string"):
        sampler.stream([*good, Job("0", key=3)])  # type: ignore[arg-type]
    for batch_rows in (0, 2.5, "many"):
        with pytest.raises(OptionError, match="batch_rows"):
            sampler.stream(good, batch_rows)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="one model"):
        stream([Request(sampler, "0", "a"), Request(single(Counting(until)), "0", "b")])
    assert not model.passes


# ---------------------------------------------------------------------- memory


@pytest.fixture
def expected() -> list[SMCResult]:
    return list(map(timeless, wide(Counting()).run_many(WIDE)))


WIDE = [Job(prompt, key=prompt) for prompt in ("0", "1", "00", "01", "10", "11", "000")]


def wide(model: TableModel) -> SMCSampler:
    return SMCSampler(model, LANGUAGE, n_particles=4, max_tokens=8, branching="sample", ess_threshold=1.0)


@pytest.mark.parametrize("limit", [4, 6, 9, 17])
def test_a_pass_that_does_not_fit_is_split(expected: list[SMCResult], limit: int) -> None:
    model = Counting(limit=limit)
    with pytest.warns(MemoryLimitWarning, match=r"runs .* do not fit .*CUDA out of memory.*batch_rows=\d+") as warned:
        results = wide(model).run_many(WIDE)
    assert list(map(timeless, results)) == expected
    assert len(warned) == 1
    assert "More lines" not in str(warned[0].message)
    assert max(map(sum, model.passes)) <= limit


@pytest.mark.parametrize("kept", [4, 6, 9, 17])
def test_rows_that_do_not_fit_start_again_later(expected: list[SMCResult], kept: int) -> None:
    model = Counting(kept=kept)
    with pytest.warns(MemoryLimitWarning) as warned:
        results = wide(model).run_many(WIDE)
    assert list(map(timeless, results)) == expected
    assert len(warned) == 1


class Short(Counting):
    """Memory runs out in a run's own step, on more rows of one run than fit."""

    def evaluate(self, rows: Sequence[TableRows]) -> None:
        pass

    def start(self, prompt: Sequence[int]) -> TableRows:
        return ShortRows(self, (tuple(prompt),))


class ShortRows(Rows):
    @property
    def log_probs(self) -> torch.Tensor:
        if len(self) > self._model.limit or sum(map(len, self._model.live)) > self._model.kept:
            raise MemoryError("Unable to allocate 2 GiB")
        return super().log_probs

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> ShortRows:
        self._model.live.discard(self)
        return ShortRows(self._model, super().advance(parents, tokens)._prefixes)


@pytest.mark.parametrize("kept", [4, 6, 9, 17])
def test_a_step_that_does_not_fit_starts_again(expected: list[SMCResult], kept: int) -> None:
    with pytest.warns(MemoryLimitWarning):
        results = wide(Short(kept=kept)).run_many(WIDE)
    assert list(map(timeless, results)) == expected


@pytest.mark.parametrize("model", [Counting(until, limit=3), Short(until, limit=3), Counting(until, kept=3)])
def test_a_run_that_does_not_fit_alone_is_an_error_after_what_has_ended(model: Counting) -> None:
    model._next_probs = lambda prefix: {"0": 0.5, "1": 0.5} if len(prefix) < 5 else {"<eos>": 1.0}
    narrow, broad = Choice(["0001"]), Choice(["0001", "0010", "0100", "1000"])
    jobs = [
        Job("0", key="a", constraint=narrow),
        Job("0", key="b", constraint=broad),
        Job("0", key="c", constraint=narrow),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        found, error = drained(SMCSampler(model, LANGUAGE, n_particles=4, max_tokens=5).stream(jobs, batch_rows=8))
    assert found in (["a"], ["a", "c"])  # the last one goes on only if it had begun
    assert isinstance(error, MemoryLimitError)
    assert re.search(r"^Job 'b': A run with 4 rows .*Lower n_particles", str(error))
    with pytest.raises(MemoryLimitError, match=r"^A run with 4 rows"):
        SMCSampler(model, broad, n_particles=4, max_tokens=5).run("0")


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.OutOfMemoryError("x"), True),
        (MemoryError(), True),
        (RuntimeError("MPS backend out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_running_out_of_memory_looks_like(error: Exception, is_one: bool) -> None:
    assert is_out_of_memory(error) is is_one


@pytest.mark.parametrize("allocate", [lambda: torch.empty(10**15), lambda: np.empty(10**15)])
def test_real_allocators_are_recognised(allocate: Callable[[], object]) -> None:
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        allocate()
    assert is_out_of_memory(caught.value)
