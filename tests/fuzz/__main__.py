"""``python -m tests.fuzz --minutes 10``: every fuzzer in turn, for as long as asked."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.fuzzer import digest
from tests.fuzz.kinds import FUZZERS
from tests.fuzz.rounds import Finding, Memory
from tests.fuzz.workers import Turn, work

SLICE_SECONDS = 20.0
"""How long a kind goes on before it is another one's turn."""

SEEDS_A_SLICE = 10_000
"""So far apart are the seeds of two turns."""

FOLDER = Path("fuzz-findings")


@dataclass
class Record:
    """What has become of one kind so far."""

    memory: Memory = field(default_factory=Memory)
    tally: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    tests: list[Path] = field(default_factory=list)


@dataclass
class Campaign:
    """All kinds, by several threads at a time, each of which waits for a process."""

    kinds: Sequence[str]
    seed: int
    end: float
    records: dict[str, Record] = field(default_factory=dict)
    console: threading.Lock = field(default_factory=threading.Lock)

    def run(self, jobs: int) -> None:
        self.records = {kind: Record() for kind in self.kinds}
        turns, busy, lock = itertools.count(), set[str](), threading.Lock()

        def worker() -> None:
            while (left := self.end - time.monotonic()) > 0:
                with lock:  # the kind that has had the least time, and that nobody is at
                    kind = min((kind for kind in self.kinds if kind not in busy), key=lambda k: self.records[k].seconds)
                    busy.add(kind)
                    seed = self.seed + SEEDS_A_SLICE * next(turns)
                began = time.monotonic()
                self._turn(kind, seed, min(left, SLICE_SECONDS))
                with lock:
                    busy.remove(kind)
                    self.records[kind].seconds += time.monotonic() - began

        jobs = min(jobs, len(self.kinds))
        with ThreadPoolExecutor(jobs) as pool:
            for future in [pool.submit(worker) for _ in range(jobs)]:
                future.result()

    def _turn(self, kind: str, seed: int, seconds: float) -> None:
        record, began = self.records[kind], time.monotonic()
        before = record.tally.total()
        for message in work(Turn(kind, seed, seconds), record.memory):
            if isinstance(message, Finding):
                path = save(message)
                if path not in record.tests:
                    record.tests.append(path)
                    with self.console:
                        print(f"{kind}: FOUND {message.failure} (seed {message.seed}): {path}", flush=True)
            else:
                record.tally.update(message)
        tried, took = record.tally.total() - before, time.monotonic() - began
        with self.console:
            print(
                f"{kind}: seed {seed}, {tried} inputs, {tried / took:.0f} a second; {len(record.tests)} findings so far",
                flush=True,
            )


def save(finding: Finding) -> Path:
    """The finding as a test that fails; named by what it tests, so that the same finding has the same file."""
    FOLDER.mkdir(exist_ok=True)
    name = f"{finding.kind}_{digest(finding.failure.test)}"
    path = FOLDER / f"test_{name}.py"
    body = finding.failure.test.replace("def test_it(", f"def test_{name}(")
    note = repr(finding.failure.what)[1:-1].replace('"""', "'''")
    head = f'r"""{note}\n\nFound by `python -m tests.fuzz --kind {finding.kind} --seed {finding.seed}`.\n"""\n\n'
    path.write_text(head + body, encoding="utf-8", errors="backslashreplace")
    return path


def table(records: dict[str, Record]) -> str:
    """One row a kind."""
    head = ("kind", "inputs", "agreed", "refused", "invalid", "repeated", "findings", "seconds")
    rows = [
        (kind, *map(str, (r.tally.total(), *(r.tally[key] for key in head[2:6]), len(r.tests), round(r.seconds))))
        for kind, r in records.items()
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in (head, *rows))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Differential fuzzers. Exit code 1: something was found."
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--kind",
        action="append",
        choices=list(FUZZERS),
        help="one of them, or several: " + "; ".join(f"{kind} ({fuzzer.about})" for kind, fuzzer in FUZZERS.items()),
        metavar="KIND",
    )
    parser.add_argument(
        "--seed", type=int, default=None, help="of the inputs; a fresh one, which is printed, if left out"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    options = parser.parse_args(arguments)
    seed = int.from_bytes(os.urandom(3), "big") if options.seed is None else options.seed
    kinds = []
    for kind in dict.fromkeys(options.kind or FUZZERS):
        reason = FUZZERS[kind].missing()
        if reason:
            print(f"{kind}: skipped, {reason}")
        else:
            kinds.append(kind)
    if not kinds:
        return 0
    print(f"seed {seed}: {', '.join(kinds)} for {options.minutes:g} minutes", flush=True)
    campaign = Campaign(kinds, seed, time.monotonic() + 60 * options.minutes)
    campaign.run(max(1, options.jobs))
    print(table(campaign.records))
    found = sum(len(record.tests) for record in campaign.records.values())
    print(f"{found} findings" + (f", as tests in {FOLDER}/: pytest {FOLDER}" if found else ""))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
