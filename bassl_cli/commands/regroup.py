"""``bassl regroup``: other scenes from the scores of a scenes.json."""

from __future__ import annotations

from bassl_cli import console
from bassl_cli.options import SCENES, SceneFile, with_settings
from pipelines.files import STDIO
from pipelines.stages.settings import RegroupSettings, regrouped_path


@with_settings(flags={"drop_short": "--drop-short/--no-drop-short"})
def regroup(
    settings: RegroupSettings, file: SceneFile = SCENES, as_json: console.Json = False, quiet: console.Quiet = False
) -> None:
    """Find other scenes from the same scores, without reading the video again.

    Example: bassl regroup scenes.json --scenes 12 -o twelve.json
    """
    from pipelines.stages.regroup import regroup as stage  # start-up time: NumPy

    result = stage(file, settings)
    for warning in result.warnings:
        console.warn(warning)
    if settings.run.output == STDIO:
        return
    if as_json:
        console.print_json(result.to_dict())
    elif not quiet:
        console.show_scenes(result)
        console.say(f"{console.count(len(result.scenes), 'scene')}; wrote {regrouped_path(file, settings)}")
