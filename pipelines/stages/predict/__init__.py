"""A video in, its scenes out: shots, keyframes, encodings, scores and scenes in one pass, in memory.

The header of a model fine-tuned with bassl records its encoder and its keyframe settings. A video is read the same way,
so the scores equal those from a keyframe store, a feature store and the model, stage by stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from pipelines.errors import BasslError, CorrectedError
from pipelines.files import STDIO, check_inputs_kept, check_writable
from pipelines.models.encoders.options import absolute_encoder
from pipelines.options import resolve_settings, with_options
from pipelines.outputs.exports import export, format_named, format_of
from pipelines.processes import cores, free_memory
from pipelines.progress import ReportProgress, ReportVideo, Status, VideoProgress, VideoResult
from pipelines.results.finding import beside, is_scenes_json, result_name, result_path
from pipelines.results.replacing import note_on_page, replace_result, result_version
from pipelines.settings import Parallel, ScenesOutput
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.predict.reuse import Reused, reuse_result
from pipelines.stages.scene_list import SceneList
from pipelines.stages.settings import PredictSettings
from pipelines.video.inputs import find_videos, safe_id, video_ids
from pipelines.video.shots import KeyframedShot
from pipelines.video_jobs import VideoTask, run_video_tasks

if TYPE_CHECKING:  # start-up time: Pillow; types of options for editors and mypy
    from pipelines.outputs.images import ShotImages
    from pipelines.stages.option_types import PredictOptions

__all__ = ["PredictSettings", "load_model", "predict", "predict_videos"]


def load_model(
    model: Path | str | None = None, *, encoder: str | Path | None = None, device: str = "auto"
) -> SceneModel:
    """Load a model that predicts many videos without loading anything again.

    ``model``: a run folder or a model file; None is the built-in model.
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
    settings: PredictSettings | None = None,
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
        on_shot: called with each shot and its keyframes as it is found.
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
    model = SceneModel(resolve_settings(PredictSettings, settings, options))
    return model.predict(video, progress=progress, on_shot=on_shot)


def file_task(
    video: Path,
    output: Path | None,
    settings: PredictSettings,
    *,
    to: Sequence[str] = (),
    page: Path | None = None,
    replaces: ScenesOutput = ScenesOutput(),
) -> VideoTask[PredictSettings]:
    """Return the task of finding the scenes of one video, for `predict_task`. ``output``: a ``scenes.json``, or an
    export by its extension; None writes no file, and ``-`` is stdout for the format ``to``; other formats ``to`` are
    written beside the output. Raises BasslError for a missing video, and for an output that is an input, or has an
    unknown extension."""
    find_videos([video])
    result = output or STDIO
    if result != STDIO:
        check_inputs_kept((result,), (video, *settings.files))
    main_file = result_path(video) if result == STDIO else result
    exports = {name: beside(main_file, format_named(name).extension) for name in to}
    if not is_scenes_json(result) or (output == STDIO and to):
        if len(to) > 1:
            raise BasslError(f"{output}: is one file, but `to` has {len(to)} formats; name a folder")
        exports, result = {format_of(result, *to): result}, STDIO
    task = VideoTask(video, safe_id(video.stem), result, settings, page, exports, replaces)
    check_inputs_kept(task.files, (video, *settings.files))
    return task


