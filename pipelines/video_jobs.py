"""Videos processed one by one in this process, in parallel in child processes, or on the workers of a Dask cluster."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass, field, is_dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

from pipelines.errors import BasslError, explain_missing_extra, first_line, name_input
from pipelines.files import STDIO, os_reason, remove_leftovers
from pipelines.processes import GRACE, Child, Send, cores
from pipelines.progress import ReportVideo, Status, VideoProgress, VideoResult
from pipelines.scenes import SceneData
from pipelines.settings import ScenesOutput

S = TypeVar("S")
TIMEOUT = 10  # seconds that a Dask scheduler may take to answer


@dataclass(frozen=True)
class VideoTask(Generic[S]):
    """Video, the files to make of it, and the settings of the stage, a dataclass."""

    video: Path
    video_id: str
    output: Path
    settings: S
    page: Path | None = None
    exports: Mapping[str, Path] = field(default_factory=dict)  # by format
    replaces: ScenesOutput = field(default_factory=ScenesOutput)  # which existing files it may replace
    series: Path | None = None  # where hashes of its frames are kept, if it is an episode
    cores: int = 1  # for this video; `run_video_tasks` divides the machine's cores

    def result(self, status: Status = "done", **fields: Any) -> VideoResult:
        """Return the result of the video, with these counts and warnings."""
        return VideoResult(self.video_id, self.video, self.output, status, **fields)

    def result_of(self, scenes: SceneData, **fields: Any) -> VideoResult:
        """Return the result of a video with these scenes; ``fields`` replace its values."""
        facts: dict[str, Any] = {"warnings": scenes.warnings, "notes": scenes.notes, "frames": scenes.video.frames}
        facts |= {"duration": scenes.video.duration, "scenes": len(scenes.scenes), "shots": len(scenes.shots)}
        return self.result(**(facts | fields))

    def failed(self, error: BasslError | str) -> VideoResult:
        """Return the result of a video that failed, with an error that names it."""
        return self.result("failed", error=name_input(error, self.video, *self.files))

    @property
    def files(self) -> tuple[Path, ...]:
        """Return all files to write."""
        paths = (self.output, *self.exports.values(), self.page)
        return tuple(path for path in paths if path not in (None, STDIO))


VideoWork = Callable[[VideoTask[Any], ReportVideo], VideoResult]
"""What a stage does with a video. For child processes and Dask it must be a top-level function. A BasslError that it
raises becomes the video's error."""


