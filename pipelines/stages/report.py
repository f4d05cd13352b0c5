"""Pages of ``scenes.json`` files, to view and correct the scenes of videos."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pipelines.datasets.scene_files import read_scene_list, read_scenes_json, with_video
from pipelines.errors import BasslError, StoreError, VideoError
from pipelines.files import STDIO, check_inputs_kept, check_names_folder, check_writable, paths_of
from pipelines.options import with_options
from pipelines.outputs.page import TrueEnds, save_index, save_page
from pipelines.outputs.page.thumbnails import encode_thumbnail
from pipelines.outputs.results import beside
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress, VideoResult
from pipelines.scenes import NO_VIDEO, SceneData
from pipelines.stages.score import score
from pipelines.stages.settings import ReportSettings
from pipelines.stores.keyframes import read_keyframe_jpegs, read_keyframes
from pipelines.video.decoding import check_same_video
from pipelines.video.inputs import listed_id, video_at
from pipelines.video.shots import ReaderSettings
from pipelines.video.video_process import VideoProcess
from pipelines.video_jobs import VideoTask, run


def report(
    file: Path | str,
    settings: ReportSettings = ReportSettings(),
    progress: ReportProgress | None = None,
    **options: Any,
) -> VideoResult:
    """Write the page of a ``scenes.json``, with images from a keyframe store with the same shots, or else from the
    video; ``progress`` is called with the seconds read.

    Returns:
        the result, with warnings about what is missing from the page and notes on how the truth was matched.

    Raises:
        BasslError: one line, for a ``scenes.json``, truth or video that cannot be used, another video, or a page that
            cannot be written.
    """
    settings = with_options(settings, **options)

    def tell(state: VideoProgress) -> None:
        if progress is not None:
            progress("reading", state.done, state.total)

    return _write_page(_task(Path(file), settings, settings.run.output), tell)


def report_videos(
    files: Path | str | Sequence[Path | str],
    settings: ReportSettings = ReportSettings(),
    progress: ReportVideo | None = None,
    on_start: Callable[[int], None] | None = None,
    **options: Any,
) -> list[VideoResult]:
    """Write the page of each of several ``scenes.json``, and ``index.html``, which shows them all.

    They are written to the folder ``output``; without it, each page beside its file, and the index to the
    folder that contains all files.

    Returns:
        one result per file, in their order. The result of a file that failed has the reason.

    Raises:
        BasslError: one line, for two files that would have the same page, or an index that cannot be written.
    """
    settings = with_options(settings, **options)
    sources = paths_of(files)
    if settings.listed.video is not None:
        raise BasslError(f"{settings.listed.video}: is one video, but {len(sources)} files are given")
    folder = settings.run.output
    if folder is not None:
        check_names_folder(folder)
    index = index_path(sources, settings)
    tasks = [_task(file, settings, None if folder is None else folder / _page(file).name) for file in sources]
    by_path = {index.resolve(): Path("the page of all videos")}
    for task in tasks:
        other = by_path.setdefault(task.output.resolve(), task.video)
        if other != task.video:
            both = f"{task.video} and {other}"
            raise BasslError(f"{task.output}: would be the page of {both}; name another `output` folder, or rename one")
    check_writable(index)
    results = run(tasks, _write_page, progress=progress, on_start=on_start)
    if written := [result.output for result in results if result.status == "done"]:
        save_index(index, written)
    return results


def index_path(files: Sequence[Path], settings: ReportSettings) -> Path:
    """Path of the page that shows the pages of several files."""
    common = os.path.commonpath([file.parent.absolute() for file in files])
    return (settings.run.output or Path(os.path.relpath(common))) / "index.html"


def _task(file: Path, settings: ReportSettings, page: Path | None) -> VideoTask[ReportSettings]:
    return VideoTask(file, file.name, page or _page(file), settings)


def _page(file: Path) -> Path:
    return beside(file, ".html")


def _write_page(task: VideoTask[ReportSettings], report: ReportVideo) -> VideoResult:
    file, path, settings = task.video, task.output, task.settings
    if path.suffix.lower() not in (".html", ".htm"):
        raise BasslError(f"{path}: a page's name ends in .html")
    stored = read_scene_list(file)
    listed = with_video(stored, settings.listed.video)
    video = video_at(Path(listed.video.path), listed.video)
    check_inputs_kept((path,), (file, video, settings.matching.truth))
    check_writable(path)
    truth, notes = (None, ()) if settings.matching.truth is None else _truth(file, settings.matching.truth, settings)
    warnings: tuple[str, ...] = ()
    images = _stored_images(listed, settings.keyframes)
    if not images and video is not None:
        images, warnings = _video_images(task, listed, video, report)
    elif video is not None:
        check_same_video(video, stored)
    elif not images:
        warnings = (f"{listed.video.path}: {NO_VIDEO}; a page without images",)
    save_page(path, listed, images, video, truth, beside(file, ".json").name)
    return task.result_of(listed, warnings=warnings, notes=notes)


def _truth(file: Path, truth: Path, settings: ReportSettings) -> tuple[TrueEnds, tuple[str, ...]]:
    """The true scene ends on the shots of a ``scenes.json``, placed as `bassl score` places them."""
    scored = score(file, truth, matching=replace(settings.matching, truth=None), resamples=0)
    ((name, alignment),) = scored.alignments.items()
    shots = read_scenes_json(file)
    assert shots.shots_seconds is not None
    video = alignment.video
    rows = shots.shots_seconds if video.seconds is None else video.seconds
    # A true end that is far from the ends of all shots splits a shot in the alignment, but not on the page.
    own = {end: i for i, end in enumerate(shots.shots_seconds[:, 1].tolist())}
    ends = [end for (_, end), label in zip(rows.tolist(), video.labels.tolist(), strict=True) if label]
    return (
        TrueEnds(
            shots=tuple(own[end] for end in ends if end in own),
            elsewhere=tuple(end for end in ends if end not in own),
            tolerance=settings.matching.tolerance,
            source=f"{truth.name}, {name}" if truth.is_dir() else truth.name,
        ),
        scored.notes,
    )


def _stored_images(listed: SceneData, stores: Path) -> list[bytes]:
    """The middle keyframe of each shot from the video's store; [] if there is no store with these shots."""
    path = stores / f"{listed_id(listed.video, PureWindowsPath(listed.video.path))}.h5"
    if not path.is_file():
        return []
    try:
        store = read_keyframes(path)
        own = [[shot.start_frame, shot.end_frame] for shot in listed.shots]
        # Another video may have the same name.
        if store.video.frames != listed.video.frames or not np.array_equal(store.frames, own):
            return []
        return read_keyframe_jpegs(store, store.keyframes.shape[1] // 2)
    except StoreError as error:
        raise StoreError(f"{error}; or leave it out with `keyframes`") from error


def _video_images(
    task: VideoTask[ReportSettings], listed: SceneData, video: Path, report: ReportVideo
) -> tuple[list[bytes], tuple[str, ...]]:
    """The middle frame of each shot, read from the video, and the warnings of its reader."""
    images, ranges = [], []
    end = None if listed.settings.get("end") is None else listed.shots[-1].end
    with ExitStack() as stack:
        shots = task.video
        if shots == STDIO:  # the process that reads the video has another stdin
            shots = Path(stack.enter_context(TemporaryDirectory())) / "scenes.json"
            listed.save(shots)
        reader = ReaderSettings(shots=shots, keyframes=1, start=listed.shots[0].start or None, end=end)
        reading = VideoProcess(video, reader, lambda done, total: report(VideoProgress(task.video_id, done, total)))
        for shot in stack.enter_context(reading):
            images.append(encode_thumbnail(shot.keyframes[0]))
            ranges.append((shot.start_frame, shot.end_frame))
    if ranges != [(shot.start_frame, shot.end_frame) for shot in listed.shots]:
        raise VideoError(
            f"{video}: has {reading.facts.frames} frames and is not the video of {task.video}, which has "
            f"{listed.video.frames}; name that with `video`"
        )
    return images, tuple(reading.warnings)
