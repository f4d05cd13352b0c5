"""The paper's tables, measured: every system on one data set, with the paper's numbers beside the measured ones.

A row of a table is a system and its steps (:mod:`.rows`, :mod:`.planning`); a step is one command (:mod:`.steps`), run
by its public function (:mod:`.running`). Finished work is kept: the models and features of each step, and the numbers
of each row with a digest of all settings that they come from (:mod:`.measuring`). So a table that was interrupted goes
on, and a changed setting is measured again.
"""

from __future__ import annotations

from pipelines.errors import explain_missing_extra
from pipelines.stages.reproduce.result import PlannedRow, ReproduceResult, RowProgress
from pipelines.stages.reproduce.settings import ReproduceSettings, StageOptions

__all__ = ["PlannedRow", "ReproduceResult", "ReproduceSettings", "StageOptions", "plan", "reproduce"]


@explain_missing_extra("reproduce")
def reproduce(
    settings: ReproduceSettings = ReproduceSettings(),
    progress: RowProgress | None = None,
    options: StageOptions | None = None,
) -> ReproduceResult:
    """Measure a table of the paper, and write it.

    Below the output folder, ``<table>/<data>/`` gets ``table.md``, ``table.tex``, ``table.json``, ``commands.sh`` and a
    file for each row; the outputs of the steps go to ``work/<data>/``, where all tables find them. A row that failed is
    named in ``failed`` and does not stop the others. ``options`` of the stages replace those for this kind of data.
    Raises BasslError for unusable data, unknown rows, or MovieNet without a GPU.
    """
    from pipelines.stages.reproduce.measuring import measure_tables  # start-up time: torch

    return measure_tables(settings, progress or (lambda row, doing, done, total: None), options)


def plan(settings: ReproduceSettings = ReproduceSettings(), options: StageOptions | None = None) -> list[PlannedRow]:
    """The rows of a table with their steps, without running or writing anything. Raises BasslError as `reproduce`, for
    unusable data or unknown rows."""
    from pipelines.stages.reproduce.planning import planned_rows  # start-up time: PyAV, SciPy

    return planned_rows(settings, options)
