"""Extracting keyframes: videos in, one keyframe store for each out.

Each video has a child process, which decodes it, cuts it into shots and writes the store.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipelines.errors import StoreError, VideoError
from pipelines.files import check_writable, is_file, os_reason, remove_partials
from pipelines.options import accept_text, nested, settings_from, values_of
from pipelines.processes import Send, cores
from pipelines.progress import VideoProgress
from pipelines.scenes import VideoFacts
from pipelines.settings import DETECTOR_NAMES, Reading
from pipelines.video.inputs import READ_TWICE, find_videos, fingerprint, video_ids
from pipelines.video.shots import KeyframedShot, ReaderSettings
from pipelines.video_jobs import run_here, run_on_dask

if TYPE_CHECKING:  # start-up time: av, h5py
    from pipelines.stores.keyframes import StoredShot
    from pipelines.video.reader import VideoReader

Report = Callable[[VideoProgress["VideoResult"]], None]


@dataclass(frozen=True)
class ExtractSettings:
    """How videos are cut into shots and what is kept of each shot."""

    output: Path = Path("data/keyframes")
    """Folder of the keyframe stores, one for each video."""
    reading: Reading = nested(Reading(detector="transitions"), without=("shots",))
    """How each video is read."""
    keyframes: int = 3
    """Keyframes for each shot, N_k (appendix A)."""
    lines: int = 240
    """Height of a keyframe in pixels (MovieNet's 240P); smaller videos are not enlarged."""
    quality: int = 90
    """JPEG quality of the keyframes, 1 to 100."""
    workers: int | None = None
    """Videos at a time. Default: one for each core."""
    overwrite: bool = False
    """Replace existing stores."""
    dask: str | None = None
    """Address of a Dask scheduler whose workers process the videos; they must see the same files."""

    def __post_init__(self) -> None:
        accept_text(self)
        if not 1 <= self.keyframes <= 100:
            raise ValueError(f"a shot can have 1 to 100 keyframes, not {self.keyframes}")
        if not 16 <= self.lines <= 4320:
            raise ValueError(f"a keyframe can have 16 to 4320 lines, not {self.lines}")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"JPEG quality goes from 1 to 100, not {self.quality}")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"at least one video must be processed at a time, not {self.workers}")


@dataclass(frozen=True)
class VideoResult:
    """The result of one video.

    ``status`` is ``done``, ``kept`` (its store existed) or ``failed`` with one line in ``error``; ``duration`` is in
    seconds.
    """

    video_id: str
    video: Path
    store: Path
    status: Literal["done", "kept", "failed"]
    shots: int = 0
    frames: int = 0
    duration: float = 0.0
    warnings: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class VideoTask:
    """One video to cut into shots."""

    video: Path
    video_id: str
    settings: ExtractSettings
    threads: int  # that decode

    @property
    def store(self) -> Path:
        """The keyframe store to write."""
        return self.settings.output / f"{self.video_id}.h5"

    @property
    def store_settings(self) -> dict[str, Any]:
        """The settings that decide the content of the store, which are recorded in it; without those not given."""
        values = self.reading | {"quality": self.settings.quality}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def reading(self) -> dict[str, Any]:
        """How the video is read, as fields of `ReaderSettings`."""
        reading = self.settings.reading
        start, end = reading.part
        return {
            "detector": reading.detector or DETECTOR_NAMES[0],
            "detector_threshold": reading.detector_threshold,
            "min_shot": reading.min_shot,
            "keyframes": self.settings.keyframes,
            "lines": self.settings.lines,
            "start": start,
            "end": end,
        }

    def to_json(self) -> dict[str, Any]:
        """The task as plain JSON values."""
        return vars(self) | {"video": str(self.video), "settings": values_of(self.settings)}

    @classmethod
    def from_json(cls, task: Mapping[str, Any]) -> VideoTask:
        """The task of plain JSON values."""
        return cls(
            Path(task["video"]), task["video_id"], settings_from(ExtractSettings, task["settings"]), task["threads"]
        )

    def finished(self, fields: Mapping[str, Any], status: Literal["done", "kept"] = "done") -> VideoResult:
        """The result of a video whose store is written."""
        return VideoResult(self.video_id, self.video, self.store, status, **fields)

    def failed(self, error: str) -> VideoResult:
        """The result of a video that failed."""
        return VideoResult(self.video_id, self.video, self.store, "failed", error=error)

    def clean_up(self) -> None:
        """Remove a store that is not finished."""
        remove_partials(self.store)


