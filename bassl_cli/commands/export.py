"""``bassl export``: the scenes of a film into the format of another tool."""

from __future__ import annotations

from bassl_cli import console
from bassl_cli.options import SCENES, SceneFile, with_settings
from pipelines.stages.export import ExportSettings, export as stage


@with_settings(flags={"output": "--output -o"}, metavars={"to": "FORMAT"})
def export(settings: ExportSettings, file: SceneFile = SCENES, quiet: console.Quiet = False) -> None:
    """Convert scenes for an editing tool, a player, a table or a labelling tool.

    Example: bassl export scenes.json --to edl
    """
    result = stage(file, settings)
    for warning in result.warnings:
        console.warn(warning)
    if not quiet:
        console.say(f"{console.count(result.listed, 'shot' if settings.shots else 'scene')}; wrote {result.path}")
