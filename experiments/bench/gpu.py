"""A step on a GPU against plain batched decoding, for Llama shapes with random weights.

python -m experiments.bench.gpu --shape 1b 8b --rows 16 64 256 512 --prompt 1000

For each shape and number of rows: the time of a step of SMCSampler (`enumerate` and `sample`) inside a free JSON string,
of a step of transformers' own batched decoding with a DynamicCache and no constraint at all, the parts of a step, what
travels between device and host, and the peak of memory beyond the weights. Then a run in half precision whose sequences
are scored again in float32. Each measurement is stored as soon as it is made, in gpu.json and gpu.md; the same command
again does only what is missing.
"""

from __future__ import annotations

import gc
import inspect
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache

from experiments.bench import common
from experiments.bench.random_models import SHAPES, letters_tokenizer, random_llama
from experiments.bench.stopwatch import STAGES, clocks
from smc import HFModel, JSONSchema, Regex, SMCSampler
from smc.branching import Enumerate
from smc.host import counting_fetches
from smc.memory import is_out_of_memory
from smc.rescoring import rescore
from smc.sampler import State

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
STRING = JSONSchema(
    {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]}, whitespace="compact"
)
OPENING = 40  # steps within which the population reaches the string and fills its rows
WARM_UP = 3
PARTS = (*STAGES[1:], "other")
LETTERS = Regex("[a-z]{48}")  # what is written in half precision; some dozen tokens


# --------------------------------------------------------------------------------------------------- measurements


@dataclass(frozen=True)
class Setting:
    """What one measurement is of.

    Attributes:
        model: with or without recorded steps (CUDA graphs).
        rows: K. steps: how many are timed. prompt: token ids.
    """

    model: HFModel
    rows: int
    steps: int
    prompt: tuple[int, ...]

    def sampler(self, branching: str) -> SMCSampler:
        """What is timed."""
        return SMCSampler(
            self.model,
            STRING,
            n_particles=self.rows,
            branching=branching,
            max_tokens=OPENING + 2 * (WARM_UP + self.steps),
            stop_fraction=0,
        )

    def filled(self, sampler: SMCSampler) -> State:
        """A run whose rows are all inside the string, warmed up."""
        state = sampler.init(self.prompt)
        while len(state.population) < self.rows and state.step < OPENING:
            state = sampler.step(state)
        for _ in range(WARM_UP):
            state = sampler.step(state)
        return state


def step_time(setting: Setting, branching: str) -> dict[str, Any]:
    """Median seconds of a step, the rows that it had, and bytes beyond the weights at the peak."""
    before = _start_of_peak()
    sampler = setting.sampler(branching)
    state = setting.filled(sampler)
    seconds, rows = [], []
    for _ in range(setting.steps):
        rows.append(len(state.population))
        common.synchronise()
        started = time.perf_counter()
        state = sampler.step(state)
        common.synchronise()
        seconds.append(time.perf_counter() - started)
    return {"seconds": float(np.median(seconds)), "rows": float(np.mean(rows)), "peak_bytes": _peak(before)}


def parts_of_a_step(setting: Setting) -> dict[str, float]:
    """Mean seconds a step of each part; waits in between let nothing overlap, so they add up to more than a step takes."""
    sampler = setting.sampler("enumerate")
    with clocks(setting.model, STRING.compile(setting.model.vocabulary), Enumerate) as watch:
        state = setting.filled(sampler)
        before = dict(watch.seconds)
        total = common.seconds(partial(_steps, sampler, state, setting.steps))
        spent = {part: watch.seconds[part] - before.get(part, 0.0) for part in PARTS[:-1]}
    return {part: seconds / setting.steps for part, seconds in (spent | {"other": total - sum(spent.values())}).items()}


def _steps(sampler: SMCSampler, state: State, n: int) -> None:
    for _ in range(n):
        state = sampler.step(state)


