"""The report as files: Markdown, one self-contained HTML page, CSV and pictures. Same report, same bytes."""

from __future__ import annotations

import base64
import csv
import io
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from experiments import text
from experiments.analysis import summary
from experiments.report import latex
from experiments.report.build import Report
from experiments.store import write_atomically


def _environment(*, html: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("experiments.report", "templates"),
        autoescape=html,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "visible": text.visible,
        "number": text.number,
        "percent": text.percent,
        "md": text.markdown_text,
        "md_code": text.markdown_code,
        "md_block": text.markdown_block,
        "data_uri": _data_uri,
        "parts": _parts,
        "parted": _parted,
    }
    return environment


def _data_uri(svg: str) -> str:
    """A picture as a data URI: a document of its own, whose inner names cannot clash with another's."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8")).decode("ascii")


def _parts(shown: str) -> Markup:
    """A cell such as "+1.2 [−1.0, +3.0] higher" with its three parts marked; any other cell as it is."""
    value, _, rest = shown.partition(" [")
    interval, _, verdict = rest.partition("] ")
    if not rest:
        return Markup("{}").format(value)
    return Markup('<b>{}</b> <span class="interval">[{}]</span> <span class="verdict {}">{}</span>').format(
        value, interval, verdict.replace(" ", "-"), verdict
    )


def _parted(shown: str, at: int | None, before: int = 160) -> Markup:
    """A text with the character at which it parts from another marked; what is long before it is only counted."""
    if at is None:
        return Markup("{}").format(text.visible(shown))
    cut = max(0, at - before) if at > 2 * before else 0
    head = f"({cut} characters that are the same) … " if cut else ""
    sign = text.visible(shown[at : at + 1]).replace("\n", "⏎\n") or "∎"  # the other text goes on where this one ends
    return Markup("{}{}<mark>{}</mark>{}").format(
        head, text.visible(shown[cut:at]), sign, text.visible(shown[at + 1 :])
    )


def markdown(report: Report) -> str:
    """The Markdown page; pictures are referred to as figures/NAME.svg beside it."""
    return _environment(html=False).get_template("report.md.j2").render(report=report)


def html(report: Report) -> str:
    """The HTML page: one file that needs no network and no script."""
    return _environment(html=True).get_template("report.html.j2").render(report=report)


def csv_text(report: Report) -> str:
    """The summary as CSV: raw means and on how many instances each rests; empty cells are unknown."""
    lines = summary.summary_csv(
        (row for section in report.sections for row in section.rows),
        (c for section in report.sections for c in section.comparisons),
    )
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return buffer.getvalue()


def latex_text(report: Report) -> str:
    """The results as LaTeX tables for papers."""
    rows = [row for section in report.sections for row in section.rows]
    return latex.tables(rows, [c for section in report.sections for c in section.comparisons])


def files(report: Report) -> dict[str, str]:
    """Every file of a report by its path inside the folder; the pages come last, when what they refer to is there."""
    return {
        **{f"figures/{picture.name}.svg": picture.svg for picture in report.all_pictures},
        "summary.csv": csv_text(report),
        "tables.tex": latex_text(report),
        "report.md": markdown(report),
        "report.html": html(report),
    }


def write(report: Report, folder: Path) -> Path:
    """Write all files, each as a whole or not at all; returns the path of the HTML page."""
    made = files(report)  # first make everything, then touch the disk
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        write_atomically(folder / name, content)
    return folder / "report.html"
