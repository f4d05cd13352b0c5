"""The paper's tables, measured: every system on one data set, with the paper's numbers beside the measured ones.

A row of a table is a system with its stages (`pipelines.stages.reproduce.rows`); a stage is one command
(`pipelines.stages.reproduce.steps`), run by its public function. What is done is kept: the models and features of each
stage, and the numbers of each row with a digest of all the settings that they come from. So a table that was stopped
goes on, and a changed setting is measured again.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BasslError
from pipelines.files import write_atomically

if TYPE_CHECKING:  # `bassl --help` must not wait for what is imported where it is used
    from pipelines.stages.reproduce.data import Data, Recipe, Way
    from pipelines.stages.reproduce.rows import Row
    from pipelines.stages.reproduce.steps import Stage

NAMES = ("table1", "table2", "table3", "table4", "nmi", "bbc-ovsd")
"""The tables: comparison with other algorithms, pre-training by network, pretext tasks, ablations, quality of clusters,
other data sets."""

SCHEMA, SCHEMA_VERSION = "bassl.reproduce", 1


@dataclass(frozen=True)
class ReproduceSettings:
    """Which table, on what."""

    table: str = "table1"
    """table1, table2, table3, table4, nmi or bbc-ovsd."""
    data: Path | None = None
    """MovieNet's folder, a folder of labelled features, or of films with their labels beside them. Unless given:
    data/movienet where it is, else films that are generated."""
    rows: tuple[str, ...] = ()
    """Rows to run, by name or pattern; none are all."""
    gpus: int | None = None
    """GPUs for pre-training and fine-tuning; 0 is the CPU, None one GPU where there is one."""
    epochs: int | None = None
    """Epochs of pre-training where the paper has ten; rows with another number have as many times more."""
    seeds: int = 5
    """Fine-tuning runs for each number (section 4.1)."""
    output: Path = Path("runs/reproduce")
    """Folder of the tables, and of all that they are made from."""
    overwrite: bool = False
    """Do again what is done."""

    def __post_init__(self) -> None:
        if self.table not in NAMES:
            raise ValueError(f"there is no table {self.table!r}; there are {', '.join(NAMES)}")
        if self.seeds < 1 or (self.epochs is not None and self.epochs < 1) or (self.gpus is not None and self.gpus < 0):
            raise ValueError("seeds and epochs must be at least 1, and gpus not negative")


@dataclass(frozen=True)
class Measured:
    """A number that was measured: a metric, from 0 to 1, for each seed; or why there is none."""

    values: tuple[float, ...] = ()
    absent: str = ""

    @property
    def mean(self) -> float | None:
        """Over the seeds."""
        return sum(self.values) / len(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over the seeds; None for one."""
        import statistics

        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class RowResult:
    """A row of a table.

    Attributes:
        label: its name.
        cells: by column; empty where it has not been run.
        commands: what it took, in order.
        note: what to know of it.
        error: why it failed.
        seconds: that it took when it was run, without what other rows had done already.
        finished: when, as an ISO date and time.
    """

    label: str
    cells: Mapping[str, Measured] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    note: str = ""
    error: str = ""
    seconds: float = 0.0
    finished: str = ""


@dataclass(frozen=True)
class TableResult:
    """A table of the paper on one way of training and testing.

    Attributes:
        name: in `pipelines.evaluation.paper_tables`.
        way: how it was trained and tested; empty where there is one way only.
        columns: the paper's, then further ones.
        rows: in order.
    """

    name: str
    way: str
    columns: tuple[str, ...]
    rows: tuple[RowResult, ...]


@dataclass(frozen=True)
class ReproduceResult:
    """What was measured.

    Attributes:
        tables: at least one.
        data: what it was measured on, in words.
        comparable: whether the paper's numbers were measured on the same data.
        settings: with which it was run.
        recipe: options of the stages that are not the paper's.
        files: that were written.
        failed: a line for each row that failed.
        stopped: whether it was asked to stop; running it again goes on.
    """

    tables: tuple[TableResult, ...]
    data: str
    comparable: bool
    settings: ReproduceSettings
    recipe: Recipe
    files: tuple[Path, ...]
    failed: tuple[str, ...]
    stopped: bool = False


@dataclass(frozen=True)
class PlannedRow:
    """A row before it is run: its stages in order, or why it cannot be run."""

    table: str
    way: str
    label: str
    stages: tuple[Stage, ...]
    absent: str = ""


Progress = Callable[[str, str, int, int], None]
"""Called with the row, what is being done, how much of it is done, and how much there is in all."""


