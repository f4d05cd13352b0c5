"""The scenes of a video in the format of another tool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.datasets.scene_files import read_scene_list, with_video
from pipelines.files import check_inputs_kept
from pipelines.outputs.exports import FORMATS, export as write_export, format_of
from pipelines.outputs.results import beside
from pipelines.scenes import NO_VIDEO
from pipelines.stages.settings import ExportSettings
from pipelines.video.decoding import check_same_video
from pipelines.video.inputs import video_at


@dataclass(frozen=True)
class ExportResult:
    """The file that was written, how many scenes, or shots, it lists, and lines on what may be wrong with it."""

    path: Path
    listed: int
    warnings: tuple[str, ...] = ()


def export(file: Path | str, settings: ExportSettings) -> ExportResult:
    """Write the scenes of a ``scenes.json`` in another format. Raises BasslError for a ``scenes.json`` that cannot be
    read, a named video that is another one, an extension of no format or of several, or a path that cannot be written,
    is the video or is the ``scenes.json``."""
    file, output = Path(file), settings.run.output
    if settings.to is not None:
        name = settings.to
    else:
        assert output is not None  # checked by the settings
        name = format_of(output)
    if output is None:
        output = beside(file, FORMATS[name].extension)
    check_inputs_kept((output,), (file, settings.listed.video))
    listed = read_scene_list(file)
    scenes = with_video(listed, settings.listed.video)
    if settings.listed.video is not None:
        check_same_video(settings.listed.video, listed)
    write_export(scenes, output, name, settings.listed.shots)
    missing = FORMATS[name].media and video_at(Path(scenes.video.path), scenes.video) is None
    warnings = FORMATS[name].warnings(scenes, settings.listed.shots)
    if missing:
        warnings += (f"{scenes.video.path}: {NO_VIDEO}; {output} refers to it all the same",)
    return ExportResult(output, len(scenes.shots if settings.listed.shots else scenes.scenes), warnings)
