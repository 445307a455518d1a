"""The LaTeX table: its columns, its claims, and that nothing in it is markup by accident."""

from __future__ import annotations

import re

import pytest
from record_factory import exact_record, record, sequence

from experiments.analysis import summary
from experiments.report import latex


def rows_and_comparisons(name: str = "bfcl") -> tuple[list[summary.Row], list[summary.Comparison]]:
    records = []
    for i in range(30):
        for method, score in (
            ("local_masking", 0.25 + 0.01 * (i % 3)),
            ("smc", 0.75),
            ("my_method", 0.25 + 0.02 * (i % 2)),
        ):
            records.append(record(
                [sequence("a", 1.0, correct=score)], task=name, instance=f"i{i}", method=method,
                scores={"accuracy": score, "best_accuracy": 1.0}, cost={"forward_rows": 1234},
            ))  # fmt: skip
    tasks = summary.by_task(records)
    return [row for t in tasks for row in summary.summarise(t)], summary.compare(tasks, ["local_masking"])[name]


def test_a_line_a_method_with_intervals_and_a_star_on_claims() -> None:
    made = latex.table(*rows_and_comparisons())
    assert r"\toprule" in made
    assert made.count(r"\midrule") == 1
    lines = {line.split(" & ")[1]: line for line in made.splitlines() if line.count(" & ") == 6}
    assert re.search(r"\$\+49\.0\^\{\*\}\$ \{\\scriptsize \$\[\+48\.\d, \+49\.\d\]\$\} \\\\$", lines["SMC (enumerate)"])
    assert r"$75.0$ & $100.0$ & $1\,234$" in lines["SMC (enumerate)"], "no interval where all instances are the same"
    assert lines["Local masking"].endswith(r"-- \\")
    assert "^{*}" not in lines[r"my\_method"]
    assert " & TV & " not in made, "nothing is known of it"


def test_every_row_has_every_column() -> None:
    made = latex.table(*rows_and_comparisons())
    widths = {line.count(" & ") for line in made.splitlines() if line.endswith(r"\\") and " & " in line}
    columns = re.search(r"\\begin\{tabular\}\{(\w+)\}", made)
    assert columns is not None
    assert widths == {len(columns.group(1)) - 1}


def test_without_comparisons_there_is_no_such_column() -> None:
    made = latex.table(rows_and_comparisons()[0], [])
    assert r"\Delta" not in made


def test_the_exact_reference_is_no_row() -> None:
    records = [exact_record({"a": 0.5}, {"a": 1.0}), record([sequence("a", 1.0)])]
    made = latex.table(summary.summarise(summary.by_task(records)[0]), [])
    assert "Exact posterior" not in made
    assert "exact law" not in made
    assert "$0.000$" in made


@pytest.mark.parametrize("text", ["a_b", "50%", "a&b", "$x$", "#1", "{x}", "~", "^", "\\input{x}", "a\nb", "<b>", '"'])
def test_text_is_never_markup(text: str) -> None:
    shown = latex.escaped(text)
    assert not re.search(r"(?<!\\)[&%$#_]", shown)
    assert "\n" not in shown
    assert not re.search(r"\\(?!text|[&%$#_{}])", shown)


def test_captions_and_labels_are_the_callers() -> None:
    made = latex.table(*rows_and_comparisons("a_b"), caption="100% of 3 & more", reference="tab:mine")
    assert r"\caption{100\% of 3 \& more}" in made
    assert r"\label{tab:mine}" in made
    assert r"a\_b & " in made


def test_many_tasks_make_several_tables_none_higher_than_a_page() -> None:
    found = [rows_and_comparisons(f"task{i}") for i in range(3)]
    made = latex.tables([r for rows, _ in found for r in rows], [c for _, more in found for c in more], most=7)
    assert re.findall(r"\\label\{(.+)\}", made) == ["tab:results", "tab:results-2"]
    first, second = made.split(r"\end{table}")[:2]
    assert "task1" in first
    assert "task2" not in first
    assert [t for t in ("task0", "task1", "task2") if t in second] == ["task2"]
    assert made.count(r"\begin{table}") == made.count(r"\end{table}") == 2


def test_nothing_needs_another_font_encoding_than_the_default() -> None:
    assert r"\textquotedbl" not in latex.escaped('say "a"'), "it is an error without the T1 encoding"
