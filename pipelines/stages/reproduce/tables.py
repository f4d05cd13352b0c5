"""The measured tables as Markdown, LaTeX and JSON, and the commands behind them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pipelines.errors import count
from pipelines.evaluation.paper_tables import TABLES, Number
from pipelines.files import write_atomically
from pipelines.outputs.tables import NOTHING, TextTable, latex, markdown, percent_with_deviation
from pipelines.stages.reproduce.result import SCHEMA, SCHEMA_VERSION, ReproduceResult, RowResult, TableResult
from pipelines.training.run_folder import plain_settings

NOT_RUN = "not run"
FAILED = "failed"


def heading(result: ReproduceResult, table: TableResult) -> str:
    """One line: the table, the data, and whether the paper's numbers are of the same data."""
    paper = TABLES[table.name]
    protocol = f", {table.protocol}" if table.protocol else ""
    same = "the paper's data" if result.comparable else f"the paper's column is {paper.data}: not comparable"
    return f"{paper.title} ({table.name}); measured on {result.data}{protocol}; {same}"


def text_table(table: TableResult) -> TextTable:
    """Two columns for each of the paper's, in percent: its number, and the measured mean ± deviation over seeds."""
    printed = TABLES[table.name]
    header = ["", *(f"{column} {which}".strip() for column in table.columns for which in ("paper", "measured"))]
    rows = []
    for row in table.rows:
        paper = printed.rows.get(row.label, {})
        cells = [row.label]
        reasons = {_reason(row, column) for column in table.columns if column in row.cells or not row.cells}
        for i, column in enumerate(table.columns):
            cells.append(_paper(paper.get(column)))
            reason = _reason(row, column)
            if reason and len(reasons) == 1 and i:  # one reason for the whole row is given once
                reason = NOTHING
            cells.append(reason or percent_with_deviation(row.cells[column].mean, row.cells[column].deviation))
        rows.append(tuple(cells))
    keep = [0, *(i for i in range(1, len(header)) if i % 2 == 0 or any(row[i] != NOTHING for row in rows))]
    return TextTable(tuple(header[i] for i in keep), tuple(tuple(row[i] for i in keep) for row in rows))


def _reason(row: RowResult, column: str) -> str:
    """Why there is no number."""
    if row.error:
        return FAILED
    if not row.cells:
        return NOT_RUN
    return row.cells[column].absent if column in row.cells else NOTHING


def _paper(number: Number | None) -> str:
    if number is None:
        return NOTHING
    return f"{number.mean:.2f}" + (f" ± {number.deviation:.2f}" if number.deviation is not None else "")


def write_tables(result: ReproduceResult, folder: Path) -> ReproduceResult:
    """Write ``table.md``, ``table.tex``, ``table.json`` and ``commands.sh``; the result, with the names of these.
    Raises BasslError where one cannot be written."""
    texts = {
        "table.md": _markdown(result),
        "table.tex": "\n".join(f"% {heading(result, table)}\n{latex(text_table(table))}" for table in result.tables),
        "table.json": json.dumps(to_dict(result), indent=1, allow_nan=False) + "\n",
        "commands.sh": _commands(result),
    }
    files = []
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
        files.append(folder / name)
    return replace(result, files=tuple(files))


def _markdown(result: ReproduceResult) -> str:
    settings = result.settings
    parts = [f"# {settings.table} ({time.strftime('%Y-%m-%d')})\n"]
    epochs = settings.epochs or result.options.epochs
    parts.append(f"{count(settings.seeds, 'seed')}, {count(epochs, 'epoch')} where the paper has 10; in percent.\n")
    for table in result.tables:
        parts += [f"{heading(result, table)}.\n", markdown(text_table(table))]
        notes = [f"- {row.label}: {row.error or row.note}" for row in table.rows if row.error or row.note]
        if notes:
            parts.append("\n".join(notes) + "\n")
    return "\n".join(parts)


def _commands(result: ReproduceResult) -> str:
    """All commands, each once, before the first row that needs it; run again, they continue from existing results."""
    lines, said = ["#!/bin/sh", "# Run in the folder that `bassl reproduce` was run in.", "set -e"], set()
    again = {"build-index": " --overwrite", "pretrain": " --resume", "finetune": " --resume"}
    for table in result.tables:
        for row in table.rows:
            fresh = [command for command in row.commands if command not in said]
            if row.commands:
                lines += ["", f"# {table.name}{f', {table.protocol}' if table.protocol else ''}: {row.label}"]
                lines += [command + again.get(command.split()[1], "") for command in fresh]
                said.update(fresh)
    return "\n".join(lines) + "\n"


def to_dict(result: ReproduceResult) -> dict[str, Any]:
    """The result as plain JSON values; measured numbers from 0 to 1, the paper's in percent."""
    return {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "date": time.strftime("%Y-%m-%d"),
        "settings": plain_settings(result.settings),
        "recipe": plain_settings(result.options),
        "data": result.data,
        "comparable": result.comparable,
        "stopped": result.stopped,
        "failed": list(result.failed),
        "tables": [
            {
                "table": table.name,
                "title": TABLES[table.name].title,
                "way": table.protocol,
                "columns": list(table.columns),
                "rows": [_row(table, row) for row in table.rows],
            }
            for table in result.tables
        ],
    }


def _row(table: TableResult, row: RowResult) -> dict[str, Any]:
    paper = TABLES[table.name].rows.get(row.label, {})
    return {
        "label": row.label,
        "paper": {name: asdict(number) for name, number in paper.items()},
        "measured": {
            name: {"mean": one.mean, "deviation": one.deviation, "values": list(one.values), "absent": one.absent}
            for name, one in row.cells.items()
        },
        "note": row.note,
        "error": row.error,
        "seconds": row.seconds,
        "finished": row.finished,
        "commands": list(row.commands),
    }
