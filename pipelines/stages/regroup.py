"""Other scenes from the scores of a ``scenes.json``, without reading the video again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.errors import BasslError
from pipelines.files import STDIO, check_inputs_kept
from pipelines.options import Seconds, accept_text
from pipelines.outputs.corrections import CHOICE, check_replaceable
from pipelines.outputs.exports import is_scenes_json
from pipelines.scenes import DROP_SHORT_ALONE, SceneList
from pipelines.stages.predict.settings import PredictSettings


@dataclass(frozen=True)
class RegroupSettings:
    """Which scenes are wanted, see `PredictSettings`."""

    output: Path | None = None
    """File to write, - for stdout. Unless given: SCENES.regrouped.json beside the input."""
    threshold: float | None = None
    """A shot with at least this score ends a scene; a lower one gives more scenes. Unless given: that of the
    file."""
    min_scene: Seconds | None = None
    """Shortest scene, in seconds or as a timecode. Unless given: that of the file."""
    drop_short: bool | None = None
    """Leave out shorter scenes, instead of joining them to others. Unless given: as in the file."""
    scenes: int | None = None
    """Number of scenes: the most probable ones, whatever the threshold."""
    overwrite: bool = False
    """Replace a file that was corrected by hand, or is of another video."""

    def __post_init__(self) -> None:
        accept_text(self)
        PredictSettings(**self.given)  # refuses the same values

    @property
    def given(self) -> dict[str, Any]:
        """The settings of prediction among them that are not None."""
        return {name: value for name in CHOICE if (value := getattr(self, name)) is not None}


def regrouped_path(file: Path, settings: RegroupSettings) -> Path:
    """Where the result of a ``scenes.json`` is written."""
    name = "scenes" if file == STDIO else file.name.removesuffix(".json")
    return settings.output or file.with_name(f"{name}.regrouped.json")


def regroup(file: Path | str, settings: RegroupSettings = RegroupSettings()) -> SceneList:
    """Choose scene ends again, as `predict` would with these settings, and write the result.

    Names of scenes that have the same shots as before are kept.

    Args:
        file: the ``scenes.json``.
        settings: which scenes.

    Raises:
        BasslError: one line, for a ``scenes.json`` that cannot be read, scenes that the shots do not allow, or an
            output that cannot be written or is the input.
    """
    from pipelines.datasets.scene_list import read_scene_list  # start-up time: NumPy
    from pipelines.models.scene_ends import choose_scenes  # start-up time: NumPy

    file = Path(file)
    output = regrouped_path(file, settings)
    if output != STDIO and not is_scenes_json(output):
        raise BasslError(f"{output}: regroup writes a .json; bassl export makes other formats of it")
    before = read_scene_list(file)
    check_inputs_kept((output,), (file, Path(before.video.path)))
    if not settings.overwrite and output != STDIO:
        known = before.video.id, before.video.fingerprint
        given = {scene.name for scene in before.scenes if scene.name is not None}
        check_replaceable(output, before.video.path, lambda video: (video.id, video.fingerprint) == known, given)
    stored = {name: value for name, value in before.settings.items() if name in CHOICE and name != "scenes"}
    try:
        wanted = PredictSettings(**{**stored, **settings.given})
    except (TypeError, ValueError) as error:
        raise BasslError(f"{file}: its settings are not those of a prediction ({error})") from error
    if settings.drop_short and not wanted.min_scene:
        raise BasslError(DROP_SHORT_ALONE)
    names = {(scene.start_shot, scene.end_shot): scene.name for scene in before.scenes}
    chosen = {name: getattr(wanted, name) for name in CHOICE}
    scenes = tuple(
        replace(scene, name=names.get((scene.start_shot, scene.end_shot)))
        for scene in choose_scenes(before.shots, **chosen)
    )
    kept = {name: value for name, value in before.settings.items() if name != "edited_by_hand"}
    result = replace(before, settings={**kept, **chosen}, scenes=scenes)
    result.save(output)
    return result
