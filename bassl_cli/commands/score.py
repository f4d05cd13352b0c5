"""``bassl score``: a model or lists of scenes in, how well they do out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from bassl_cli import console
from pipelines.errors import BasslError
from pipelines.files import check_writable
from pipelines.progress import ReportProgress
from pipelines.stages.score import Comparison, ScoreResult, ScoreSettings
from pipelines.stages.score import compare as score_two
from pipelines.stages.score import score as score_one

_defaults = ScoreSettings()


def score(
    subject: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN|SCENES",
            help="A run, a model file or 'default' (the model in the box), scored on an index; or, with TRUTH, a "
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
    compared: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--compare",
            metavar="A B",
            help="Two runs, or two predictions and then TRUTH: their difference, with its interval.",
            show_default=False,
        ),
    ] = None,
    index: Annotated[Path, typer.Option(help="Index of the films that a model is scored on.")] = _defaults.index,
    split: Annotated[
        str, typer.Option(help="Films of this split of the index; 'all' takes every labelled film.")
    ] = _defaults.split,
    features: Annotated[
        Path, typer.Option(metavar="PATH", help="Folder of feature stores, or the store to use.")
    ] = _defaults.features,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="A shot with at least this score ends a scene (unless given: 0.5 for a model, the scenes in the file "
            "for a list of scenes).",
            show_default=False,
        ),
    ] = _defaults.threshold,
    tolerance: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How far a scene end may lie from the end of the shot that takes it."),
    ] = _defaults.tolerance,
    within: Annotated[
        float, typer.Option(metavar="SECONDS", help="How far apart two boundaries may be to be one, for boundary F1.")
    ] = _defaults.within,
    frame_rate: Annotated[
        float | None,
        typer.Option(help="Frames a second of films and label files that do not say.", show_default=False),
    ] = _defaults.frame_rate,
    annotator: Annotated[int, typer.Option(help="Whose labels of BBC are read.")] = _defaults.annotator,
    doubtful: Annotated[
        str, typer.Option(help="MovieNet's label -1 in TRUTH: 'end' counts as a scene end, 'ignore' is left out.")
    ] = _defaults.doubtful,
    resamples: Annotated[
        int, typer.Option(help="Draws of films for the confidence intervals; 0 for none.")
    ] = _defaults.resamples,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = _defaults.seed,
    representation: Annotated[
        bool,
        typer.Option("--representation", help="Also how well features group by scene: kNN precision and NMI."),
    ] = _defaults.representation,
    device: Annotated[
        str, typer.Option(help="Where an encoder runs, if features have to be made: auto, cpu, cuda.")
    ] = _defaults.device,
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the numbers as .md, .tex, .csv or .json.", show_default=False),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the precision-recall curve and how true scores come, as .png, .svg or .pdf.",
            show_default=False,
        ),
    ] = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Say how well scenes are found.

    Numbers are percentages, with intervals by bootstrap over films.

    Example: bassl score runs/x --split test
    """
    if compared is not None:
        if truth is not None:
            raise BasslError("with --compare A B there is one more argument at most, the truth")
        subject, truth = None, subject
    elif subject is None:
        raise BasslError("nothing to score: name a run, 'default' for the model in the box, or a scenes.json")
    _check_files(table, plot)
    try:
        settings = ScoreSettings(
            index=index,
            split=split,
            features=features,
            threshold=threshold,
            tolerance=tolerance,
            within=within,
            frame_rate=frame_rate,
            annotator=annotator,
            doubtful=doubtful,  # type: ignore[arg-type]  # it says itself what it may be
            resamples=resamples,
            seed=seed,
            representation=representation,
            device=device,
        )
    except ValueError as error:
        raise BasslError(str(error)) from error
    result: ScoreResult | Comparison
    with _progress(quiet) as progress:
        if compared is not None:
            result = score_two(*compared, truth, settings, progress)
        else:
            assert subject is not None
            result = score_one(subject, truth, settings, progress)
    scored = (result.first, result.second) if isinstance(result, Comparison) else (result,)
    for problem in dict.fromkeys(problem for one in scored for problem in one.problems):
        console.complain(problem)
    if table is not None:
        from pipelines.stages.score.tables import save_table

        save_table(table, result)
    if plot is not None:
        from pipelines.outputs.figures.precision_recall import save_curves

        films = {one.name: one.films for one in scored}
        for warning in save_curves(plot, films, 0.5 if threshold is None else threshold):
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


def _check_files(table: Path | None, plot: Path | None) -> None:
    """See that what is to be written can be, before hours of work end there."""
    from pipelines.outputs.plots import check_plot
    from pipelines.stages.score.tables import check_table

    for path, check in ((table, check_table), (plot, check_plot)):
        if path is not None:
            check(path)
            check_writable(path)


def _show(result: ScoreResult | Comparison, scored: tuple[ScoreResult, ...]) -> None:
    from pipelines.stages.score.tables import table_of

    table = table_of(result)
    console.show_table(table.header, table.rows)
    for note in dict.fromkeys(note for one in scored for note in one.notes):
        console.say(f"note: {note}")
    films = scored[0].films
    if films:
        shots = sum(int(film.counted().sum()) for film in films)
        ends = sum(int(film.labels[film.counted()].sum()) for film in films)
        cut = "" if scored[0].threshold is None else f"; a score of {scored[0].threshold:g} ends a scene"
        console.say(
            f"{console.count(len(films), 'film')}, {console.count(shots, 'shot')}, "
            f"{console.count(ends, 'true scene end')}{cut}"
        )


@contextmanager
def _progress(quiet: bool) -> Iterator[ReportProgress]:
    """A bar over the films to score, or the shots to encode, with the time left."""
    if quiet or not console.err.is_terminal:
        seen: set[str] = set()

        def line(stage: str, done: float, total: float | None) -> None:
            if not quiet and stage not in seen:
                seen.add(stage)
                console.say(f"{stage} {total or 0:,.0f} {'films' if stage == 'scoring' else 'shots'}")

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeRemainingColumn(compact=True), console=console.err, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: float, total: float | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield show