def extract_keyframes(
    inputs: Path | str | Sequence[Path | str],
    settings: ExtractSettings = ExtractSettings(),
    progress: Report | None = None,
    on_start: Callable[[int], None] | None = None,
) -> list[VideoResult]:
    """Cut videos (files, folders and glob patterns) into shots and store the keyframes of each shot.

    A store that was made with the same settings from the same video is kept. Each video has a process of its own: if
    that dies, this video has failed and the others continue. ``on_start`` is called with the number of videos,
    ``progress`` with the progress of each, from several threads.

    Returns:
        one result for each video, in the order of the videos' names.

    Raises:
        BasslError: for inputs or an output folder that cannot be used. Errors of single videos are in their results.
    """
    videos = find_videos(inputs)
    workers = max(1, min(len(videos), settings.workers or cores()))
    threads = max(1, cores() // workers)
    tasks = [VideoTask(video, name, settings, threads) for video, name in zip(videos, video_ids(videos), strict=True)]
    if tasks:
        check_writable(tasks[0].store)
    report = progress or (lambda state: None)
    if on_start is not None:
        on_start(len(tasks))
    results: dict[str, VideoResult] = {}
    waiting = []
    for task in tasks:
        if (kept := _existing_result(task)) is not None:
            results[task.video_id] = kept
            report(VideoProgress(task.video_id, result=kept))
        else:
            waiting.append(task)
    if settings.dask is not None:
        running = run_on_dask(waiting, work, settings.dask)
    else:
        running = run_here(waiting, work, workers, report)
    with closing(running) as finished:  # an interrupt here ends the children
        for result in finished:
            results[result.video_id] = result
            report(VideoProgress(result.video_id, result=result))
    return [results[task.video_id] for task in tasks]


def _existing_result(task: VideoTask) -> VideoResult | None:
    """The result of a video whose store exists; None where the store is to be made."""
    remove_partials(task.store)
    if not is_file(task.video):  # it is read twice
        return task.failed(f"{task.video}: {READ_TWICE}")
    if task.settings.overwrite or not task.store.exists():
        return None
    from pipelines.stores.keyframes import read_keyframes  # start-up time: h5py, where there is a store only

    try:
        store, video = read_keyframes(task.store), fingerprint(task.video)
    except (StoreError, VideoError) as error:
        return task.failed(str(error))
    theirs, ours = store.settings, task.store_settings
    if theirs != ours:
        other = ", ".join(
            f"{key} {theirs.get(key)} and not {ours.get(key)}"
            for key in {**ours, **theirs}
            if theirs.get(key) != ours.get(key)
        )
        return task.failed(f"{task.store}: was made with other settings ({other}); --overwrite makes it again")
    known = store.source.get("fingerprint")  # None in a store of an earlier version
    if known not in (None, video) or store.source["bytes"] != task.video.stat().st_size:
        return task.failed(f"{task.store}: was made from another file than {task.video}; --overwrite makes it again")
    facts = {"shots": len(store.frames), "frames": store.video.frames, "duration": store.video.duration}
    return task.finished(facts, "kept")


def work(message: dict[str, Any], send: Send) -> None:
    """Read the video of a task, write its store; runs in the child process."""
    from pipelines.video.reader import VideoReader  # start-up time: av, which the parent process does without

    task = VideoTask.from_json(message)
    reader = VideoReader(
        task.video,
        ReaderSettings(**task.reading, threads=task.threads),
        lambda done, total: send("progress", {"done": done, "total": total, "frames": reader.frames_read}),
    )
    shots = iter(reader)
    shots = chain([next(shots)], shots)  # starts the threads that decode
    try:
        _write_store(task, reader, shots)
    except InexactError:
        work(replace(task, threads=1).to_json(), send)
    else:
        facts = reader.facts
        found = {"shots": reader.shots, "frames": facts.frames, "duration": facts.duration}
        send("end", found | {"warnings": reader.warnings})


class InexactError(Exception):
    """Frames that FFmpeg fills in for lost data depend on its number of threads: only one thread is reproducible."""


def _write_store(task: VideoTask, reader: VideoReader, shots: Iterable[KeyframedShot]) -> None:
    """Write the keyframe store of a video from all shots of its reader. Raises InexactError for a damaged video that
    several threads decoded, BasslError for a video that cannot be read, or a store that cannot be written."""
    from pipelines.stores.keyframes import write_keyframes  # start-up time: h5py and PIL, while the threads decode

    def describe() -> tuple[VideoFacts, dict[str, Any]]:
        if task.threads > 1 and not reader.exact:
            raise InexactError
        facts = replace(reader.facts, path=task.video.name)  # the same video elsewhere gives the same store
        return facts, _describe_file(task.video)

    write_keyframes(task.store, _compress_shots(shots, task.settings.quality), describe, task.store_settings)


def _compress_shots(shots: Iterable[KeyframedShot], quality: int) -> Iterator[StoredShot]:
    from pipelines.stores.jpeg import to_jpeg  # start-up time: PIL
    from pipelines.stores.keyframes import StoredShot  # start-up time: h5py

    for shot in shots:
        try:
            jpegs = tuple(to_jpeg(picture, quality) for picture in shot.keyframes)
        except ValueError as error:
            raise VideoError(f"a keyframe of {error}") from error
        frames, seconds = (shot.start_frame, shot.end_frame), (shot.start, shot.end)
        yield StoredShot(frames, seconds, shot.keyframe_indices, jpegs, shot.transition)


def _describe_file(video: Path) -> dict[str, Any]:
    try:
        with video.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise VideoError(f"{video}: cannot be read again ({os_reason(error)})") from error
    return {"name": video.name, "bytes": size, "sha256": digest, "fingerprint": fingerprint(video)}
