"""Measuring the rows of the tables, and the tables as Markdown, LaTeX and JSON with the commands behind them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from pipelines.errors import BasslError, count
from pipelines.evaluation.paper_tables import TABLES, Number
from pipelines.files import write_atomically
from pipelines.models.encoders.options import DEFAULT_ENCODER
from pipelines.outputs.tables import NOTHING, TextTable, latex, markdown, percent_with_deviation
from pipelines.stages.reproduce import steps
from pipelines.stages.reproduce.data import find_data
from pipelines.stages.reproduce.machines import announcements, join_first
from pipelines.stages.reproduce.planning import PAPER_ENCODER, PlannedRow, planned_rows
from pipelines.stages.reproduce.settings import (
    Measured,
    ReproduceResult,
    ReproduceSettings,
    RowProgress,
    RowResult,
    StageOptions,
    TableResult,
)
from pipelines.stages.reproduce.steps import AGAIN, Announce, StoppedError, kept_result
from pipelines.training.jobs import Machines
from pipelines.training.launching import check_gpus
from pipelines.training.run_folder import plain_settings

SCHEMA, SCHEMA_VERSION = "bassl.reproduce", 1


def measure_tables(settings: ReproduceSettings, progress: RowProgress, options: StageOptions | None) -> ReproduceResult:
    """See :func:`pipelines.stages.reproduce.reproduce`."""
    check_gpus(settings.machines, f"bassl reproduce {settings.table}")
    if settings.machines.node_rank:
        stopped = join_first(settings.machines)
        return ReproduceResult((), "", True, settings, StageOptions(), (), stopped)
    ways = find_data(settings.data, settings.output / "work", options)
    planned, data = planned_rows(settings, ways), ways[0]
    if data.kind == "movienet" and settings.machines.gpus is None and not torch.cuda.is_available():
        raise BasslError(
            "MovieNet from keyframes needs GPUs, and this machine has none; give other data with `data`, or `gpus=0` "
            "to run on the CPU all the same"
        )
    for path, content in filter(None, (way.splits for way in ways)):
        write_atomically(path, content)
    with announcements(settings.machines) as announce:
        tables, failed, stopped = _measure(settings, planned, data.home / "steps", progress, announce)
    result = ReproduceResult(tables, data.title, data.comparable, settings, data.options, failed, stopped)
    return write_tables(result, settings.output / settings.table / data.home.name)


def _measure(
    settings: ReproduceSettings, planned: Sequence[PlannedRow], folder: Path, progress: RowProgress, announce: Announce
) -> tuple[tuple[TableResult, ...], tuple[str, ...], bool]:
    """The tables, a line for each row that failed, and whether a signal ended a step."""
    machines, failed, stopped = settings.machines, list[str](), False
    fresh: set[str] = set()  # identities of steps run in this call, which overwriting need not repeat for each row
    tables = []
    for (name, protocol), rows in groupby(planned, key=lambda row: (row.table, row.protocol)):
        results = []
        for row in rows:
            label = row.row.label
            kept = None if row.wanted and settings.overwrite else kept_row(row, folder, machines)
            try:
                for step in row.steps if row.wanted and kept is None and not stopped else ():
                    again = settings.overwrite and step.identity not in fresh
                    steps.run(step, folder, machines, again, partial(progress, label), announce)
                    fresh.add(step.identity)
            except StoppedError:
                stopped = True  # finished rows are still shown
            except BasslError as error:
                failed.append(f"{name}, {label}: {error}")
                kept = RowResult(label, note=row.row.note, error=str(error))
            results.append(kept or kept_row(row, folder, machines) or RowResult(label, note=row.row.note))
        ours = (column for row in planned if row.table == name for column in row.finals)
        columns = tuple(dict.fromkeys((*TABLES[name].columns, *ours)))
        tables.append(TableResult(name, protocol, columns, tuple(results)))
    return tuple(tables), tuple(failed), stopped


def kept_row(row: PlannedRow, folder: Path, machines: Machines) -> RowResult | None:
    """A row, computed from the kept results of its steps; None if the final step of a column was not run."""
    kept = {step.identity: kept_result(step, folder) for step in row.steps}
    cells = {}
    for column, final in row.finals.items():
        if isinstance(final, str):
            cells[column] = Measured(absent=final)
        elif (result := kept[final.identity]) is None:
            return None
        else:
            values = result["numbers"].get(row.row.cells[column][1])
            cells[column] = Measured(tuple(values)) if values else Measured(absent="not defined")
    results = [result for result in kept.values() if result is not None]
    notes = [row.row.note] if row.row.note else []
    if any(step.options.get("encoder") == DEFAULT_ENCODER for step in row.steps):
        notes.append(f"{DEFAULT_ENCODER} instead of {PAPER_ENCODER}, whose weights cannot be downloaded here")
    return RowResult(
        label=row.row.label,
        cells=cells,
        commands=tuple(step.line(machines) for step in row.steps),
        note="; ".join(notes),
        seconds=sum(result["seconds"] for result in results),
        finished=max((result["finished"] for result in results), default=""),
    )


# --- text -------------------------------------------------------------------------------------------------------------


def heading(result: ReproduceResult, table: TableResult) -> str:
    """One line: the table, the data, and whether the paper's numbers were measured on the same data."""
    paper = TABLES[table.name]
    protocol = f", {table.protocol}" if table.protocol else ""
    same = "the paper's data" if result.comparable else f"the paper's column is {paper.data}: not comparable"
    return f"{paper.title} ({table.name}); measured on {result.data}{protocol}; {same}"


