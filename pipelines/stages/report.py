"""Pages of ``scenes.json`` files, to view, review and correct the scenes of videos."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from pipelines.errors import BasslError
from pipelines.files import as_paths, check_output, output_path, relative
from pipelines.options import resolve_settings
from pipelines.outputs.images import Progress, images_from_video
from pipelines.outputs.page import save_index, save_page
from pipelines.progress import ReportProgress, ReportVideo, VideoResult, no_progress
from pipelines.results.finding import beside, check_one_video, find_result, make_output_folder
from pipelines.results.opening import OpenedScenes, open_scenes
from pipelines.results.replacing import is_corrected
from pipelines.scenes import SceneData
from pipelines.stages.settings import ReportSettings
from pipelines.video_jobs import VideoTask, run_video_tasks

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import ReportOptions


def report(
    source: SceneData | Path | str,
    settings: ReportSettings | None = None,
    progress: ReportProgress | None = None,
    **options: Unpack[ReportOptions],
) -> VideoResult:
    """Write the page of a video's scenes, with images from the video.
    ``source``: scenes, a ``scenes.json``, or a video with a result; ``progress`` is called with the seconds of the
    video that are read. The result has warnings about what is missing from the page. Raises BasslError, one line, for
    a ``scenes.json`` or video that cannot be used, or a page that cannot be written."""
    settings = resolve_settings(ReportSettings, settings, options)
    opened = open_scenes(source, settings.selection.video)
    page = _page_of(opened.result, settings)
    task = VideoTask(opened.result, opened.result.name, page, settings)
    return _write_page(task, opened, partial(progress or no_progress, "reading"))


def report_videos(
    sources: Path | str | Sequence[Path | str],
    settings: ReportSettings | None = None,
    progress: ReportVideo | None = None,
    **options: Unpack[ReportOptions],
) -> list[VideoResult]:
    """Write the page of each of several ``scenes.json``, or videos with a result, and ``index.html``, which lists them
    all: to the folder ``output``, or each page beside its file, and the index to the folder that contains all. Returns
    one result per source, in order, failed ones with the reason. Raises BasslError for unusable outputs."""
    settings, paths = resolve_settings(ReportSettings, settings, options), as_paths(sources)
    check_one_video(paths, settings.selection.video)
    make_output_folder(paths, settings.run.output)
    index = index_path(paths, settings)
    check_output(index)

    def report_one(task: VideoTask[ReportSettings], report: ReportVideo) -> VideoResult:
        return _write_page(task, open_scenes(task.video), task.seconds_to(report))

    tasks = [VideoTask(source, source.name, _page_of(source, settings), settings) for source in paths]
    results = run_video_tasks(tasks, report_one, progress=progress)
    if any(result.status == "done" for result in results):
        save_index(index, [(result.output, result) for result in results])
    return results


def index_path(sources: Sequence[Path], settings: ReportSettings) -> Path:
    """Return the path of the page that lists the pages of several results."""
    common = os.path.commonpath([find_result(source).parent.absolute() for source in sources])
    return (settings.run.output or relative(Path(common), Path.cwd())) / "index.html"


def _page_of(source: Path, settings: ReportSettings) -> Path:
    return output_path(settings.run.output, beside(find_result(source), ".html"))


def _write_page(task: VideoTask[ReportSettings], opened: OpenedScenes, progress: Progress) -> VideoResult:
    page, scenes = task.output, opened.scenes
    if page.suffix.lower() not in (".html", ".htm"):
        raise BasslError(f"{page}: a page's name ends in .html")
    check_output(page, (opened.file, opened.video))
    images, warnings = images_from_video(scenes, opened.video, progress)
    save_page(page, scenes, images, opened.video, beside(opened.result, ".json").name)
    corrected = "threshold" in scenes.settings and is_corrected(scenes)
    return task.result_of(scenes, warnings=warnings, corrected=corrected)
