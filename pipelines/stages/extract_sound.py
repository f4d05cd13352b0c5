"""Extracting features of sound: videos in, a feature store beside those of the shot encoders out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from pipelines.errors import BasslError, StoreError
from pipelines.files import check_writable, is_file, locked
from pipelines.options import accept_text, nested, with_options
from pipelines.processes import cores
from pipelines.progress import ReportVideo, VideoProgress, VideoResult
from pipelines.settings import Parallel, RunSettings
from pipelines.video.inputs import READ_TWICE, find_videos, video_ids

if TYPE_CHECKING:  # start-up time: numpy, h5py
    import numpy as np
    from numpy.typing import NDArray

    from pipelines.stores.index import Index

_SAVE_SECONDS = 60.0


@dataclass(frozen=True)
class SoundSettings:
    """Which videos' sound, and where the features go."""

    index: Path = Path("data/index.h5")
    """Index of the videos, with their shots."""
    run: RunSettings = nested(RunSettings(Path("data/features/sound.h5")), without=("resume", "seed"))
    """The feature store. Features of other videos in it are kept."""
    parallel: Parallel = nested(Parallel(), without=("dask",), defaults={"jobs": "one for each core"})

    def __post_init__(self) -> None:
        accept_text(self)


def extract_sound(
    inputs: Path | str | Sequence[Path | str],
    settings: SoundSettings = SoundSettings(),
    progress: ReportVideo | None = None,
    on_start: Callable[[int], None] | None = None,
    **options: Any,
) -> list[VideoResult]:
    """Extract features of the sound of videos (files, folders and glob patterns): mean and standard deviation of 64
    log-mel energies over each shot; one result for each video, in the order of the videos' names.

    Videos are found in the index by their ids, which `extract_keyframes` makes of their names. Finished videos are
    saved every minute, and are not done again; a video without sound has failed. ``on_start`` is called with the number
    of videos, ``progress`` with the progress of each, from several threads. Raises BasslError for inputs, an index or a
    store that cannot be used at all.
    """
    settings = with_options(settings, **options)
    from pipelines.stores.features import shot_checksums, write_features  # start-up time: numpy, h5py
    from pipelines.stores.index import read_index  # start-up time: numpy, h5py
    from pipelines.video.sound import SOUND  # start-up time: numpy, av

    videos = find_videos(inputs)
    index = read_index(settings.index)
    check_writable(settings.run.output)
    checksums = shot_checksums(index)
    store, shots = _read(settings.run.output)
    report = progress or (lambda state: None)
    if on_start is not None:
        on_start(len(videos))
    results: dict[str, VideoResult] = {}

    def finish(result: VideoResult) -> None:
        results[result.video_id] = result
        report(VideoProgress(result.video_id, result=result))

    def save() -> None:
        with locked(settings.run.output.parent, wait=True):  # another run may have added videos
            kept, of_kept = _read(settings.run.output)
            write_features(settings.run.output, SOUND, kept | made, of_kept | {name: checksums[name] for name in made})

    waiting = []
    for video, name in zip(videos, video_ids(videos), strict=True):
        if name not in index.video_ids:
            finish(
                VideoResult(
                    name,
                    video,
                    settings.run.output,
                    "failed",
                    error=f"{video}: {settings.index} has no video with the id {name}",
                )
            )
        elif not is_file(video):
            finish(VideoResult(name, video, settings.run.output, "failed", error=f"{video}: {READ_TWICE}"))
        elif name in store and shots[name] == checksums[name] and not settings.run.overwrite:
            finish(VideoResult(name, video, settings.run.output, "kept", shots=len(store[name])))
        else:
            waiting.append((video, name))
    made: dict[str, NDArray[np.floating]] = {}
    saved, unsaved, stopped = time.monotonic(), False, Event()

    def going_on(state: VideoProgress) -> None:
        if stopped.is_set():
            raise BasslError(f"{state.video_id}: interrupted")
        report(state)

    with ThreadPoolExecutor(settings.parallel.jobs or cores()) as pool:  # decoding releases the global interpreter lock
        try:
            futures = {
                pool.submit(_shot_sounds, video, name, index, going_on): (video, name) for video, name in waiting
            }
            for future in as_completed(futures):
                video, name = futures[future]
                try:
                    made[name], warnings = future.result()
                except BasslError as error:
                    finish(VideoResult(name, video, settings.run.output, "failed", error=str(error)))
                    continue
                unsaved = True
                if time.monotonic() - saved > _SAVE_SECONDS:
                    save()
                    saved, unsaved = time.monotonic(), False
                finish(VideoResult(name, video, settings.run.output, "done", shots=len(made[name]), warnings=warnings))
        finally:  # an interrupt keeps what is done
            stopped.set()
            pool.shutdown(cancel_futures=True)
            if unsaved:
                save()
    return [results[name] for name in video_ids(videos)]


def _shot_sounds(
    video: Path, name: str, index: Index, report: ReportVideo
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """The features of the shots of a video, and its warnings."""
    import numpy as np  # start-up time

    from pipelines.video.sound import shot_sounds  # start-up time: numpy, av

    number = index.video_ids.index(name)
    seconds = index.seconds[index.span(number)]
    if not np.isfinite(seconds).all():
        raise BasslError(f"{video}: {index.path} has no times in seconds for {name}; extract its keyframes")
    warnings: list[str] = []
    found = shot_sounds(video, seconds, lambda done, total: report(VideoProgress(name, done, total)), warnings.append)
    return found, tuple(warnings)


def _read(path: Path) -> tuple[dict[str, NDArray[np.floating]], dict[str, int]]:
    """The features of a store of sound, and the checksum of their shots, by video id; empty where there is no store."""
    from pipelines.stores.features import open_features  # start-up time: numpy, h5py
    from pipelines.video.sound import SOUND  # start-up time: numpy, av

    if not path.exists():
        return {}, {}
    store = open_features(path)
    if store.encoder != SOUND or store.videos.keys() != store.shots.keys():
        raise StoreError(f"{path}: holds features of {store.encoder}, not of sound; name another with --output")
    return dict(store.videos), dict(store.shots)
