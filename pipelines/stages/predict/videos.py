"""Prediction of videos into files: of one video, or of many, in parallel; finished videos are kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pipelines.errors import BasslError, StoreError
from pipelines.files import STDIO, check_inputs_kept, check_writable
from pipelines.models.encoder_options import absolute_encoder
from pipelines.outputs.corrections import check_replaceable, is_of
from pipelines.outputs.exports import is_scenes_json, save
from pipelines.outputs.results import beside, result_name
from pipelines.outputs.shot_images import ShotImages
from pipelines.processes import cores
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress, VideoResult
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.predict.result import Outcome
from pipelines.stages.predict.settings import PredictSettings
from pipelines.video.inputs import video_ids
from pipelines.video_jobs import VideoTask, run


def predict_to_files(
    model: SceneModel,
    video: Path,
    output: Path | None,
    *,
    storyboard: Path | None = None,
    page: Path | None = None,
    progress: ReportProgress | None = None,
    video_id: str | None = None,
    overwrite: bool = False,
    discard_corrections: bool = False,
    keep_corrections: bool = False,
) -> Outcome:
    """Find the scenes of a video and write the files that have a path; ``output`` last: it marks the video as done.
    Scenes of an existing ``output`` are kept or regrouped, see `existing_scenes`; the images of their shots are then
    read from the video only for a storyboard or page that is missing or shows others.

    As :func:`pipelines.stages.predict.predict_file`, except for ``video_id``, the id if videos of several folders share
    a name, and ``keep_corrections``: scenes that were corrected by hand are the result, and no error, if others are
    asked for.
    """
    replaced = output if output is not None and output != STDIO and is_scenes_json(output) else None
    images = ShotImages(storyboard, page)
    if replaced is not None and replaced.exists():
        from pipelines.stages.predict.existing import existing_scenes, has_images, settle  # start-up time: NumPy

        existing = existing_scenes(model, video, replaced, overwrite, discard_corrections)
        if existing is not None:
            if existing.refused and not keep_corrections:
                raise StoreError(existing.note)
            complete = has_images(existing, storyboard, page)
            settle(existing, video, replaced, storyboard)
            if not complete:
                report = progress or (lambda stage, done, total: None)
                images.read(existing.scenes, replaced, video, lambda done, total: report("reading", done, total))
                images.save(existing.scenes, video, replaced)
            return existing
    scenes = model.predict(video, progress=progress, on_shot=images.add, thumbnails=False)
    if replaced is not None:  # it may have been corrected meanwhile
        check_replaceable(
            replaced,
            video,
            is_of(video),
            overwrite=overwrite,
            discard_corrections=discard_corrections,
        )
    if video_id is not None:
        scenes = replace(scenes, video=replace(scenes.video, id=video_id))
    images.save(scenes, video, output or Path("scenes.json"))
    if output is not None:
        save(scenes, output)
    return Outcome(scenes)


def plan(
    videos: Sequence[Path],
    output: Path,
    settings: PredictSettings,
    storyboards: Path | None,
    pages: bool,
    overwrite: bool,
    discard_corrections: bool,
) -> list[VideoTask[PredictSettings]]:
    """What is to be written for each video, into the folders ``output`` and ``storyboards``.

    Raises:
        BasslError: the settings do not fit several videos, or a file cannot be written or is an input.
    """
    shots, index = settings.reading.shots, output / "index.html"
    if shots is not None and len(videos) > 1:
        raise BasslError(f"{shots}: is a list of shots of one video, but {len(videos)} videos are given")
    tasks = [
        VideoTask(
            video,
            name,
            output / result_name(name),
            settings,
            storyboard=None if storyboards is None else beside(storyboards / result_name(name), ".png"),
            page=beside(output / result_name(name), ".html") if pages else None,
            overwrite=overwrite,
            discard_corrections=discard_corrections,
        )
        for video, name in zip(videos, video_ids(videos), strict=True)
    ]
    for path in tasks[0].files if tasks else ():
        check_writable(path)
    if pages:
        check_writable(index)
    check_inputs_kept((path for task in tasks for path in task.files), (*videos, shots, settings.model))
    return tasks


def predict_all(
    tasks: Sequence[VideoTask[PredictSettings]],
    jobs: int | None,
    dask: str | None,
    progress: ReportVideo | None,
    on_start: Callable[[int], None] | None,
) -> list[VideoResult]:
    """Find the scenes of several videos; see :func:`pipelines.stages.predict.predict_videos`."""
    if not tasks:
        return []
    settings = tasks[0].settings
    if dask is not None and settings.encoder is not None:
        settings = replace(settings, encoder=absolute_encoder(settings.encoder))
        tasks = [replace(task, settings=settings) for task in tasks]
    model = SceneModel(settings).load()
    jobs = min(jobs or _default_jobs(), len(tasks))
    in_children = dask is not None or jobs > 1
    results = run(
        tasks,
        _predict_in_child if in_children else partial(_predict, model),
        existing=partial(_existing_result, model),
        jobs=jobs if in_children else None,
        dask=dask,
        progress=progress,
        on_start=on_start,
    )
    # A video that fails now may have scenes and a page of an earlier run.
    shown = [task.page for task in tasks if task.page is not None and task.page.exists() and task.output.exists()]
    if shown:
        from pipelines.outputs.page import save_index  # start-up time: Jinja, Pillow

        save_index(shown[0].with_name("index.html"), shown)
    return results


def _predict_in_child(task: VideoTask[PredictSettings], report: ReportVideo) -> VideoResult:
    """Find the scenes of a video; runs in a child process, on this machine or on a worker of a cluster."""
    return _predict(SceneModel(task.settings, task.cores), task, report)


def _predict(model: SceneModel, task: VideoTask[PredictSettings], report: ReportVideo) -> VideoResult:
    def count_seconds(stage: str, done: float, total: float | None) -> None:
        if stage == "reading":
            report(VideoProgress(task.video_id, done, total))

    outcome = predict_to_files(
        model,
        task.video,
        task.output,
        storyboard=task.storyboard,
        page=task.page,
        progress=count_seconds,
        video_id=task.video_id,
        overwrite=task.overwrite,
        discard_corrections=task.discard_corrections,
        keep_corrections=True,
    )
    return _result(task, outcome)


def _default_jobs() -> int:
    """Videos at a time: each takes two cores, one to read and one to encode, and up to half a gigabyte."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4 * 2**30
    return max(1, min(cores() // 2, memory // 2**30))


def _existing_result(model: SceneModel, task: VideoTask[PredictSettings]) -> VideoResult | None:
    """The result of a video that need not be read; errors as for `existing_scenes`."""
    if not task.output.exists():
        return None
    from pipelines.stages.predict.existing import existing_scenes, has_images, settle  # start-up time: NumPy

    existing = existing_scenes(model, task.video, task.output, task.overwrite, task.discard_corrections)
    if existing is None or not has_images(existing, task.storyboard, task.page):
        return None
    settle(existing, task.video, task.output, task.storyboard)
    return _result(task, existing)


def _result(task: VideoTask[PredictSettings], outcome: Outcome) -> VideoResult:
    return task.result_of(
        outcome.scenes,
        status=outcome.status,
        warnings=outcome.scenes.warnings,
        notes=(outcome.note,) if outcome.note else (),
        corrected=outcome.corrected,
    )
