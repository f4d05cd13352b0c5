"""The measured tables of docs/reproduce.md.

``python -m recipes.measured_tables table1`` measures a table on generated videos, ``--data FOLDER`` on labeled
features (two folders: a column for each direction). ``--rows GraphCut,DP`` measures these rows only; the others keep
their numbers and the date at which they were measured. ``bassl reproduce`` keeps finished rows in ``runs/``, so only
what a change touches is measured again; ``--overwrite`` measures everything again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from bassl import Machines, reproduce
from pipelines.evaluation.paper_tables import TABLES
from pipelines.outputs.tables import NOTHING, percent_with_deviation
from pipelines.stages.reproduce import ReproduceSettings, RowResult, TableResult

PAGE = Path(__file__).parents[1] / "docs" / "reproduce.md"
COLUMNS: Mapping[str, tuple[str, ...]] = {"table3": ("AP", "Sum")}
"""By table, the columns on the page. Default: all."""
WITHOUT_PAPER = ("mIoU", "AUC-ROC", "F1", "Short (8)", "Medium (16)", "Long (32)", "short to long")
"""Columns whose numbers in the paper are not repeated on the page."""
MEASURED = "measured"


def lines_of(ways: Sequence[TableResult]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the header of a table, and the cells of its measured rows by label: for each column the paper's number and
    one of each way to train and test, then the date."""
    name = ways[0].name
    columns, paper = COLUMNS.get(name, ways[0].columns), TABLES[name]
    printed = [column for column in columns if column in paper.columns and column not in WITHOUT_PAPER]
    header = [""]
    for column in columns:
        header += [f"{column}, paper"] * (column in printed) + [f"{column}{_tested_on(way)}" for way in ways]
    rows = {}
    for versions in zip(*(way.rows for way in ways), strict=True):
        label = versions[0].label if len({row.label for row in versions}) == 1 else ""
        if not any(cell.values for row in versions for cell in row.cells.values()):
            continue
        row_label = f"{label} ({versions[0].note})" if name == "table3" else label  # the pretext tasks
        cells = [row_label]
        for column in columns:
            number = paper.rows.get(label, {}).get(column)
            cells += [NOTHING if number is None else f"{number.mean:.2f}"] * (column in printed)
            cells += [_measured(row, column) for row in versions]
        rows[row_label] = [*cells, max(row.finished for row in versions)[:10]]
    return [*header, MEASURED], rows


def _tested_on(way: TableResult) -> str:
    return f", {way.protocol.rpartition(' ')[2]}" if way.protocol else ""


def _measured(row: RowResult, column: str) -> str:
    cell = row.cells.get(column)
    return NOTHING if cell is None or not cell.values else percent_with_deviation(cell.mean, cell.deviation)


def with_rows(page: str, marker: str, header: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """Return the page with these rows in the table below a marker, in place of the rows with their labels, or after
    them. Raises ValueError if there is no such table, or it has other columns."""
    before, marker_found, rest = page.partition(f"<!-- {marker} -->\n\n")
    lines = rest.splitlines()
    end = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    table = {cells[0]: cells for cells in map(_cells, lines[2:end])}
    if not marker_found or _cells(lines[0]) != list(header):
        raise ValueError(
            f"{marker}: the page has no such table, or with other columns; write its header: {_line(header)}"
        )
    text = "\n".join([*lines[:2], *map(_line, (table | dict(rows)).values()), *lines[end:]])
    return f"{before}{marker_found}{text}\n"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def tables_of(settings: ReproduceSettings) -> Iterator[list[TableResult]]:
    """Return the tables, each in all ways to train and test. Raises SystemExit for a row that failed."""
    result = reproduce(settings, lambda doing, finished, total: print(doing, file=sys.stderr))
    if result.failed or result.stopped:
        raise SystemExit("\n".join(result.failed) or "stopped; run it again to continue")
    for _, ways in groupby(sorted(result.tables, key=lambda table: table.name), key=lambda table: table.name):
        yield list(ways)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.measured_tables", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("table")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", default="")
    parser.add_argument("--overwrite", action="store_true")
    options = parser.parse_args(arguments)
    rows = tuple(filter(None, options.rows.split(",")))
    machines = Machines(gpus=0)
    settings = ReproduceSettings(options.table, options.data, rows, machines, overwrite=options.overwrite)
    for ways in tables_of(settings):
        marker = f"{ways[0].name}, {'generated videos' if options.data is None else 'features'}"
        header, measured = lines_of(ways)
        if measured:
            page = with_rows(PAGE.read_text(encoding="utf-8"), marker, header, measured)
            PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
