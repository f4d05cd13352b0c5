"""A page of a ``scenes.json``, to look at the scenes of a film and to correct them."""

from __future__ import annotations

from pathlib import Path

from pipelines.progress import ReportProgress
from pipelines.stages.report.settings import ReportResult, ReportSettings

__all__ = ["ReportResult", "ReportSettings", "report"]


def report(
    file: Path | str, settings: ReportSettings = ReportSettings(), progress: ReportProgress | None = None
) -> ReportResult:
    """Write the page of a ``scenes.json``, with images from a keyframe store with the same shots, or else from the
    film, whose seconds that are read ``progress`` is called with.

    Raises:
        BasslError: one line, for a ``scenes.json``, truth or film that cannot be used, a film that is another one, or a
            page that cannot be written.
    """
    from pipelines.stages.report.page import write_report  # start-up time: numpy, Pillow, PyAV

    return write_report(Path(file), settings, progress or (lambda stage, done, total: None))
