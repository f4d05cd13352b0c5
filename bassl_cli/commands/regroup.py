"""``bassl regroup``: other scenes from the scores of a scenes.json."""

from __future__ import annotations

from bassl_cli import console
from bassl_cli.options import Results, with_settings
from pipelines.files import STDIO, output_path
from pipelines.outputs.results import find_result
from pipelines.stages.settings import RegroupSettings


@with_settings(spellings={"drop_short": "--drop-short/--no-drop-short"})
def regroup(
    settings: RegroupSettings,
    sources: Results = [],
    group_by: console.GroupBy = None,
    as_json: console.Json = False,
) -> None:
    """Find other scenes from the same scores, without reading the video again.

    The scenes.json is changed in place, unless -o names another file. Scenes that were corrected by hand stay.

    Examples: bassl regroup movie.mp4 --threshold 0.4, bassl regroup scenes/ --min-scene 10
    """
    from pipelines.stages.regroup import regroup as stage, regroup_videos  # start-up time: NumPy

    if len(sources) > 1:
        with console.videos_progress(len(sources)) as progress:
            results = regroup_videos(sources, settings, progress)
        notes = [note for result in results for note in result.notes]
        if notes:
            console.note(notes[0] + f" (and {len(notes) - 1} more)" * (len(notes) > 1))
        written = (
            f"scenes in {console.display_path(settings.run.output)}" if settings.run.output else "written in place"
        )
        console.show_videos(results, ("shots", "scenes"), written, as_json)
        if not as_json:
            console.suggest_next("regroup", *([settings.run.output] if settings.run.output else sources))
        return
    (source,) = sources
    result, output = stage(source, settings), output_path(settings.run.output, find_result(source))
    console.warn(*result.warnings)
    if output == STDIO:
        return
    console.note(*result.notes)
    if as_json:
        console.print_json(result.to_dict())
    else:
        console.show_scenes(result, group_by == "setting")
        console.print_info(f"{console.count(len(result.scenes), 'scene')}; wrote {console.display_path(output)}")
        console.suggest_next("regroup", source if settings.run.output is None else output)
