"""Pages of ``scenes.json`` files, to view and correct the scenes of films."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.progress import FilmProgress, ReportProgress
from pipelines.stages.report.settings import ReportResult, ReportSettings

__all__ = ["ReportResult", "ReportSettings", "report", "report_films"]


def report(
    file: Path | str, settings: ReportSettings = ReportSettings(), progress: ReportProgress | None = None
) -> ReportResult:
    """Write the page of a ``scenes.json``, with images from a keyframe store with the same shots, or else from the
    film; ``progress`` is called with the number of seconds read.

    Raises:
        BasslError: one line, for a ``scenes.json``, truth or film that cannot be used, a film that is another one, or a
            page that cannot be written.
    """
    from pipelines.stages.report.page import write_report  # start-up time: numpy, Pillow, PyAV

    return write_report(Path(file), settings, progress or (lambda stage, done, total: None))


def report_films(
    files: Sequence[Path | str],
    settings: ReportSettings = ReportSettings(),
    progress: Callable[[FilmProgress[ReportResult]], None] | None = None,
) -> list[ReportResult]:
    """Write the page of each of several ``scenes.json``, and ``index.html``, which shows them all, into the folder
    ``settings.output``, or else each beside its file and the index into the folder that holds them all. What fails with
    one file is in its result, and the others are still done.

    Raises:
        BasslError: one line, for two files that would have the same page, or an index that cannot be written.
    """
    from pipelines.stages.report.page import write_reports  # start-up time: numpy, Pillow, PyAV

    return write_reports([Path(file) for file in files], settings, progress or (lambda state: None))
