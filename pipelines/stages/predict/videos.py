"""Prediction of videos into files: of one video, or of many, in parallel; finished videos are kept."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pipelines.outputs.corrections import check_replaceable
from pipelines.outputs.describing import described
from pipelines.outputs.exports import save
from pipelines.outputs.results import beside
from pipelines.outputs.shot_images import images_from_video
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress, VideoResult
from pipelines.stages.predict.existing import Existing, existing_scenes, save_existing
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.predict.settings import PredictSettings
from pipelines.stages.scene_list import SceneList
from pipelines.video.shots import KeyframedShot
from pipelines.video_jobs import VideoTask


def predict_to_files(
    model: SceneModel,
    task: VideoTask[PredictSettings],
    existing: Existing | None,
    progress: ReportProgress | None = None,
) -> SceneList:
    """Find the scenes of a video and write its storyboard and page, if they have a path; the caller writes new scenes
    last, because they mark the video as done. ``existing`` scenes are written here if they changed; the images of their
    shots are read from the video if they need any."""
    images: list[bytes] = []
    if existing is not None:
        if existing.needs_images:
            report = progress or (lambda stage, done, total: None)
            images, _ = images_from_video(existing.scenes, task.video, partial(report, "reading"))
            if task.settings.describe is not None and not existing.refused:
                existing = replace(existing, scenes=described(existing.scenes, images, task.settings.describe))
        scenes = save_existing(existing, task)
    else:

        def keep_image(shot: KeyframedShot) -> None:
            from pipelines.outputs.page.thumbnails import encode_thumbnail  # start-up time: Pillow

            images.append(encode_thumbnail(shot.keyframes[len(shot.keyframes) // 2]))

        on_shot = keep_image if task.storyboard or task.page else None
        scenes = model.predict(task.video, progress=progress, on_shot=on_shot, thumbnails=False)
        check_replaceable(task.output, task.video, scenes.video.fingerprint, task.replaces)  # corrected meanwhile?
        scenes = replace(scenes, video=replace(scenes.video, id=task.video_id))
    if images and task.storyboard is not None:
        from pipelines.outputs.storyboard import save_storyboard  # start-up time: Pillow

        save_storyboard(task.storyboard, scenes, images)
    if images and task.page is not None:  # it plays the video, and saves corrected scenes under the result's name
        from pipelines.outputs.page import save_page  # start-up time: Jinja

        save_page(task.page, scenes, images, task.video, save_as=beside(task.output, ".json").name)
    return scenes


def predict_in_child(task: VideoTask[PredictSettings], report: ReportVideo) -> VideoResult:
    """Find the scenes of a video; runs in a child process, on this machine or on a worker of a cluster."""
    return predict_video(SceneModel(task.settings, task.cores), task, report)


def predict_video(model: SceneModel, task: VideoTask[PredictSettings], report: ReportVideo) -> VideoResult:
    """Find the scenes of one of several videos."""

    def count_seconds(stage: str, done: float, total: float | None) -> None:
        if stage == "reading":
            report(VideoProgress(task.video_id, done, total))

    existing = existing_scenes(model, task)
    scenes = predict_to_files(model, task, existing, count_seconds)
    if existing is None:
        save(scenes, task.output)
        return task.result_of(scenes)
    return task.result_of(scenes, status=existing.status, corrected=existing.corrected)


def existing_result(model: SceneModel, task: VideoTask[PredictSettings]) -> VideoResult | None:
    """The result of a video that need not be read; errors as for `existing_scenes`."""
    existing = existing_scenes(model, task)
    if existing is None or existing.needs_images:
        return None
    scenes = save_existing(existing, task)
    return task.result_of(scenes, status=existing.status, corrected=existing.corrected)
