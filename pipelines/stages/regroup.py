"""Other scenes from the scores of a ``scenes.json``, without reading the video again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.datasets.scene_files import read_scene_list
from pipelines.errors import BasslError
from pipelines.files import STDIO, check_inputs_kept
from pipelines.models.scene_ends import choose_scenes, length_warnings
from pipelines.options import with_options
from pipelines.outputs.corrections import check_replaceable
from pipelines.outputs.exports import is_scenes_json
from pipelines.scenes import DROP_SHORT_ALONE, SceneData
from pipelines.settings import GROUPING
from pipelines.stages.settings import RegroupSettings, regrouped_path


def regroup(file: Path | str, settings: RegroupSettings = RegroupSettings(), **options: Any) -> SceneData:
    """Choose scene ends again, as `predict` would with these settings, and write the result.

    Names of scenes that have the same shots as before are kept.

    Args:
        file: the ``scenes.json``.
        settings: which scenes.
        options: options by name, such as ``min_scene``; they override ``settings``.

    Raises:
        BasslError: one line, for a ``scenes.json`` that cannot be read, scenes that the shots do not allow, or an
            output that cannot be written or is the input.
    """
    file, settings = Path(file), with_options(settings, **options)
    output = regrouped_path(file, settings)
    if output != STDIO and not is_scenes_json(output):
        raise BasslError(f"{output}: regroup writes a .json; bassl export makes other formats of it")
    before = read_scene_list(file)
    check_inputs_kept((output,), (file, Path(before.video.path)))
    if not settings.run.overwrite and output != STDIO:
        same = before.video.id, before.video.fingerprint
        names = {scene.name for scene in before.scenes if scene.name is not None}
        check_replaceable(output, before.video.path, lambda video: (video.id, video.fingerprint) == same, names)
    stored = {name: before.settings[name] for name in GROUPING if name in before.settings and name != "scenes"}
    try:
        values = settings.grouping.resolved(stored)
    except ValueError as error:
        raise BasslError(f"{file}: its settings are not valid for a prediction ({error})") from error
    if settings.grouping.drop_short and not values["min_scene"]:
        raise BasslError(DROP_SHORT_ALONE)
    name_of = {(scene.start_shot, scene.end_shot): scene.name for scene in before.scenes}
    scenes = tuple(
        replace(scene, name=name_of.get((scene.start_shot, scene.end_shot)))
        for scene in choose_scenes(before.shots, **values)
    )
    kept = {name: value for name, value in before.settings.items() if name != "edited_by_hand"}
    warnings = length_warnings(before.video.path, scenes, values)
    result = replace(before, settings={**kept, **values}, scenes=scenes, warnings=warnings)
    result.save(output)
    return result
