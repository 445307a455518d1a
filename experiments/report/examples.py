"""Examples side by side: what each way of decoding said about one instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.analysis import metrics
from experiments.analysis.labels import label
from experiments.analysis.metrics import Distribution, Record
from experiments.analysis.summary import EXACT, Task, posterior_method


@dataclass(frozen=True)
class Answer:
    """One string that a method gave."""

    text: str
    share: float
    """Its share of the method's weight, tokenisations merged."""
    count: int
    """How many of the method's particles ended on it."""
    score: float | None
    """How right it is, from 0 to 1."""
    log_weight: float | None
    """Log of its unnormalised weight."""
    log_prob: float | None
    log_kept_mass: float | None
    exact: float | None
    """Its exact posterior probability, where that is known."""
    tokenisations: int
    """How many tokenisations of it there were; the logs are those of the heaviest."""
    parts_at: int | None = None
    """The character at which it leaves the other text of the example's `Parting`."""

    @property
    def mark(self) -> tuple[str, str]:
        """A style and words for its score."""
        if self.score is None:
            return "", ""
        if self.score >= 1 - 1e-9:
            return "right", "✓ right"
        return ("wrong", "✗ wrong") if self.score <= 1e-9 else ("partly", f"◐ score {self.score:.2f}")


@dataclass(frozen=True)
class Column:
    """What one method said about an instance: its first few strings, the largest share first."""

    method: str
    label: str
    particles: int
    finished: int
    """How many of the particles are among the sequences."""
    weighted: bool
    answers: tuple[Answer, ...]
    left_out: int
    """How many further strings there were."""
    left_out_share: float
    status: str
    advice: str | None

    def counted(self, answer: Answer) -> str:
        """How many of the particles gave an answer; nothing where counts do not say the share."""
        if self.weighted or self.particles <= 1:
            return ""
        if self.finished == self.particles:
            return f"{answer.count} of {self.particles}"
        return f"{answer.count} of the {self.finished} that finished (of {self.particles})"


@dataclass(frozen=True)
class Parting:
    """Where two methods' heaviest strings part: the first character that differs, and how each goes on from there."""

    at: int
    first: str
    second: str
    first_rest: str
    second_rest: str


@dataclass(frozen=True)
class Example:
    """One instance with the columns to compare."""

    instance: str
    prompt: str
    full_prompt: str | None
    """All that the model was given, where the record has it."""
    reference: str | None
    seed: int
    disagreement: float | None
    """Total variation between greedy masking (or, without it, local masking) and the posterior estimate."""
    columns: tuple[Column, ...]
    parting: Parting | None = None


def choose(task: Task, count: int, *, strings: int = 4) -> list[Example]:
    """The `count` instances on which greedy masking and the posterior disagree most, at their lowest seed."""
    posterior = posterior_method(task)
    shown = [m for m in ("greedy_masking", "local_masking", posterior) if m and m in task.methods]
    if not shown:  # nothing that this page knows by name: show what there is
        shown = [m for m in task.methods if m != EXACT][:3] or [EXACT]
    by_instance: dict[str, dict[str, Record]] = {}
    for method in shown:
        for record in task.methods[method]:  # sorted by seed inside an instance
            by_instance.setdefault(record["instance"], {}).setdefault(method, record)
    reference = next((m for m in shown if m != posterior), None)
    examples = [
        _example(task, records, shown, _disagreement(records, reference, posterior), strings)
        for records in by_instance.values()
    ]
    # Those without a measure of disagreement come last; ties keep the order of names.
    return sorted(examples, key=lambda e: (-(e.disagreement if e.disagreement is not None else -1.0), e.instance))[
        :count
    ]


def _disagreement(records: Mapping[str, Record], reference: str | None, posterior: str | None) -> float | None:
    if reference is None or posterior is None or reference not in records or posterior not in records:
        return None
    p, q = (metrics.merged_posterior(records[m]) for m in (reference, posterior))
    return metrics.total_variation(p, q) if p and q else None


def _example(
    task: Task, records: Mapping[str, Record], shown: list[str], disagreement: float | None, strings: int
) -> Example:
    first = next(iter(records.values()))
    columns = [_column(records[m], task.exact.get(first["instance"]), strings) for m in shown if m in records]
    parting = _parting(columns) if disagreement is not None else None
    if parting:
        columns = [_marked(c, parting) if c in (columns[0], columns[-1]) else c for c in columns]
    return Example(
        instance=first["instance"],
        prompt=first["prompt"],
        full_prompt=full_prompt(first),
        reference=first["reference"],
        seed=min(r["seed"] for r in records.values()),
        disagreement=disagreement,
        columns=tuple(columns),
        parting=parting,
    )


def _parting(columns: Sequence[Column], length: int = 24) -> Parting | None:
    """Where the heaviest strings of the first column and of the last part; None where they are the same."""
    if len(columns) < 2 or not (columns[0].answers and columns[-1].answers):
        return None
    a, b = columns[0].answers[0].text, columns[-1].answers[0].text
    if a == b:
        return None
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return Parting(at, columns[0].label, columns[-1].label, a[at : at + length], b[at : at + length])


def _marked(column: Column, parting: Parting) -> Column:
    heaviest, *others = column.answers
    return replace(column, answers=(replace(heaviest, parts_at=parting.at), *others))


def full_prompt(record: Record) -> str | None:
    """The prompt as the model was given it, messages as "role: content"; None in a record that does not hold it."""
    prompt = record.get("full_prompt")
    if isinstance(prompt, str) or prompt is None:
        return prompt
    return "\n\n".join(
        f"{m.get('role', '?')}: {m.get('content', '')}" if isinstance(m, Mapping) else str(m) for m in prompt
    )


def _column(record: Record, exact: Distribution | None, strings: int) -> Column:
    posterior = metrics.merged_posterior(record)
    ranked = sorted(posterior, key=lambda text: (-posterior[text], text))
    answers = tuple(_answer(record, text, posterior[text], exact) for text in ranked[:strings])
    return Column(
        method=record["method"],
        label=label(record["method"]),
        particles=int(record["n_particles"] or 0),
        finished=sum(int(s["count"] or 0) for s in record["sequences"]),
        weighted=bool(record["weighted"]),
        answers=answers,
        left_out=len(ranked) - len(answers),
        left_out_share=max(0.0, 1.0 - sum(a.share for a in answers)),
        status=record["status"],
        advice=record["advice"],
    )


def _answer(record: Record, text: str, share: float, exact: Distribution | None) -> Answer:
    """The string with the numbers of its heaviest tokenisation."""
    same = [s for s in record["sequences"] if s["text"] == text]
    heaviest: Mapping[str, Any] = max(same, key=lambda s: s["weight"] or 0.0)
    correct = heaviest["correct"]
    return Answer(
        text=text,
        share=share,
        count=sum(int(s["count"] or 0) for s in same),
        score=None if correct is None else float(correct),
        log_weight=heaviest["log_weight"],
        log_prob=heaviest["log_prob"],
        log_kept_mass=heaviest["log_kept_mass"],
        exact=None if exact is None else exact.get(text, 0.0),
        tokenisations=len(same),
    )