def traffic(setting: Setting) -> dict[str, float]:
    """How often a step waits for the device (`fetches`), and what is copied: number and device seconds a step, each way."""
    sampler = setting.sampler("enumerate")
    state = setting.filled(sampler)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with counting_fetches() as fetches, torch.profiler.profile(activities=activities) as profile:
        _steps(sampler, state, setting.steps)
        common.synchronise()
    found = {"fetches": fetches.count / setting.steps}
    for way in ("DtoH", "HtoD"):
        copies = [event for event in profile.key_averages() if event.key.startswith(f"Memcpy {way}")]
        found[f"{way} copies"] = sum(event.count for event in copies) / setting.steps
        found[f"{way} seconds"] = sum(event.device_time_total for event in copies) / 1e6 / setting.steps
    return found


@torch.inference_mode()
def plain_decoding(setting: Setting) -> dict[str, Any]:
    """A step of transformers' own decoding: every row with keys and values of its own, the likeliest token fed back."""
    before = _start_of_peak()
    model: PreTrainedModel = setting.model.model
    accepted = inspect.signature(model.forward).parameters
    name, cache = "cache" if "cache" in accepted else "past_key_values", DynamicCache(config=model.config)
    options: dict[str, Any] = {"use_cache": True, "logits_to_keep": 1, name: cache}
    prompt = torch.tensor([setting.prompt], device=model.device)
    logits = model(input_ids=prompt, **options).logits[:, -1]
    cache.batch_repeat_interleave(setting.rows)
    tokens = logits.argmax(dim=-1, keepdim=True).expand(setting.rows, 1)
    seconds = []
    for _ in range(WARM_UP + setting.steps):
        common.synchronise()
        started = time.perf_counter()
        tokens = model(input_ids=tokens, **options).logits[:, -1].argmax(dim=-1, keepdim=True)
        common.synchronise()
        seconds.append(time.perf_counter() - started)
    return {
        "seconds": float(np.median(seconds[WARM_UP:])),
        "rows": float(setting.rows),
        "peak_bytes": _peak(before),
    }


def rounding(shape: str, device: str, dtype: str, prompt: int, rows: int) -> dict[str, Any]:
    """A run in half precision, and its sequences scored again by the same weights in float32."""
    half = random_llama(shape, device, DTYPES[dtype], context=prompt + 48)
    tokenizer = letters_tokenizer(SHAPES[shape]["vocab_size"])
    model = HFModel(half, tokenizer, f"{shape} in {dtype}")
    ids = random_prompt(prompt)
    seconds = {}
    started = time.perf_counter()
    result = SMCSampler(model, LETTERS, n_particles=rows, max_tokens=48, stop_fraction=0).run(ids)
    seconds["run"] = time.perf_counter() - started
    wide = HFModel(half.float(), tokenizer, f"{shape} in float32")
    started = time.perf_counter()
    found = rescore(result, wide, LETTERS, ids)
    seconds["rescoring"] = time.perf_counter() - started
    return {
        "sequences": len(found.changes),
        "largest_difference": found.largest_difference,
        "mean_difference": found.mean_difference,
        "total_variation": found.total_variation,
        "ess_kept": found.ess_kept,
        "log_evidence": result.log_evidence,
        "log_evidence_corrected": found.after.log_evidence,
        "seconds": seconds,
        "summary": found.summary(),
    }


def random_prompt(length: int) -> tuple[int, ...]:
    """Token ids of lowercase letters."""
    alphabet = letters_tokenizer(258)("abcdefghijklmnopqrstuvwxyz", add_special_tokens=False)["input_ids"]
    return tuple(int(i) for i in np.random.default_rng(0).choice(alphabet, size=length))


def _start_of_peak() -> int:
    """Bytes in use before a measurement of memory; 0 without a GPU."""
    gc.collect()
    if not torch.cuda.is_available():
        return 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _peak(before: int) -> int | None:
    return torch.cuda.max_memory_allocated() - before if torch.cuda.is_available() else None


# ------------------------------------------------------------------------------------------------ cells and tables


