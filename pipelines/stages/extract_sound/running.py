"""Extracting features of the sound of films, several at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError, StoreError
from pipelines.files import check_writable, is_file, locked
from pipelines.processes import cores
from pipelines.progress import FilmProgress
from pipelines.stages.extract_sound.settings import SoundResult, SoundSettings
from pipelines.stores.features import open_features, shot_checksums, write_features
from pipelines.stores.index import Index, read_index
from pipelines.video.films import READ_TWICE, find_films, video_ids
from pipelines.video.sound import SOUND, shot_sounds

_SAVE_SECONDS = 60.0


def run(
    inputs: Sequence[Path | str],
    settings: SoundSettings,
    progress: Callable[[FilmProgress[SoundResult]], None] | None,
    on_start: Callable[[int], None] | None,
) -> list[SoundResult]:
    """See :func:`pipelines.stages.extract_sound.extract_sound`."""
    films = find_films(inputs)
    index = read_index(settings.index)
    check_writable(settings.output)
    checksums = shot_checksums(index)
    store, shots = _read(settings.output)
    report = progress or (lambda state: None)
    if on_start is not None:
        on_start(len(films))
    results: dict[str, SoundResult] = {}

    def finish(result: SoundResult) -> None:
        results[result.video_id] = result
        report(FilmProgress(result.video_id, result=result))

    def save() -> None:
        with locked(settings.output.parent, wait=True):  # another run may have added films
            kept, of_kept = _read(settings.output)
            write_features(settings.output, SOUND, kept | made, of_kept | {name: checksums[name] for name in made})

    waiting = []
    for film, name in zip(films, video_ids(films), strict=True):
        if name not in index.video_ids:
            finish(SoundResult(name, film, "failed", error=f"{film}: {settings.index} has no film with the id {name}"))
        elif not is_file(film):
            finish(SoundResult(name, film, "failed", error=f"{film}: {READ_TWICE}"))
        elif name in store and shots[name] == checksums[name] and not settings.overwrite:
            finish(SoundResult(name, film, "kept", len(store[name])))
        else:
            waiting.append((film, name))
    made: dict[str, NDArray[np.floating]] = {}
    saved, unsaved, stopped = time.monotonic(), False, Event()

    def going_on(state: FilmProgress[SoundResult]) -> None:
        if stopped.is_set():
            raise BasslError(f"{state.video_id}: interrupted")
        report(state)

    with ThreadPoolExecutor(settings.workers or cores()) as pool:  # decoding releases the global interpreter lock
        try:
            futures = {pool.submit(_shot_sounds, film, name, index, going_on): (film, name) for film, name in waiting}
            for future in as_completed(futures):
                film, name = futures[future]
                try:
                    made[name] = future.result()
                except BasslError as error:
                    finish(SoundResult(name, film, "failed", error=str(error)))
                    continue
                unsaved = True
                if time.monotonic() - saved > _SAVE_SECONDS:
                    save()
                    saved, unsaved = time.monotonic(), False
                finish(SoundResult(name, film, "done", len(made[name])))
        finally:  # an interrupt keeps what is done
            stopped.set()
            pool.shutdown(cancel_futures=True)
            if unsaved:
                save()
    return [results[name] for name in video_ids(films)]


def _shot_sounds(
    film: Path, name: str, index: Index, report: Callable[[FilmProgress[SoundResult]], None]
) -> NDArray[np.float32]:
    video = index.video_ids.index(name)
    seconds = index.seconds[index.span(video)]
    if not np.isfinite(seconds).all():
        raise BasslError(f"{film}: {index.path} has no times in seconds for {name}; extract its keyframes")
    return shot_sounds(film, seconds, lambda done, total: report(FilmProgress(name, done, total)))


def _read(path: Path) -> tuple[dict[str, NDArray[np.floating]], dict[str, int]]:
    """The features of a store of sound, and the checksum of their shots, by video id; empty where there is no store."""
    if not path.exists():
        return {}, {}
    store = open_features(path)
    if store.encoder != SOUND or store.videos.keys() != store.shots.keys():
        raise StoreError(f"{path}: holds features of {store.encoder}, not of sound; name another with --output")
    return dict(store.videos), dict(store.shots)
