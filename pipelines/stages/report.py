"""A ``scenes.json`` in, a page to look at it and to correct it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pipelines.errors import BasslError, StoreError, VideoError
from pipelines.stages.score import ScoreSettings, score

if TYPE_CHECKING:  # settings import nothing heavy, so that --help is instant
    from pipelines.outputs.page import TrueEnds
    from pipelines.scenes import SceneList

Progress = Callable[[str, float, float | None], None]
"""Called with what is being done, how much of it is done, and how much there is in all (None: not known)."""

_ENDINGS = (".html", ".htm")


@dataclass(frozen=True)
class ReportSettings:
    """What a page shows, and where it goes."""

    output: Path | None = None
    """The page; None: beside the ``scenes.json``, with the ending ``.html``."""
    film: Path | None = None
    """The film; None: where the ``scenes.json`` says, seen from here or from its own folder."""
    truth: Path | None = None
    """True scenes, in any format that `bassl score` reads; or a folder with those of this film among others."""
    tolerance: float = ScoreSettings.tolerance
    """How far, in seconds, a true scene end may lie from the end of the shot that takes it."""
    frame_rate: float | None = None
    """Frames a second of a truth that does not say."""
    keyframes: Path = Path("data/keyframes")
    """Folder of key-frame stores, where pictures are looked for before the film is read."""


@dataclass(frozen=True)
class ReportResult:
    """What was written.

    ``pictures`` is where they came from. ``warnings`` are lines on what is missing from the page or damaged in the
    film, ``notes`` lines on how the truth was matched.
    """

    path: Path
    scenes: int
    shots: int
    pictures: Literal["film", "store", "none"]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def report(
    file: Path | str, settings: ReportSettings = ReportSettings(), progress: Progress | None = None
) -> ReportResult:
    """Write the page of a ``scenes.json``.

    Its pictures come from a key-frame store with the same shots, or else out of the film.

    Args:
        file: the ``scenes.json``.
        settings: what goes on the page.
        progress: told how far the film has been read, in seconds.

    Raises:
        BasslError: one line, for a ``scenes.json``, truth or film that cannot be used, a film that is another one, or a
            page that cannot be written.

    Example::

        from pipelines.stages.report import ReportSettings, report

        report("scenes.json", ReportSettings(truth=Path("truth.csv")))
    """
    from pipelines.datasets.scene_list import read_scene_list
    from pipelines.files import check_writable
    from pipelines.outputs.page import save_page

    file = Path(file)
    path = settings.output or file.with_suffix(".html")
    check_page(path)
    listed = read_scene_list(file)
    film = _film(file, listed, settings.film)
    if film is not None and film.resolve() == path.resolve():
        raise BasslError(f"{path}: is the film itself; name another file to write")
    check_writable(path)
    truth, notes = (None, ()) if settings.truth is None else _truth(file, settings)
    source: Literal["film", "store", "none"] = "store"
    warnings: list[str] = []
    pictures = _stored_pictures(listed, settings.keyframes)
    if not pictures and film is not None:
        source = "film"
        pictures = _filmed_pictures(file, listed, film, progress, warnings)
    elif not pictures:
        source = "none"
        warnings.append(
            f"{listed.video.path}: neither the film nor its key-frames are at hand; a page without pictures"
        )
    save_page(path, listed, pictures, film, truth, f"{file.stem}.json")
    return ReportResult(path, len(listed.scenes), len(listed.shots), source, tuple(warnings), notes)


def check_page(path: Path) -> None:
    """Make sure that a path is the name of a page.

    Raises:
        BasslError: one line, where its ending is that of something else.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise BasslError(f"{path}: a page's name ends in .html")


def _film(file: Path, listed: SceneList, given: Path | None) -> Path | None:
    if given is not None:
        if not given.is_file():
            raise VideoError(f"{given}: no such film")
        return given
    named = Path(listed.video.path)
    # The second where predict was run in the folder of scenes.json.
    return next((path for path in (named, file.parent / named) if path.is_file()), None)


def _truth(file: Path, settings: ReportSettings) -> tuple[TrueEnds, tuple[str, ...]]:
    """The true scene ends on the shots of a ``scenes.json``, as `bassl score` puts them there."""
    from pipelines.datasets.scene_files import read_scenes_json
    from pipelines.outputs.page import TrueEnds

    assert settings.truth is not None
    how = ScoreSettings(tolerance=settings.tolerance, frame_rate=settings.frame_rate, resamples=0)
    scored = score(file, settings.truth, how)
    ((name, alignment),) = scored.alignments.items()
    shots = read_scenes_json(file)
    assert shots.shots_seconds is not None
    film = alignment.film
    rows = shots.shots_seconds if film.seconds is None else film.seconds
    # A true end without an end of a shot near it has cut a shot in two there; that cut is none of ours.
    own = {end: i for i, end in enumerate(shots.shots_seconds[:, 1].tolist())}
    true = [end for (_, end), label in zip(rows.tolist(), film.labels.tolist(), strict=True) if label]
    return (
        TrueEnds(
            shots=tuple(own[end] for end in true if end in own),
            elsewhere=tuple(end for end in true if end not in own),
            tolerance=settings.tolerance,
            source=f"{settings.truth.name}, {name}" if settings.truth.is_dir() else settings.truth.name,
        ),
        scored.notes,
    )


def _stored_pictures(listed: SceneList, stores: Path) -> list[bytes]:
    """The middle key-frame of each shot from the film's store; [] where there is none with these shots."""
    from pathlib import PureWindowsPath

    import numpy as np

    from pipelines.stores.keyframes import read_keyframe_jpegs, read_keyframes
    from pipelines.video.films import video_ids

    (name,) = video_ids([Path(PureWindowsPath(listed.video.path).name)])
    path = stores / f"{name}.h5"
    if not path.is_file():
        return []
    try:
        store = read_keyframes(path)
        own = np.array([(shot.start_frame, shot.end_frame) for shot in listed.shots])
        # Another film may have the same name.
        if store.video.frames != listed.video.frames or not np.array_equal(store.frames, own):
            return []
        return read_keyframe_jpegs(store, store.keyframes.shape[1] // 2)
    except StoreError as error:
        raise StoreError(f"{error}; or leave it out with --keyframes") from error


def _filmed_pictures(
    file: Path, listed: SceneList, film: Path, progress: Progress | None, warnings: list[str]
) -> list[bytes]:
    """The middle frame of each shot, out of the film."""
    from pipelines.outputs.page.thumbnails import kept
    from pipelines.video.film_process import FilmProcess
    from pipelines.video.shots import ReaderSettings

    tell = progress or (lambda stage, done, total: None)
    how = ReaderSettings(shots=file, keyframes=1)
    pictures = []
    ranges = []
    with FilmProcess(film, how, lambda done, total: tell("reading", done, total)) as reading:
        for shot in reading:
            pictures.append(kept(shot.keyframes[0]))
            ranges.append((shot.start_frame, shot.end_frame))
    if ranges != [(shot.start_frame, shot.end_frame) for shot in listed.shots]:
        raise VideoError(
            f"{film}: has {reading.facts.frames} frames and is not the film of {file}, which has "
            f"{listed.video.frames}; name that with --film"
        )
    warnings += reading.warnings
    return pictures
