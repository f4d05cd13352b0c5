"""Prediction of videos into files: one video, or many in parallel, of which finished ones are kept."""

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
from pipelines.outputs.shot_images import ShotImages
from pipelines.processes import cores
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress, VideoResult
from pipelines.scenes import SCHEMA, SCHEMA_VERSION, SceneList
from pipelines.settings import VIDEO_OPTIONS
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.predict.settings import PredictSettings
from pipelines.video.inputs import find_videos, fingerprint, video_at, video_ids
from pipelines.video_jobs import VideoTask, run

# What a result depends on: where one differs, it is made again only with --overwrite. It records the end of a part, not
# the duration.
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
    """Find the scenes of a video and write the files asked for; ``output`` last, so that it marks the video as done. As
    :func:`pipelines.stages.predict.predict_file`, but for the ``video_id``, which the video has where videos of several
    folders share its name."""
    checked = output if output is not None and is_scenes_json(output) and not overwrite else None
    if checked is not None:
        _check_replaceable(checked, video)
    images = ShotImages(storyboard, page)
    found = model.predict(video, progress=progress, on_shot=images.add)
    if checked is not None:  # it may have been corrected meanwhile
        _check_replaceable(checked, video)
    if video_id is not None:
        found = replace(found, video=replace(found.video, id=video_id))
    images.save(found, video, output or Path("scenes.json"))
    if output is not None:
        save(found, output)
    return found


def _check_replaceable(output: Path, video: Path) -> None:
    check_replaceable(output, video, lambda facts: _is_of(facts.fingerprint, facts.path, video))


def predict_all(
    inputs: Path | str | Sequence[Path | str],
    output: Path,
    settings: PredictSettings,
    *,
    overwrite: bool,
    storyboards: Path | None,
    pages: bool,
    jobs: int | None,
    dask: str | None,
    progress: ReportVideo | None,
    on_start: Callable[[int], None] | None,
) -> list[VideoResult]:
    """Find the scenes of videos, each into its own file; see :func:`pipelines.stages.predict.predict_videos`."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")
    videos = find_videos(inputs)
    if not videos:
        return []
    if dask is not None and settings.encoder is not None:
        settings = replace(settings, encoder=absolute_encoder(settings.encoder))
    tasks = _plan(videos, output, settings, storyboards, pages, overwrite)
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
        from pipelines.outputs.page.videos import save_index  # start-up time: Jinja, Pillow

        save_index(output / "index.html", shown)
    return results


def _plan(
    videos: Sequence[Path],
    output: Path,
    settings: PredictSettings,
    storyboards: Path | None,
    pages: bool,
    overwrite: bool,
) -> list[VideoTask[PredictSettings]]:
    """What is to be written for each video. Raises BasslError if the settings do not fit several videos, or a file
    cannot be written or is an input."""
    if settings.reading.shots is not None and len(videos) > 1:
        raise BasslError(
            f"{settings.reading.shots}: is a list of shots of one video, and {len(videos)} videos are given"
        )
    tasks = [
        VideoTask(
            video,
            name,
            output / f"{name}.json",
            settings,
            storyboard=None if storyboards is None else storyboards / f"{name}.png",
            page=output / f"{name}.html" if pages else None,
            overwrite=overwrite,
        )
        for video, name in zip(videos, video_ids(videos), strict=True)
    ]
    index = output / "index.html"
    if pages and any(task.video_id.lower() == "index" for task in tasks):
        raise BasslError(f"{index}: would be the page of a video and of all videos; rename the video")
    for path in tasks[0].files:
        check_writable(path)
    if pages:
        check_writable(index)
    check_inputs_kept(
        (path for task in tasks for path in task.files), (*videos, settings.reading.shots, settings.model)
    )
    return tasks


def _predict_in_child(task: VideoTask[PredictSettings], report: ReportVideo) -> VideoResult:
    """Find the scenes of the video of a task; runs in a child process, here or on a worker of a cluster."""
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
    return task.result(
        scenes=len(scenes.scenes),
        shots=len(scenes.shots),
        frames=scenes.video.frames,
        duration=scenes.video.duration,
        warnings=scenes.warnings,
    )


def _default_jobs() -> int:
    """Videos at a time: each takes two cores, one to read and one to encode, and up to half a gigabyte."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4 * 2**30
    return max(1, min(cores() // 2, memory // 2**30))


def _existing_result(record: Mapping[str, Any], task: VideoTask[PredictSettings]) -> VideoResult | None:
    """The existing result of a video; None if there is none, or a file is missing. ``record`` is what a result now
    depends on. Raises BasslError if the file is not a scenes.json of this video, or was made with other settings."""
    if (
        task.overwrite or task.settings.reading.shots is not None or not task.output.exists()
    ):  # a list of shots may change
        return None
    remedy = "--overwrite makes it again"
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
    """Write into an existing result where its video is now, if that was moved: other commands then find it. All else
    in the file stays."""
    video = content["video"]
    if video.get("fingerprint") is None or video["path"] == str(task.video.absolute()):
        return
    if not os.access(task.output, os.W_OK):  # write-protected by hand
        return
    from pipelines.datasets.scene_list import read_scene_list, with_video  # start-up time: NumPy

    listed = read_scene_list(task.output)
    if video_at(Path(listed.video.path), listed.video) is None:
        moved = with_video(listed, task.video).to_dict(task.output.parent)["video"]
        write_atomically(task.output, json.dumps({**content, "video": video | moved}, indent=1).encode() + b"\n")


def _is_of(known_by: str | None, path: str, video: Path) -> bool:
    """Whether the video of a ``scenes.json`` is this video; by its name where the file has no fingerprint."""
    if known_by is not None:
        return known_by == fingerprint(video)
    return PureWindowsPath(path).name == PureWindowsPath(video).name
