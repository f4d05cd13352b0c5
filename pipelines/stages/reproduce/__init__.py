"""The paper's tables, measured: every system on one data set, with the paper's numbers beside the measured ones.

A row of a table (:mod:`.rows`) is a list of command lines (:mod:`.planning`). Each runs as a process, and its numbers
are kept in a file; a table is computed from these files (:mod:`.measuring`), so an interrupted one continues.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from annotated_doc import Doc

from pipelines.errors import check_installed
from pipelines.options import Settings, check_at_least, nested, resolve_settings
from pipelines.progress import ReportProgress, no_progress
from pipelines.settings import check_names_file
from pipelines.training.jobs import Machines

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import ReproduceOptions

TABLES: Mapping[str, tuple[str, ...]] = {
    "table1": ("table1",),  # comparison with other algorithms
    "table2": ("table2",),  # pre-training, by network
    "table3": ("table3",),  # pretext tasks
    "table4": ("table4a", "table4b", "table4c"),  # ablations
    "nmi": ("table8", "table9"),  # quality of clusters
    "bbc-ovsd": ("table7",),  # other data sets
}
"""By name, the tables of the paper that it contains."""


@dataclass(frozen=True)
class ReproduceSettings(Settings):
    """Which table, on which data."""

    table: Annotated[str, Doc("One of table1, table2, table3, table4, nmi, bbc-ovsd.")] = "table1"
    data: Annotated[
        Path | None,
        Doc("""MovieNet's folder, a folder of labeled features, or of videos with their labels beside them.
        Default: data/movienet if it exists, else generated videos."""),
    ] = None
    rows: Annotated[tuple[str, ...], Doc("Rows to run, by name or pattern, separated by commas. Default: all.")] = ()
    machines: Annotated[Machines, Doc("For training and encoding; for several, see --plan.")] = nested(Machines())
    epochs: Annotated[int | None, Doc("Pre-training epochs where the paper has ten; others scale with them.")] = None
    seeds: Annotated[int, Doc("Fine-tuning runs for each number (section 4.1).")] = 5
    pretrain_seeds: Annotated[int, Doc("Pre-training runs for each number (section 4.1: one).")] = 1
    output: Annotated[Path, Doc("Folder of the tables and their files.")] = Path("runs/reproduce")
    overwrite: Annotated[bool, Doc("Run finished commands again.")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_names_file(self.output)
        if self.table not in TABLES:
            raise ValueError(f"unknown table {self.table!r}; choose from {', '.join(TABLES)}")
        check_at_least(self, 1, "seeds", "pretrain_seeds", "epochs")


@dataclass(frozen=True)
class Measured:
    """A metric from 0 to 1 for each seed, or the reason why there is none."""

    values: tuple[float, ...] = ()
    absent: str = ""

    @property
    def mean(self) -> float | None:
        """Return the mean over seeds, or None."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Return the sample standard deviation, or None for one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class RowResult:
    """A row of a table."""

    label: str  # in `pipelines.evaluation.paper_tables`
    cells: Mapping[str, Measured] = field(default_factory=dict)  # by column; empty for a row without numbers
    run: str = ""  # its commands in short: encoder, network, epochs and seeds
    note: str = ""  # how it differs from the paper's row
    error: str = ""  # why it failed
    finished: str = ""  # ISO date and time of the last result


@dataclass(frozen=True)
class TableResult:
    """A table of the paper, for one way to train and test."""

    name: str  # in `pipelines.evaluation.paper_tables`
    protocol: str  # the way, in words; empty if there is only one
    columns: tuple[str, ...]  # the paper's columns, then ours
    rows: tuple[RowResult, ...]


@dataclass(frozen=True)
class ReproduceResult:
    """The measured tables."""

    tables: tuple[TableResult, ...]
    data: str  # the data that they were measured on, in words
    comparable: bool  # whether the paper's numbers were measured on the same data
    settings: ReproduceSettings
    failed: tuple[str, ...]  # a line for each row that failed
    stopped: bool = False  # whether a signal ended the run; another run continues
    files: tuple[Path, ...] = ()  # files that were written


def reproduce(
    settings: ReproduceSettings | None = None,
    progress: ReportProgress | None = None,
    **options: Unpack[ReproduceOptions],
) -> ReproduceResult:
    """Measure a table of the paper. In the output folder, ``<table>/<data>/`` gets ``table.md``, ``table.tex``,
    ``table.json`` and ``commands.sh``; what the commands write and print goes to ``work/<data>/``, for all tables. A
    row that failed is named in the result and does not stop the others. Raises BasslError for unusable data, unknown
    rows, several machines, or MovieNet without a GPU."""
    settings = resolve_settings(ReproduceSettings, settings, options)
    check_installed("torch", "reproduce")
    from pipelines.stages.reproduce.measuring import measure_tables  # start-up time: PyAV, SciPy

    return measure_tables(settings, progress or no_progress)


def plan(settings: ReproduceSettings | None = None) -> str:
    """Return the shell lines that measure a table, and run nothing. Raises BasslError as `reproduce`."""
    from pipelines.stages.reproduce.planning import find_data, planned_rows, script  # start-up time: PyAV, SciPy

    settings = resolve_settings(ReproduceSettings, settings, {})
    return script(planned_rows(settings, find_data(settings)))
