"""Measuring the rows of a table; a finished row is kept in a file with the identity of its steps."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from pipelines.errors import BasslError
from pipelines.evaluation.paper_tables import TABLES
from pipelines.files import write_atomically
from pipelines.models.encoder_options import DEFAULT_ENCODER
from pipelines.stages.reproduce import running
from pipelines.stages.reproduce.data import Data, EvaluationProtocol, find_data
from pipelines.stages.reproduce.planning import PAPER_ENCODER, Planner, chosen_rows
from pipelines.stages.reproduce.result import (
    SCHEMA,
    SCHEMA_VERSION,
    Measured,
    ReproduceResult,
    RowProgress,
    RowResult,
    TableResult,
)
from pipelines.stages.reproduce.rows import RowSpec
from pipelines.stages.reproduce.settings import ReproduceSettings, StageOptions
from pipelines.stages.reproduce.steps import Step, in_order
from pipelines.stages.reproduce.tables import write_tables


def measure_tables(
    settings: ReproduceSettings, progress: RowProgress, options: StageOptions | None = None
) -> ReproduceResult:
    """Measure the chosen rows and write the tables, see :func:`pipelines.stages.reproduce.reproduce`."""
    data = find_data(settings.data, settings.output / "work", options)
    chosen = chosen_rows(settings, data)
    _check_machine(settings, data)
    data.write_splits()
    tables: list[TableResult] = []
    failed: list[str] = []
    fresh: set[str] = set()  # identities of steps run in this call, which overwriting need not repeat for each row
    stopped = False
    for name, protocol, rows in chosen:
        planner = Planner(data, protocol, settings)
        results = []
        for row, wanted in rows:
            path = _row_file(settings, data, name, protocol, row)
            cells = planner.final_steps(row)
            identity = row_identity(row, cells)
            done = None if wanted and settings.overwrite else _finished_row(path, identity)
            if done is None and wanted and not stopped:
                try:
                    done = _measure_row(row, cells, settings, fresh, progress)
                except running.StoppedError:
                    stopped = True  # finished rows are still shown
                except (BasslError, ValueError) as error:
                    failed.append(f"{name}, {row.label}: {error}")
                    done = RowResult(row.label, note=row.note, error=str(error))
                else:
                    facts = {"schema": f"{SCHEMA}.row", "version": SCHEMA_VERSION, "identity": identity, **asdict(done)}
                    write_atomically(path, (json.dumps(facts, indent=1) + "\n").encode())
            results.append(done or RowResult(row.label, note=row.note))
        further = (column for row, _ in rows for column in row.cells)
        columns = tuple(dict.fromkeys((*TABLES[name].columns, *further)))
        tables.append(TableResult(name, protocol.title, columns, tuple(results)))
    result = ReproduceResult(
        tables=tuple(tables),
        data=data.title,
        comparable=data.comparable,
        settings=settings,
        options=data.options,
        failed=tuple(failed),
        stopped=stopped,
    )
    return write_tables(result, settings.output / settings.table / data.name)


def _check_machine(settings: ReproduceSettings, data: Data) -> None:
    if data.kind != "movienet" or settings.gpus == 0:
        return
    here = torch.cuda.device_count()
    if here < (settings.gpus or 1):
        raise BasslError(
            f"MovieNet from keyframes needs GPUs (--plan estimates the cost), and this machine has {here}; give other "
            "data with --data, or --gpus 0 to run on the CPU all the same"
        )


def _measure_row(
    row: RowSpec, cells: Mapping[str, Step | str], settings: ReproduceSettings, fresh: set[str], progress: RowProgress
) -> RowResult:
    """Run all steps of a row; its numbers."""
    begun = time.monotonic()
    steps = in_order([final for final in cells.values() if isinstance(final, Step)])
    values = {}
    for step in steps:
        progress(row.label, step.command, 0, None)
        again = settings.overwrite and step.identity not in fresh
        values[step.identity] = running.run(
            step, settings.gpus, again, lambda doing, done, total: progress(row.label, doing, done, total)
        )
        fresh.add(step.identity)
    measured = {}
    for column, final in cells.items():
        if isinstance(final, str):
            measured[column] = Measured(absent=final)
        else:
            found = values[final.identity].get(row.cells[column].metric, [])
            measured[column] = Measured(tuple(found)) if found else Measured(absent="not defined")
    return RowResult(
        label=row.label,
        cells=measured,
        commands=tuple(step.line(settings.gpus) for step in steps),
        note=_note(row, steps),
        seconds=time.monotonic() - begun,
        finished=time.strftime("%Y-%m-%d %H:%M"),
    )


def _note(row: RowSpec, steps: Sequence[Step]) -> str:
    """How the row differs from the paper's."""
    substitutes = any(step.options.get("encoder") == DEFAULT_ENCODER for step in steps)
    substituted = f"{DEFAULT_ENCODER} instead of {PAPER_ENCODER}, whose weights cannot be downloaded here"
    return "; ".join(filter(None, (row.note, substituted * substitutes)))


# --- finished rows ----------------------------------------------------------------------------------------------------


def row_identity(row: RowSpec, cells: Mapping[str, Step | str]) -> str:
    """Digest of everything that determines the numbers of a row."""
    parts = [
        [column, row.cells[column].metric, final if isinstance(final, str) else final.identity]
        for column, final in cells.items()
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def _row_file(settings: ReproduceSettings, data: Data, table: str, protocol: EvaluationProtocol, row: RowSpec) -> Path:
    word = re.sub(r"[^a-z0-9]+", "-", row.label.lower()).strip("-")
    return settings.output / settings.table / data.name / "rows" / f"{table}-{protocol.name}-{word}.json"


def _finished_row(path: Path, identity: str) -> RowResult | None:
    """The row as it was measured before with the same settings."""
    try:
        content = json.loads(path.read_text())
        if content.pop("identity") != identity or content.pop("version") != SCHEMA_VERSION:
            return None
        content.pop("schema")
        cells = {name: Measured(tuple(one["values"]), one["absent"]) for name, one in content.pop("cells").items()}
        return RowResult(**{**content, "cells": cells, "commands": tuple(content["commands"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # missing or damaged: measured again
        return None
