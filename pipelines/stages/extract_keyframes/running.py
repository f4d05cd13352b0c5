"""Extracting the keyframes of several films: each in a child process, here or on the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Lock

from pipelines.errors import BasslError, StoreError, UnexpectedError
from pipelines.files import remove_partials
from pipelines.processes import Child, cores
from pipelines.progress import FilmProgress
from pipelines.stages.extract_keyframes.child import FilmTask, work
from pipelines.stages.extract_keyframes.settings import ExtractSettings, FilmResult
from pipelines.video.films import find_films, video_ids

Report = Callable[[FilmProgress[FilmResult]], None]


def extract_keyframes(
    inputs: Sequence[Path | str],
    settings: ExtractSettings = ExtractSettings(),
    progress: Report | None = None,
    on_start: Callable[[int], None] | None = None,
) -> list[FilmResult]:
    """Cut films (files, folders and glob patterns) into shots and store the keyframes of each shot.

    A store that was made with the same settings from a file of the same size is kept. Each film has a process of its
    own: where that dies, this film has failed and the others go on. ``on_start`` is called with the number of films,
    ``progress`` with the progress of each, from several threads.

    Returns:
        one result for each film, in the order of the films' names.

    Raises:
        BasslError: for inputs or an output folder that cannot be used. Errors of single films are in their results.
    """
    films = find_films(inputs)
    _make_folder(settings.output)
    workers = max(1, min(len(films), settings.workers or cores()))
    threads = max(1, cores() // workers)
    tasks = [FilmTask(film, name, settings, threads) for film, name in zip(films, video_ids(films), strict=True)]
    report = progress or (lambda state: None)
    if on_start is not None:
        on_start(len(tasks))
    results: dict[str, FilmResult] = {}
    waiting = []
    for task in tasks:
        if (kept := _kept(task)) is not None:
            results[task.video_id] = kept
            report(FilmProgress(task.video_id, result=kept))
        else:
            waiting.append(task)
    running = _on_dask(waiting) if settings.dask else _on_this_machine(waiting, workers, report)
    with closing(running) as finished:  # an interrupt here ends the children
        for result in finished:
            results[result.video_id] = result
            report(FilmProgress(result.video_id, result=result))
    return [results[task.video_id] for task in tasks]


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BasslError(f"{path}: cannot be made ({(error.strerror or str(error)).lower()})") from error
    if not os.access(path, os.W_OK):
        raise BasslError(f"{path}: may not be written")


def _kept(task: FilmTask) -> FilmResult | None:
    """The result of a film whose store exists; None where the store is to be made."""
    remove_partials(task.store)
    if task.settings.overwrite or not task.store.exists():
        return None
    from pipelines.stores.keyframes import read_keyframes  # start-up time: h5py, where there is a store only

    try:
        store = read_keyframes(task.store)
    except StoreError as error:
        return task.failed(str(error))
    theirs, ours = store.settings, task.store_settings
    if theirs != ours:
        other = ", ".join(
            f"{key} {theirs.get(key)} and not {ours[key]}" for key in ours if theirs.get(key) != ours[key]
        )
        return task.failed(f"{task.store}: was made with other settings ({other}); --overwrite makes it again")
    if store.source["bytes"] != task.film.stat().st_size:
        return task.failed(f"{task.store}: was made from another file than {task.film}; --overwrite makes it again")
    return task.finished("kept", len(store.frames), store.video.frames, store.video.duration)


class _Children:
    """The running child processes, so that all can be ended at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: set[Child] | None = set()

    def start(self, task: FilmTask) -> Child | None:
        """A child process for the task; None after :meth:`end`."""
        with self._lock:
            if self._running is None:
                return None
            child = Child(work, task.to_json())
            self._running.add(child)
            return child

    def forget(self, child: Child) -> None:
        with self._lock:
            if self._running is not None:
                self._running.discard(child)

    def end(self) -> None:
        """End all; no other starts."""
        with self._lock:
            running, self._running = self._running or set(), None
        for child in running:
            child.process.kill()


def _on_this_machine(tasks: Sequence[FilmTask], workers: int, report: Report) -> Generator[FilmResult, None, None]:
    children = _Children()
    with ThreadPoolExecutor(workers) as pool:  # the threads only wait for their children
        try:
            futures = [pool.submit(_extract_in_child, task, report, children) for task in tasks]
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            children.end()
            pool.shutdown(cancel_futures=True)
            raise


def _on_dask(tasks: Sequence[FilmTask]) -> Generator[FilmResult, None, None]:
    try:
        from pipelines.stages.extract_keyframes import cluster  # optional dependency: distributed
    except ImportError as error:
        raise BasslError("--dask needs another package: pip install 'bassl[cluster]'") from error
    return cluster.run(tasks, extract_film)


def extract_film(task: FilmTask) -> FilmResult:
    """Extract the keyframes of one film in a child process of this one; run by Dask workers."""
    return _extract_in_child(task, lambda state: None, _Children())


def _extract_in_child(task: FilmTask, report: Report, children: _Children) -> FilmResult:
    try:
        child = children.start(task)
    except OSError as error:
        return task.failed(f"{task.film}: no process can be started for it ({(error.strerror or '').lower()})")
    if child is None:
        return task.failed(f"{task.film}: interrupted")
    try:
        while (message := child.receive()) is not None:
            kind, head, _ = message
            if kind == "progress":
                report(FilmProgress(task.video_id, head["done"], head["total"], head["frames"]))
            elif kind == "inexact":
                return _extract_in_child(replace(task, threads=1), report, children)
            elif kind == "end":
                return task.finished("done", head["shots"], head["frames"], head["duration"], head["warnings"])
        return task.failed(f"{task.film}: the process that read it died ({child.how_it_ended()})")
    except UnexpectedError as error:
        return task.failed(f"{task.film}: cannot be read ({error})")
    except BasslError as error:
        return task.failed(str(error))
    finally:
        children.forget(child)
        child.kill()
        remove_partials(task.store)
