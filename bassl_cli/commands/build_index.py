"""``bassl build-index``: sources of shots, key-frames and labels in, one sequence index out."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bassl_cli import console
from pipelines.errors import BasslError
from pipelines.stages.build_index import IndexReport, IndexSettings, missing, statistics
from pipelines.stages.build_index import build_index as build
from pipelines.stages.extract_keyframes import ExtractSettings

if TYPE_CHECKING:
    from pipelines.stores.index import Index

_defaults = IndexSettings()
_KEYFRAMES = ExtractSettings().output


def build_index(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders of key-frame stores, MovieNet, BBC, OVSD, .npz features or scenes.json files "
            f"(unless given: {_KEYFRAMES}).",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The index.")] = _defaults.output,
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH", help="Label files for the videos of the sources; may be repeated.", show_default=False
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES|FILE",
            help="Draw splits by video: 0.6,0.2,0.2 for train, val, test; or a JSON file with the ids of each split.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = _defaults.seed,
    doubtful: Annotated[
        str, typer.Option(help="MovieNet's label -1: 'end' counts as a scene end, 'ignore' is left out.")
    ] = _defaults.doubtful,
    tolerance: Annotated[
        float, typer.Option(metavar="SECONDS", help="How far a label may lie from the end of its shot.")
    ] = _defaults.tolerance,
    annotator: Annotated[int, typer.Option(help="Whose labels of BBC are read.")] = _defaults.annotator,
    features: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where features in the sources are stored.")
    ] = _defaults.features,
    pack: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Pack folders of JPEG files into stores there.", show_default=False),
    ] = _defaults.pack,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Make the index again.")] = _defaults.overwrite,
    show: Annotated[bool, typer.Option("--show", help="Only show the index that is there.")] = False,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Index all shots of all videos for training.

    Example: bassl build-index data/keyframes --labels labels/ --split 0.6,0.2,0.2
    """
    if show:
        from pipelines.stores.index import read_index

        if sources or labels:
            raise typer.BadParameter("--show reads the index that is there; name it with --output")
        index = read_index(output)
        report = IndexReport(index, {}, tuple(missing(index)))
    else:
        settings = IndexSettings(
            output=output,
            labels=tuple(labels or ()),
            split=None if split is None else _shares(split),
            seed=seed,
            doubtful=cast(Any, doubtful),
            tolerance=tolerance,
            annotator=annotator,
            features=features,
            pack=pack,
            overwrite=overwrite,
        )
        if not sources and not _KEYFRAMES.exists():
            raise BasslError(
                f"{_KEYFRAMES}: no such folder; run `bassl extract-keyframes` first, or name what to index"
            )
        report = build(sources or [_KEYFRAMES], settings)
    for video, match in report.matches.items():
        if match.unmatched and not quiet:
            places = ", ".join(f"{place:.1f}" for place in match.unmatched[:5])
            console.warn(
                f"{video}: {len(match.unmatched)} of {match.scene_ends} scene ends found no shot end within the "
                f"tolerance (at {places}{', ...' if len(match.unmatched) > 5 else ''} s)"
            )
    if as_json:
        typer.echo(json.dumps(_plain(report), indent=1))
    elif not quiet:
        _show(report.index)
        for note in report.notes:
            console.say(f"note: {note}")
        matched = sum(match.matched for match in report.matches.values())
        if report.matches:
            ends = sum(match.scene_ends for match in report.matches.values())
            mean = sum(match.mean_distance * match.matched for match in report.matches.values()) / max(1, matched)
            console.say(f"labels: {matched} of {ends} scene ends matched, {mean:.2f} s away on average")
        if not show:
            console.say(f"wrote {output}")


def _shares(text: str) -> tuple[float, ...] | Path:
    if text.lower().endswith(".json"):
        return Path(text)
    try:
        return tuple(float(share) for share in text.split(","))
    except ValueError as error:
        raise BasslError(f"a split is shares such as 0.6,0.2,0.2 or a .json file, not {text!r}") from error


def _show(index: Index) -> None:
    rows = []
    for row in statistics(index):
        hours = "" if row.hours is None else f"{row.hours:.1f}"
        counts = (f"{count:,}" for count in (row.videos, row.labelled, row.scenes, row.shots))
        rows.append((row.split, *counts, hours))
    console.show_table(("split", "videos", "labelled", "scenes", "shots", "hours"), rows)


def _plain(report: IndexReport) -> dict[str, Any]:
    return {
        "index": str(report.index.path),
        "splits": [asdict(row) for row in statistics(report.index)],
        "matches": {video: asdict(match) for video, match in report.matches.items()},
        "notes": list(report.notes),
    }
