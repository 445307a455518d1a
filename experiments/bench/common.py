"""What the side-by-side benches share: cells that outlive a killed run, interleaved medians, tables, a line on the machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.errors import ExperimentError
from smc.errors import SMCError

PACKAGES = ("torch", "transformers", "xgrammar", "numpy")
MAX_TOKENS = 96
"""Tokens before the stop, in every bench on tool calls."""


class Cells:
    """Finished measurements of one bench, by name, in one JSON file that is rewritten whole after each.

    A cell's name says what it measured, so that a wider setting (more seeds, more rows) adds to a file and the same
    one does only what is missing.

    Args:
        path: the file; a missing one has no cells yet.
        settings: what changes every number (threads, device). A file made under other settings is not added to.
        fresh: forget what the file holds.

    Raises:
        ExperimentError: the file was made under other settings, or is not one of these.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], fresh: bool = False):
        self._path, self._settings = path, dict(settings)
        self._cells: dict[str, Any] = {}
        if path.exists() and not fresh:
            self._cells = self._read()

    def _read(self) -> dict[str, Any]:
        try:
            stored = json.loads(self._path.read_text())
            settings, cells = stored["settings"], stored["cells"]
        except (ValueError, KeyError, TypeError):
            raise ExperimentError(
                f"{self._path} is not a file of this bench. Move it, or start over with --fresh."
            ) from None
        if settings != self._settings:
            raise ExperimentError(
                f"{self._path} was measured with {settings}, and this is {self._settings}. Start over with --fresh, or "
                "write elsewhere with --out."
            )
        return dict(cells)

    def __contains__(self, name: str) -> bool:
        return name in self._cells

    def __getitem__(self, name: str) -> Any:
        return self._cells[name]

    def get(self, name: str, measure: Callable[[], Any]) -> Any:
        """The stored cell, or what `measure` makes of it now: any JSON value."""
        if name not in self._cells:
            with timed(name):
                self.put(name, measure())
        return self._cells[name]

    def put(self, name: str, value: Any) -> None:
        """Store one cell, whole or not at all."""
        self._cells[name] = value
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".json.part")
        stored = {"settings": self._settings, "environment": environment_line(), "cells": self._cells}
        draft.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
        os.replace(draft, self._path)


def progress(text: str) -> None:
    """One line on standard error."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def timed(name: str) -> Iterator[None]:
    """A line when a measurement begins, and one with its seconds when it has ended."""
    progress(f"{name} ...")
    started = time.perf_counter()
    yield
    progress(f"{name}: {time.perf_counter() - started:.1f} s")


def command(main: Callable[[], None]) -> None:
    """Run a bench; what it cannot do is said in a line. What was measured until then is stored."""
    try:
        main()
    except (ExperimentError, SMCError) as error:
        sys.exit(str(error))


QUICK = Path("results/quick")
"""Where quick runs write: never where committed pages lie."""


def parser(module_doc: str | None, out: Path = Path("results/bench")) -> argparse.ArgumentParser:
    """The options that every bench has."""
    made = argparse.ArgumentParser(description=(module_doc or "").splitlines()[0])
    made.add_argument("--out", type=Path, default=out, help=f"folder for the files (default {out})")
    made.add_argument("--fresh", action="store_true", help="measure everything anew")
    made.add_argument(
        "--quick",
        action="store_true",
        help=f"see within about a minute that the bench runs: its smallest settings, anew, into {QUICK}; the page says so",
    )
    return made


def parsed(
    made: argparse.ArgumentParser, quick: Mapping[str, Any], arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """The chosen options. With --quick, `quick` in the place of the defaults, and files in a folder apart."""
    committed = made.get_default("out")
    options = made.parse_args(arguments)
    if options.quick:
        made.set_defaults(**quick, out=QUICK, fresh=True)
        options = made.parse_args(arguments)
        if options.out.resolve() == committed.resolve():
            made.error(f"--quick never writes over the pages in {committed}: leave out --out, or name another folder.")
    return options


def settings(device: str = "cpu") -> dict[str, Any]:
    """What changes every number."""
    return {"threads": torch.get_num_threads(), "device": device, "processor": processor()}


def environment_line() -> str:
    """Processor, threads and versions, in words; no host names."""
    packages = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return f"{processor()}, {torch.get_num_threads()} threads; Python {platform.python_version()}, {packages}."


def processor() -> str:
    """The model name of the CPU, and of the GPU if there is one."""
    found = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        found = names[0] if names else found
    return f"{found} and {torch.cuda.get_device_name()}" if torch.cuda.is_available() else found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(absent)"


def synchronise() -> None:
    """Wait for the GPU, where there is one, so that a clock reads finished work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    synchronise()
    started = time.perf_counter()
    work()
    synchronise()
    return time.perf_counter() - started


def interleaved(work: Mapping[str, Callable[[], float]], repeats: int, discard: int = 1) -> dict[str, float]:
    """The median of each measurement over `repeats` rounds, each of which takes all of them in turn: what disturbs the
    machine for a while disturbs all alike. `discard` rounds before the first count for nothing."""
    found: dict[str, list[float]] = {name: [] for name in work}
    for round_ in range(discard + repeats):
        for name, measure in work.items():
            with timed(f"  round {round_ + 1} of {discard + repeats}, {name}"):
                value = measure()
            if round_ >= discard:
                found[name].append(value)
    return {name: float(np.median(values)) for name, values in found.items()}


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def write_page(path: Path, title: str, command: str, parts: Sequence[str], quick: bool = False) -> None:
    """A page of results: title, how it was made and on what, then the parts. Printed too."""
    command += " --quick" if quick else ""
    text = f"# {title}\n\n" + "\n\n".join([*parts, f"Made by `{command}` on {environment_line()}"]) + "\n"
    print(store_page(path, text, quick))


def store_page(path: Path, text: str, quick: bool) -> str:
    """Store a page, under a warning if it is that of a quick run; the text that was stored."""
    if quick:
        text = f"**A quick run, to see that the bench runs. Its numbers say nothing.**\n\n{text}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return text


def milliseconds(value: float) -> str:
    """Seconds as milliseconds, three digits."""
    return f"{1000 * value:.3g} ms"
