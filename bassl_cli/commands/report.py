"""``bassl report``: a page to look at the scenes of a film and to correct them."""

from __future__ import annotations

from bassl_cli import console
from bassl_cli.options import SCENES, SceneFile, with_settings
from pipelines.errors import BasslError
from pipelines.stages.report import ReportSettings, report as stage


@with_settings(
    flags={"output": "--output -o"}, metavars={"output": "PAGE.HTML", "tolerance": "SECONDS", "keyframes": "FOLDER"}
)
def report(settings: ReportSettings, file: SceneFile = SCENES, quiet: console.Quiet = False) -> None:
    """Make a page of a film's scenes: to look at them, to try thresholds, to correct and save them.

    One HTML file for any browser, without a network.

    Example: bassl report scenes.json --truth truth.csv
    """
    if not file.exists():
        raise BasslError(f"{file}: no such file; make it with: bassl predict FILM -o {file}")
    with console.stage_progress(quiet, file.name) as progress:
        result = stage(file, settings, progress)
    for warning in result.warnings:
        console.warn(warning)
    if not quiet:
        for note in result.notes:
            console.note(note)
        console.say(
            f"{console.count(result.scenes, 'scene')}, {console.count(result.shots, 'shot')}; wrote {result.path}"
        )
