"""Progress bars: in a terminal by rich, in a notebook of HTML (rich would need ipywidgets there)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from html import escape

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn

from pipelines.errors import count, printable
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress, no_progress


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
    """Show a bar of a stage with the time left; for a video, whose progress is in seconds, also its speed (3x)."""
    video = printable(video, 120)
    with bars(console) as progress:
        progress.add_task(f"reading {video}" if video else "", total=None, speed="")
        (bar,) = progress.tasks

        def show(doing: str, done: float, total: float | None) -> None:
            description = f"{doing} {video}"
            if description != bar.description:  # each step has its own speed
                progress.reset(bar.id, total=None)
            speed = f"{done / bar.elapsed:.0f}x" if video and bar.elapsed and bar.elapsed > 0.5 else ""
            progress.update(bar.id, description=description, completed=done, total=total or None, speed=speed)

        yield show


@contextmanager
def video_bars(console: Console, videos: int) -> Iterator[ReportVideo]:
    """Show a bar of all videos, and one for each video that is being read, with its speed and the time left."""
    with bars(console) as progress:
        progress.add_task("videos", total=videos, speed=f"0 of {videos}")
        (overall,) = progress.tasks
        running: dict[str, Task] = {}

        def show(state: VideoProgress) -> None:
            if state.result is not None:
                finished = int(overall.completed) + 1
                progress.update(overall.id, completed=finished, speed=f"{finished} of {videos}")
                if state.video_id in running:
                    progress.remove_task(running.pop(state.video_id).id)
                return
            if state.video_id not in running:
                progress.add_task(f"  {state.video_id}", speed="")
                running[state.video_id] = progress.tasks[-1]
            bar = running[state.video_id]
            speed = f"{state.done / bar.elapsed:.0f}x" if bar.elapsed else ""
            progress.update(bar.id, completed=state.done, total=state.total, speed=speed)

        yield show


def shown_stage(video: str = "") -> AbstractContextManager[ReportProgress]:
    """Show the progress of a video for a program: a bar in a notebook or if stderr is a terminal, else nothing."""
    console = Console(stderr=True, emoji=False, highlight=False)
    if console.is_jupyter:
        return _notebook_bar(video)
    return stage_bar(console, video) if console.is_interactive else nullcontext(no_progress)


@contextmanager
def shown_videos(videos: int) -> Iterator[ReportVideo]:
    """Show the progress of several videos in one bar, as :func:`shown_stage`."""
    shares: dict[str, float] = {}  # done, by video
    with shown_stage() as show_stage:

        def show(state: VideoProgress) -> None:
            shares[state.video_id] = 1.0 if state.result else state.done / (state.total or math.inf)
            show_stage(count(videos, "video"), sum(shares.values()), videos)

        yield show


@contextmanager
def _notebook_bar(video: str) -> Iterator[ReportProgress]:
    from IPython.display import HTML, display  # optional dependency: every notebook has it

    handle = display(HTML("<progress></progress>"), display_id=True)

    def show(doing: str, done: float, total: float | None) -> None:
        share = f' value="{done / total:.3f}"' if total else ""
        handle.update(HTML(f"<progress{share}></progress> {escape(f'{doing} {video}'.rstrip())}"))

    try:
        yield show
    finally:
        handle.update(HTML(""))
