"""Resolve a stage's input to scenes: scenes from a program, a ``scenes.json``, or a video's result."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from shlex import quote
from string import Template

from pipelines.datasets.scenes_json import read_scene_list, with_video
from pipelines.errors import BasslError, DatasetError
from pipelines.files import check_names_folder
from pipelines.results.finding import check_one_video, existing_result, find_result, is_video, own_name
from pipelines.scenes import NO_VIDEO, SceneData
from pipelines.settings import OutputSettings
from pipelines.video.containers import check_same_video
from pipelines.video.inputs import listed_id, video_at


@dataclass(frozen=True)
class OpenedScenes:
    """Scenes, with the path of their video, None if it is missing or was replaced by another, and of the
    ``scenes.json`` that was read, None for scenes from a program. Files of the scenes are named after ``result``."""

    scenes: SceneData
    video: Path | None
    file: Path | None
    result: Path

    @property
    def name(self) -> str:
        """Return what files of the video are called."""
        return _name_of(self.scenes)

    def existing_video(self) -> Path:
        """Return the video. Raises BasslError if it was not found."""
        if self.video is None:
            raise BasslError(f"{self.scenes.video.path}: {NO_VIDEO}")
        check_same_video(self.video, self.scenes)
        return self.video


def open_scenes(source: SceneData | Path | str, video: Path | None = None) -> OpenedScenes:
    """Read scenes, and find their video. ``source``: scenes, a ``scenes.json`` (``-`` is stdin), or a video with a
    result, see `find_result`; ``video``: the video of the scenes, instead of the one recorded in them. Raises
    BasslError, one line, for a ``scenes.json`` that is missing, cannot be read, or belongs to another video."""
    if isinstance(source, SceneData):
        file, stored = None, source
    else:
        source = Path(source)
        file = existing_result(source)
        stored = read_scene_list(file)
        if is_video(source) and video is None:
            if video_at(source, stored.video) is None:
                command = f"bassl predict {quote(str(source))}"
                raise BasslError(f"{file}: has the scenes of another video than {source}; run: {command}")
            video = source
    scenes = with_video(stored, video)
    if video is not None:
        check_same_video(video, stored)
    default = Path(f"{_name_of(scenes)}.scenes.json")
    return OpenedScenes(scenes, video_at(Path(scenes.video.path), scenes.video), file, file or default)


def _name_of(scenes: SceneData) -> str:
    return own_name(PureWindowsPath(scenes.video.path), listed_id(scenes.video))


def check_several(sources: Sequence[Path], template: str, run: OutputSettings, video: Path | None) -> None:
    """Check that files of several results, with names from a template, cannot replace each other. Raises BasslError;
    also if ``video`` is named for several, or the folder of the files has the name of a file."""
    if run.output is not None:
        check_names_folder(run.output)
    check_one_video(sources, video)
    if len(sources) == 1 or not run.overwrite:  # a file that exists is an error
        return
    if run.output is not None and "VIDEO_NAME" not in Template(template).get_identifiers():
        raise BasslError("files of one video would replace files of another; add $VIDEO_NAME to `filename`")
    by_id: dict[str, Path] = {}
    for source in sources:
        with suppress(DatasetError):  # it fails in its turn
            name = _name_of(read_scene_list(find_result(source)))
            if (other := by_id.setdefault(name, source)) != source:
                raise BasslError(f"{source} and {other}: are of videos with one name, {name}; write them one at a time")
