"""Prediction of videos into files: one video, or many in parallel, of which finished ones are kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Any

from pipelines.datasets.parsing import MAX_SCENES_BYTES, read_json
from pipelines.errors import BasslError, DatasetError, VideoError
from pipelines.files import check_inputs_kept, check_writable, remove_partials, write_atomically
from pipelines.models.encoder_options import absolute_encoder
from pipelines.options import settings_from, values_of
from pipelines.outputs.corrections import check_replaceable
from pipelines.outputs.exports import is_scenes_json, save
from pipelines.outputs.video_pictures import VideoPictures
from pipelines.processes import Send, cores
from pipelines.progress import ReportProgress, VideoProgress
from pipelines.scenes import SCHEMA, SCHEMA_VERSION, SceneList
from pipelines.settings import VIDEO_OPTIONS
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.predict.result import VideoScenes
from pipelines.stages.predict.settings import PredictSettings
from pipelines.video.inputs import find_videos, fingerprint, video_at, video_ids
from pipelines.video_jobs import run_here, run_on_dask

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
    pictured = VideoPictures(storyboard, page)
    found = model.predict(video, progress=progress, on_shot=pictured.add)
    if checked is not None:  # it may have been corrected meanwhile
        _check_replaceable(checked, video)
    if video_id is not None:
        found = replace(found, video=replace(found.video, id=video_id))
    pictured.save(found, video, output or Path("scenes.json"))
    if output is not None:
        save(found, output)
    return found


def _check_replaceable(output: Path, video: Path) -> None:
    check_replaceable(output, video, lambda facts: _is_of(facts.fingerprint, facts.path, video))


@dataclass(frozen=True)
class PredictTask:
    """One video of several, and what is to be written of it."""

    video: Path
    video_id: str
    settings: PredictSettings
    output: Path
    storyboard: Path | None
    page: Path | None
    overwrite: bool
    cores: int

    def to_json(self) -> dict[str, Any]:
        """The task as plain JSON values."""
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in vars(self).items()}
        return plain | {"settings": values_of(self.settings)}

    def finished(self, fields: Mapping[str, Any]) -> VideoScenes:
        """The result of a video that is done."""
        return VideoScenes(self.video_id, self.video, self.output, "done", **fields)

    def failed(self, error: str) -> VideoScenes:
        """The result of a video that failed."""
        return VideoScenes(self.video_id, self.video, self.output, "failed", error=error)

    def clean_up(self) -> None:
        """Remove unfinished files."""
        for path in (self.output, self.storyboard, self.page):
            if path is not None:
                remove_partials(path)


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
    progress: Callable[[VideoProgress[VideoScenes]], None],
    on_start: Callable[[int], None],
) -> list[VideoScenes]:
    """Find the scenes of videos, each into a file of its own; see :func:`pipelines.stages.predict.predict_videos`."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")
    videos = find_videos(inputs)
    if not videos:
        return []
    if settings.reading.shots is not None and len(videos) > 1:
        raise BasslError(
            f"{settings.reading.shots}: is a list of shots of one video, and {len(videos)} videos are given"
        )
    names = video_ids(videos)
    index = output / "index.html"
    if pages and index in {output / f"{name.lower()}.html" for name in names}:
        raise BasslError(f"{index}: would be the page of a video and of all videos; rename the video")
    if pages:
        check_writable(index)
    for folder, ending in ((output, "json"), (output, "html"), (storyboards, "png")):
        if folder is not None:
            check_writable(folder / f"{names[0]}.{ending}")
            written = [folder / f"{name}.{ending}" for name in names]
            check_inputs_kept(written, (*videos, settings.reading.shots, settings.model))
    on_start(len(videos))
    model = SceneModel(settings).load()
    results: dict[str, VideoScenes] = {}

    def ended(result: VideoScenes) -> None:
        results[result.video_id] = result
        progress(VideoProgress(result.video_id, result=result))

    if dask is not None and settings.encoder is not None:
        settings = replace(settings, encoder=absolute_encoder(settings.encoder))
    waiting = []
    for video, name in zip(videos, names, strict=True):
        board = None if storyboards is None else storyboards / f"{name}.png"
        page = output / f"{name}.html" if pages else None
        task = PredictTask(video, name, settings, output / f"{name}.json", board, page, overwrite, cores())
        if (
            not overwrite and settings.reading.shots is None and task.output.exists()
        ):  # a list of shots may have changed
            kept = _existing_result(task, model.record())
            if kept.status == "failed" or all(path is None or path.exists() for path in (board, page)):
                ended(kept)
                continue
        waiting.append(task)
    jobs = min(jobs or _default_jobs(), len(waiting))
    if dask is not None:
        running = run_on_dask(waiting, work, dask)
    elif jobs > 1:
        shared = [replace(task, cores=max(1, cores() // jobs)) for task in waiting]
        running = run_here(shared, work, jobs, progress)
    else:
        running = _one_by_one(model, waiting, progress)
    with closing(running) as finished:  # an interrupt here ends the children
        for result in finished:
            ended(result)
    # A video that fails now may have scenes and a page of an earlier run.
    made = [output / f"{name}.html" for name in names if results[name].output.exists()] if pages else []
    if shown := [page for page in made if page.exists()]:
        from pipelines.outputs.page.videos import save_index  # start-up time: Jinja, Pillow

        save_index(index, shown)
    return [results[name] for name in names]


def work(message: dict[str, Any], send: Send) -> None:
    """Find the scenes of the video of a task; runs in a child process, here or on a worker of a cluster."""
    settings = settings_from(PredictSettings, message.pop("settings"))
    paths = {name: message[name] and Path(message[name]) for name in ("video", "output", "storyboard", "page")}
    task = PredictTask(**{**message, **paths, "settings": settings})
    model = SceneModel(settings, task.cores)
    send("end", _predict(model, task, lambda done, total: send("progress", {"done": done, "total": total})))


def _one_by_one(
    model: SceneModel, tasks: Sequence[PredictTask], progress: Callable[[VideoProgress[VideoScenes]], None]
) -> Generator[VideoScenes, None, None]:
    for task in tasks:

        def read(done: float, total: float | None, name: str = task.video_id) -> None:
            progress(VideoProgress(name, done, total))

        try:
            yield task.finished(_predict(model, task, read))
        except BasslError as error:
            yield task.failed(str(error))


def _predict(model: SceneModel, task: PredictTask, read: Callable[[float, float | None], None]) -> dict[str, Any]:
    """Do a task; the fields of its result as plain JSON values. ``read`` is called with the seconds read and in all."""
    found = predict_to_files(
        model,
        task.video,
        task.output,
        storyboard=task.storyboard,
        page=task.page,
        progress=lambda stage, done, total: read(done, total) if stage == "reading" else None,
        video_id=task.video_id,
        overwrite=task.overwrite,
    )
    facts = {"scenes": len(found.scenes), "shots": len(found.shots), "duration": found.video.duration}
    return facts | {"warnings": found.warnings}


def _default_jobs() -> int:
    """Videos at a time: each takes two cores, one to read and one to encode, and up to half a gigabyte."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4 * 2**30
    return max(1, min(cores() // 2, memory // 2**30))


def _existing_result(task: PredictTask, settings: Mapping[str, Any]) -> VideoScenes:
    """The existing result of a video; a failed one if its file is not a scenes.json of this video, or was made with
    other settings."""
    remedy = "--overwrite makes it again"
    try:
        content = read_json(task.output, MAX_SCENES_BYTES)
        if (content["schema"], content["version"]) != (SCHEMA, SCHEMA_VERSION):
            raise ValueError
        same = _is_of(content["video"].get("fingerprint"), content["video"]["path"], task.video)
        before = content["settings"]
        facts: dict[str, Any] = {"scenes": len(content["scenes"]), "shots": len(content["shots"])}
        facts["duration"] = float(content["video"]["duration"])
        other = [name for name in _DECIDING if (before.get(name) or None) != (settings[name] or None)]
    except VideoError as error:
        return task.failed(str(error))
    except DatasetError as error:
        return task.failed(f"{error}; {remedy}")
    except (ValueError, KeyError, TypeError, AttributeError):
        return task.failed(f"{task.output}: is not a scenes.json of this version; {remedy}")
    if not same:
        return task.failed(f"{task.output}: holds the scenes of another video than {task.video}; {remedy}")
    try:
        if not other:
            _record_new_place(task, content)
            return replace(task.finished(facts), status="kept")
        _check_replaceable(task.output, task.video)
    except BasslError as error:
        return task.failed(str(error))
    listed = ", ".join(f"{name.removesuffix('_id')} {before.get(name)} and not {settings[name]}" for name in other)
    return task.failed(f"{task.output}: was made with other settings ({listed}); {remedy}")


def _record_new_place(task: PredictTask, content: Mapping[str, Any]) -> None:
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
