"""Extracting keyframes: videos in, one keyframe store per video out, each decoded and written by a child process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from annotated_doc import Doc

from pipelines.errors import StoreError, VideoError
from pipelines.files import check_output, os_errors
from pipelines.options import Settings, check_range, nested, resolve_settings
from pipelines.processes import cores
from pipelines.progress import ReportVideo, VideoResult
from pipelines.scenes import VideoFacts
from pipelines.settings import DETECTOR_NAMES, ONLY_TRAINING, Parallel, Reading, RunSettings
from pipelines.video.inputs import find_videos, fingerprint, unchanged, video_ids
from pipelines.video.shots import ReaderSettings
from pipelines.video_jobs import VideoTask, run_video_tasks

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import ExtractOptions


@dataclass(frozen=True)
class ExtractSettings(Settings):
    """How videos are cut into shots and what is kept of each shot."""

    run: RunSettings = nested(RunSettings(Path("data/keyframes")), without=ONLY_TRAINING)
    parallel: Parallel = nested(Parallel(), defaults={"jobs": "one for each core"})
    reading: Reading = nested(
        Reading(detector="transitions"), without=("shots", "subtitles", "subtitle_encoding", "silence")
    )
    keyframes: Annotated[int, Doc("Keyframes for each shot, N_k (appendix A).")] = 3
    lines: Annotated[int, Doc("Height of a keyframe in pixels; smaller videos are not enlarged.")] = 240
    quality: Annotated[int, Doc("JPEG quality of the keyframes, 1 to 100.")] = 90

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 1, 100, "keyframes", "quality")
        check_range(self, 16, 4320, "lines")


def extract_keyframes(
    inputs: Path | str | Sequence[Path | str],
    settings: ExtractSettings | None = None,
    progress: ReportVideo | None = None,
    **options: Unpack[ExtractOptions],
) -> list[VideoResult]:
    """Cut videos (files, folders and glob patterns) into shots and store the keyframes of each shot. A store that was
    made with the same settings from the same video is kept. Each video has its own child process: if it dies, the
    others continue. Returns one result for each video, in the order of their names. Raises BasslError for inputs or an
    output folder that cannot be used; errors of single videos are in their results."""
    settings = resolve_settings(ExtractSettings, settings, options)
    videos = find_videos(inputs)
    tasks = [
        VideoTask(video, name, settings.run.output / f"{name}.h5", settings)
        for video, name in zip(videos, video_ids(videos), strict=True)
    ]
    if tasks:
        check_output(tasks[0].output)
    return run_video_tasks(
        tasks,
        _extract,
        existing=_existing_result,
        jobs=settings.parallel.jobs or cores(),
        dask=settings.parallel.dask,
        progress=progress,
    )


def _reader_settings(settings: ExtractSettings) -> dict[str, Any]:
    """Return how videos are read, as fields of `ReaderSettings`, without None. With the quality, a store records it."""
    reading = settings.reading
    start, end = reading.part
    values = {name: getattr(reading, name) for name in ("detector_threshold", "min_shot")}
    values |= {"keyframes": settings.keyframes, "lines": settings.lines, "start": start, "end": end}
    values = {"detector": reading.detector or DETECTOR_NAMES[0], **values}
    return {name: value for name, value in values.items() if value is not None}


def _existing_result(task: VideoTask[ExtractSettings]) -> VideoResult | None:
    """Return the result of a video with a store, or None. Raises BasslError if it is damaged or does not fit."""
    if task.settings.run.overwrite or not task.output.exists():
        return None
    from pipelines.stores.keyframes import read_keyframes  # start-up time: h5py, only if there is a store

    remedy = "`overwrite=True` makes it again"
    store = read_keyframes(task.output)
    before, now = store.settings, _reader_settings(task.settings) | {"quality": task.settings.quality}
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    if names:
        other = ", ".join(f"{name} {before.get(name)} and not {now.get(name)}" for name in names)
        raise StoreError(f"{task.output}: was made with other settings ({other}); {remedy}")
    if store.source.get("fingerprint") != fingerprint(task.video):
        raise StoreError(f"{task.output}: was made from another file than {task.video}; {remedy}")
    return task.result("kept", shots=len(store.frames), frames=store.video.frames, duration=store.video.duration)


class InexactError(Exception):
    """Frames that FFmpeg fills in for lost data depend on its number of threads: only one is reproducible."""


def _extract(task: VideoTask[ExtractSettings], report: ReportVideo) -> VideoResult:
    """Read a video and write its store; runs in a child process."""
    from pipelines.video.reader import VideoReader  # start-up time: av, which the parent process does not need

    settings, quality = _reader_settings(task.settings), task.settings.quality
    with ExitStack() as reading:
        reading.enter_context(unchanged(task.video))
        reader = VideoReader(task.video, ReaderSettings(**settings, threads=task.cores), task.seconds_to(report))
        shots = iter(reader)
        shots = chain([next(shots)], shots)  # starts the threads that decode
        from pipelines.stores import keyframes  # start-up time: h5py, imported while the threads decode
        from pipelines.video.images import to_jpeg

        def compress() -> Iterator[keyframes.StoredShot]:
            for shot in shots:
                jpegs = tuple(to_jpeg(image, quality) for image in shot.keyframes)
                frames, seconds = (shot.start_frame, shot.end_frame), (shot.start, shot.end)
                yield keyframes.StoredShot(frames, seconds, shot.keyframe_indices, jpegs)

        def describe() -> tuple[VideoFacts, dict[str, Any]]:
            if task.cores > 1 and reader.warnings:
                raise InexactError
            facts = replace(reader.facts, path=task.video.name)  # the same video elsewhere gives the same store
            with os_errors(task.video, "cannot be read again", VideoError):
                size = task.video.stat().st_size
            source = {"name": task.video.name, "bytes": size, "fingerprint": fingerprint(task.video)}
            reading.close()  # raises VideoError before the store gets its name
            return facts, source

        try:
            keyframes.write_keyframes(task.output, compress(), describe, settings | {"quality": quality})
        except InexactError:
            return _extract(replace(task, cores=1), report)
        facts, warnings = reader.facts, tuple(reader.warnings)
        return task.result(shots=reader.shots, frames=facts.frames, duration=facts.duration, warnings=warnings)
