"""Pages of ``scenes.json`` files, to view, review and correct the scenes of videos."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np
from PIL import Image

from pipelines.errors import BasslError, StoreError
from pipelines.files import as_paths, check_output, check_writable, output_path, relative
from pipelines.options import resolve_settings
from pipelines.outputs.images import ShotImages
from pipelines.outputs.page import save_index, save_page
from pipelines.outputs.shot_images import images_from_video
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress, VideoResult, no_progress
from pipelines.results.finding import beside, check_one_video, find_result, make_output_folder
from pipelines.results.opening import OpenedScenes, open_scenes
from pipelines.results.replacing import is_corrected
from pipelines.scenes import NO_VIDEO, SceneData
from pipelines.stages.settings import ReportSettings, ReviewSettings
from pipelines.stores.keyframes import read_keyframe_jpegs, read_keyframes
from pipelines.video.containers import check_same_video
from pipelines.video_jobs import VideoTask, run_video_tasks

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import ReportOptions


@dataclass(frozen=True)
class PageContents:
    """What a page shows besides scenes, with lines on what is missing."""

    images: ShotImages  # of all shots, or none
    warnings: tuple[str, ...]


def report(
    source: SceneData | Path | str,
    settings: ReportSettings = ReportSettings(),
    progress: ReportProgress | None = None,
    **options: Unpack[ReportOptions],
) -> VideoResult:
    """Write the page of a video's scenes, with images from a keyframe store with the same shots, or from the video.

    ``source``: scenes, a ``scenes.json``, or a video with a result; ``progress`` is called with the seconds of the
    video that are read; ``options`` by name, such as ``output``, override ``settings``. The result has warnings
    about what is missing from the page. Raises BasslError, one line, for a ``scenes.json`` or video that cannot be
    used, another video, or a page that cannot be written."""
    settings = resolve_settings(ReportSettings, settings, options)
    opened = open_scenes(source, settings.selection.video)
    return write_page(page_task(opened.result, settings), opened, progress)


def page_task(source: Path, settings: ReportSettings) -> VideoTask[ReportSettings]:
    """Return the task of writing the page of a ``scenes.json``, or a video with a result."""
    page = output_path(settings.run.output, beside(find_result(source), ".html"))
    return VideoTask(source, source.name, page, settings)


def report_videos(
    sources: Path | str | Sequence[Path | str],
    settings: ReportSettings = ReportSettings(),
    progress: ReportVideo | None = None,
    **options: Unpack[ReportOptions],
) -> list[VideoResult]:
    """Write the page of each of several ``scenes.json``, or videos with a result, and ``index.html``, which lists them
    all: to the folder ``output``, or each page beside its file, and the index to the folder that contains all files.
    Returns one result per source, in their order, failed ones with the reason. Raises BasslError, one line, for two
    files that would have the same page, or an index that cannot be written."""
    settings, paths = resolve_settings(ReportSettings, settings, options), as_paths(sources)
    check_one_video(paths, settings.selection.video)
    make_output_folder(paths, settings.run.output)
    index = index_path(paths, settings)
    tasks = [page_task(source, settings) for source in paths]
    by_path = {index.resolve(): Path("the page of all videos")}
    for task in tasks:
        if (other := by_path.setdefault(task.output.resolve(), task.video)) != task.video:
            both = f"{task.video} and {other}"
            raise BasslError(f"{task.output}: would be the page of {both}; name another `output` folder, or rename one")
    check_writable(index)
    results = run_video_tasks(tasks, _report_one, progress=progress)
    if any(result.status == "done" for result in results):
        save_index(index, [(result.output, result) for result in results])
    return results


def index_path(sources: Sequence[Path], settings: ReportSettings) -> Path:
    """Return the path of the page that shows the pages of several results."""
    if settings.run.output is not None:
        return settings.run.output / "index.html"
    try:
        common = os.path.commonpath([find_result(source).parent.absolute() for source in sources])
    except ValueError as error:
        raise BasslError("the files are on several drives; name an `output` folder") from error
    return relative(Path(common), Path.cwd()) / "index.html"


def _report_one(task: VideoTask[ReportSettings], report: ReportVideo) -> VideoResult:
    def report_seconds(doing: str, done: float, total: float | None) -> None:
        report(VideoProgress(task.video_id, done, total))

    return write_page(task, open_scenes(task.video), report_seconds)


def write_page(
    task: VideoTask[ReportSettings], opened: OpenedScenes, progress: ReportProgress | None = None
) -> VideoResult:
    """Write the page of opened scenes, see :func:`report`."""
    path, settings, scenes, video = task.output, task.settings, opened.scenes, opened.video
    if path.suffix.lower() not in (".html", ".htm"):
        raise BasslError(f"{path}: a page's name ends in .html")
    check_output(path, (opened.file, video))
    contents = page_contents(opened, settings, progress)
    save_page(path, scenes, contents.images, video, beside(opened.result, ".json").name)
    corrected = "threshold" in scenes.settings and is_corrected(scenes)
    return task.result_of(scenes, warnings=contents.warnings, corrected=corrected)


def page_contents(
    opened: OpenedScenes,
    settings: ReviewSettings,
    progress: ReportProgress | None = None,
    read_images: Callable[..., tuple[ShotImages, tuple[str, ...]]] = images_from_video,
) -> PageContents:
    """Collect what the page of opened scenes shows: images from a keyframe store with the same shots, or from the video
    by ``read_images``. Raises BasslError as `report`."""
    scenes, video = opened.scenes, opened.video
    warnings: tuple[str, ...] = ()
    images = _stored_images(opened, settings.keyframes)
    if not images and video is not None:
        images, warnings = read_images(scenes, video, partial(progress or no_progress, "reading"))
    elif video is not None:
        check_same_video(video, scenes)
    elif not images:
        warnings = (f"{scenes.video.path}: {NO_VIDEO}; a page without images",)
    return PageContents(images, warnings)


def _stored_images(opened: OpenedScenes, stores: Path) -> ShotImages:
    """Return images of the shots from the video's keyframe store; none if there is no store with these shots."""
    path, scenes, images = stores / f"{opened.video_id}.h5", opened.scenes, ShotImages()
    if not path.is_file():
        return images
    try:
        store = read_keyframes(path)
        frames = [[shot.start_frame, shot.end_frame] for shot in scenes.shots]
        # Another video may have the same name.
        if store.video.frames != scenes.video.frames or not np.array_equal(store.frames, frames):
            return images
        positions = (read_keyframe_jpegs(store, k) for k in range(store.keyframes.shape[1]))
        for shot, jpegs in zip(scenes.shots, zip(*positions, strict=True), strict=True):
            images.add([Image.open(BytesIO(jpeg)) for jpeg in jpegs], shot.end - shot.start)
        return images
    except StoreError as error:
        raise StoreError(f"{error}; or leave it out with `keyframes`") from error
