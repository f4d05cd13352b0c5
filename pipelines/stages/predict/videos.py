"""Prediction of videos into files: of one video, or of many, in parallel; finished videos are kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any

from pipelines.datasets.parsing import MAX_SCENES_BYTES, read_json
from pipelines.errors import BasslError, DatasetError, StoreError
from pipelines.files import check_inputs_kept, check_writable, write_atomically
from pipelines.models.encoder_options import absolute_encoder
from pipelines.outputs.corrections import check_replaceable
from pipelines.outputs.exports import is_scenes_json, save
from pipelines.outputs.results import beside, result_name
from pipelines.outputs.shot_images import ShotImages
from pipelines.processes import cores
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress, VideoResult
from pipelines.scenes import SCHEMA, SCHEMA_VERSION
from pipelines.settings import VIDEO_OPTIONS
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.predict.settings import PredictSettings
from pipelines.stages.scene_list import SceneList
from pipelines.video.inputs import fingerprint, video_at, video_ids
from pipelines.video_jobs import VideoTask, run

# What a result depends on: if one of these differs, only --overwrite makes it again. A result records the end of the
# part that was read, not its duration.
_DECIDING = (*(name for name in VIDEO_OPTIONS if name != "duration"), "encoder_id", "model_id")


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
) -> SceneList:
    """Find the scenes of a video and write the files that have a path; ``output`` last: it marks the video as done.

    As :func:`pipelines.stages.predict.predict_file`, except for ``video_id``, the id if videos of several folders share
    a name.
    """
    checked = output if output is not None and is_scenes_json(output) and not overwrite else None
    if checked is not None:
        _check_replaceable(checked, video)
    images = ShotImages(storyboard, page)
    scenes = model.predict(video, progress=progress, on_shot=images.add, thumbnails=False)
    if checked is not None:  # it may have been corrected meanwhile
        _check_replaceable(checked, video)
    if video_id is not None:
        scenes = replace(scenes, video=replace(scenes.video, id=video_id))
    images.save(scenes, video, output or Path("scenes.json"))
    if output is not None:
        save(scenes, output)
    return scenes


def _check_replaceable(output: Path, video: Path) -> None:
    check_replaceable(output, video, lambda facts: _is_of(facts.fingerprint, facts.path, video))


def plan(
    videos: Sequence[Path],
    output: Path,
    settings: PredictSettings,
    storyboards: Path | None,
    pages: bool,
    overwrite: bool,
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
        existing=partial(_existing_result, model.record()),
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

    scenes = predict_to_files(
        model,
        task.video,
        task.output,
        storyboard=task.storyboard,
        page=task.page,
        progress=count_seconds,
        video_id=task.video_id,
        overwrite=task.overwrite,
    )
    return task.result_of(scenes, warnings=scenes.warnings)


def _default_jobs() -> int:
    """Videos at a time: each takes two cores, one to read and one to encode, and up to half a gigabyte."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4 * 2**30
    return max(1, min(cores() // 2, memory // 2**30))


def _existing_result(record: Mapping[str, Any], task: VideoTask[PredictSettings]) -> VideoResult | None:
    """The existing result of a video; None if one of its files is missing. ``record``: what a new one depends on.

    Raises:
        BasslError: the file is not a scenes.json of this video, or was made with other settings.
    """
    # A list of shots may change.
    if task.overwrite or task.settings.reading.shots is not None or not task.output.exists():
        return None
    remedy = "`overwrite=True` makes it again"
    try:
        content = read_json(task.output, MAX_SCENES_BYTES)
        if (content["schema"], content["version"]) != (SCHEMA, SCHEMA_VERSION):
            raise ValueError
        video, before = content["video"], content["settings"]
        same = _is_of(video.get("fingerprint"), video["path"], task.video)
        result = task.result(
            "kept",
            scenes=len(content["scenes"]),
            shots=len(content["shots"]),
            frames=int(video["frames"]),
            duration=float(video["duration"]),
        )
        other = [name for name in _DECIDING if (before.get(name) or None) != (record[name] or None)]
    except DatasetError as error:
        raise DatasetError(f"{error}; {remedy}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{task.output}: is not a scenes.json of this version; {remedy}") from error
    if not same:
        raise StoreError(f"{task.output}: contains the scenes of another video than {task.video}; {remedy}")
    if other:
        _check_replaceable(task.output, task.video)
        listed = ", ".join(f"{name.removesuffix('_id')} {before.get(name)} and not {record[name]}" for name in other)
        raise StoreError(f"{task.output}: was made with other settings ({listed}); {remedy}")
    _record_new_place(task, content)
    return result if all(path.exists() for path in task.files) else None


def _record_new_place(task: VideoTask[PredictSettings], content: Mapping[str, Any]) -> None:
    """Write the new path of a video that was moved into its existing result, so that other commands find it. The rest
    of the file stays as it is."""
    video = content["video"]
    if video.get("fingerprint") is None or video["path"] == str(task.video.absolute()):
        return
    if not os.access(task.output, os.W_OK):  # write-protected by hand
        return
    from pipelines.datasets.scene_files import read_scene_list, with_video  # start-up time: NumPy

    listed = read_scene_list(task.output)
    if video_at(Path(listed.video.path), listed.video) is None:
        moved = with_video(listed, task.video).to_dict(task.output.parent)["video"]
        write_atomically(task.output, json.dumps({**content, "video": video | moved}, indent=1).encode() + b"\n")


def _is_of(stored: str | None, path: str, video: Path) -> bool:
    """Whether the video of a ``scenes.json`` is this video: by the stored fingerprint, else by its name."""
    if stored is not None:
        return stored == fingerprint(video)
    return PureWindowsPath(path).name == PureWindowsPath(video).name
