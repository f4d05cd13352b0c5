"""Extracting the keyframes of several films, those that have no store yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from pipelines.errors import BasslError, StoreError
from pipelines.files import is_file, os_reason, remove_partials
from pipelines.film_jobs import run_here, run_on_dask
from pipelines.processes import cores
from pipelines.progress import FilmProgress
from pipelines.stages.extract_keyframes.child import FilmTask, work
from pipelines.stages.extract_keyframes.settings import ExtractSettings, FilmResult
from pipelines.video.films import READ_TWICE, find_films, video_ids

Report = Callable[[FilmProgress[FilmResult]], None]


def extract_keyframes(
    inputs: Sequence[Path | str],
    settings: ExtractSettings = ExtractSettings(),
    progress: Report | None = None,
    on_start: Callable[[int], None] | None = None,
) -> list[FilmResult]:
    """Cut films (files, folders and glob patterns) into shots and store the keyframes of each shot.

    A store that was made with the same settings from a file of the same size is kept. Each film has a process of its
    own: if that dies, this film has failed and the others continue. ``on_start`` is called with the number of films,
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
        if (kept := _existing_result(task)) is not None:
            results[task.video_id] = kept
            report(FilmProgress(task.video_id, result=kept))
        else:
            waiting.append(task)
    if settings.dask is not None:
        running = run_on_dask(waiting, work, settings.dask)
    else:
        running = run_here(waiting, work, workers, report)
    with closing(running) as finished:  # an interrupt here ends the children
        for result in finished:
            results[result.video_id] = result
            report(FilmProgress(result.video_id, result=result))
    return [results[task.video_id] for task in tasks]


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BasslError(f"{path}: cannot be made ({os_reason(error)})") from error
    if not os.access(path, os.W_OK):
        raise BasslError(f"{path}: cannot be written (permission denied)")


def _existing_result(task: FilmTask) -> FilmResult | None:
    """The result of a film whose store exists; None where the store is to be made."""
    remove_partials(task.store)
    if not is_file(task.film):  # it is read twice
        return task.failed(f"{task.film}: {READ_TWICE}")
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
            f"{key} {theirs.get(key)} and not {ours.get(key)}"
            for key in {**ours, **theirs}
            if theirs.get(key) != ours.get(key)
        )
        return task.failed(f"{task.store}: was made with other settings ({other}); --overwrite makes it again")
    if store.source["bytes"] != task.film.stat().st_size:
        return task.failed(f"{task.store}: was made from another file than {task.film}; --overwrite makes it again")
    facts = {"shots": len(store.frames), "frames": store.video.frames, "duration": store.video.duration}
    return task.finished(facts, "kept")