def predict_videos(
    inputs: Path | str | Sequence[Path | str],
    output: Path | str,
    settings: PredictSettings | None = None,
    *,
    to: Sequence[str] = (),
    overwrite: bool = False,
    discard_corrections: bool = False,
    pages: bool = False,
    jobs: int | None = None,
    dask: str | None = None,
    progress: ReportVideo | bool | None = None,
    **options: Unpack[PredictOptions],
) -> list[VideoResult]:
    """Find the scenes of videos, each into its own file; ``settings`` and ``options`` as for :func:`predict`.

    A video that already has a file is read again only if something that determines its scores changed; otherwise the
    file is kept, or its scenes are found again from the scores if only options of `Grouping` changed; the result's
    ``notes`` say so. Scenes that were corrected by hand are always kept.

    Args:
        inputs: files, folders and glob patterns.
        output: folder of the files, ``<video's name>.scenes.json``; of videos with one name with their folders' names.
        to: formats of `bassl export` to write too, for each video.
        overwrite: read finished videos again; also replace files of other videos.
        discard_corrections: replace scenes that were corrected by hand.
        pages: also write ``<video's name>.scenes.html`` there, a page to view and correct the scenes.
        jobs: videos at a time; None: as many as cores and memory allow. If more than one, each has its own process.
        dask: address of a Dask scheduler whose workers process the videos; they must see the same files.
        progress: called with the progress and the result of each video; True shows bars in a terminal or a notebook.

    Returns one result per video, sorted by video name; a failed video's result has the reason.
    Raises BasslError for inputs, a model or settings that cannot be used at all, and ValueError like :func:`predict`.
    """
    Parallel(jobs)  # raises ValueError
    settings, videos, output = resolve_settings(PredictSettings, settings, options), find_videos(inputs), Path(output)
    for file, what in ((settings.reading.shots, "is a list of shots"), (settings.reading.subtitles, "has subtitles")):
        if file is not None and len(videos) > 1:
            raise BasslError(f"{file}: {what} of one video, but there are {len(videos)} videos")
    if dask is not None and settings.encoder is not None:
        settings = replace(settings, encoder=absolute_encoder(settings.encoder))
    tasks, replaces = [], ScenesOutput(None, overwrite, discard_corrections)
    for video, video_id in zip(videos, video_ids(videos), strict=True):
        result = output / result_name(video, video_id)
        page = beside(result, ".html") if pages else None
        exports = {name: beside(result, format_named(name).extension) for name in to}
        tasks.append(VideoTask(video, video_id, result, settings, page, exports, replaces))
    if not tasks:
        return []
    check_inputs_kept((path for task in tasks for path in task.files), (*videos, *settings.files))
    if not tasks[0].output.exists():  # a folder that cannot be written fails once
        check_writable(tasks[0].output)
    if pages:
        check_writable(output / "index.html")
    model = SceneModel(settings).load()
    if jobs is None:  # each takes two cores, one to read and one to encode, and up to half a gigabyte
        jobs = max(1, min(cores() // 2, (free_memory() or 4 * 2**30) // 2**30))
    in_children = dask is not None or min(jobs, len(tasks)) > 1
    with ExitStack() as bars:
        if progress is True:
            from pipelines.outputs.bars import shown_videos  # start-up time: rich

            progress = bars.enter_context(shown_videos(len(videos)))
        results = run_video_tasks(
            tasks,
            predict_video if in_children else partial(predict_video, model=model),
            existing=partial(result_without_reading, model),
            jobs=jobs if in_children else None,
            dask=dask,
            progress=progress or None,
        )
    by_page = [
        (task.page, result)
        for task, result in zip(tasks, results, strict=True)
        if task.page is not None and (result.status == "failed" or task.page.exists())
    ]
    if any(result.status != "failed" for _, result in by_page):
        from pipelines.outputs.page import save_index  # start-up time: Jinja, Pillow

        save_index(output / "index.html", by_page)
    return results


def predict_task(
    model: SceneModel, task: VideoTask[PredictSettings], progress: ReportProgress
) -> tuple[SceneList, VideoResult]:
    """Find the scenes of a video, from its existing result or by reading it, and write them and the page of the task.
    Raises ChangedError for a result that changed meanwhile, CorrectedError if corrections would be lost."""
    version = result_version(task.output)
    reused = reuse_result(model, task)
    if reused is not None and not reused.needs_images(task):
        return _finish(task, reused.scenes, reused, version)
    for path in task.files:
        check_writable(path)
    from pipelines.outputs.images import ShotImages, described, images_from_video  # start-up time: Pillow

    if reused is None:
        images = ShotImages()
        scenes = model.predict(task.video, progress=progress, on_shot=images.add if task.page else None)
        scenes = replace(scenes, video=replace(scenes.video, id=task.video_id))
    else:
        images, _ = images_from_video(reused.scenes, task.video, partial(progress, "reading"))
        scenes = reused.scenes
        if task.settings.describe is not None:
            scenes = described(scenes, images, task.settings.describe)
    return _finish(task, scenes, reused, version, images)


def result_without_reading(model: SceneModel, task: VideoTask[PredictSettings]) -> VideoResult | None:
    """Return the result of a video that need not be read, or None, if its files can be written; errors as for
    `predict_task`."""
    version = result_version(task.output)
    try:
        reused = reuse_result(model, task)
    except CorrectedError as error:
        from pipelines.datasets.scenes_json import read_scene_list  # start-up time: NumPy

        notes = (str(error),)
        return task.result_of(read_scene_list(task.output), status="kept", corrected=True, notes=notes)
    if reused is not None and not reused.needs_images(task):
        return _finish(task, reused.scenes, reused, version)[1]
    for path in task.files:
        check_writable(path)
    return None


def _finish(
    task: VideoTask[PredictSettings],
    scenes: SceneList,
    reused: Reused | None,
    version: str,
    images: ShotImages | None = None,
) -> tuple[SceneList, VideoResult]:
    """Write the scenes, unless they are those of the existing result, and their page if there are images for it."""
    is_same = reused is not None and reused.has(scenes)
    if not is_same and task.output != STDIO:
        replace_result(task.output, scenes, version)
    elif reused is not None and scenes.video != reused.stored.video:
        with suppress(BasslError):  # the folder may be read-only; the video is found without its new path
            replace_result(task.output, scenes, version)
    if reused is not None:
        notes = (reused.note(task, scenes),)
        scenes = replace(scenes, notes=notes if is_same else notes + note_on_page(task.output, task.page))
    warnings = [warning for name, path in task.exports.items() for warning in export(scenes, path, name)]
    scenes = replace(scenes, warnings=tuple(dict.fromkeys((*scenes.warnings, *warnings))))  # formats may repeat some
    if images and task.page is not None:  # it plays the video and saves corrected scenes under the result's name
        from pipelines.outputs.page import save_page  # start-up time: Jinja

        save_page(task.page, scenes, images, task.video, save_as=beside(task.output, ".json").name)
    status: Status = "done" if reused is None else "kept" if is_same else "regrouped"
    return scenes, task.result_of(scenes, status=status, corrected=reused is not None and reused.has_corrections)


def predict_video(
    task: VideoTask[PredictSettings], report: ReportVideo, model: SceneModel | None = None
) -> VideoResult:
    """Find the scenes of one of several videos with a loaded model; without one, as in a child process, load it."""

    def count_seconds(stage: str, done: float, total: float | None) -> None:
        if stage == "reading":
            report(VideoProgress(task.video_id, done, total))

    return predict_task(model or SceneModel(task.settings, task.cores), task, count_seconds)[1]
