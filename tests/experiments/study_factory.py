"""A small study by hand, its files, and what is needed to look at a page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import yaml
from record_factory import exact_record, record, sequence

EVIL = "<script>alert('x')</script> | `a` ``b`` [l](javascript:x) **b** \x1b[31m \u202e \udc80\n# heading\n</pre><img src=x>"
BASELINES = ["greedy_masking", "local_masking"]


def study(instances: int = 8, seeds: int = 2, tasks: Iterable[str] = ("big", "small")) -> list[dict[str, Any]]:
    """Two tasks. On "small" the exact posterior is known, .5, .3, .2; local masking follows .2, .3, .5."""
    records = []
    p, q = {"aa": 0.10, "b": 0.06, "c": 0.04}, {"aa": 0.2, "b": 0.3, "c": 0.5}
    for task in tasks:
        for i in range(instances):
            where: dict[str, Any] = {
                "task": task,
                "instance": f"{task}_{i}",
                "prompt": f"Prompt {i}",
                "reference": "aa",
            }
            right = [1.0, 0.0, 0.0] if i % 4 else [0.0, 1.0, 0.0]
            if task == "small":
                records.append(exact_record(p, q, **where, seed=0))
            for seed in range(seeds):
                for method, weights, evidence in (
                    ("greedy_masking", (0.0, 0.0, 1.0), None),
                    ("local_masking", (0.25, 0.25, 0.5), None),
                    ("smc", (0.5, 0.3, 0.2), math.log(0.2)),
                ):
                    sequences = [
                        sequence(t, w, log_prob=math.log(p[t]), path=[-0.5 - 0.1 * k, -0.2], count=k + 1, correct=c)
                        for k, (t, w, c) in enumerate(zip(p, weights, right, strict=True))
                        if w
                    ]
                    accuracy = sum(s["weight"] * s["correct"] for s in sequences)
                    records.append(
                        record(
                            sequences, **where, method=method, seed=seed, log_evidence=evidence,
                            weighted=method == "smc", n_particles=1 if method == "greedy_masking" else 4,
                            ess_kind="concentration" if method == "smc" else "sampling",
                            scores={
                                "accuracy": accuracy, "best_accuracy": right[0], "log_prob": -2.0 + 0.1 * i,
                            },
                        )
                    )  # fmt: skip
    return records


def save(folder: Path, records: Iterable[Mapping[str, Any]], model: str = "toy-model") -> Path:
    """Write records as the runner lays them out: one folder a run."""
    for r in records:
        run = folder / f"{r['task']}-{r['method']}-{r['seed']}"
        run.mkdir(parents=True, exist_ok=True)
        with (run / "records.jsonl").open("a") as stream:
            stream.write(json.dumps(r) + "\n")
        config = {"task": {"name": r["task"]}, "method": {"name": r["method"]}, "model": {"name": model}}
        (run / "config.yaml").write_text(yaml.safe_dump(config | {"seed": r["seed"], "study": "s"}))
        (run / "environment.json").write_text(json.dumps({"device": "cpu", "packages": {"torch": "2.13"}}))
        (run / "DONE").write_text("")
    return folder


def outputs(folder: Path) -> dict[str, bytes]:
    """The files of a report by name."""
    names = ("report.md", "report.html", "summary.csv", "tables.tex")
    files = [*(folder / name for name in names), *sorted((folder / "figures").iterdir())]
    return {f.name: f.read_bytes() for f in files}


class Page(HTMLParser):
    """Tags, ids, links and sources of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [v for k, v in attrs if k == "id" and v]
        self.links += [v for k, v in attrs if k == "href" and v]
        self.sources += [v for k, v in attrs if k in ("src", "srcset", "data") and v]
        self.images += [found] if tag == "img" else []
