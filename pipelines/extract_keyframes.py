"""Films in, one key-frame store each out: the data stage of the pipeline."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal

from pipelines.children import Child, Send
from pipelines.errors import BasslError, StoreError, VideoError
from pipelines.video.shots import ReaderSettings

if TYPE_CHECKING:
    from pipelines.scenes import VideoFacts
    from pipelines.stores.keyframes import KeyframeStore, StoredShot


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
class FilmProgress:
    """How far one film is: seconds and frames read, seconds in all (None: not known), and whether it has ended."""

    video_id: str
    done: float = 0.0
    total: float | None = None
    frames: int = 0
    result: FilmResult | None = None


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
    progress: Callable[[FilmProgress], None] | None = None,
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
    from pipelines.video.files import find_films, video_ids

    _check(settings)
    films = find_films(inputs)
    workers = min(len(films), settings.workers or _cores())
    threads = max(1, _cores() // workers)
    tasks = [_Task(film, name, settings, threads) for film, name in zip(films, video_ids(films), strict=True)]
    tell = progress or (lambda state: None)
    if on_start is not None:
        on_start(len(tasks))
    settings.output.mkdir(parents=True, exist_ok=True)
    results: dict[str, FilmResult] = {}
    waiting = []
    for task in tasks:
        if (kept := _kept(task)) is not None:
            results[task.video_id] = kept
            tell(FilmProgress(task.video_id, result=kept))
        else:
            waiting.append(task)
    run = _on_dask if settings.dask else _on_this_machine
    for result in run(waiting, workers, tell):
        results[result.video_id] = result
        tell(FilmProgress(result.video_id, result=result))
    return [results[task.video_id] for task in tasks]


def _check(settings: ExtractSettings) -> None:
    from pipelines.video.detectors import DETECTORS

    if settings.detector not in DETECTORS:
        raise BasslError(f"no shot detector is called {settings.detector!r}; there are {', '.join(DETECTORS)}")
    if not 1 <= settings.keyframes <= 100:
        raise BasslError(f"a shot can have 1 to 100 key-frames, not {settings.keyframes}")
    if not 16 <= settings.lines <= 4320:
        raise BasslError(f"a key-frame can have 16 to 4320 lines, not {settings.lines}")
    if not 1 <= settings.quality <= 100:
        raise BasslError(f"JPEG quality goes from 1 to 100, not {settings.quality}")
    if settings.workers is not None and settings.workers < 1:
        raise BasslError(f"there must be at least one worker, not {settings.workers}")
    try:
        settings.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BasslError(f"{settings.output}: cannot be made ({(error.strerror or str(error)).lower()})") from error
    if not os.access(settings.output, os.W_OK):
        raise BasslError(f"{settings.output}: may not be written")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _kept(task: _Task) -> FilmResult | None:
    """The result for a store that need not be made, or None where it must be."""
    from pipelines.stores.hdf5 import remove_partials
    from pipelines.stores.keyframes import read_keyframes

    remove_partials(task.store)
    if task.settings.overwrite or not task.store.exists():
        return None
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
    return _result(task, store, "kept")


def _recorded(settings: ExtractSettings) -> dict[str, Any]:
    """The settings that decide what is in a store."""
    return {key: getattr(settings, key) for key in ("detector", "keyframes", "lines", "quality")}


def _result(
    task: _Task, store: KeyframeStore, status: Literal["done", "kept"], warnings: Sequence[str] = ()
) -> FilmResult:
    video = store.video
    return FilmResult(
        task.video_id, task.film, task.store, status, len(store.frames), video.frames, video.duration, tuple(warnings)
    )


def _failed(task: _Task, error: str) -> FilmResult:
    return FilmResult(task.video_id, task.film, task.store, "failed", error=error)


def _on_this_machine(
    tasks: Sequence[_Task], workers: int, tell: Callable[[FilmProgress], None]
) -> Iterator[FilmResult]:
    stop = Event()
    with ThreadPoolExecutor(workers) as pool:  # the threads only wait for their children
        futures = [pool.submit(_extract_in_child, task, tell, stop) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _on_dask(tasks: Sequence[_Task], workers: int, tell: Callable[[FilmProgress], None]) -> Iterator[FilmResult]:
    try:
        from distributed import Client
        from distributed import as_completed as as_dask_completes
    except ImportError as error:
        raise BasslError("--dask needs another package: pip install 'bassl[cluster]'") from error
    address = tasks[0].settings.dask if tasks else None
    if address is None:
        return
    try:
        client = Client(address, timeout="20s")
    except (OSError, ValueError) as error:
        raise BasslError(f"no Dask scheduler answers at {address}") from error
    with client:
        # Paths are made absolute: a worker has another current folder.
        here = [
            replace(t, film=t.film.resolve(), settings=replace(t.settings, output=t.settings.output.resolve()))
            for t in tasks
        ]
        futures = {
            client.submit(extract_film, task, key=f"bassl-{task.video_id}-{os.urandom(4).hex()}", pure=False): task
            for task in here
        }
        for future in as_dask_completes(futures):
            # A worker that is lost has its films done by another; one that kills several workers has failed.
            fault = future.exception()
            yield future.result() if fault is None else _failed(futures[future], f"{futures[future].film}: {fault}")


def extract_film(task: _Task) -> FilmResult:
    """Do one film in a child process of this one: what a Dask worker is given."""
    return _extract_in_child(task, lambda state: None, Event())


def _extract_in_child(task: _Task, tell: Callable[[FilmProgress], None], stop: Event) -> FilmResult:
    from pipelines.stores.hdf5 import remove_partials

    if stop.is_set():
        return _failed(task, f"{task.film}: interrupted")
    child = Child(_work, _to_json(task))
    try:
        while not stop.is_set() and (message := child.receive()) is not None:
            kind, head, _ = message
            if kind == "progress":
                tell(FilmProgress(task.video_id, head["done"], head["total"], head["frames"]))
            elif kind == "end":
                from pipelines.stores.keyframes import read_keyframes

                return _result(task, read_keyframes(task.store), "done", head["warnings"])
        if stop.is_set():
            return _failed(task, f"{task.film}: interrupted")
        return _failed(task, f"{task.film}: the process that read it died ({child.how_it_ended()})")
    except BasslError as error:
        return _failed(task, str(error))
    finally:
        child.kill()
        remove_partials(task.store)


def _to_json(task: _Task) -> dict[str, Any]:
    settings = asdict(task.settings) | {"output": str(task.settings.output)}
    return {"film": str(task.film), "video_id": task.video_id, "settings": settings, "threads": task.threads}


def _from_json(task: Mapping[str, Any]) -> _Task:
    settings = ExtractSettings(**(task["settings"] | {"output": Path(task["settings"]["output"])}))
    return _Task(Path(task["film"]), task["video_id"], settings, task["threads"])


def _work(message: dict[str, Any], send: Send) -> None:
    """The child's side: read one film, write its store."""
    from pipelines.stores.keyframes import write_keyframes
    from pipelines.video.reader import FilmReader

    task = _from_json(message)
    settings = task.settings
    reader = FilmReader(
        task.film,
        ReaderSettings(settings.detector, None, settings.keyframes, settings.lines, task.threads),
        lambda done, total: send("progress", {"done": done, "total": total, "frames": reader.frames_read}),
    )

    def describe() -> tuple[VideoFacts, dict[str, Any]]:
        facts = replace(reader.facts, path=task.film.name)  # the same film elsewhere gives the same store
        return facts, _describe_file(task.film)

    write_keyframes(task.store, _compressed(reader, settings.quality), describe, _recorded(settings))
    send("end", {"warnings": reader.warnings})


def _compressed(reader: Any, quality: int) -> Iterator[StoredShot]:
    import cv2

    from pipelines.stores.keyframes import StoredShot

    for shot in reader:
        jpegs = []
        for picture in shot.keyframes:
            worked, jpeg = cv2.imencode(
                ".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality]
            )
            if not worked:
                raise VideoError(f"a key-frame of {picture.shape[1]} x {picture.shape[0]} pixels cannot be a JPEG")
            jpegs.append(jpeg.tobytes())
        yield StoredShot(
            (shot.start_frame, shot.end_frame), (shot.start, shot.end), shot.keyframe_indices, tuple(jpegs)
        )


def _describe_file(film: Path) -> dict[str, Any]:
    with film.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": film.name, "bytes": film.stat().st_size, "sha256": digest}
