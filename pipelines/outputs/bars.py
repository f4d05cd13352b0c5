"""Progress bars: in a terminal by rich, in a notebook of HTML (rich would need ipywidgets there)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from html import escape
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from pipelines.errors import count, printable
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress

_NOTEBOOK_SECONDS = 0.2  # between two updates, each of which is a message to the browser


def bars(console: Console) -> Progress:
    """Make bars of tasks with a field ``speed``, which disappear at the end."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
    )


@contextmanager
def stage_bar(console: Console, video: str = "") -> Iterator[ReportProgress]:
    """Show a bar of a stage, with the time left; for a video, whose progress is in seconds, also the speed as a
    multiple of real time."""
    before, video = "", printable(video, 120)
    with bars(console) as progress:
        task = progress.add_task(f"reading {video}" if video else "", total=None, speed="")

        def show(doing: str, done: float, total: float | None) -> None:
            nonlocal before
            if doing != before:  # each step has its own speed
                progress.reset(task, total=None)
            before = doing
            elapsed = progress.tasks[0].elapsed or 0.0
            speed = f"{done / elapsed:.0f}x" if video and elapsed > 0.5 else ""
            progress.update(task, description=f"{doing} {video}", completed=done, total=total or None, speed=speed)

        yield show


@contextmanager
def video_bars(console: Console, videos: int) -> Iterator[ReportVideo]:
    """Show a bar of all videos, and one for each video that is being read, with its speed and the time left."""
    with bars(console) as progress:
        overall = progress.add_task("videos", total=videos, speed=f"0 of {videos}")
        tasks: dict[str, TaskID] = {}
        finished = 0

        def show(state: VideoProgress) -> None:
            nonlocal finished
            if state.result is not None:
                finished += 1
                progress.update(overall, completed=finished, speed=f"{finished} of {videos}")
                if state.video_id in tasks:
                    progress.remove_task(tasks.pop(state.video_id))
                return
            if state.video_id not in tasks:
                tasks[state.video_id] = progress.add_task(f"  {state.video_id}", speed="")
            task = next(task for task in progress.tasks if task.id == tasks[state.video_id])
            speed = ""
            if task.elapsed:
                unit, number = (" frames/s", state.frames) if state.frames else ("x", state.done)
                speed = f"{number / task.elapsed:.0f}{unit}"
            progress.update(task.id, completed=state.done, total=state.total, speed=speed)

        yield show


def shown_stage(video: str) -> AbstractContextManager[ReportProgress]:
    """Show the progress of a video for a program: a bar in a notebook or if stderr is a terminal, else nothing."""
    console = Console(stderr=True, emoji=False, highlight=False)
    if console.is_jupyter:
        return _notebook_bar(video)
    return stage_bar(console, video) if console.is_interactive else nullcontext(lambda doing, done, total: None)


def shown_videos(videos: int) -> AbstractContextManager[ReportVideo]:
    """Show the progress of several videos, as :func:`shown_stage`."""
    console = Console(stderr=True, emoji=False, highlight=False)
    if console.is_jupyter:
        return _notebook_videos(videos)
    return video_bars(console, videos) if console.is_interactive else nullcontext(lambda state: None)


@contextmanager
def _notebook_videos(videos: int) -> Iterator[ReportVideo]:
    shares: dict[str, float] = {}  # done, by video
    with _notebook_bar() as bar:

        def show(state: VideoProgress) -> None:
            shares[state.video_id] = 1.0 if state.result else state.done / (state.total or math.inf)
            bar(f"{count(videos, 'video')}: {state.video_id}", sum(shares.values()), videos)

        yield show


@contextmanager
def _notebook_bar(video: str = "") -> Iterator[ReportProgress]:
    from IPython.display import HTML, display  # optional dependency: every notebook has it

    shown: Any = display(HTML("<progress></progress>"), display_id=True)
    last = 0.0

    def show(doing: str, done: float, total: float | None) -> None:
        nonlocal last
        if monotonic() - last >= _NOTEBOOK_SECONDS:
            last = monotonic()
            share = f' value="{done / total:.3f}"' if total else ""
            shown.update(HTML(f"<progress{share}></progress> {escape(f'{doing} {video}'.rstrip())}"))

    try:
        yield show
    finally:
        shown.update(HTML(""))
