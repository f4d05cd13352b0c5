"""What people see: results on stdout, everything else on stderr; progress bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from pipelines.errors import BasslError, count as count, name_input, printable
from pipelines.outputs.bars import bars, stage_bar, video_bars
from pipelines.progress import ReportProgress, ReportVideo, TrainingProgress, VideoProgress, VideoResult
from pipelines.scenes import SceneData, timecode

out = Console(emoji=False, highlight=False)
err = Console(stderr=True, emoji=False, highlight=False)

NO_WRAP_WIDTH = 10_000  # columns of a table in a file or a pipe: no cell is wrapped or cut
_UNITS = {"scoring": "video", "encoding": "shot", "saving": "image"}  # what a stage counts, by its activity

arguments: Mapping[str, str] = {}  # settings of the command that are arguments, as its help names them
quiet = False  # whether a command runs with ``--quiet``: only warnings, errors and JSON are shown


def debugging() -> bool:
    """Return whether errors are shown with their traceback."""
    return "--debug" in sys.argv


Table = Annotated[
    Path | None,
    typer.Option("--table", metavar="FILE", help="Write the numbers as .md, .tex, .csv or .json.", show_default=False),
]
GENERAL: Any = {"rich_help_panel": "General"}  # heading of the options that every command has
Verbose = Annotated[bool, typer.Option("--verbose", help="Print a line for each epoch.", **GENERAL)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing but warnings and errors.", **GENERAL)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of a table.", **GENERAL)]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.", **GENERAL)]


def print_error(*messages: str) -> None:
    """Print what went wrong, one line per message."""
    _print("bassl: ", messages, "red")


def warn(*messages: str) -> None:
    """Print what may be wrong with the result."""
    _print("warning: ", messages, "yellow")


def note(*messages: str) -> None:
    """Print facts about the result that are not a problem."""
    if not quiet:
        _print("note: ", messages)


NEXT = {
    "predict": ("bassl report {}", "to view and correct the scenes"),
    "regroup": ("bassl report {}", "to view and correct the scenes"),
    "report": ("bassl export {} --to edl", "once the scenes are as you want them; bassl export --help lists formats"),
    "review": ("bassl export {} --to edl", "or Export on the page; bassl export --help lists formats"),
    "learn": ("bassl predict VIDEO --model {}", "to find the scenes of a video"),
    "extract-keyframes": ("bassl build-index {}", "to index the shots of all videos"),
    "build-index": ("bassl encode {}", "to compute the features of all shots"),
    "encode": ("bassl finetune", "to train a model; bassl pretrain if there are no labels"),
    "pretrain": ("bassl finetune --init {}", "to train it on labels"),
    "finetune": ("bassl predict VIDEO --model {}", "to find the scenes of a video"),
}
"""By command, what to do next with its result, and why."""


def suggest_next(command: str, *results: Path) -> None:
    """Print what to do next with a command's results, or with their folders if there are many; in a terminal only."""
    names = results if len(results) <= 3 else {result.parent: None for result in results}
    if out.is_terminal and err.is_terminal and len(names) <= 3:
        then, purpose = NEXT[command]
        print_info(f"next: {then.format(shlex.join(map(str, names)))}".rstrip() + f"  ({purpose})")


def display_path(path: Path) -> str:
    """Return a path as messages show it: without ``..``, as it would be below a working folder."""
    plain = os.path.normpath(path)
    return os.path.abspath(path) if plain.startswith(os.pardir) else plain  # noqa: PTH100  # keeps links


def print_info(message: str) -> None:
    """Print one line about what was done."""
    if not quiet:
        _print("", (message,))


def print_written(result: str, *paths: Path, verb: str = "wrote") -> None:
    """Print one line: what was done, and the files that contain it."""
    print_info(f"{result}; {verb} {', '.join(map(display_path, paths))}")


def _print(beginning: str, messages: Iterable[str], style: str | None = None) -> None:
    """Print lines on stderr. Settings in them become options: `` `frame_rate=25` `` is shown as ``--frame-rate 25``."""
    for message in messages:
        err.print(printable(_with_options(beginning + message)), style=style, markup=False, soft_wrap=True)


