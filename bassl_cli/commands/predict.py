"""``bassl predict``: videos in, their scenes out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from annotated_doc import Doc

from bassl_cli import console
from bassl_cli.options import Videos, with_settings
from pipelines.errors import BasslError, name_input
from pipelines.files import STDIO, check_inputs_kept, check_names_folder, check_output, output_folder, output_path
from pipelines.options import Settings, nested
from pipelines.outputs.exports import FORMATS, check_extension, export as write_export, is_scenes_json
from pipelines.outputs.results import FOLDER, beside, result_path
from pipelines.processes import limit_threads_and_memory
from pipelines.progress import ReportVideo, VideoProgress, VideoResult
from pipelines.scenes import DROP_SHORT_ALONE
from pipelines.settings import Parallel, ScenesOutput
from pipelines.stages.predict import PredictSettings, predict_file, predict_videos
from pipelines.stages.settings import ExportSettings
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
    storyboard: Annotated[Path | None, Doc("Draw the scenes with their keyframes; for several videos a folder.")] = None
    parallel: Parallel = nested(Parallel())
    report: Annotated[bool, Doc("Also make pages of the scenes, as bassl report, and their index.html.")] = False
    json_lines: Annotated[bool, Doc("Print JSON on a line when a video is done; a file is always in a folder.")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to:
            ExportSettings(self.to)  # refuses an unknown format


@with_settings(spellings={"storyboard": "FILE.png", "to": "FORMAT,...", "shots": "FILE", "model": "RUN"})
def predict(videos: Videos, settings: PredictSettings, files: Files, as_json: console.Json = False) -> None:
    """Find the scenes of a video, or of each of several.

    Shows a table of them and writes movie.scenes.json; for several videos, a file for each, and a table of the videos.

    Examples: bassl predict movie.mp4 --report, bassl predict videos/ -o out/
    """
    if settings.grouping.drop_short and not settings.grouping.min_scene:
        raise BasslError(DROP_SHORT_ALONE)
    if as_json and files.json_lines:
        raise BasslError("--json-lines prints each video when it is done, --json all at the end; use one of them")
    limit_threads_and_memory()
    is_pattern = any(sign in str(videos[0]) for sign in "*?[") and not videos[0].exists()
    if len(videos) == 1 and not videos[0].is_dir() and not is_pattern and not files.json_lines:
        if files.parallel.dask is not None:
            raise BasslError("--dask is for several videos; leave it out for one")
        _predict_one(videos[0], files, settings, as_json)
    else:
        _predict_all(videos, files, settings, as_json)


def _predict_one(video: Path, files: Files, settings: PredictSettings, as_json: bool) -> None:
    output, storyboard, usual = files.run.output, files.storyboard, result_path(video)
    piped = output == STDIO
    if piped:
        output, as_json = None, not files.to
    elif output is not None or not as_json:
        output = output_path(output, usual)
    page = beside(output or usual, ".html") if files.report else None
    exports = {name: beside(output or usual, FORMATS[name].extension) for name in files.to}
    if files.to and (piped or (output is not None and not is_scenes_json(output))):
        if len(files.to) > 1:
            raise BasslError(f"{files.run.output}: is one file, but --to has {len(files.to)} formats; name a folder")
        if output is not None:
            check_extension(output, files.to[0])
        output, exports = None, {files.to[0]: output or STDIO}
    for path in exports.values():
        if path != STDIO:
            check_output(path, (video, *settings.files))
    with console.stage_progress(video.name) as progress:
        result = predict_file(
            video,
            output,
            settings,
            storyboard=storyboard,
            page=page,
            overwrite=files.run.overwrite,
            discard_corrections=files.run.discard_corrections,
            progress=progress,
        )
    warnings = result.warnings
    for name, path in exports.items():
        warnings += write_export(result, path, name)
    console.warn(*dict.fromkeys(warnings))  # formats may repeat a warning
    if as_json:
        console.print_json(result.to_dict())
    else:
        if not piped:
            console.show_scenes(result)
        console.note(*result.notes)
        paths = [path for path in (output, *exports.values(), storyboard, page) if path is not None]
        counts = f"{console.count(len(result.scenes), 'scene')}, {console.count(len(result.shots), 'shot')}"
        console.print_written(counts, *paths, verb="in" if result.notes else "wrote")
        if output is not None:
            console.suggest_next("report" if page else "predict", video if output == usual else output)


def _predict_all(videos: list[Path], files: Files, settings: PredictSettings, as_json: bool) -> None:
    output = output_folder(files.run.output, FOLDER)
    for path in (output, files.storyboard):
        if path is not None:
            check_names_folder(path)
    exported: dict[Path, VideoResult] = {}
    videos = find_videos(videos)
    no_bars: ReportVideo = lambda state: None  # noqa: E731
    lines_in_terminal = files.json_lines and console.out.is_terminal  # bars would overwrite them
    with nullcontext(no_bars) if lines_in_terminal else console.videos_progress(len(videos)) as show:

        def export_and_show(state: VideoProgress) -> None:
            if state.result is not None:
                result = _export(state.result, files.to, settings.files)
                exported[result.output] = result
                if files.json_lines:
                    console.print_json(result, indent=None)
                state = replace(state, result=result)
            show(state)

        results = predict_videos(
            videos,
            output,
            settings,
            overwrite=files.run.overwrite,
            discard_corrections=files.run.discard_corrections,
            storyboards=files.storyboard,
            pages=files.report,
            **vars(files.parallel),
            progress=export_and_show,
        )
    written = f"scenes in {console.display_path(output)}"
    if files.report and any(result.status != "failed" for result in results):
        written += f", {console.display_path(output / 'index.html')} shows all pages"
    results = [exported[result.output] for result in results]
    if files.json_lines:
        console.print_summary(results, written)
        return
    console.show_videos(results, ("shots", "scenes"), written, as_json)
    if not as_json:
        console.suggest_next("report" if files.report else "predict", output)


def _export(result: VideoResult, to: tuple[str, ...], read: tuple[Path | None, ...]) -> VideoResult:
    """Export a video's result; return it with the exports' warnings, or as failed if an export fails."""
    if result.status == "failed" or not to:
        return result
    from pipelines.stages.export import export  # start-up time: NumPy, PyAV

    exported = [beside(result.output, FORMATS[name].extension) for name in to]
    try:
        check_inputs_kept(exported, read)
        warnings = export(result.output, ExportSettings(to)).warnings
    except BasslError as error:
        return replace(result, status="failed", error=name_input(error, result.video, result.output, *exported))
    return replace(result, warnings=(*result.warnings, *warnings))
