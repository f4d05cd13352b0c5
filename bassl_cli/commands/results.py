"""Commands that work on a video's result: view, correct, learn, cut and export."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from pipelines.errors import BasslError
from pipelines.files import STDIO, is_file, output_path
from pipelines.options import with_options
from pipelines.outputs.exports import FORMATS
from pipelines.outputs.tables import percent
from pipelines.results.finding import check_one_video, expand_results, find_result, is_video, make_output_folder
from pipelines.scenes import timecode
from pipelines.settings import SceneSelection
from pipelines.stages.settings import (
    ExportSettings,
    ImageSettings,
    LearnSettings,
    RegroupSettings,
    ReportSettings,
    ReviewSettings,
    SplitSettings,
)

# Stages are imported by the command that runs: they load NumPy, PyAV or Jinja.

_METAVAR = "[VIDEO|SCENES.JSON|FOLDER]..."
_HELP = "Videos with a result of predict, scenes.json files, or folders. Default: the only scenes.json in this folder."
Results = Annotated[
    list[Path], typer.Argument(metavar=_METAVAR, help=_HELP, show_default=False, callback=expand_results)
]


@with_settings()
def report(settings: ReportSettings, sources: Results = []) -> None:
    """Make a page of a video's scenes, to view, correct and save them and to try thresholds.

    One HTML file for any browser, without a network. Several videos have a page each, and index.html shows them all.

    Examples: bassl report movie.mp4, bassl report videos/"""
    from pipelines.stages.report import index_path, report as stage, report_videos

    if len(sources) > 1:
        with console.videos_progress(len(sources)) as show:
            results = report_videos(sources, settings, show)
        console.print_summary(results, f"{console.display_path(index_path(sources, settings))} shows all pages")
    else:
        with console.stage_progress(sources[0].name) as progress:
            result = stage(sources[0], settings, progress)
        console.warn(*result.warnings)
        counts = f"{console.count(result.scenes, 'scene')}, {console.count(result.shots, 'shot')}"
        console.print_written(counts, result.output)
    console.suggest_next("report", *sources)


@with_settings()
def review(settings: ReviewSettings, sources: Results = []) -> None:
    """Review a video's scenes in the browser, at the cuts the model is least sure of.

    Opens a page that only this machine can reach, to save and export there, until Done or Ctrl-C; prints its address.
    The page shows eight shots at a time; what you confirm holds for all settings. Several videos follow one another.
    The scenes of a video without a result are found first, as bassl predict does without options.

    Examples: bassl review movie.mp4, bassl review videos/"""
    from pipelines.outputs.server import ReviewServer
    from pipelines.stages.review import ReviewSession, ssh_command

    check_one_video(sources, settings.selection.video)
    number, step, is_shown = 0, 1, False

    def in_turn() -> Iterator[Path]:
        nonlocal number, step
        while number < len(sources):
            yield sources[number]  # one that fails is passed over in either direction
            step = step if number + step >= 0 else 1
            number += step

    with ReviewServer() as server:

        def review_one(source: Path) -> None:
            nonlocal is_shown, step
            _predict_new(source)
            following = sources[number + 1].name if number + 1 < len(sources) else ""
            with console.stage_progress(source.name) as progress:
                turn = number + 1, len(sources), following
                session = ReviewSession(source, settings, progress, console.print_info, turn)
            console.warn(*session.warnings)
            server.show(session)
            try:
                if not is_shown:
                    _show_address(f"{server.address}#review", server.open_browser(), ssh_command(server.port))
                    is_shown = True
                step = server.wait()
            finally:
                result = session.finish()
                console.note(*result.notes)
                if not result.saved:
                    console.print_info(f"{console.display_path(result.result)} is unchanged")
                console.suggest_next("review", source)

        console.run_each(sources, review_one, order=in_turn())


def _predict_new(video: Path) -> None:
    """Find the scenes of a video that has no result yet, with the default settings."""
    result = find_result(video)
    if is_file(result) or not is_video(video):
        return
    from pipelines.stages.predict import PredictSettings, file_task, predict_task
    from pipelines.stages.predict.model import SceneModel

    task = file_task(video, result, PredictSettings())
    console.print_info(f"{console.display_path(result)} does not exist: finding its scenes first")
    with console.stage_progress(video.name) as progress:
        scenes, _ = predict_task(SceneModel(task.settings), task, progress)
    console.warn(*scenes.warnings)
    console.print_written(console.count(len(scenes.scenes), "scene"), result)


def _show_address(address: str, is_opened: bool, ssh_command: str | None) -> None:
    if not (is_opened and console.quiet):  # a browser that starts may still not show it
        typer.echo(address)
    if ssh_command:
        console.print_info(f"over SSH: run this on your own computer first, then open the address there: {ssh_command}")
    else:
        console.print_info("opening it in the browser" if is_opened else "no browser found; open this address yourself")
    console.print_info("Done in the page, or Ctrl-C here, ends the review")


@with_settings()
def regroup(settings: RegroupSettings, sources: Results = [], as_json: console.Json = False) -> None:
    """Find other scenes from the same scores, without reading the video again.

    The scenes.json is changed in place, unless -o names another file. Scenes that were corrected by hand stay.

    Examples: bassl regroup movie.mp4 --threshold 0.4, bassl regroup scenes/ --min-scene 10"""
    from pipelines.stages.regroup import regroup as stage, regroup_videos

    output, source = settings.run.output, sources[0]
    if len(sources) > 1:
        with console.videos_progress(len(sources)) as progress:
            results = regroup_videos(sources, settings, progress)
        notes = [note for result in results for note in result.notes]
        console.note(*(f"{notes[0]} (and {len(notes) - 1} more)",) if len(notes) > 1 else notes)
        written = f"scenes in {console.display_path(output)}" if output else "written in place"
        console.show_videos(results, ("shots", "scenes"), written, as_json)
        console.suggest_next("regroup", *([output] if output else sources))
        return
    result, path = stage(source, settings), output_path(output, find_result(source))
    console.warn(*result.warnings)
    if path == STDIO:
        return
    console.note(*result.notes)
    if as_json:
        console.print_json(result.to_dict())
    else:
        console.show_scenes(result)
        console.print_written(console.count(len(result.scenes), "scene"), path)
        console.suggest_next("regroup", source if output is None else path)


@with_settings()
def learn(settings: LearnSettings, sources: Results = [], as_json: console.Json = False) -> None:
    """Learn from videos whose scenes were corrected, and write a model for predict.

    Correct all scenes of three videos or more of one kind, such as episodes of a series; all of them count as right.

    Examples: bassl learn videos/, then bassl predict new.mp4 --model my.safetensors"""
    from pipelines.stages.learn import learn as stage

    with console.videos_progress(len(sources)) as progress:
        result = stage(sources, settings, progress)
    if as_json:
        console.print_json(result)
    learned = sum(video.status != "failed" for video in result.videos)
    source = f"{console.count(learned, 'video')} with {console.count(result.scene_ends, 'scene end')}"
    if result.strength is not None:
        outcome = f"learned from {source}"
    elif not result.measured:
        outcome = f"{source}: the threshold of the built-in model is adjusted; its weights need more videos"
    elif result.adapted:
        outcome = f"{source}: no better than the built-in weights, which are kept; only the threshold is adjusted"
    else:
        outcome = f"{source}: no better than the built-in model, which is written unchanged"
    console.print_info(outcome)
    if result.measured:
        ap, f1, own_ap, own_f1 = (percent(result.measured[name]) for name in ("ap_before", "f1_before", "ap", "f1"))
        scores = f"AP {ap} and {own_ap}, F1 {f1} and {own_f1}"
        console.print_info(f"on videos left out in turn, built-in and own model: {scores}")
    console.print_summary(result.videos, f"wrote {console.display_path(result.output)}")
    console.suggest_next("learn", result.output)


@with_settings(
    spellings={"to": "FORMAT,..."},
    notes="Formats:\n\n" + "\n".join(f"{name}: {form.purpose}" for name, form in FORMATS.items()),
)
def export(settings: ExportSettings, sources: Results = []) -> None:
    """Convert scenes for an editing tool, a player, a table or a labeling tool.

    Examples: bassl export movie.mp4 --to edl,youtube, bassl export videos/ --to csv -o tables/"""
    from pipelines.stages.export import export as stage

    check_one_video(sources, settings.selection.video)
    if len(sources) > 1 and not settings.to:
        raise BasslError("several results are exported with --to FORMAT; -o names a folder")
    make_output_folder(sources, settings.run.output)

    def export_one(source: Path) -> console.Written:
        with console.stage_progress(source.name) if settings.vectors else nullcontext() as progress:
            result = stage(source, settings, progress)
        console.warn(*result.warnings)
        unit = "shot" if settings.selection.shots else "scene"
        return console.count(result.listed, unit), result.paths, ()

    console.run_each(sources, export_one)


@with_settings(spellings={"output": "FOLDER", "filename": "-f TEMPLATE"})
def split(
    settings: SplitSettings,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar=_METAVAR,
            help=f"{_HELP} A video and a scenes.json: the scenes of that video.",
            show_default=False,
        ),
    ] = [],
    chapters: Annotated[
        bool, typer.Option("--chapters", help="Do not cut: write a copy of the video with its scenes as chapters.")
    ] = False,
    as_json: console.Json = False,
) -> None:
    """Cut a video into its scenes.

    Without --exact nothing is encoded: each clip begins with the key frame before its scene.

    Examples: bassl split movie.mp4 --exact, bassl split videos/ -o clips/"""
    from pipelines.results.opening import check_several, open_scenes
    from pipelines.stages.split import split as stage, write_chapters

    if chapters and settings != SplitSettings(settings.run, SceneSelection(settings.selection.video)):
        raise BasslError("--chapters copies the video in one piece, so only --output, --overwrite and --video fit it")
    if [is_video(source) and not source.is_dir() for source in sources] == [True, False]:
        settings, sources = with_options(settings, video=sources[0]), sources[1:]
    else:
        sources = expand_results(sources)
    check_several(sources, settings.filename, settings.run, settings.selection.video)

    def split_one(source: Path) -> console.Written:
        opened = open_scenes(source, settings.selection.video)
        with console.stage_progress(opened.existing_video().name) as progress:
            if chapters:
                copy = write_chapters(opened.scenes, settings, progress)
                return console.count(len(opened.scenes.scenes), "chapter"), [copy], [{"chapters": copy}]
            clips = stage(opened.scenes, settings, progress)
        if not as_json:
            columns = ("scene", "start", "end", "early", "late")[: 3 if settings.exact else 5]
            rows = []
            for clip in clips:
                differences = ["kept" if value is None else f"{value:.3f} s" for value in (clip.early, clip.late)]
                row = (str(clip.scene + 1), timecode(clip.start), timecode(clip.end), *differences)
                rows.append(row[: len(columns)])
            console.show_table(columns, rows, text=(), title=str(source) * (len(sources) > 1))
        if early := [clip.early for clip in clips if clip.early]:
            scenes = f"{console.count(len(early), 'scene')} of {len(clips)} begin early"
            lengths = f"{sum(early) / len(early):.2f} s on average and {max(early):.2f} s at most"
            console.warn(f"cuts are at key frames: {scenes}, by {lengths}; --exact cuts to the frame")
        return console.count(len(clips), "clip"), [clips[0].path.parent], clips

    console.run_each(sources, split_one, as_json)


@with_settings(
    spellings={"output": "FOLDER", "images": "-n N", "filename": "-f TEMPLATE", "width": "PIXELS", "height": "PIXELS"},
)
def save_images(settings: ImageSettings, sources: Results = [], as_json: console.Json = False) -> None:
    """Save images of the scenes of a video, or of its shots.

    Images are taken away from cuts and dissolves, by seeking if the format of the video allows it.

    Examples: bassl save-images movie.mp4 -n 1 --width 640, bassl save-images videos/ -o images/"""
    from pipelines.results.opening import check_several
    from pipelines.stages.save_images import save_images as stage

    check_several(sources, settings.template, settings.run, settings.selection.video)

    def save(source: Path) -> console.Written:
        with console.stage_progress() as progress:
            images = stage(source, settings, progress)
        return console.count(len(images), "image"), [images[0].path.parent], images

    console.run_each(sources, save, as_json)
