"""The report as files: Markdown, one self-contained HTML page, CSV and pictures. Same report, same bytes."""

from __future__ import annotations

import base64
import csv
import io
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from experiments import summary, text
from experiments.report import Report


def _environment(*, html: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("experiments", "templates"),
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


def markdown(report: Report) -> str:
    """The Markdown page; pictures are referred to as figures/NAME.svg beside it."""
    return _environment(html=False).get_template("report.md.j2").render(report=report)


def html(report: Report) -> str:
    """The HTML page: one file that needs no network and no script."""
    return _environment(html=True).get_template("report.html.j2").render(report=report)


def csv_text(report: Report) -> str:
    """The summary as CSV: raw means and on how many instances each rests; empty cells are unknown."""
    lines = summary.summary_csv(row for section in report.sections for row in section.rows)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return buffer.getvalue()


def write(report: Report, folder: Path) -> Path:
    """Write report.md, report.html, summary.csv and figures/*.svg; returns the path of the HTML page."""
    pictures = folder / "figures"
    pictures.mkdir(parents=True, exist_ok=True)
    for picture in (p for section in report.sections for p in section.pictures):
        (pictures / f"{picture.name}.svg").write_text(picture.svg, encoding="utf-8")
    (folder / "report.md").write_text(markdown(report), encoding="utf-8")
    (folder / "summary.csv").write_text(csv_text(report), encoding="utf-8")
    page = folder / "report.html"
    page.write_text(html(report), encoding="utf-8")
    return page