def text_table(table: TableResult) -> TextTable:
    """Two columns for each of the paper's, in percent: its number, and the measured mean ± deviation over seeds."""
    lines = [["", *(f"{column} {which}".strip() for column in table.columns for which in ("paper", "measured"))]]
    for row in table.rows:
        paper = TABLES[table.name].rows.get(row.label, {})
        measured = [_measured(row, column) for column in table.columns]
        words = {cell for cell in measured if cell != NOTHING}
        if len(words) == 1 and not any(cell.values for cell in row.cells.values()):
            measured[1:] = [NOTHING] * (len(measured) - 1)  # a reason for the whole row is written once
        lines.append([row.label])
        for column, cell in zip(table.columns, measured, strict=True):
            lines[-1] += [_paper(paper.get(column)), cell]
    keep = [i for i in range(len(lines[0])) if i % 2 == 0 or any(line[i] != NOTHING for line in lines[1:])]
    header, *rows = (tuple(line[i] for i in keep) for line in lines)
    return TextTable(header, tuple(rows))


def _measured(row: RowResult, column: str) -> str:
    """A number, or why there is none."""
    if not row.cells:
        return "failed" if row.error else "not run"
    cell = row.cells.get(column, Measured())
    return cell.absent or percent_with_deviation(cell.mean, cell.deviation)


def _paper(number: Number | None) -> str:
    if number is None:
        return NOTHING
    return f"{number.mean:.2f}" + (f" ± {number.deviation:.2f}" if number.deviation is not None else "")


def write_tables(result: ReproduceResult, folder: Path) -> ReproduceResult:
    """Write ``table.md``, ``table.tex``, ``table.json`` and ``commands.sh``. Returns the result with their names."""
    texts = {
        "table.md": "\n".join(_markdown(result)),
        "table.tex": "\n".join(f"% {heading(result, table)}\n{latex(text_table(table))}" for table in result.tables),
        "table.json": json.dumps(_to_dict(result), indent=1, allow_nan=False) + "\n",
        "commands.sh": "\n".join(_commands(result)) + "\n",
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    return replace(result, files=tuple(folder / name for name in texts))


def _markdown(result: ReproduceResult) -> Iterator[str]:
    settings, epochs = result.settings, result.settings.epochs or result.options.epochs
    yield f"# {settings.table} ({time.strftime('%Y-%m-%d')})\n"
    yield f"{count(settings.seeds, 'seed')}, {count(epochs, 'epoch')} where the paper has 10; in percent.\n"
    for table in result.tables:
        yield from (f"{heading(result, table)}.\n", markdown(text_table(table)))
        notes = [f"- {row.label}: {row.error or row.note}\n" for row in table.rows if row.error or row.note]
        if notes:
            yield "".join(notes)


def _commands(result: ReproduceResult) -> Iterator[str]:
    """All commands, each once, before the first row that needs it."""
    yield from ("#!/bin/sh", "# Run in the folder that `bassl reproduce` was run in.", "set -e")
    written: set[str] = set()
    for table in result.tables:
        for row in (row for row in table.rows if row.commands):
            yield from ("", f"# {table.name}{f', {table.protocol}' if table.protocol else ''}: {row.label}")
            yield from (line + AGAIN.get(line.split()[1], "") for line in row.commands if line not in written)
            written.update(row.commands)


def _to_dict(result: ReproduceResult) -> dict[str, Any]:
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
    content = asdict(row)
    measured = content.pop("cells")
    for column, cell in row.cells.items():
        measured[column] |= {"mean": cell.mean, "deviation": cell.deviation}
    paper = TABLES[table.name].rows.get(row.label, {})
    return {**content, "paper": {name: asdict(number) for name, number in paper.items()}, "measured": measured}
