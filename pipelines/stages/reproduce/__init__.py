"""The paper's tables, measured: every system on one data set, with the paper's numbers beside the measured ones.

A row of a table is a system (:mod:`.rows`), measured by steps (:mod:`.planning`). A step is one command line, run as a
process, and its numbers are kept in one file (:mod:`.steps`). A row is computed from the kept numbers of its steps
(:mod:`.tables`), so an interrupted table continues, and changed settings are measured again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.errors import check_installed
from pipelines.stages.reproduce.settings import ReproduceResult, ReproduceSettings, RowProgress, StageOptions

if TYPE_CHECKING:  # start-up time: PyAV, SciPy
    from pipelines.stages.reproduce.planning import PlannedRow

__all__ = ["ReproduceResult", "ReproduceSettings", "StageOptions", "plan", "reproduce"]


def reproduce(
    settings: ReproduceSettings = ReproduceSettings(),
    progress: RowProgress = lambda row, doing, done, total: None,
    options: StageOptions | None = None,
) -> ReproduceResult:
    """Measure a table of the paper, and write it.

    In the output folder, ``<table>/<data>/`` gets ``table.md``, ``table.tex``, ``table.json`` and ``commands.sh``; the
    steps' outputs and numbers go to ``work/<data>/``, for all tables. A row that failed is named in ``failed`` and does
    not stop the others. ``options`` replace the stages' options for this kind of data. Raises BasslError for unusable
    data, unknown rows, or MovieNet without a GPU.
    """
    check_installed("torch", "reproduce")
    from pipelines.stages.reproduce.tables import measure_tables  # start-up time: PyAV, SciPy

    return measure_tables(settings, progress, options)


def plan(settings: ReproduceSettings = ReproduceSettings(), options: StageOptions | None = None) -> list[PlannedRow]:
    """The rows to run with their steps; nothing is run. Raises BasslError for unusable data or unknown rows."""
    check_installed("torch", "reproduce")
    from pipelines.stages.reproduce.data import find_data  # start-up time: PyAV, SciPy
    from pipelines.stages.reproduce.planning import planned_rows  # start-up time: PyAV, SciPy

    ways = find_data(settings.data, settings.output / "work", options)
    return [row for row in planned_rows(settings, ways, download=False) if row.wanted]