def _with_options(message: str) -> str:
    def option(setting: re.Match[str]) -> str:
        name, value = setting.groups()
        if name in arguments:
            return arguments[name]
        return f"--{name.replace('_', '-')}{'' if value in (None, 'True') else f' {value}'}"

    return re.sub(r"`([a-z][a-z_]*)(?:=([^`]*))?`", option, message)


def print_json(content: object, indent: int | None = 1) -> None:
    """Print a result as JSON on stdout, with the fields of all results in it; without ``indent`` on one line."""
    typer.echo(json.dumps(content, indent=indent, default=_as_plain))


def _as_plain(result: object) -> object:
    """Return a path as text, and a result as its fields, with options in messages as `print_info` shows them."""
    if isinstance(result, Path):
        return str(result)
    values = dict(vars(result))
    if isinstance(result, VideoResult):
        values["error"] = _with_options(result.error)
        values |= {key: [*map(_with_options, getattr(result, key))] for key in ("warnings", "notes")}
    return values


Written = tuple[str, Sequence[Path], Sequence[object]]
"""What a command made of an input, such as "12 clips"; the files or the folder that it wrote; its results, for JSON."""


def run_each(
    sources: Sequence[Path],
    act: Callable[[Path], Written | None],
    as_json: bool = False,
    order: Iterable[Path] | None = None,
) -> None:
    """Call a function with each source, in the order given or in another, and print what it wrote; ``as_json`` prints
    all results at the end. Of several sources one that fails has its own line; then raises typer.Exit with 1."""
    results: list[object] = []
    has_failed = False
    for source in order or sources:
        try:
            if written := act(source):
                print_written(f"{source}: " * (len(sources) > 1) + written[0], *written[1])
                results += written[2]
        except BasslError as error:
            if len(sources) == 1:
                raise
            print_error(name_input(error, source))
            has_failed = True
    if as_json:
        print_json(results)
    if has_failed:
        raise typer.Exit(1)


def print_summary(results: Sequence[VideoResult], written: str) -> None:
    """Show warnings, failures, all counts and the place of the output. Raises typer.Exit with 1 if a video failed."""
    warn(*dict.fromkeys(warning for result in results for warning in result.warnings))  # shared warnings only once
    print_error(*(result.error for result in results if result.status == "failed"))
    if corrected := ", ".join(str(result.output) for result in results if result.corrected and result.status != "done"):
        others = "bassl regroup finds other scenes and keeps corrections"
        note(f"corrected by hand and left as they are: {corrected}; {others}; `discard_corrections=True` replaces them")
    number = Counter(result.status for result in results)
    regrouped = f"{number['regrouped']} regrouped from their scores, " * ("regrouped" in number)
    place = f"; {written}" * (number["failed"] < len(results))
    print_info(f"{number['done']} done, {regrouped}{number['kept']} kept, {number['failed']} failed{place}")
    if number["failed"]:
        raise typer.Exit(1)


def show_videos(results: Sequence[VideoResult], counted: Sequence[str], written: str, as_json: bool) -> None:
    """Show the results of videos: a table with the fields in ``counted``, or JSON, and what `print_summary` shows."""
    if as_json:
        print_json(results)
    else:
        rows = []
        for result in results:
            facts = (f"{result.duration:.1f} s", *(f"{getattr(result, name):,}" for name in counted))
            cells = ("" for _ in facts) if result.status == "failed" else facts
            rows.append((result.video_id, result.status, *cells))
        show_table(("video", "status", "length", *counted), rows)
    print_summary(results, written)


def show_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], text: Collection[int] = (0,), title: str = ""
) -> None:
    """Show a table on stdout, below a title; the columns numbered in ``text`` are aligned left, the others right."""
    if quiet:
        return
    target = out if out.is_terminal else Console(emoji=False, highlight=False, width=NO_WRAP_WIDTH)
    grid = Grid(box=None, pad_edge=False, header_style="bold", show_header=any(header))
    for i, name in enumerate(header):
        grid.add_column(Text(name), justify="left" if i in text else "right", overflow="fold")
    for row in rows:
        grid.add_row(*(Text("\n".join(map(printable, cell.split("\n")))) for cell in row))
    if title:
        target.print(printable(title), style="italic", markup=False, soft_wrap=True)
    target.print(grid)


