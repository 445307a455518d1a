"""Kill -9 at any moment, run again: the same final report."""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import toy_study

from experiments import compare
from experiments.job import execute
from experiments.store import DONE, RECORDS, read_records

METHODS = ("greedy_masking", "local_masking", "smc_sample", "exact")
SEED = 7
MOST_KILLS = 12


def study(results: Path) -> None:
    """The toy study, slow enough to be killed."""
    fast = toy_study.next_probs

    def slow(prefix: tuple[str, ...]) -> object:
        time.sleep(0.003)
        return fast(prefix)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toy_study, "next_probs", slow)
        toy_study.install(patch)
        for method in METHODS:
            execute(toy_study.settings(results, method))


def start(results: Path) -> BaseProcess:
    # forked, so that it need not import everything again: the study begins at once
    process = multiprocessing.get_context("fork").Process(target=study, args=(results,))
    process.start()
    return process


def report_of(study: Path, copy: Path) -> dict[str, bytes]:
    """The files of the report of a study, with the one thing in it that no two runs share, its seconds, set to 1."""
    shutil.copytree(study, copy)
    for path in copy.rglob(RECORDS):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for record in lines:
            record["cost"]["seconds"] = 1.0
        path.write_text("".join(json.dumps(record) + "\n" for record in lines))
    assert compare.main([str(copy)]) == 0
    return {p.name: p.read_bytes() for p in sorted(copy.iterdir()) if p.is_file()}


def test_killed_again_and_again_the_study_ends_with_the_same_report(tmp_path: Path) -> None:
    whole = start(tmp_path / "whole")
    whole.join(timeout=120)
    assert whole.exitcode == 0

    moments = random.Random(SEED)
    kills = 0
    while True:
        process = start(tmp_path / "killed")
        if kills < MOST_KILLS:
            process.join(timeout=moments.uniform(0.05, 0.5))
            process.kill()
        process.join(timeout=120)
        if process.exitcode == 0:
            break
        kills += 1
    assert kills >= 3, "it was too fast to be killed"

    studies = [tmp_path / name / "s" for name in ("whole", "killed")]
    assert len(read_records(studies[0])) == 4 * len(METHODS)
    assert len(list(studies[1].glob(f"*/{DONE}"))) == len(METHODS)
    one, other = (
        report_of(study, tmp_path / "reports" / name / "s") for study, name in zip(studies, "ab", strict=True)
    )
    assert {"report.html", "report.md", "summary.csv"} <= one.keys()
    assert one == other
