"""``bassl predict``: videos in, their scenes out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_doc import Doc

from bassl_cli import console
from bassl_cli.options import Videos, with_settings
from pipelines.errors import BasslError
from pipelines.files import STDIO, output_folder, output_path
from pipelines.options import Settings, nested
from pipelines.processes import limit_threads_and_memory
from pipelines.progress import VideoProgress
from pipelines.results.finding import FOLDER, beside, result_path
from pipelines.settings import Parallel, ScenesOutput
from pipelines.stages.predict import PredictSettings, file_task, predict_task, predict_videos
from pipelines.stages.predict.model import SceneModel
from pipelines.video.inputs import find_videos


@dataclass(frozen=True)
class Files(Settings):
    """Output files, and the videos processed at a time."""

    heading = "Output"
    run: ScenesOutput = nested(
        ScenesOutput(),
        defaults={"output": "VIDEO.scenes.json, or no file with --json; for several videos the folder scenes"},
    )
    to: Annotated[tuple[str, ...], Doc("Also export to these formats, beside the output; or format of --output.")] = ()
    parallel: Parallel = nested(Parallel())
    report: Annotated[bool, Doc("Also make pages of the scenes, as bassl report, and their index.html.")] = False
    series: Annotated[bool, Doc("The videos are episodes of one series: find intro, outro and recaps.")] = False
    json_lines: Annotated[bool, Doc("Print JSON on a line when a video is done; a file is always in a folder.")] = False


@with_settings(spellings={"to": "FORMAT,...", "shots": "FILE", "model": "RUN"})
def predict(videos: Videos, settings: PredictSettings, files: Files, as_json: console.Json = False) -> None:
    """Find the scenes of a video, or of each of several.

    Shows a table of them and writes movie.scenes.json; for several videos, a file for each, and a table of the videos.

    Examples: bassl predict movie.mp4 --report, bassl predict videos/ -o out/
    """
    if as_json and files.json_lines:
        raise BasslError("--json-lines prints each video when it is done, --json all at the end; use one of them")
    limit_threads_and_memory()
    is_pattern = any(sign in str(videos[0]) for sign in "*?[") and not videos[0].exists()
    if len(videos) == 1 and not videos[0].is_dir() and not is_pattern and not (files.json_lines or files.series):
        if files.parallel.dask is not None:
            raise BasslError("--dask is for several videos; leave it out for one")
        _predict_one(videos[0], files, settings, as_json)
    else:
        _predict_all(videos, files, settings, as_json)


def _predict_one(video: Path, files: Files, settings: PredictSettings, as_json: bool) -> None:
    output, usual = files.run.output, result_path(video)
    piped = output == STDIO
    if not piped and (output is not None or not as_json):
        output = output_path(output, usual)
    page = beside(usual if output in (None, STDIO) else output, ".html") if files.report else None
    task = file_task(video, output, settings, to=files.to, page=page, replaces=files.run)
    with console.stage_progress(video.name) as progress:
        result, _ = predict_task(SceneModel(settings), task, progress)
    console.warn(*result.warnings)
    if as_json or (piped and not files.to):
        console.print_json(result.to_dict())
        return
    if not piped:
        console.show_scenes(result)
    console.note(*result.notes)
    counts = f"{console.count(len(result.scenes), 'scene')}, {console.count(len(result.shots), 'shot')}"
    console.print_written(counts, *task.files, verb="in" if result.notes else "wrote")
    if task.output != STDIO:
        console.suggest_next("report" if page else "predict", video if output == usual else task.output)


def _predict_all(videos: list[Path], files: Files, settings: PredictSettings, as_json: bool) -> None:
    output = output_folder(files.run.output, FOLDER)
    videos = find_videos(videos)
    lines_in_terminal = files.json_lines and console.out.is_terminal  # bars would overwrite them
    with nullcontext() if lines_in_terminal else console.videos_progress(len(videos)) as show:

        def show_state(state: VideoProgress) -> None:
            if files.json_lines and state.result is not None:
                console.print_json(state.result, indent=None)
            if show is not None:
                show(state)

        results = predict_videos(
            videos,
            output,
            settings,
            to=files.to,
            overwrite=files.run.overwrite,
            discard_corrections=files.run.discard_corrections,
            pages=files.report,
            series=files.series,
            **vars(files.parallel),
            progress=show_state,
        )
    if files.series:
        console.note(*(note for result in results for note in result.notes))
    written = f"scenes in {console.display_path(output)}"
    if files.report:
        written += f", {console.display_path(output / 'index.html')} shows all pages"
    if files.json_lines:
        console.print_summary(results, written)
    else:
        console.show_videos(results, ("shots", "scenes"), written, as_json)
        console.suggest_next("report" if files.report else "predict", output)
