"""Results of reproducing a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.stages.reproduce.settings import ReproduceSettings, StageOptions
from pipelines.stages.reproduce.steps import Step

SCHEMA, SCHEMA_VERSION = "bassl.reproduce", 1

RowProgress = Callable[[str, str, float, float | None], None]
"""Called with the row, what is being done, how much of it is done, and how much there is in all (None: not known)."""


@dataclass(frozen=True)
class Measured:
    """A measured number: a metric, from 0 to 1, for each seed; or why there is none."""

    values: tuple[float, ...] = ()
    absent: str = ""

    @property
    def mean(self) -> float | None:
        """Over the seeds."""
        return sum(self.values) / len(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over the seeds; None for one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class RowResult:
    """A row of a table."""

    label: str  # its name
    cells: Mapping[str, Measured] = field(default_factory=dict)  # by column; empty if it has not been run
    commands: tuple[str, ...] = ()  # that it took, in order
    note: str = ""  # how it differs from the paper's row
    error: str = ""  # why it failed
    seconds: float = 0.0  # of computation, without steps that other rows had done already
    finished: str = ""  # ISO date and time


@dataclass(frozen=True)
class TableResult:
    """A table of the paper under one protocol of training and testing."""

    name: str  # in `pipelines.evaluation.paper_tables`
    protocol: str  # in words; empty if there is only one
    columns: tuple[str, ...]  # the paper's, then further ones
    rows: tuple[RowResult, ...]  # in order


@dataclass(frozen=True)
class ReproduceResult:
    """The measured tables."""

    tables: tuple[TableResult, ...]  # at least one
    data: str  # what they were measured on, in words
    comparable: bool  # whether the paper's numbers were measured on the same data
    settings: ReproduceSettings  # of the run
    options: StageOptions  # of the stages, where they differ from the paper's
    failed: tuple[str, ...]  # a line for each row that failed
    stopped: bool = False  # whether the run was interrupted; running it again goes on
    files: tuple[Path, ...] = ()  # that were written


@dataclass(frozen=True)
class PlannedRow:
    """A row before it is run: its steps in order, or why it cannot be run."""

    table: str
    protocol: str
    label: str
    steps: tuple[Step, ...]
    absent: str = ""