def reproduce(
    settings: ReproduceSettings = ReproduceSettings(),
    progress: Progress | None = None,
    recipe: Recipe | None = None,
) -> ReproduceResult:
    """Measure a table of the paper, and write it.

    Below the output folder, ``<table>/<data>/`` gets ``table.md``, ``table.tex``, ``table.json``, ``commands.sh`` and a
    file for each row; what the stages leave goes to ``work/<data>/``, where all tables find it.

    Args:
        settings: which table, on what.
        progress: told of rows and stages.
        recipe: options of the stages in the place of those for this kind of data.

    Returns:
        The table; a row that failed is named in ``failed`` and costs only itself.

    Raises:
        BasslError: one line, for data that cannot be used, rows that there are not, or MovieNet without a GPU.
    """
    from pipelines.stages.reproduce.building import final_stage
    from pipelines.stages.reproduce.steps import StoppedError
    from pipelines.stages.reproduce.tables import write_tables

    data = _data(settings, recipe)
    chosen = _chosen(settings, data)
    _check_machine(settings, data)
    data.write_splits()
    tell = progress or (lambda row, doing, done, total: None)
    tables: list[TableResult] = []
    failed: list[str] = []
    fresh: set[str] = set()  # stages done in this call, which overwriting need not do for each row
    stopped = False
    for name, way, rows in chosen:
        results = []
        for row, wanted in rows:
            path = _row_file(settings, data, name, way, row)
            cells = {column: final_stage(cell, data, way, settings, row) for column, cell in row.cells.items()}
            identity = _identity(row, cells)
            kept = _kept(path, identity, row)
            if kept is not None and not (wanted and settings.overwrite):
                results.append(kept)
                continue
            if not wanted or stopped:
                results.append(RowResult(row.label, note=row.note))
                continue
            try:
                done = _run(row, cells, settings, fresh, tell)
            except StoppedError:
                stopped = True
                results.append(RowResult(row.label, note=row.note))
                continue
            except (BasslError, ValueError) as error:
                failed.append(f"{name}, {row.label}: {error}")
                results.append(RowResult(row.label, note=row.note, error=str(error)))
                continue
            _keep(path, identity, done)
            results.append(done)
        tables.append(TableResult(name, way.title, _columns(name, [row for row, _ in rows]), tuple(results)))
        if stopped:
            break
    result = ReproduceResult(
        tuple(tables), data.title, data.comparable, settings, data.recipe, (), tuple(failed), stopped
    )
    return write_tables(result, settings.output / settings.table / data.name)


def plan(settings: ReproduceSettings = ReproduceSettings(), recipe: Recipe | None = None) -> list[PlannedRow]:
    """The rows of a table with their stages, without running or writing anything.

    Raises:
        BasslError: as `reproduce`, for data that cannot be used or rows that there are not.
    """
    from pipelines.stages.reproduce.building import final_stage
    from pipelines.stages.reproduce.steps import Stage, in_order

    data = _data(settings, recipe)
    planned = []
    for name, way, rows in _chosen(settings, data):
        for row in (row for row, wanted in rows if wanted):
            finals = [final_stage(cell, data, way, settings, row, ask=False) for cell in row.cells.values()]
            stages = in_order([final for final in finals if isinstance(final, Stage)])
            reasons = dict.fromkeys(final for final in finals if isinstance(final, str))
            planned.append(PlannedRow(name, way.title, row.label, tuple(stages), "" if stages else ", ".join(reasons)))
    return planned


# --- which rows -------------------------------------------------------------------------------------------------------


def _data(settings: ReproduceSettings, recipe: Recipe | None) -> Data:
    from pipelines.stages.reproduce.data import find_data

    return find_data(settings.data, settings.output / "work", recipe)


_Chosen = list[tuple[str, "Way", list[tuple["Row", bool]]]]


def _chosen(settings: ReproduceSettings, data: Data) -> _Chosen:
    """For each table and way its rows, and whether each is wanted."""
    from pipelines.stages.reproduce.rows import ACROSS, ROWS, TABLES

    names = TABLES[settings.table]
    labels = list(dict.fromkeys(row.label for name in names for row in ROWS[name]))
    for pattern in settings.rows:
        if not any(_fits(label, pattern) for label in labels):
            raise BasslError(f"{settings.table} has no row {pattern!r}; it has {', '.join(labels)}")

    def marked(rows: Sequence[Row]) -> list[tuple[Row, bool]]:
        return [(row, is_wanted(settings, row)) for row in rows]

    if names != (ACROSS,):
        return [(name, way, marked(ROWS[name])) for name in names for way in data.ways]
    if data.kind == "movienet":
        return [(ACROSS, data.ways[0], marked(ROWS[ACROSS]))]
    if len(data.ways) < 2:
        raise BasslError(
            f"bbc-ovsd tests on other sets than it trains on, and {data.title} are one; give MovieNet, or --data a "
            "folder with two folders of features"
        )
    # A row is the set that is tested on, so each row is a way.
    return [(ACROSS, way, marked([_row_of_set(way.tested_on)])) for way in data.ways]


