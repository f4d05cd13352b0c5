"""Films in, one key-frame store each out: the data stage of the pipeline."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from pipelines.errors import BasslError, StoreError, VideoError, first_line
from pipelines.files import remove_partials
from pipelines.processes import Child, Send, cores
from pipelines.progress import FilmProgress
from pipelines.video.shots import DETECTOR_NAMES, ReaderSettings

if TYPE_CHECKING:
    from pipelines.scenes import VideoFacts
    from pipelines.stores.keyframes import StoredShot
    from pipelines.video.shots import FilmedShot


# How long a Dask scheduler may take to answer.
_DASK_SECONDS = 10


@dataclass(frozen=True)
class ExtractSettings:
    """How films are cut and what is kept of them."""

    output: Path = Path("data/keyframes")
    """Folder of the stores, one a film."""
    detector: str = "adaptive"
    """Shot detector: adaptive, content, histogram, hash, threshold or transnetv2."""
    keyframes: int = 3
    """Key-frames a shot, N_k (paper, appendix A)."""
    lines: int = 240
    """Height of a key-frame in pixels (MovieNet's 240P); a smaller film is not enlarged."""
    quality: int = 90
    """JPEG quality of the key-frames, 1 to 100."""
    workers: int | None = None
    """Films at a time; None is one a core."""
    overwrite: bool = False
    """Make stores again that are there already."""
    dask: str | None = None
    """Address of a Dask scheduler whose workers do the films; they must see the same files."""


@dataclass(frozen=True)
class FilmResult:
    """What became of one film.

    ``status`` is ``done``, ``kept`` (its store was there) or ``failed`` with one line in ``error``.
    """

    video_id: str
    film: Path
    store: Path
    status: Literal["done", "kept", "failed"]
    shots: int = 0
    frames: int = 0
    duration: float = 0.0
    warnings: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class _Task:
    film: Path
    video_id: str
    settings: ExtractSettings
    threads: int

    @property
    def store(self) -> Path:
        return self.settings.output / f"{self.video_id}.h5"


def extract_keyframes(
    inputs: Sequence[Path | str],
    settings: ExtractSettings = ExtractSettings(),
    progress: Callable[[FilmProgress[FilmResult]], None] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> list[FilmResult]:
    """Cut films into shots and store the key-frames of each.

    A film whose store is there already, made with the same settings from a file of the same size, is kept as it is.
    Each film is done by a process of its own: when that dies, its film has failed and the others go on.

    Args:
        inputs: files, folders and glob patterns.
        settings: how.
        progress: told of each film, from several threads.
        on_start: told the number of films.

    Returns:
        one result a film, in the order of the films' names.

    Raises:
        BasslError: for inputs or settings that cannot be used at all. Faults of single films are in their results.
    """
    from pipelines.video.films import find_films, video_ids

    _check(settings)
    films = find_films(inputs)
    _make_folder(settings.output)
    workers = max(1, min(len(films), settings.workers or cores()))
    threads = max(1, cores() // workers)
    tasks = [_Task(film, name, settings, threads) for film, name in zip(films, video_ids(films), strict=True)]
    tell = progress or (lambda state: None)
    if on_start is not None:
        on_start(len(tasks))
    results: dict[str, FilmResult] = {}
    waiting = []
    for task in tasks:
        if (kept := _kept(task)) is not None:
            results[task.video_id] = kept
            tell(FilmProgress(task.video_id, result=kept))
        else:
            waiting.append(task)
    run = _on_dask if settings.dask else _on_this_machine
    with closing(run(waiting, workers, tell)) as finished:  # an interrupt here ends what is running there
        for result in finished:
            results[result.video_id] = result
            tell(FilmProgress(result.video_id, result=result))
    return [results[task.video_id] for task in tasks]


def _check(settings: ExtractSettings) -> None:
    if settings.detector not in DETECTOR_NAMES:
        raise BasslError(f"no shot detector is called {settings.detector!r}; there are {', '.join(DETECTOR_NAMES)}")
    if not 1 <= settings.keyframes <= 100:
        raise BasslError(f"a shot can have 1 to 100 key-frames, not {settings.keyframes}")
    if not 16 <= settings.lines <= 4320:
        raise BasslError(f"a key-frame can have 16 to 4320 lines, not {settings.lines}")
    if not 1 <= settings.quality <= 100:
        raise BasslError(f"JPEG quality goes from 1 to 100, not {settings.quality}")
    if settings.workers is not None and settings.workers < 1:
        raise BasslError(f"there must be at least one worker, not {settings.workers}")


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BasslError(f"{path}: cannot be made ({(error.strerror or str(error)).lower()})") from error
    if not os.access(path, os.W_OK):
        raise BasslError(f"{path}: may not be written")


def _kept(task: _Task) -> FilmResult | None:
    """The result for a store that need not be made, or None where it must be."""
    remove_partials(task.store)
    if task.settings.overwrite or not task.store.exists():
        return None
    from pipelines.stores.keyframes import read_keyframes

    try:
        store = read_keyframes(task.store)
    except StoreError as error:
        return _failed(task, str(error))
    if store.settings != _recorded(task.settings):
        theirs, ours = store.settings, _recorded(task.settings)
        other = ", ".join(
            f"{key} {theirs.get(key)} and not {ours[key]}" for key in ours if theirs.get(key) != ours[key]
        )
        return _failed(task, f"{task.store}: was made with other settings ({other}); --overwrite makes it again")
    if store.source["bytes"] != task.film.stat().st_size:
        return _failed(task, f"{task.store}: was made from another file than {task.film}; --overwrite makes it again")
    return _result(task, "kept", len(store.frames), store.video.frames, store.video.duration)


def _recorded(settings: ExtractSettings) -> dict[str, Any]:
    """The settings that decide what is in a store."""
    return {key: getattr(settings, key) for key in ("detector", "keyframes", "lines", "quality")}


def _result(
    task: _Task,
    status: Literal["done", "kept"],
    shots: int,
    frames: int,
    duration: float,
    warnings: Sequence[str] = (),
) -> FilmResult:
    return FilmResult(task.video_id, task.film, task.store, status, shots, frames, duration, tuple(warnings))


def _failed(task: _Task, error: str) -> FilmResult:
    return FilmResult(task.video_id, task.film, task.store, "failed", error=error)


class _Children:
    """The children at work, so that they can be ended all at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: set[Child] | None = set()

    def start(self, task: _Task) -> Child | None:
        """A child that does the task, or None after :meth:`end`."""
        with self._lock:
            if self._running is None:
                return None
            child = Child(_work, _to_json(task))
            self._running.add(child)
            return child

    def forget(self, child: Child) -> None:
        with self._lock:
            if self._running is not None:
                self._running.discard(child)

    def end(self) -> None:
        """End those that run; no other starts."""
        with self._lock:
            running, self._running = self._running or set(), None
        for child in running:
            child.process.kill()


def _on_this_machine(
    tasks: Sequence[_Task], workers: int, tell: Callable[[FilmProgress[FilmResult]], None]
) -> Generator[FilmResult, None, None]:
    children = _Children()
    with ThreadPoolExecutor(workers) as pool:  # the threads only wait for their children
        try:
            futures = [pool.submit(_extract_in_child, task, tell, children) for task in tasks]
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            children.end()
            pool.shutdown(cancel_futures=True)
            raise


def _on_dask(
    tasks: Sequence[_Task], workers: int, tell: Callable[[FilmProgress[FilmResult]], None]
) -> Generator[FilmResult, None, None]:
    import asyncio

    try:
        from distributed import Client
        from distributed import as_completed as as_dask_completes
    except ImportError as error:
        raise BasslError("--dask needs another package: pip install 'bassl[cluster]'") from error

    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # a lost scheduler is told below, in one line
    address = tasks[0].settings.dask if tasks else None
    if address is None:
        return
    try:
        client = Client(address, timeout=_DASK_SECONDS)
    except (OSError, ValueError) as error:
        raise BasslError(f"no Dask scheduler answers at {address}") from error
    with client:
        # Paths are made absolute: a worker has another current folder.
        here = [
            replace(t, film=t.film.absolute(), settings=replace(t.settings, output=t.settings.output.absolute()))
            for t in tasks
        ]
        futures = {
            client.submit(extract_film, task, key=f"bassl-{task.video_id}-{os.urandom(4).hex()}", pure=False): task
            for task in here
        }
        gone = BasslError(f"the Dask scheduler at {address} has gone; run again to go on where it stopped")
        for future in as_dask_completes(futures):
            if future.status in ("cancelled", "lost"):
                raise gone
            task = futures[future]
            try:
                # A worker that is lost has its films done by another; one that kills several workers has failed.
                fault = future.exception()
                result = future.result() if fault is None else _failed(task, f"{task.film}: {first_line(fault)}")
            except (OSError, asyncio.CancelledError, CancelledError) as error:  # done, but not fetched any more
                raise gone from error
            yield result


def extract_film(task: _Task) -> FilmResult:
    """Do one film in a child process of this one: what a Dask worker is given."""
    return _extract_in_child(task, lambda state: None, _Children())


def _extract_in_child(task: _Task, tell: Callable[[FilmProgress[FilmResult]], None], children: _Children) -> FilmResult:
    try:
        child = children.start(task)
    except OSError as error:
        return _failed(task, f"{task.film}: no process can be started for it ({(error.strerror or '').lower()})")
    if child is None:
        return _failed(task, f"{task.film}: interrupted")
    try:
        while (message := child.receive()) is not None:
            kind, head, _ = message
            if kind == "progress":
                tell(FilmProgress(task.video_id, head["done"], head["total"], head["frames"]))
            elif kind == "inexact":
                return _extract_in_child(replace(task, threads=1), tell, children)
            elif kind == "end":
                return _result(task, "done", head["shots"], head["frames"], head["duration"], head["warnings"])
        return _failed(task, f"{task.film}: the process that read it died ({child.how_it_ended()})")
    except BasslError as error:
        return _failed(task, str(error))
    finally:
        children.forget(child)
        child.kill()
        remove_partials(task.store)


def _to_json(task: _Task) -> dict[str, Any]:
    settings = asdict(task.settings) | {"output": str(task.settings.output)}
    return {"film": str(task.film), "video_id": task.video_id, "settings": settings, "threads": task.threads}


def _from_json(task: Mapping[str, Any]) -> _Task:
    settings = ExtractSettings(**(task["settings"] | {"output": Path(task["settings"]["output"])}))
    return _Task(Path(task["film"]), task["video_id"], settings, task["threads"])


class _InexactError(Exception):
    """What FFmpeg puts in place of lost pictures depends on its threads: only with one is it the same each time."""


def _work(message: dict[str, Any], send: Send) -> None:
    """The child's side: read one film, write its store."""
    from pipelines.video.reader import FilmReader

    task = _from_json(message)
    settings = task.settings
    reader = FilmReader(
        task.film,
        ReaderSettings(settings.detector, None, settings.keyframes, settings.lines, task.threads),
        lambda done, total: send("progress", {"done": done, "total": total, "frames": reader.frames_read}),
    )

    def describe() -> tuple[VideoFacts, dict[str, Any]]:
        if task.threads > 1 and not reader.exact:
            raise _InexactError
        facts = replace(reader.facts, path=task.film.name)  # the same film elsewhere gives the same store
        return facts, _describe_file(task.film)

    shots = iter(reader)
    shots = chain([next(shots)], shots)  # from here on threads decode, while this one imports what writes stores
    from pipelines.stores.keyframes import write_keyframes

    try:
        write_keyframes(task.store, _compressed(shots, settings.quality), describe, _recorded(settings))
    except _InexactError:
        send("inexact", {})
    else:
        facts = reader.facts
        found = {"shots": reader.shots, "frames": facts.frames, "duration": facts.duration}
        send("end", found | {"warnings": reader.warnings})


def _compressed(shots: Iterable[FilmedShot], quality: int) -> Iterator[StoredShot]:
    from pipelines.stores.jpeg import to_jpeg
    from pipelines.stores.keyframes import StoredShot

    for shot in shots:
        try:
            jpegs = tuple(to_jpeg(picture, quality) for picture in shot.keyframes)
        except ValueError as error:
            raise VideoError(f"a key-frame of {error}") from error
        yield StoredShot((shot.start_frame, shot.end_frame), (shot.start, shot.end), shot.keyframe_indices, jpegs)


def _describe_file(film: Path) -> dict[str, Any]:
    try:
        with film.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise VideoError(f"{film}: cannot be read again ({(error.strerror or str(error)).lower()})") from error
    return {"name": film.name, "bytes": size, "sha256": digest}
