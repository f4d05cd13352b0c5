"""A film and its scenes in, one film a scene out; or a copy of the film with its scenes as chapters.

FFmpeg's libraries do it, through PyAV: nothing else need be installed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BasslError, first_line
from pipelines.files import check_writable
from pipelines.outputs.exports.segments import segments_of
from pipelines.scenes import SceneList
from pipelines.video.films import video_ids

if TYPE_CHECKING:  # the real imports stand where they are used: `bassl --help` must not wait for FFmpeg
    from pipelines.video.cutting import Cut

Progress = Callable[[str, float, float | None], None]
"""Called with what is being done, how many seconds of the film are done, and how many there are."""


@dataclass(frozen=True)
class SplitSettings:
    """How a film is cut."""

    folder: Path | None = None
    """Where the files go; None: a folder ``NAME-scenes`` where the command runs, named after the film."""
    exact: bool = False
    """Cut to the frame by encoding again (H.264 and AAC), instead of copying from the key-frame before each cut."""
    overwrite: bool = False
    """Write over files that are there."""


@dataclass(frozen=True)
class Piece:
    """One scene as a film of its own.

    Times are in seconds of the whole film. ``start`` and ``end`` are the scene's, ``early`` is by how much the piece
    begins before it and ``late`` by how much it ends after it: 0 in an exact cut.
    """

    scene: int
    path: Path
    start: float
    end: float
    early: float
    late: float


def split(
    film: Path | str, scenes: SceneList, settings: SplitSettings = SplitSettings(), progress: Progress | None = None
) -> tuple[Piece, ...]:
    """Cut a film into its scenes, with all of its sound tracks.

    Copied pieces begin with the key-frame at or before the scene's first frame, so that nothing of a scene is missing
    and something of the scene before may be there; they have the film's subtitles too. Exact pieces have the scene's
    frames and no other.

    Args:
        film: the film that ``scenes`` is about.
        scenes: where to cut.
        settings: how.
        progress: told how far the film has been read, in seconds.

    Returns:
        the pieces, in order. They appear under their names together, when all are whole.

    Raises:
        BasslError: one line, where the film is not the one that ``scenes`` is about or cannot be cut, or a file is
            there already.
    """
    from pipelines.video.cutting import copy_scenes, encode_scenes, ending_for_copies, ending_for_encoding

    film = Path(film)
    name = video_ids([film])[0]
    ending = ending_for_encoding(film) if settings.exact else ending_for_copies(film)
    digits = max(3, len(str(len(scenes.scenes))))
    names = [f"{name}-scene-{scene.index + 1:0{digits}d}{ending}" for scene in scenes.scenes]
    with _made_together(film, names, settings) as (targets, partials):
        cutter = encode_scenes if settings.exact else copy_scenes
        cuts: Sequence[Cut] = cutter(film, scenes, partials, progress or _silent)
    return tuple(
        Piece(scene.index, path, scene.start, scene.end, cut.early, cut.late)
        for scene, path, cut in zip(scenes.scenes, targets, cuts, strict=True)
    )


def write_chapters(
    film: Path | str, scenes: SceneList, settings: SplitSettings = SplitSettings(), progress: Progress | None = None
) -> Path:
    """Copy a film, pictures and sound untouched, with its scenes as chapters; chapters that it has are replaced.

    MP4, QuickTime, Matroska and WebM stay what they are, anything else becomes Matroska.

    Returns:
        the copy.

    Raises:
        BasslError: as :func:`split`.
    """
    from pipelines.video.cutting import copy_with_chapters, ending_for_chapters

    film = Path(film)
    names = [f"{video_ids([film])[0]}-chapters{ending_for_chapters(film)}"]
    with _made_together(film, names, settings) as (targets, partials):
        titles = [segment.name for segment in segments_of(scenes)]
        copy_with_chapters(film, scenes, titles, partials[0], progress or _silent)
    return targets[0]


def _silent(stage: str, done: float, total: float | None) -> None:
    pass


@contextmanager
def _made_together(
    film: Path, names: Sequence[str], settings: SplitSettings
) -> Iterator[tuple[list[Path], list[Path]]]:
    """The files to make, and where to make them; they get their names when all are there."""
    folder = Path(f"{video_ids([film])[0]}-scenes") if settings.folder is None else settings.folder
    targets = [folder / name for name in names]
    for target in targets:
        check_writable(target)
        if target.exists():
            if film.exists() and target.samefile(film):
                raise BasslError(f"{target}: is the film itself; name another folder with -o")
            if not settings.overwrite:
                raise BasslError(f"{target}: is there already; name another folder with -o, or give --overwrite")
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".bassl-split-") as hidden:
            partials = [Path(hidden) / name for name in names]
            yield targets, partials
            for partial, target in zip(partials, targets, strict=True):
                partial.replace(target)
    except OSError as error:
        raise BasslError(f"{folder}: cannot be written ({first_line(error).lower()})") from error