def _row_of_set(tested_on: str) -> Row:
    """The row of the table of other data sets, under the set's own name where the paper does not have it."""
    from dataclasses import replace

    from pipelines.stages.reproduce.rows import ACROSS, ROWS

    for row in ROWS[ACROSS]:
        if row.label.lower() == tested_on.lower():
            return row
    return replace(ROWS[ACROSS][0], label=tested_on)


def is_wanted(settings: ReproduceSettings, row: Row) -> bool:
    """Whether a row is to be run."""
    return not settings.rows or any(_fits(row.label, pattern) for pattern in settings.rows)


def _fits(label: str, pattern: str) -> bool:
    """Whether a row is meant by a name or a pattern."""
    return label.lower() == pattern.lower() or fnmatch.fnmatchcase(label.lower(), pattern.lower())


def _check_machine(settings: ReproduceSettings, data: Data) -> None:
    if data.kind != "movienet" or settings.gpus == 0:
        return
    import torch

    here = torch.cuda.device_count()
    if here < (settings.gpus or 1):
        raise BasslError(
            f"MovieNet from key-frames is work for GPUs (--plan says how much), and this machine has {here}; take "
            "--data for other data, or --gpus 0 to try it on the CPU all the same"
        )


# --- rows -------------------------------------------------------------------------------------------------------------


def _row_file(settings: ReproduceSettings, data: Data, table: str, way: Way, row: Row) -> Path:
    word = re.sub(r"[^a-z0-9]+", "-", row.label.lower()).strip("-")
    return settings.output / settings.table / data.name / "rows" / f"{table}-{way.name}-{word}.json"


def _identity(row: Row, cells: Mapping[str, Stage | str]) -> str:
    """Digest of all that decides the numbers of a row."""
    parts = [
        [column, row.cells[column].metric, final if isinstance(final, str) else final.identity]
        for column, final in cells.items()
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def _run(
    row: Row, cells: Mapping[str, Stage | str], settings: ReproduceSettings, fresh: set[str], tell: Progress
) -> RowResult:
    """All stages of a row, and its numbers."""
    from pipelines.stages.reproduce.steps import Stage, in_order, run

    begun = time.monotonic()
    stages = in_order([final for final in cells.values() if isinstance(final, Stage)])
    values = {}
    for stage in stages:
        tell(row.label, stage.command, 0, 0)
        again = settings.overwrite and stage.identity not in fresh
        values[stage.identity] = run(
            stage, settings.gpus, again, lambda doing, done, total: tell(row.label, doing, done, total)
        )
        fresh.add(stage.identity)
    measured = {}
    for column, final in cells.items():
        if isinstance(final, str):
            measured[column] = Measured(absent=final)
        else:
            found = values[final.identity].get(row.cells[column].metric, [])
            measured[column] = Measured(tuple(found)) if found else Measured(absent="not defined")
    return RowResult(
        row.label,
        measured,
        tuple(stage.line(settings.gpus) for stage in stages),
        _note(row, stages),
        "",
        time.monotonic() - begun,
        time.strftime("%Y-%m-%d %H:%M"),
    )


def _note(row: Row, stages: Sequence[Stage]) -> str:
    """What the paper's row has and this one has not."""
    from pipelines.models.encoders import DEFAULT_ENCODER
    from pipelines.stages.reproduce.building import PAPER_ENCODER

    substitutes = any(stage.options.get("encoder") == DEFAULT_ENCODER for stage in stages)
    said = f"{DEFAULT_ENCODER} for {PAPER_ENCODER}, whose weights cannot be downloaded here" if substitutes else ""
    return "; ".join(filter(None, (row.note, said)))


def _keep(path: Path, identity: str, row: RowResult) -> None:
    content = {"schema": f"{SCHEMA}.row", "version": SCHEMA_VERSION, "identity": identity, **asdict(row)}
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def _kept(path: Path, identity: str, row: Row) -> RowResult | None:
    """What was measured before with the same settings."""
    try:
        content = json.loads(path.read_text())
        if content.pop("identity") != identity or content.pop("version") != SCHEMA_VERSION:
            return None
        content.pop("schema")
        cells = {name: Measured(tuple(one["values"]), one["absent"]) for name, one in content.pop("cells").items()}
        return RowResult(**{**content, "cells": cells, "commands": tuple(content["commands"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there, or not whole: measured again
        return None


def _columns(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    """The paper's columns, then those that rows of ours have besides."""
    from pipelines.evaluation.paper_tables import TABLES

    return tuple(dict.fromkeys((*TABLES[name].columns, *(column for row in rows for column in row.cells))))