def run_video_tasks(
    tasks: Sequence[VideoTask[S]],
    work: VideoWork,
    *,
    existing: Callable[[VideoTask[S]], VideoResult | None] = lambda task: None,
    jobs: int | None = None,
    dask: str | None = None,
    progress: ReportVideo | None = None,
) -> list[VideoResult]:
    """Process videos with different outputs. If one fails, its result has the error and the others continue. An
    exception, such as an interrupt, ends all child processes; unfinished files are removed.

    Args:
        work: called for each video that has no existing result.
        existing: the result of a video that is done already, or None; called in this process, for all videos first.
        jobs: child processes at a time; None for this process, one video after the other.
        dask: address of a Dask scheduler whose workers process the videos instead, in their own child processes.
        progress: called with the progress and then with the result of each video.

    Returns one result per task, in their order. Raises BasslError if ``distributed`` is not installed, or the Dask
    scheduler does not answer or goes away.
    """
    report = progress or (lambda state: None)
    results: dict[Path, VideoResult] = {}

    def finish(result: VideoResult) -> None:
        results[result.output] = result
        report(VideoProgress(result.video_id, result=result))

    for task in tasks:
        try:
            result = existing(task)
        except BasslError as error:
            result = task.failed(error)
        if result is not None:
            finish(result)
    waiting = [task for task in tasks if task.output not in results]
    share = max(1, cores() // max(1, min(jobs or 1, len(waiting))))
    waiting = [replace(task, cores=share) for task in waiting]
    if dask is not None:
        running = _on_dask(waiting, work, dask)
    elif jobs is not None:
        running = _in_children(waiting, work, jobs, report)
    else:
        running = _run_in_process(waiting, work, report)
    with closing(running):  # an interrupt ends the children
        for result in running:
            finish(result)
    return [results[task.output] for task in tasks]


Results = Generator[VideoResult, None, None]


def _run_in_process(tasks: Sequence[VideoTask[S]], work: VideoWork, report: ReportVideo) -> Results:
    for task in tasks:
        try:
            yield work(task, report)
        except BasslError as error:
            yield task.failed(error)


def _in_children(tasks: Sequence[VideoTask[S]], work: VideoWork, jobs: int, report: ReportVideo) -> Results:
    waiting = deque(tasks)
    running: dict[Path, tuple[VideoTask[S], Child, Thread]] = {}
    messages: SimpleQueue[tuple[Path, Any]] = SimpleQueue()
    try:
        while waiting or running:
            if waiting and len(running) < jobs:
                task = waiting.popleft()
                try:
                    child = Child(run_task, (work, task))
                except OSError as error:
                    yield task.failed(f"{task.video}: no process can be started for it ({os_reason(error)})")
                else:
                    thread = Thread(target=_receive, args=(task, child, messages), daemon=True)
                    thread.start()
                    running[task.output] = task, child, thread
                continue
            output, message = messages.get()
            if isinstance(message, VideoProgress):
                report(message)
            else:
                _stop(*running.pop(output))
                yield message
    finally:
        for entry in running.values():
            _stop(*entry)


def _stop(task: VideoTask[S], child: Child, thread: Thread) -> None:
    child.process.terminate()  # it ends the user's programs
    thread.join(GRACE)
    child.process.kill()
    thread.join()
    child.kill()
    for path in task.files:
        remove_leftovers(path)


def _receive(task: VideoTask[S], child: Child, messages: SimpleQueue[tuple[Path, Any]]) -> None:
    """Pass on the messages of a child, each with the output of its task, until the result of the video."""
    try:
        for _, content, _ in child.messages_on(task.video):
            messages.put((task.output, content))
            if isinstance(content, VideoResult):
                return
    except BasslError as error:
        messages.put((task.output, task.failed(error)))


def run_task(message: tuple[VideoWork, VideoTask[Any]], send: Send) -> None:
    """Run a task; called in the child processes."""
    work, task = message
    send("result", work(task, partial(send, "progress")))


def _on_dask(tasks: Sequence[VideoTask[S]], work: VideoWork, address: str) -> Results:
    """Process videos on a cluster: videos of a lost worker go to another; a video that kills several workers fails."""
    from asyncio import CancelledError as Cancelled  # start-up time

    with explain_missing_extra("`dask`"):
        from distributed import Client, as_completed  # optional dependency: distributed
    if not tasks:
        return
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # reported in one line below
    try:
        client = Client(address, timeout=TIMEOUT)
    except (OSError, ValueError) as error:
        raise BasslError(f"no Dask scheduler answers at {address}") from error
    with client:
        futures = {client.submit(_run_on_worker, _make_paths_absolute(task), work, pure=False): task for task in tasks}
        gone = f"the Dask scheduler at {address} is no longer reachable; run again to continue where it stopped"
        for future in as_completed(futures):
            if future.status in ("cancelled", "lost"):
                raise BasslError(gone)
            task = futures[future]
            try:
                fault = future.exception()
                result = future.result() if fault is None else task.failed(f"{task.video}: {first_line(fault)}")
            except (OSError, Cancelled, CancelledError) as error:  # done, but its result is lost
                raise BasslError(gone) from error
            yield replace(result, video=task.video, output=task.output)


def _run_on_worker(task: VideoTask[S], work: VideoWork) -> VideoResult:
    (result,) = _in_children([task], work, 1, lambda state: None)
    return result


def _make_paths_absolute(value: Any) -> Any:
    """Return a task or settings with absolute paths: a cluster's workers have another working directory."""
    changed = {
        name: part.absolute() if isinstance(part, Path) else _make_paths_absolute(part)
        for name, part in vars(value).items()
        if isinstance(part, Path) or is_dataclass(part)
    }
    return replace(value, **changed)
