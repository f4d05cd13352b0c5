"""Tables of text: Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from pipelines.errors import BasslError
from pipelines.files import check_output

NOTHING = "-"  # a cell without a value
_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
)


class TextTable(NamedTuple):
    """Cells as they are shown; numbers are percentages with one decimal place."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def percent(value: float | None) -> str:
    """Return a fraction as a percentage with one decimal place; `NOTHING` for None and NaN."""
    return NOTHING if value is None or value != value else f"{100 * value:.1f}"


def percent_with_deviation(mean: float | None, deviation: float | None) -> str:
    """Return ``mean ± deviation`` in percent, or the mean alone."""
    return percent(mean) + ("" if mean is None or deviation is None else f" ± {percent(deviation)}")


def mean_and_deviation(values: Collection[float]) -> tuple[float | None, float | None]:
    """Return the mean of values and their sample deviation (n - 1), None for too few."""
    return fmean(values) if values else None, stdev(values) if len(values) > 1 else None


def markdown(table: TextTable) -> str:
    """Return a table in Markdown, numbers aligned to the right."""
    lines = [table.header, ("---", *("---:" for _ in table.header[1:])), *table.rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def latex(table: TextTable) -> str:
    """Return a `tabular` for the package `booktabs`."""
    lines = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in (table.header, *table.rows)]
    columns = "l" + "r" * (len(table.header) - 1)
    body = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", lines[0], "\\midrule", *lines[1:], "\\bottomrule"]
    return "\n".join([*body, "\\end{tabular}"]) + "\n"


def comma_separated(table: TextTable) -> str:
    """Return a table as comma-separated values."""
    buffer = io.StringIO()
    rows = [[no_formula(name), *cells] for name, *cells in (table.header, *table.rows)]
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


WRITERS = {".md": markdown, ".tex": latex, ".csv": comma_separated}  # by extension


def check_table(path: Path, read: Iterable[Path | None]) -> None:
    """Check, before any work, that a table can be written in its format, as `check_output`. Raises BasslError."""
    if path.suffix.lower() not in (*WRITERS, ".json"):
        raise BasslError(f"{path}: unsupported format of a table; use {', '.join(WRITERS)} or .json")
    check_output(path, read)


def no_formula(text: str) -> str:
    """Return text for a cell, quoted where a spreadsheet that splits it at ``;`` or tabs would see a formula."""
    return re.sub("(^|[;\t] *)([=+@\uff1d\uff0b\uff0d\uff20-])", r"\1'\2", text)
