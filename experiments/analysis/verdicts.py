"""Differences put into words. A sentence never says more than its interval does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.analysis.differences import TOO_FEW, Difference
from experiments.analysis.labels import LOCAL, LOCAL_LAW, label
from experiments.analysis.summary import Comparison, Row, Task, posterior_method
from experiments.text import counted, listed, number, points, signed


def verdict(task: Task, comparisons: Sequence[Comparison], baselines: Sequence[str], rows: Sequence[Row] = ()) -> str:
    """The details below a headline: what the task's posterior method changes against each baseline, in a few sentences.

    `rows` (of the summary) put distances to the exact posterior beside what sampling error alone would score.
    """
    method = posterior_method(task)
    if method is None:
        return "No method that estimates the posterior was run on this task."
    found = {c.baseline: c.differences for c in comparisons if c.method == method}
    clauses = [
        _right(found[b]["right"], label(b)) if "right" in found.get(b, {}) else _absent(b, b in task.methods)
        for b in baselines
        if b != method
    ]
    sentence = f"In the score of one draw, {label(method)} " + "; ".join(clauses) + "." if clauses else ""
    near = [
        _distance(d["tv"], "local masking's exact law" if b == LOCAL_LAW else label(b))
        for b, d in found.items()
        if "tv" in d
    ]
    distances = f"Its total variation distance to the exact posterior {'; '.join(near)}. {_scale(method, rows)}"
    return " ".join(s.strip() for s in (sentence, _leader(method, comparisons), distances if near else "") if s)


def _leader(posterior: str, comparisons: Sequence[Comparison]) -> str:
    """The method that gains most on local masking, where that is another than the posterior's."""
    gains = [
        (d.mean, c.method, d)
        for c in comparisons
        if c.baseline == LOCAL and (d := c.differences.get("right")) and d.verdict == "higher" and d.mean is not None
    ]
    if not gains:
        return ""
    mean, method, d = max(gains, key=lambda gain: (gain[0], gain[1]))
    if method == posterior:
        return ""
    gain = f"{number(100 * mean, 1)} points ({_basis(d, points)})"
    return f"Of all methods {label(method)} gains most on local masking: {gain}."


def _scale(method: str, rows: Sequence[Row]) -> str:
    """How large the distances are, and what sampling error alone would make them."""
    known = {r.method: r.values for r in rows}
    own = known.get(method, {})
    if own.get("tv") is None or own.get("tv_floor") is None or LOCAL_LAW not in known:
        return ""
    law = number(known[LOCAL_LAW].get("tv"), 3)
    return (
        f"It is {number(own['tv'], 3)}; as many draws from the exact posterior itself would score "
        f"{number(own['tv_floor'], 3)}, and local masking without any sampling error {law}."
    )


def _absent(baseline: str, was_run: bool) -> str:
    why = "has nothing to compare with" if was_run else "was not run"
    return f"has no comparison with {_lower(label(baseline))}, which {why}"


def _right(d: Difference, baseline: str) -> str:
    size = f"{number(abs(100 * (d.mean or 0.0)), 1)} points"
    basis = _basis(d, points)
    against = _lower(baseline)
    match d.verdict:
        case "higher":
            return f"gains {size} over {against} ({basis})"
        case "lower":
            return f"costs {size} against {against} ({basis})"
        case "no difference":
            return f"shows no difference from {against} ({basis})"
        case _:
            seen = f"{points(d.mean)} points, " if d.mean is not None else ""
            return f"cannot be told apart from {against} ({seen}{basis})"


def _distance(d: Difference, baseline: str) -> str:
    basis = _basis(d, lambda v: signed(v, 3))
    against = _lower(baseline)
    match d.verdict:
        case "higher" | "lower":
            return f"is {number(abs(d.mean or 0.0), 3)} {d.verdict} than that of {against} ({basis})"
        case "no difference":
            return f"shows no difference from that of {against} ({basis})"
        case _:
            seen = f"{signed(d.mean, 3)}, " if d.mean is not None else ""
            return f"cannot be told apart from that of {against} ({seen}{basis})"


def _basis(d: Difference, shown: Callable[[float | None], str]) -> str:
    """The interval, the number of instances, and any remark."""
    parts = [f"95% interval {shown(d.low)} to {shown(d.high)}"] if d.low is not None else []
    few = d.note == TOO_FEW
    parts.append(f"{TOO_FEW}: {d.instances}" if few else paired(d))
    if few and d.unpaired:
        parts.append(f"{d.unpaired} more without a pair")
    if d.note and not few:
        parts.append(d.note)
    if d.p is not None:
        parts.append(chances(d))
    return ", ".join(parts)


def paired(d: Difference) -> str:
    """What a difference is taken over: all instances, or those that both methods have a value for."""
    on = counted(d.instances, "instance")
    if not d.unpaired:
        return on
    return (f"paired over the {on} that both have" if d.instances else on) + f", {d.unpaired} more without a pair"


def chances(d: Difference) -> str:
    """The test, its p-value, and, where there were others to adjust for, the adjusted one."""
    adjusted = f", {_chance('q', d.q)} adjusted for {counted(d.family, 'comparison')}" if d.family > 1 else ""
    return f"{d.test} {_chance('p', d.p)}{adjusted}"


def _chance(name: str, value: float | None) -> str:
    if value is not None and value < 0.001:
        return f"{name} < 0.001"
    return f"{name} = {number(value, 3 if value is not None and value < 0.1 else 2)}"


def _lower(text: str) -> str:
    """A label inside a sentence: its first letter small, unless the word is an acronym."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def cell(d: Difference | None, kind: str, most: int) -> str:
    """A difference as a cell: mean, the number of pairs if it is less than `most`, interval, chance and verdict."""
    if d is None or d.mean is None:
        return "—"
    show = {"points": points, "nats": lambda v: signed(v, 2), "distance": lambda v: signed(v, 3)}[kind]
    mean = show(d.mean) + (f" (n={d.instances})" if d.instances < most else "")
    if d.note == TOO_FEW:
        return f"{mean} ({TOO_FEW})"
    interval = f"{show(d.low)}, {show(d.high)}" if d.low is not None else "no interval"
    chance = "" if d.p is None else f"; {_chance('p', d.p)}" if d.q is None else f"; {_chance('q', d.q)}"
    return f"{mean} [{interval}{chance}] {d.verdict}"


def remarks(comparisons: Sequence[Comparison]) -> list[str]:
    """What a reader of the table of differences must know, each once, with where it applies; cells say that instances are few."""
    found: dict[str, list[str]] = {}
    for c in comparisons:
        for d in c.differences.values():
            if d.note and d.note != TOO_FEW:
                where = f"{label(c.method)} against {_lower(label(c.baseline))}"
                places = found.setdefault(d.note, [])
                if where not in places:
                    places.append(where)
    return [f"{note[:1].upper()}{note[1:]}: {listed(places)}." for note, places in sorted(found.items())]