def stage_progress(video: str = "") -> AbstractContextManager[ReportProgress]:
    """Show a progress bar of a stage with the time left; of a video, whose progress is in seconds, also with its speed.
    Without a terminal print a line for each step and minute, of a video without its short steps."""
    before, since = "", 0.0

    def line(doing: str, done: float, total: float | None) -> None:
        nonlocal before, since
        if (video and doing != "reading") or (doing == before and time.monotonic() < since + 60):
            return
        text = f"{doing} {printable(video, 120)}".rstrip()
        if doing != before:
            print_info(f"{text} {count(int(total or 0), _UNITS[doing])}" if doing in _UNITS else text)
        else:
            amounts = (timecode(x)[:-4] if video else f"{x:,.0f}" for x in (done, total) if x is not None)
            print_info(f"{text}: {' of '.join(amounts)}")
        before, since = doing, time.monotonic()

    return nullcontext(line) if quiet or not err.is_interactive else stage_bar(err, video)


def videos_progress(videos: int) -> AbstractContextManager[ReportVideo]:
    """Show a progress bar of all videos, and one for each that is being read, with its speed and the time left."""

    def line(state: VideoProgress) -> None:
        if state.result is not None:
            print_info(f"{state.video_id}: {state.result.status}")

    return nullcontext(line) if quiet or not err.is_interactive else video_bars(err, videos)


@contextmanager
def training_progress(verbose: bool = False) -> Iterator[Callable[[TrainingProgress], None]]:
    """Show the progress of a training run: a bar; a line for each note and each epoch if ``verbose``, else for each of
    several seeds or some ten epochs; without a terminal only lines."""

    def is_shown(state: TrainingProgress) -> bool:
        every = 1 if verbose else state.epochs if state.seeds > 1 else -(-state.epochs // 10)
        return state.epoch == state.epochs or state.epoch % every == 0

    def values(state: TrainingProgress) -> str:
        seed = f"seed {state.seed}/{state.seeds}  " if state.seeds > 1 else ""
        numbers = "  ".join(f"{name} {value:.3f}" for name, value in (state.validation or state.losses).items())
        return f"{seed}epoch {state.epoch}/{state.epochs}  {numbers}"

    def line(state: TrainingProgress) -> None:
        if state.note:
            (warn if state.warning else note)(state.note)
        elif not is_shown(state):
            return
        elif state.validation:
            print_info(values(state))
        elif state.step % max(1, state.steps // (state.epochs * state.seeds)) == 0:  # the end of an epoch
            print_info(f"{values(state)}  {state.speed:,.1f} {state.unit}/s")

    if quiet or not err.is_interactive:
        yield line
        return
    with bars(err) as progress:
        task = progress.add_task("training", total=None, speed="")

        def show(state: TrainingProgress) -> None:
            if state.note or state.validation:
                line(state)
                return
            speed = f"lr {state.rate:.2g}  {state.speed:,.1f} {state.unit}/s  {state.waiting:.0%} waiting"
            progress.update(task, description=values(state), completed=state.step, total=state.steps, speed=speed)

        yield show


def show_scenes(result: SceneData) -> None:
    """Show a table of scenes on stdout, with their names if they have any."""
    rows = []
    has_names = any(scene.name for scene in result.scenes)
    for scene in result.scenes:
        facts = (f"{scene.end - scene.start:.1f} s", str(scene.end_shot - scene.start_shot), f"{scene.confidence:.2f}")
        times = (scene.start_timecode, scene.end_timecode)
        rows.append((str(scene.index + 1), *times, *facts, *([scene.name or ""] * has_names)))
    header = ("scene", "start", "end", "length", "shots", "confidence", *(["name"] * has_names))
    show_table(header, rows, text=[6])