@dataclass
class Plan:
    """Measurements in their order, until the time is up.

    Attributes:
        cells: what is stored. deadline: on the clock of time.monotonic. missed: what was not reached. failed: what raised
            an error, and which.
    """

    cells: common.Cells
    deadline: float
    missed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def wants(self, names: Sequence[str]) -> bool:
        """Whether any of these is still to be measured, and there is time."""
        missing = [name for name in names if name not in self.cells]
        if missing and time.monotonic() > self.deadline:
            self.missed += missing
            return False
        return bool(missing)

    def measure(self, name: str, work: Callable[[], Any]) -> None:
        """Measure and store. Running out of memory is a result too; any other error is noted, and the next one begun."""
        if not self.wants([name]):
            return

        def guarded() -> Any:
            try:
                return work()
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                return {"out_of_memory": True}

        try:
            self.cells.get(name, guarded)
        except Exception as error:
            traceback.print_exc()
            self.failed[name] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def measure_shape(plan: Plan, shape: str, options: Any) -> None:
    """Every measurement of one shape."""
    wanted = ["enumerate", "plain", "sample", "parts", "traffic"]
    can_record = options.graphs and torch.device(options.device).type == "cuda"
    names = [f"{shape}, {rows} rows: {what}" for rows in options.rows for what in wanted]
    recorded = [f"{shape}, {rows} rows: graphs" for rows in options.rows if can_record]
    if not plan.wants([*names, *recorded]):
        return
    context = options.prompt + OPENING + 2 * (WARM_UP + options.steps) + 8
    llama = random_llama(shape, options.device, DTYPES[options.dtype], context)
    tokenizer, prompt = letters_tokenizer(SHAPES[shape]["vocab_size"]), random_prompt(options.prompt)
    model = HFModel(llama, tokenizer, shape)
    for rows in options.rows:
        setting = Setting(model, rows, options.steps, prompt)
        work: dict[str, Callable[[], Any]] = {
            "enumerate": partial(step_time, setting, "enumerate"),
            "plain": partial(plain_decoding, setting),
            "sample": partial(step_time, setting, "sample"),
            "parts": partial(parts_of_a_step, setting),
            "traffic": partial(traffic, setting),
        }
        for what in wanted:
            plan.measure(f"{shape}, {rows} rows: {what}", work[what])
    if can_record:
        faster = HFModel(llama, tokenizer, shape, cuda_graphs=True)
        for rows in options.rows:
            setting = Setting(faster, rows, options.steps, prompt)
            plan.measure(f"{shape}, {rows} rows: graphs", partial(step_time, setting, "enumerate"))


