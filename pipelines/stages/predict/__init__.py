"""A video in, its scenes out: shots, keyframes, encodings, scores and scenes in one pass, in memory.

The header of a model fine-tuned with bassl records its encoder and its keyframe settings. A video is read the same way,
so the scores equal those from a keyframe store, a feature store and the model, stage by stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from pipelines.errors import BasslError, StoreError
from pipelines.files import STDIO, check_inputs_kept, check_writable, is_file, real
from pipelines.models.encoders.options import absolute_encoder
from pipelines.options import resolve_settings, with_options
from pipelines.outputs.exports import check_extension, export, is_scenes_json
from pipelines.outputs.results import beside, check_version, known_ids, replace_result, result_name, result_version
from pipelines.outputs.shot_images import add_images, images_from_video
from pipelines.processes import cores, free_memory
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress, VideoResult, no_progress
from pipelines.settings import ScenesOutput
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.predict.reuse import ReusePlan, plan_reuse, save_reused
from pipelines.stages.scene_list import SceneList
from pipelines.stages.settings import PredictSettings
from pipelines.video.inputs import find_videos, safe_id, video_ids
from pipelines.video.shots import KeyframedShot
from pipelines.video_jobs import VideoTask, VideoWork, run_video_tasks

if TYPE_CHECKING:  # start-up time: Pillow; types of options for editors and mypy
    from pipelines.outputs.images import ShotImages
    from pipelines.stages.option_types import PredictOptions

__all__ = ["PredictSettings", "load_model", "predict", "predict_file", "predict_videos"]


def load_model(
    model: Path | str | None = None, *, encoder: str | Path | None = None, device: str = "auto"
) -> SceneModel:
    """Load a model that predicts many videos without loading anything again.

    ``model``: a run folder, a model file or a checkpoint of the paper's release; None is the built-in model.
    ``encoder``: shot encoder, for a model that accepts any; None is the model's own. ``device``: auto, cpu, cuda, ...
    Raises BasslError, one line, for a model or encoder that cannot be used.

    Example::

        model = bassl.load_model()
        for video in videos:
            model.predict(video, min_scene=10).save(video.with_suffix(".scenes.json"))
    """
    return SceneModel(with_options(PredictSettings, model=model, encoder=encoder, device=device)).load()


def predict(
    video: Path | str,
    settings: PredictSettings = PredictSettings(),
    *,
    progress: ReportProgress | bool | None = None,
    on_shot: Callable[[KeyframedShot], None] | None = None,
    **options: Unpack[PredictOptions],
) -> SceneList:
    """Find the scenes of a video: shots with scores, grouped into scenes.

    Args:
        video: any file that FFmpeg's libraries read.
        settings: the defaults need neither network nor GPU.
        progress: True shows a bar in a terminal or a notebook; a function is called with the seconds read so far.
        on_shot: called with each shot and its keyframes as it is found, for a storyboard.
        options: options by name, such as ``min_scene``, wherever they are nested; they override ``settings``.

    Raises:
        BasslError: for a video, model, shot list or setting that cannot be used; one line, like the others.
        ValueError: for a setting that no video can satisfy.
        TypeError: for an option that does not exist.

    Example::

        result = bassl.predict("movie.mp4", min_scene=10)
        for scene in result:
            print(scene.start_timecode, scene.end_timecode, scene.confidence)
        result.save("scenes.json")
    """
    find_videos([video])
    return SceneModel(resolve_settings(PredictSettings, settings, options)).predict(
        video, progress=progress, on_shot=on_shot
    )


def predict_file(
    video: Path | str,
    output: Path | str | None,
    settings: PredictSettings = PredictSettings(),
    *,
    storyboard: Path | str | None = None,
    page: Path | str | None = None,
    overwrite: bool = False,
    discard_corrections: bool = False,
    progress: ReportProgress | None = None,
    **options: Unpack[PredictOptions],
) -> SceneList:
    """Find the scenes of a video and write them; other arguments and errors are the same as for :func:`predict`.

    An existing ``scenes.json`` of the video is kept if nothing changed, and regrouped from its scores if only options
    of `Grouping` did: the video is not read. The result's ``notes`` say so.

    Args:
        output: file to write: a ``scenes.json`` if it ends in ``.json``, else an export; None writes no file.
        storyboard: PNG to write, with the keyframes of the scenes.
        page: HTML page to write, to view and correct the scenes.
        overwrite: read the video again; also replace a ``scenes.json`` of another video.
        discard_corrections: replace scenes that were corrected by hand.

    Raises:
        BasslError: also for an output that cannot be written, is an input, or is named twice, and if scenes corrected
            by hand would change; before the video is read if possible.
    """
    find_videos([video])
    settings, video = resolve_settings(PredictSettings, settings, options), Path(video)
    scenes, board, html = (None if path is None else Path(path) for path in (output, storyboard, page))
    written = [path for path in (scenes, board, html) if path not in (None, STDIO)]
    obstacle = _obstacle(written, scenes)
    check_inputs_kept(written, (video, *settings.files))
    for path, other in combinations(written, 2):
        if real(path) == real(other):
            raise BasslError(f"{path}: is used for two outputs; name another file")
    if board is not None and board.suffix.lower() != ".png":
        raise BasslError(f"{board}: a storyboard is a PNG; name a file that ends in .png")
    if scenes is not None:
        check_extension(scenes)
    model, replaces = SceneModel(settings), ScenesOutput(None, overwrite, discard_corrections)
    task = VideoTask(video, safe_id(video.stem), scenes or STDIO, settings, board, html, replaces)
    version = result_version(task.output)
    plan = plan_reuse(model, task)
    if plan is not None and plan.action == "refuse":
        raise StoreError(plan.scenes.notes[0])
    if obstacle is not None and (plan is None or plan.action != "keep" or plan.needs_images):
        raise obstacle
    result = predict_to_files(model, task, plan, version, progress)
    if scenes is not None and plan is None:
        _save(result, scenes, version)
    return result


def _obstacle(written: Iterable[Path], result: Path | None) -> BasslError | None:
    """Return why files cannot be written, if there is a result already: unchanged, it can be shown all the same. Raises
    BasslError if there is none."""
    try:
        for path in written:
            check_writable(path)
    except BasslError as error:
        if result is None or not is_file(result):
            raise
        return error
    return None


def predict_videos(
    inputs: Path | str | Sequence[Path | str],
    output: Path | str,
    settings: PredictSettings = PredictSettings(),
    *,
    overwrite: bool = False,
    discard_corrections: bool = False,
    storyboards: Path | str | None = None,
    pages: bool = False,
    jobs: int | None = None,
    dask: str | None = None,
    progress: ReportVideo | bool | None = None,
    **options: Unpack[PredictOptions],
) -> list[VideoResult]:
    """Find the scenes of videos, each into its own file; ``settings`` and ``options`` as for :func:`predict`.

    A video that already has a file is read again only if something that determines its scores changed; otherwise the
    file is kept or regrouped, as in :func:`predict_file`. Scenes that were corrected by hand are always kept.

    Args:
        inputs: files, folders and glob patterns.
        output: folder of the files, ``<video id>.scenes.json``, with ids as `bassl extract-keyframes` gives them.
        overwrite: read finished videos again; also replace files of other videos.
        discard_corrections: replace scenes that were corrected by hand.
        storyboards: folder of PNG files, ``<video id>.scenes.png``.
        pages: also write ``<video id>.scenes.html`` there, a page to view and correct the scenes.
        jobs: videos at a time; None: as many as cores and memory allow. If more than one, each has its own process.
        dask: address of a Dask scheduler whose workers process the videos; they must see the same files.
        progress: called with the progress and the result of each video; True shows bars in a terminal or a notebook.

    Returns one result per video, sorted by video name; a failed video's result has the reason.
    Raises BasslError for inputs, a model or settings that cannot be used at all, and ValueError like :func:`predict`.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")
    settings, videos, output = resolve_settings(PredictSettings, settings, options), find_videos(inputs), Path(output)
    for file, what in ((settings.reading.shots, "is a list of shots"), (settings.reading.subtitles, "has subtitles")):
        if file is not None and len(videos) > 1:
            raise BasslError(f"{file}: {what} of one video, but there are {len(videos)} videos")
    if dask is not None and settings.encoder is not None:
        settings = replace(settings, encoder=absolute_encoder(settings.encoder))
    tasks, replaces = [], ScenesOutput(None, overwrite, discard_corrections)
    for video, video_id in zip(videos, known_ids(videos, video_ids(videos), output), strict=True):
        result = output / result_name(video_id)
        board = None if storyboards is None else beside(Path(storyboards) / result.name, ".png")
        page = beside(result, ".html") if pages else None
        tasks.append(VideoTask(video, video_id, result, settings, board, page, replaces))
    if not tasks:
        return []
    obstacle = _obstacle((*tasks[0].files, *[output / "index.html"] * pages), tasks[0].output)
    check_inputs_kept((path for task in tasks for path in task.files), (*videos, *settings.files))
    model = SceneModel(settings).load()
    if jobs is None:  # each takes two cores, one to read and one to encode, and up to half a gigabyte
        jobs = max(1, min(cores() // 2, (free_memory() or 4 * 2**30) // 2**30))
    in_children = obstacle is None and (dask is not None or min(jobs, len(tasks)) > 1)
    work: VideoWork = predict_in_child if in_children else partial(predict_video, model)
    if obstacle is not None:
        work = partial(_refuse, obstacle)
    with ExitStack() as bars:
        if progress is True:
            from pipelines.outputs.bars import shown_videos  # start-up time: rich

            progress = bars.enter_context(shown_videos(len(videos)))
        results = run_video_tasks(
            tasks,
            work,
            existing=partial(reused_result, model),
            jobs=jobs if in_children else None,
            dask=dask if in_children else None,
            progress=progress or None,
        )
    by_page = [(task.page, result) for task, result in zip(tasks, results, strict=True) if task.page is not None]
    if obstacle is None and any(result.status != "failed" for _, result in by_page):
        from pipelines.outputs.page import save_index  # start-up time: Jinja, Pillow

        save_index(output / "index.html", by_page)
    return results


def predict_to_files(
    model: SceneModel,
    task: VideoTask[PredictSettings],
    plan: ReusePlan | None,
    version: str,
    progress: ReportProgress | None = None,
) -> SceneList:
    """Find the scenes of a video, following the plan for an existing result of this version, and write its storyboard
    and page. The caller writes new scenes last, because they mark the video as done; changed existing scenes are
    written here. Raises ChangedError for a result that changed meanwhile."""
    images: ShotImages | None = None
    if plan is not None:
        if plan.needs_images:
            images, _ = images_from_video(plan.scenes, task.video, partial(progress or no_progress, "reading"))
            if task.settings.describe is not None and plan.action != "refuse":
                from pipelines.outputs.images import described  # start-up time: Pillow

                plan = replace(plan, scenes=described(plan.scenes, images, task.settings.describe))
        scenes = save_reused(plan, task, version)
    else:

        def keep_image(shot: KeyframedShot) -> None:
            from pipelines.outputs.images import ShotImages  # start-up time: Pillow

            nonlocal images
            images = images or ShotImages()
            add_images(images, shot)

        on_shot = keep_image if task.storyboard or task.page else None
        scenes = model.predict(task.video, progress=progress, on_shot=on_shot, thumbnails=False)
        check_version(task.output, version)  # before its page and storyboard are written
        scenes = replace(scenes, video=replace(scenes.video, id=task.video_id))
    if images and task.storyboard is not None:
        from pipelines.outputs.images import save_storyboard  # start-up time: Pillow

        save_storyboard(task.storyboard, scenes, images)
    if images and task.page is not None:  # it plays the video and saves corrected scenes under the result's name
        from pipelines.outputs.page import save_page  # start-up time: Jinja

        save_page(task.page, scenes, images, task.video, save_as=beside(task.output, ".json").name)
    return scenes


def _refuse(obstacle: BasslError, task: VideoTask[PredictSettings], report: ReportVideo) -> VideoResult:
    raise obstacle


def predict_in_child(task: VideoTask[PredictSettings], report: ReportVideo) -> VideoResult:
    """Find the scenes of one of several videos, in a child process on this machine or on a worker of a cluster."""
    return predict_video(SceneModel(task.settings, task.cores), task, report)


def predict_video(model: SceneModel, task: VideoTask[PredictSettings], report: ReportVideo) -> VideoResult:
    """Find the scenes of one of several videos with a loaded model."""

    def count_seconds(stage: str, done: float, total: float | None) -> None:
        if stage == "reading":
            report(VideoProgress(task.video_id, done, total))

    version = result_version(task.output)
    plan = plan_reuse(model, task)
    scenes = predict_to_files(model, task, plan, version, count_seconds)
    if plan is None:
        _save(scenes, task.output, version)
        return task.result_of(scenes)
    return task.result_of(scenes, status=plan.status, corrected=plan.is_corrected)


def _save(scenes: SceneList, path: Path, version: str) -> None:
    if is_scenes_json(path):
        replace_result(path, scenes, version)
    else:
        export(scenes, path)


def reused_result(model: SceneModel, task: VideoTask[PredictSettings]) -> VideoResult | None:
    """Return the result of a video that need not be read; errors as for `plan_reuse`."""
    version = result_version(task.output)
    plan = plan_reuse(model, task)
    if plan is None or plan.needs_images:
        return None
    return task.result_of(save_reused(plan, task, version), status=plan.status, corrected=plan.is_corrected)
