"""``bassl score``: metrics of a model, or of lists of scenes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from pipelines.errors import BasslError
from pipelines.files import check_writable
from pipelines.outputs.plots import check_plot
from pipelines.stages.score import Comparison, ScoreResult, ScoreSettings, compare as score_two, score as score_one


@with_settings(metavars={"features": "PATH", "tolerance": "SECONDS", "within": "SECONDS"})
def score(
    settings: ScoreSettings,
    subject: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN|SCENES",
            help="A run, a model file or 'default' (the built-in model), scored on an index; or, with TRUTH, a "
            "scenes.json, another list of scenes, or a folder of them.",
            show_default=False,
        ),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Argument(
            help="True scenes: scenes.json, CSV, .npz, or label files of BBC, OVSD or MovieNet; or a folder, matched "
            "by name.",
            show_default=False,
        ),
    ] = None,
    truths: Annotated[
        list[Path] | None,
        typer.Option(
            "--truth",
            metavar="PATH",
            help="Instead of TRUTH, twice or more: the labels of an annotator each. Shows each, their mean, and how "
            "the annotators score against each other.",
            show_default=False,
        ),
    ] = None,
    compared: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--compare",
            metavar="A B",
            help="Two runs, or two predictions and then TRUTH: their difference, with its interval.",
            show_default=False,
        ),
    ] = None,
    table: console.Table = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the precision-recall curve and a reliability diagram, as .png, .svg or .pdf.",
            show_default=False,
        ),
    ] = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Measure how well scenes are found.

    Metrics are percentages, with confidence intervals by bootstrap over films.

    Example: bassl score runs/x --split test
    """
    from pipelines.stages.score import tables  # start-up time: numpy

    if truths and (compared is not None or plot is not None):
        raise BasslError("--truth compares annotators; leave out --compare and --plot")
    if compared is not None:
        if truth is not None:
            raise BasslError("with --compare A B there is one more argument at most, the truth")
        subject, truth = None, subject
    elif subject is None:
        raise BasslError("nothing to score: name a run, 'default' for the built-in model, or a scenes.json")
    for path, check in ((table, tables.check_table), (plot, check_plot)):
        if path is not None:  # an error now, not after hours of work
            check(path)
            check_writable(path)
    if truths:
        assert subject is not None
        _score_annotators(subject, [*([truth] if truth else []), *truths], settings, table, as_json, quiet)
        return
    result: ScoreResult | Comparison
    with console.stage_progress(quiet) as progress:
        if compared is not None:
            result = score_two(*compared, truth, settings, progress)
        else:
            assert subject is not None
            result = score_one(subject, truth, settings, progress)
    scored = (result.first, result.second) if isinstance(result, Comparison) else (result,)
    for problem in dict.fromkeys(problem for one in scored for problem in one.problems):
        console.complain(problem)
    if table is not None:
        tables.save_table(table, result)
    if plot is not None:
        from pipelines.outputs.figures.precision_recall import save_curves  # start-up time: matplotlib

        films = {one.name: one.films for one in scored}
        for warning in save_curves(plot, films, 0.5 if settings.threshold is None else settings.threshold):
            console.warn(warning)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=1, allow_nan=False))
    elif not quiet:
        _show(result, scored)
        written = ", ".join(str(path) for path in (table, plot) if path is not None)
        if written:
            console.say(f"wrote {written}")
    if any(one.problems for one in scored):
        raise typer.Exit(1)


def _score_annotators(
    subject: Path,
    truths: list[Path],
    settings: ScoreSettings,
    file: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    from pipelines.evaluation.bootstrap import METRICS  # start-up time: numpy
    from pipelines.stages.score.annotators import annotator_table, score_annotators
    from pipelines.stages.score.tables import write_table

    result = score_annotators(subject, truths, settings)
    every = (*result.scores.values(), *result.between.values())
    problems = dict.fromkeys(problem for one in every for problem in one.problems)
    for problem in problems:
        console.complain(problem)
    shown = annotator_table(result, METRICS)
    if file is not None:
        write_table(file, shown, result.to_dict())
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=1, allow_nan=False))
    elif not quiet:
        for note in dict.fromkeys(note for one in result.scores.values() for note in one.notes):
            console.note(note)
        console.show_table(shown.header, shown.rows)
    if problems:
        raise typer.Exit(1)


def _show(result: ScoreResult | Comparison, scored: tuple[ScoreResult, ...]) -> None:
    from pipelines.stages.score.tables import table_of  # start-up time: numpy

    for note in dict.fromkeys(note for one in scored for note in one.notes):
        console.note(note)
    table = table_of(result)
    console.show_table(table.header, table.rows)
    films = scored[0].films
    if films:
        shots = sum(int(film.counted().sum()) for film in films)
        ends = sum(int(film.labels[film.counted()].sum()) for film in films)
        cut = "" if scored[0].threshold is None else f"; a score of {scored[0].threshold:g} ends a scene"
        console.say(
            f"{console.count(len(films), 'film')}, {console.count(shots, 'shot')}, "
            f"{console.count(ends, 'true scene end')}{cut}"
        )