def page(plan: Plan, options: Any) -> list[str]:
    """The parts of the Markdown page."""
    cells = plan.cells

    def cell(shape: str, rows: int, what: str) -> dict[str, Any]:
        name = f"{shape}, {rows} rows: {what}"
        return cells[name] if name in cells else {}  # noqa: SIM401  (get measures)

    def ms(found: dict[str, Any], key: str = "seconds") -> str:
        if found.get("out_of_memory"):
            return "out of memory"
        return common.milliseconds(found[key]) if key in found else ""

    def step(found: dict[str, Any], rows: int) -> str:
        there = round(found.get("rows", rows), 1)
        return ms(found) if there == rows else f"{ms(found)} ({there:g} rows)"

    def gigabytes(found: dict[str, Any]) -> str:
        return f"{found['peak_bytes'] / 1e9:.2f}" if found.get("peak_bytes") is not None else ""

    steps, parts = [], []
    for shape in options.shape:
        for rows in options.rows:
            ours, plain, sample, graphs, split, copies = (
                cell(shape, rows, what) for what in ("enumerate", "plain", "sample", "graphs", "parts", "traffic")
            )
            both = "seconds" in ours and "seconds" in plain
            ratio = f"{ours['seconds'] / plain['seconds']:.2f}" if both else ""
            steps.append(
                [
                    shape,
                    rows,
                    *(step(found, rows) for found in (ours, sample, graphs, plain)),
                    ratio,
                    gigabytes(ours),
                    gigabytes(plain),
                ]
            )
            times = [ms(split, part) for part in PARTS]
            counts = [f"{copies[key]:.3g}" if key in copies else "" for key in ("fetches", "DtoH copies")]
            parts.append([shape, rows, *times, *counts, ms(copies, "DtoH seconds"), ms(copies, "HtoD seconds")])
    found = [
        f"Random weights in {options.dtype}, a prompt of {options.prompt} tokens, medians of {options.steps} steps inside a free JSON string. *Plain* is "
        "transformers' decoding of as many rows with a DynamicCache and no constraint. Memory: gigabytes at the peak beyond the weights.",
        common.table(
            [
                "shape",
                "rows",
                "enumerate",
                "sample",
                "CUDA graphs",
                "plain",
                "enumerate / plain",
                "memory",
                "plain memory",
            ],
            steps,
        ),
        "Parts of an `enumerate` step, measured with waits in between, so that nothing overlaps and they add up to more than a step; how often a "
        "step fetches from the device, how many copies to the host it makes, and how long copies take on the device.",
        common.table(["shape", "rows", *PARTS, "fetches", "copies to host", "to host", "to device"], parts),
    ]
    if (name := rounding_name(options)) in cells:
        summary = cells[name].get("summary", "Out of memory.")
        found += [f"The {options.rescored} shape in {options.dtype}, and in float32:", f"```\n{summary}\n```"]
    if plan.failed:
        found.append("Failed: " + "; ".join(f"{name} ({error})" for name, error in plan.failed.items()) + ".")
    if plan.missed:
        missed = "; ".join(dict.fromkeys(plan.missed))
        found.append(f"Not reached in time: {missed}. The same command goes on there.")
    return found


def rounding_name(options: Any) -> str:
    """The cell of the run that is scored again."""
    return f"{options.rescored}, {min(options.rows)} rows: {options.dtype} against float32"


QUICK = dict(device="cpu", shape=["tiny"], rows=[2], prompt=16, steps=2, dtype="float32", minutes=1.0)
"""The settings of --quick, which needs no GPU."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and store."""
    parser = common.parser(__doc__)
    parser.add_argument("--device", default="cuda", help='"cuda" or "cpu"')
    parser.add_argument("--shape", nargs="+", default=["1b", "8b"], choices=list(SHAPES))
    parser.add_argument("--rows", type=int, nargs="+", default=[16, 64, 256, 512])
    parser.add_argument("--prompt", type=int, default=1000, help="tokens")
    parser.add_argument("--steps", type=int, default=16, help="that are timed")
    parser.add_argument("--dtype", default="bfloat16", choices=list(DTYPES))
    parser.add_argument("--rescored", default=None, choices=list(SHAPES), help="the shape of the run scored again")
    parser.add_argument("--no-graphs", dest="graphs", action="store_false", help="leave CUDA graphs out")
    parser.add_argument("--minutes", type=float, default=6.0, help="after which no measurement is begun")
    options = common.parsed(parser, QUICK, arguments)
    if options.device != "cpu" and not torch.cuda.is_available():
        parser.error("torch sees no GPU here. Use --device cpu --shape tiny to see that the bench runs.")
    options.rescored = options.rescored or ("tiny" if options.shape == ["tiny"] else "160m")
    settings = {**common.settings(options.device), "dtype": options.dtype, "prompt": options.prompt}
    out = Path(options.out)
    plan = Plan(
        common.Cells(out / "gpu.json", {**settings, "steps": options.steps}, options.fresh),
        time.monotonic() + 60 * options.minutes,
    )
    command = f"python -m experiments.bench.gpu --shape {' '.join(options.shape)} --rows {' '.join(map(str, options.rows))} --prompt {options.prompt}"
    plan.measure(
        rounding_name(options),
        partial(rounding, options.rescored, options.device, options.dtype, options.prompt, min(options.rows)),
    )
    for shape in options.shape:
        measure_shape(plan, shape, options)
        common.write_page(out / "gpu.md", "A step on a GPU", command, page(plan, options), quick=options.quick)
    if plan.failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
