"""Cutting a film into one file per scene, or copying it with its scenes as chapters.

FFmpeg's libraries do the work, through PyAV; no FFmpeg program is needed.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.progress import ReportProgress
from pipelines.scenes import SceneList
from pipelines.stages.split.result import Piece
from pipelines.stages.split.settings import SplitSettings

__all__ = ["Piece", "SplitSettings", "set_chapters", "split", "write_chapters"]


def split(
    film: Path | str,
    scenes: SceneList,
    settings: SplitSettings = SplitSettings(),
    progress: ReportProgress | None = None,
) -> tuple[Piece, ...]:
    """Cut a film into its scenes, with all of its sound tracks.

    Copied pieces begin with the key frame at or before the scene's first frame: nothing of a scene is missing, and a
    part of the previous scene may be included. They have the film's subtitles too. Exact pieces have only the frames of
    the scene.

    Args:
        film: the film that ``scenes`` is about.
        scenes: where to cut.
        settings: how.
        progress: called with the seconds of the film that are read.

    Returns:
        the pieces, in order. They appear under their names together, when all are complete.

    Raises:
        BasslError: one line, where the film is not the one that ``scenes`` is about or cannot be cut, or a file is
            there already.
    """
    from pipelines.stages.split.pieces import write_pieces  # start-up time: PyAV

    return write_pieces(Path(film), scenes, settings, progress or (lambda stage, done, total: None))


def write_chapters(
    film: Path | str,
    scenes: SceneList,
    settings: SplitSettings = SplitSettings(),
    progress: ReportProgress | None = None,
) -> Path:
    """Copy the streams of a film unchanged, with its scenes as chapters; existing chapters are replaced.

    MP4, QuickTime, Matroska and WebM keep their format; other formats become Matroska.

    Returns:
        the copy.

    Raises:
        BasslError: as :func:`split`.
    """
    from pipelines.stages.split.pieces import write_copy  # start-up time: PyAV

    return write_copy(Path(film), scenes, settings, progress or (lambda stage, done, total: None))


def set_chapters(film: Path | str, scenes: SceneList) -> str:
    """Replace the chapters of a Matroska or WebM film by its scenes in the film itself, with MKVToolNix's mkvpropedit.

    Returns:
        the film's new fingerprint: with the former one ``scenes`` no longer match the film.

    Raises:
        BasslError: one line, where the film is not the one that ``scenes`` is about, is not Matroska, or mkvpropedit is
            not installed or fails.
    """
    from pipelines.stages.split.pieces import edit_chapters  # start-up time: PyAV

    return edit_chapters(Path(film), scenes)
