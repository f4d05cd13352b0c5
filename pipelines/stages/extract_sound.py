"""Films in, what each shot sounds like out: a feature store beside those of the shot encoders."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pipelines.errors import BasslError, StoreError
from pipelines.progress import FilmProgress

if TYPE_CHECKING:  # settings import nothing heavy, so that --help is instant
    import numpy as np
    from numpy.typing import NDArray

    from pipelines.stores.index import Index

ENCODER = "log-mel-64"
"""What made the features of a store of sound."""
_SAVE_SECONDS = 60.0


@dataclass(frozen=True)
class SoundSettings:
    """Whose sound, and where it goes."""

    index: Path = Path("data/index.h5")
    """Index of the films: it has their shots."""
    output: Path = Path("data/features/sound.h5")
    """The feature store. What it has of other films stays in it."""
    workers: int | None = None
    """Films at a time; None is one a core."""
    overwrite: bool = False
    """Listen again to films that the store has."""

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"there must be at least one worker, not {self.workers}")


@dataclass(frozen=True)
class SoundResult:
    """What became of one film: ``done``, ``kept`` (the store had it) or ``failed`` with one line in ``error``."""

    video_id: str
    film: Path
    status: Literal["done", "kept", "failed"]
    shots: int = 0
    error: str = ""


def extract_sound(
    inputs: Sequence[Path | str],
    settings: SoundSettings = SoundSettings(),
    progress: Callable[[FilmProgress[SoundResult]], None] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> list[SoundResult]:
    """Make features of the sound of films: mean and deviation of 64 log-mel energies over each shot.

    The films are found in the index by their names, as `extract_keyframes` names them. What is done is in the store
    within a minute, and is not done again.

    Args:
        inputs: files, folders and glob patterns.
        settings: where.
        progress: told of each film, from several threads.
        on_start: told the number of films.

    Returns:
        one result a film, in the order of the films' names; a film without sound has failed.

    Raises:
        BasslError: for inputs, an index or a store that cannot be used at all.
    """
    from pipelines.files import check_writable
    from pipelines.processes import cores
    from pipelines.stores.features import shot_checksums
    from pipelines.stores.index import read_index
    from pipelines.video.films import find_films, video_ids

    films = find_films(inputs)
    index = read_index(settings.index)
    check_writable(settings.output)
    checksums = shot_checksums(index)
    store, shots = _read(settings.output)
    tell = progress or (lambda state: None)
    if on_start is not None:
        on_start(len(films))
    results: dict[str, SoundResult] = {}

    def end(result: SoundResult) -> None:
        results[result.video_id] = result
        tell(FilmProgress(result.video_id, result=result))

    waiting = []
    for film, name in zip(films, video_ids(films), strict=True):
        if name not in index.video_ids:
            end(SoundResult(name, film, "failed", error=f"{film}: {settings.index} has no film called {name}"))
        elif name in store and shots[name] == checksums[name] and not settings.overwrite:
            end(SoundResult(name, film, "kept", len(store[name])))
        else:
            waiting.append((film, name))
    saved, unsaved = time.monotonic(), False
    with ThreadPoolExecutor(settings.workers or cores()) as pool:  # decoding leaves Python's lock free
        try:
            futures = {pool.submit(_listen, film, name, index, tell): (film, name) for film, name in waiting}
            for future in as_completed(futures):
                film, name = futures[future]
                try:
                    store[name] = future.result()
                except BasslError as error:
                    end(SoundResult(name, film, "failed", error=str(error)))
                    continue
                shots[name], unsaved = checksums[name], True
                if time.monotonic() - saved > _SAVE_SECONDS:
                    _write(settings.output, store, shots)
                    saved, unsaved = time.monotonic(), False
                end(SoundResult(name, film, "done", len(store[name])))
        finally:  # an interrupt keeps what is done
            pool.shutdown(cancel_futures=True)
            if unsaved:
                _write(settings.output, store, shots)
    return [results[name] for name in video_ids(films)]


def _listen(
    film: Path, name: str, index: Index, tell: Callable[[FilmProgress[SoundResult]], None]
) -> NDArray[np.float32]:
    import numpy as np

    from pipelines.video.sound import shot_sounds

    video = index.video_ids.index(name)
    seconds = index.seconds[index.span(video)]
    if not np.isfinite(seconds).all():
        raise BasslError(f"{film}: {index.path} has no times in seconds for {name}; extract its key-frames")
    return shot_sounds(film, seconds, lambda done, total: tell(FilmProgress(name, done, total)))


def _read(path: Path) -> tuple[dict[str, NDArray[np.floating]], dict[str, int]]:
    """What a store of sound has, and of which shots; nothing where there is none."""
    from pipelines.stores.features import open_features

    if not path.exists():
        return {}, {}
    store = open_features(path)
    if store.encoder != ENCODER or store.videos.keys() != store.shots.keys():
        raise StoreError(f"{path}: is a store of {store.encoder}, not of sound; name another with --output")
    return dict(store.videos), dict(store.shots)


def _write(path: Path, store: dict[str, NDArray[np.floating]], shots: dict[str, int]) -> None:
    from pipelines.stores.features import write_features

    write_features(path, ENCODER, store, shots)
