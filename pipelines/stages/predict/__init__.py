"""A video in, its scenes out: shots, keyframes, encodings, scores and scenes in one pass, in memory.

A model's header records its encoder and its keyframe settings. A video is read the same way, so the scores equal those
from a keyframe store, a feature store and the model, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Unpack

from pipelines.errors import BasslError, CorrectedError, DatasetError
from pipelines.files import STDIO, check_inputs_kept, check_output
from pipelines.options import resolve_settings, with_options
from pipelines.outputs.exports import export, format_named, format_of
from pipelines.processes import cores, free_memory
from pipelines.progress import ReportProgress, ReportVideo, Status, VideoProgress, VideoResult
from pipelines.results.finding import beside, is_scenes_json, result_name, result_path
from pipelines.results.replacing import (
    is_corrected,
    needs_name,
    note_on_page,
    read_replaceable,
    replace_result,
    result_version,
    without_corrections,
)
from pipelines.scenes import SceneData
from pipelines.settings import GROUPING, Grouping, Parallel, Reading, ScenesOutput
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.scene_list import SceneList
from pipelines.stages.settings import PredictSettings
from pipelines.video.inputs import find_videos, fingerprint, modified, safe_id, subtitles_beside, video_ids
from pipelines.video.shots import KeyframedShot
from pipelines.video_jobs import VideoTask, run_video_tasks

if TYPE_CHECKING:  # start-up time: Pillow; types of options for editors and mypy
    from pipelines.outputs.images import ShotImages
    from pipelines.stages.option_types import PredictOptions

__all__ = ["PredictSettings", "load_model", "predict", "predict_videos"]

# What decides the shots and scores. A result records the end of the part that was read, not its length.
_NOT_SCORED = {"duration", "subtitles", "subtitle_encoding"}
SCORE_INPUTS = {"encoder_id", "model_id", *(one.name for one in fields(Reading))} - _NOT_SCORED


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
    written beside it. Raises BasslError for a missing video or an unusable output."""
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
    series: bool = False,
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
        series: the videos are episodes of one series: find what they share, intro, outro and recaps, which become
            segments; hashes of their frames are kept in ``series.h5`` in the output folder.
        jobs: videos at a time; None: as many as cores and memory allow. If more than one, each has its own process.
        dask: address of a Dask scheduler, whose workers process the videos and must see the same files and this folder.
        progress: called with the progress and the result of each video; True shows bars in a terminal or a notebook.

    Returns one result per video, sorted by video name; a failed video's result has the reason.
    Raises BasslError for inputs, a model or settings that cannot be used at all, and ValueError like :func:`predict`.
    """
    Parallel(jobs)  # raises ValueError
    settings, videos, output = resolve_settings(PredictSettings, settings, options), find_videos(inputs), Path(output)
    for file, what in ((settings.reading.shots, "is a list of shots"), (settings.reading.subtitles, "has subtitles")):
        if file is not None and len(videos) > 1:
            raise BasslError(f"{file}: {what} of one video, but there are {len(videos)} videos")
    if series and settings.reading.part != (None, None):
        raise BasslError("`series` compares whole videos; leave `start`, `end` and `duration` out")
    tasks, replaces = [], ScenesOutput(None, overwrite, discard_corrections)
    store = output / "series.h5" if series else None
    if store is not None:
        from pipelines.stores.episodes import read_episodes  # start-up time: NumPy, h5py

        read_episodes(store)  # a damaged one fails before hours of work
    for video, video_id in zip(videos, video_ids(videos), strict=True):
        result = output / result_name(video, video_id)
        page = beside(result, ".html") if pages else None
        exports = {name: beside(result, format_named(name).extension) for name in to}
        tasks.append(VideoTask(video, video_id, result, settings, page, exports, replaces, store))
    if not tasks:
        return []
    check_inputs_kept((path for task in tasks for path in task.files), (*videos, *settings.files))
    if not tasks[0].output.exists():  # a folder that cannot be written fails once
        check_output(tasks[0].output)
    if pages:
        check_output(output / "index.html")
    model = SceneModel(settings).load()
    if jobs is None:  # each takes two cores, one to read and one to encode, and up to half a gigabyte
        jobs = max(1, min(cores() // 2, (free_memory() or 4 * 2**30) // 2**30))
    in_children = dask is not None or min(jobs, len(tasks)) > 1
    with ExitStack() as bars:
        if progress is True:
            from pipelines.outputs.bars import shown_videos  # start-up time: rich

            progress = bars.enter_context(shown_videos(len(videos)))
        run = partial(
            run_video_tasks,
            work=predict_video if in_children else partial(predict_video, model=model),
            existing=partial(result_without_reading, model),
            jobs=jobs if in_children else None,
            dask=dask,
        )
        results = run(tasks, progress=progress or None)
        if store is not None:
            from pipelines.stages.predict.series import add_repeats  # start-up time: NumPy, h5py

            results = add_repeats(tasks, results, store, run, progress or (lambda state: None))
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
        check_output(path)
    from pipelines.outputs.images import ShotImages, cached_images, described, keep_images  # start-up time: Pillow

    if reused is None:
        images = ShotImages()
        on_shot = images.add if task.page else None
        scenes = model.predict(task.video, progress=progress, on_shot=on_shot, series=task.series)
        scenes = replace(scenes, video=replace(scenes.video, id=task.video_id))
        if task.page and task.series:  # the page is made again if the episodes share a part
            keep_images(scenes, task.video, images)
    else:
        images, _ = cached_images(reused.scenes, task.video, partial(progress, "reading"))
        scenes = reused.scenes
        if task.settings.describe is not None:
            scenes = described(scenes, images, task.settings.describe)
    return _finish(task, scenes, reused, version, images)


def result_without_reading(model: SceneModel, task: VideoTask[PredictSettings]) -> VideoResult | None:
    """Return the result of a video that need not be read, or None, if its files can be written; as `predict_task`."""
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
        check_output(path)
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


@dataclass(frozen=True)
class Reused:
    """Scenes that follow from an existing result, without reading the video for its shots and scores."""

    stored: SceneData
    scenes: SceneList
    has_corrections: bool  # by hand, so that only subtitles and a program's names are added

    def has(self, scenes: SceneData) -> bool:
        """Return whether scenes are those of the existing result, whatever the path of the video."""
        return replace(scenes, video=self.stored.video, warnings=()) == SceneList(**vars(self.stored))

    def needs_images(self, task: VideoTask[PredictSettings]) -> bool:
        """Return whether images are needed: for a program that names scenes, or a page that lacks these scenes."""
        command = task.settings.describe
        if command is not None and any(needs_name(self.scenes, scene, command) for scene in self.scenes):
            return True
        if task.page is None:
            return False
        from pipelines.outputs.page import shows  # start-up time: Jinja, Pillow

        return not shows(task.page, self.scenes)

    def note(self, task: VideoTask[PredictSettings], scenes: SceneData) -> str:
        """Return one line on what became of the existing result: these scenes."""
        before, now = _grouping_of(self.stored), _grouping_of(scenes)
        changes = [f"{name} {now[name]}, was {value}" for name, value in before.items() if value != now[name]]
        if task.replaces.discard_corrections and is_corrected(self.stored):
            changes.append("corrections discarded")
        if scenes.lines != self.stored.lines:
            changes.append("other subtitles")
        if scenes.scenes != self.scenes.scenes:
            changes.append(f"names by {task.settings.describe}")
        if self.has_corrections:
            exception = f", except for {' and '.join(changes)}" if changes else ""
            return f"{task.output}: was corrected by hand and is left as it is{exception}"
        if self.has(scenes):
            return f"{task.output}: unchanged; kept (`overwrite=True` reads the video again)"
        return f"{task.output}: regrouped from its scores ({'; '.join(changes)})"


def reuse_result(model: SceneModel, task: VideoTask[PredictSettings]) -> Reused | None:
    """Return the scenes that a task's existing result gives with its settings, or None if the video has to be read.
    Scenes that a person corrected stay, with the subtitles of today. Raises CorrectedError if they could not,
    StoreError for a file that must not be replaced, and BasslError if the shots do not allow the grouping."""
    current, settings = fingerprint(task.video), task.settings
    before = read_replaceable(task.output, task.video, current, task.replaces)
    if before is None:
        return None
    stored = without_corrections(before) if task.replaces.discard_corrections else before
    has_corrections = not task.replaces.discard_corrections and is_corrected(stored)
    record, facts = model.record(settings), stored.video
    is_stale = (
        task.replaces.overwrite
        or record["shots"] is not None  # a list of shots may change
        or current is None
        or facts.fingerprint not in (None, current)
        or facts.modified not in (None, modified(task.video))
        or any((stored.settings.get(name) or None) != (record[name] or None) for name in SCORE_INPUTS)
    )
    if is_stale and not has_corrections:
        return None
    stored_grouping = _grouping_of(stored)
    # Of a corrected result only options that were set ask for others.
    grouping = stored_grouping | settings.grouping.given if has_corrections else settings.grouping.resolved()
    if has_corrections and (is_stale or grouping != stored_grouping):
        others = f"other scenes from its scores: bassl regroup {quote(str(task.output))}"
        remedy = "`discard_corrections=True` replaces it"
        raise CorrectedError(f"{task.output}: was corrected by hand and is left as it is; {others}; {remedy}")
    scenes = _with_subtitles(task, stored)
    if not has_corrections and (grouping != stored_grouping or task.replaces.discard_corrections):
        from pipelines.models.scenes import with_grouping  # start-up time: NumPy

        scenes = with_grouping(scenes, grouping)
    scenes = replace(scenes, video=replace(scenes.video, path=str(task.video.absolute())))
    return Reused(before, SceneList(**vars(scenes)), has_corrections)


def _grouping_of(scenes: SceneData) -> dict[str, Any]:
    """Return the options of `Grouping` that scenes were grouped with."""
    stored = {name: scenes.settings.get(name) for name in GROUPING}
    return Grouping().resolved() | {name: value for name, value in stored.items() if value is not None}


def _with_subtitles(task: VideoTask[PredictSettings], stored: SceneData) -> SceneData:
    """Return the scenes with the lines of the subtitle file that the settings name, or of the one beside the video, and
    automatic names from these. Raises DatasetError if a named file cannot be read; another one then changes nothing."""
    reading = task.settings.reading
    path = reading.subtitles or (None if stored.settings.get("subtitles") else subtitles_beside(task.video))
    if path is None:
        return stored
    from pipelines.video.reader import lines_from  # start-up time: PyAV

    encoding = reading.subtitle_encoding or stored.settings.get("subtitle_encoding")
    try:
        lines, warnings = lines_from(path, encoding, task.video, stored.shots[0].start, stored.shots[-1].end)
    except DatasetError:
        if reading.subtitles:
            raise
        return stored
    if lines == stored.lines:
        return stored
    subtitle_option = reading.subtitles and str(reading.subtitles)
    settings = {**stored.settings, "subtitles": subtitle_option, "subtitle_encoding": encoding}
    from pipelines.models.scenes import with_automatic_names  # start-up time: NumPy

    return with_automatic_names(replace(stored, lines=lines, settings=settings, warnings=warnings))
