"""Videos processed in parallel: each in a child process, on this machine or on the workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import is_dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeVar

from pipelines.errors import BasslError, UnexpectedError, explain_missing_extra, first_line
from pipelines.files import os_reason
from pipelines.processes import Child, Work
from pipelines.progress import VideoOutcome, VideoProgress

R = TypeVar("R", bound=VideoOutcome)
R_co = TypeVar("R_co", bound=VideoOutcome, covariant=True)
TIMEOUT = 10
"""Seconds that a Dask scheduler may take to answer."""


class VideoTask(Protocol[R_co]):
    """One video and what is to be done with it, a dataclass."""

    @property
    def video(self) -> Path: ...
    @property
    def video_id(self) -> str: ...
    def to_json(self) -> dict[str, Any]: ...
    def finished(self, fields: dict[str, Any]) -> R_co: ...
    def failed(self, error: str) -> R_co: ...
    def clean_up(self) -> None:
        """Remove what an unfinished child left."""


def run_here(
    tasks: Sequence[VideoTask[R]], work: Work, workers: int, report: Callable[[VideoProgress[R]], None]
) -> Generator[R, None, None]:
    """Results of tasks as they end, ``workers`` of them at a time; ``report`` is called from several threads.

    ``work`` takes a task as JSON values, sends ``progress`` (``done``, ``total`` in seconds, ``frames``) and at last
    ``end`` with the fields of the result. If a child dies, its video has failed and the others continue. Closing the
    generator ends the children.
    """
    children = _Children()
    with ThreadPoolExecutor(workers) as pool:  # the threads only wait for their children
        try:
            futures = [pool.submit(_run_in_child, task, work, report, children) for task in tasks]
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            children.end()
            pool.shutdown(cancel_futures=True)
            raise


def run_on_dask(tasks: Sequence[VideoTask[R]], work: Work, address: str) -> Generator[R, None, None]:
    """Results of tasks as they end on the workers of a Dask cluster.

    Videos of a lost worker go to another; a video that kills several workers has failed.

    Raises:
        BasslError: ``distributed`` is not installed, or the scheduler does not answer or goes away.
    """
    from asyncio import CancelledError as Cancelled  # start-up time

    with explain_missing_extra("--dask"):
        from distributed import Client, as_completed as completed  # optional dependency: distributed
    if not tasks:
        return
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # an error below says it in one line
    try:
        client = Client(address, timeout=TIMEOUT)
    except (OSError, ValueError) as error:
        raise BasslError(f"no Dask scheduler answers at {address}") from error
    with client:
        futures = {
            client.submit(_run, task, work, key=f"bassl-{task.video_id}-{os.urandom(4).hex()}", pure=False): task
            for task in map(_make_paths_absolute, tasks)
        }
        gone = BasslError(
            f"the Dask scheduler at {address} is no longer reachable; run again to continue where it stopped"
        )
        for future in completed(futures):
            if future.status in ("cancelled", "lost"):
                raise gone
            task = futures[future]
            try:
                fault = future.exception()
                result = future.result() if fault is None else task.failed(f"{task.video}: {first_line(fault)}")
            except (OSError, Cancelled, CancelledError) as error:  # done, but its result is lost
                raise gone from error
            yield result


class _Children:
    """The running child processes, so that all can be ended at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: set[Child] | None = set()

    def start(self, work: Work, task: dict[str, Any]) -> Child | None:
        """A child process for the task; None after :meth:`end`."""
        with self._lock:
            if self._running is None:
                return None
            child = Child(work, task)
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


def _make_paths_absolute(task: Any) -> Any:
    """A task, or its settings, with absolute paths: a worker of a cluster has another working directory."""
    changed = {
        name: value.absolute() if isinstance(value, Path) else _make_paths_absolute(value)
        for name, value in vars(task).items()
        if isinstance(value, Path) or is_dataclass(value)
    }
    return replace(task, **changed)


def _run(task: VideoTask[R], work: Work) -> R:
    """Run by Dask workers."""
    return _run_in_child(task, work, lambda state: None, _Children())


def _run_in_child(task: VideoTask[R], work: Work, report: Callable[[VideoProgress[R]], None], children: _Children) -> R:
    try:
        child = children.start(work, task.to_json())
    except OSError as error:
        return task.failed(f"{task.video}: no process can be started for it ({os_reason(error)})")
    if child is None:
        return task.failed(f"{task.video}: interrupted")
    try:
        while (message := child.receive()) is not None:
            kind, head, _ = message
            if kind == "progress":
                report(VideoProgress(task.video_id, **head))
            elif kind == "end":  # JSON has lists for tuples
                return task.finished({name: tuple(one) if isinstance(one, list) else one for name, one in head.items()})
        return task.failed(f"{task.video}: the process that read it died ({child.how_it_ended()})")
    except UnexpectedError as error:
        return task.failed(f"{task.video}: cannot be read ({error})")
    except BasslError as error:
        return task.failed(str(error))
    finally:
        children.forget(child)
        child.kill()
        task.clean_up()
