"""Cutting a video into one file per scene, or copying it with its scenes as chapters.

FFmpeg's libraries do the work, through PyAV; no FFmpeg program is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pipelines.files import new_files
from pipelines.options import Seconds, accept_text, nested, with_options
from pipelines.outputs.exports.segments import segments_of
from pipelines.outputs.names import check_template, file_names, padded_number
from pipelines.progress import ReportProgress
from pipelines.scenes import SceneList
from pipelines.settings import OutputSettings
from pipelines.video.inputs import listed_id

Preset = Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"]
_NAMES = ("VIDEO_NAME", "SCENE_NUMBER", "SCENE_NAME", "START_TIME", "END_TIME")


@dataclass(frozen=True)
class SplitSettings:
    """How a video is cut."""

    run: OutputSettings = nested(OutputSettings(), defaults={"output": "VIDEO-scenes in the current folder"})
    """Folder of the files."""
    exact: bool = False
    """Cut to the frame by encoding again (H.264 and AAC), instead of copying from the key frame before each cut."""
    crf: int | None = None
    """With exact: quality, 0 (lossless) to 51. Default: 18."""
    preset: Preset | None = None
    """With exact: speed of libx264. Default: fast."""
    expand: Seconds = 0.0
    """Time to add before and after each scene, as handles for an editor, in seconds or as a timecode."""
    filename: str = "$VIDEO_NAME-scene-$SCENE_NUMBER"
    """Name of each file, without ending, from $VIDEO_NAME, $SCENE_NUMBER, $SCENE_NAME, $START_TIME and $END_TIME."""

    def __post_init__(self) -> None:
        accept_text(self)
        if not 0 <= self.expand < math.inf:
            raise ValueError(f"--expand must be 0 seconds or more, not {self.expand:g}")
        if not self.exact and (self.crf is not None or self.preset is not None):
            raise ValueError("crf and preset apply only to encoding; add --exact, or leave them out to copy")
        if self.crf is not None and not 0 <= self.crf <= 51:
            raise ValueError(f"the crf must lie between 0 and 51, not {self.crf}")
        check_template(self.filename, _NAMES)


@dataclass(frozen=True)
class Clip:
    """One scene as a separate video. Times are in seconds of the whole video: ``start`` and ``end`` are the scene's,
    with its handles; the clip begins ``early`` seconds before and ends ``late`` seconds after them, both 0 in an exact
    cut."""

    scene: int
    path: Path
    start: float
    end: float
    early: float
    late: float


def split(
    video: Path | str,
    scenes: SceneList,
    settings: SplitSettings = SplitSettings(),
    progress: ReportProgress | None = None,
    **options: Any,
) -> tuple[Clip, ...]:
    """Cut a video into its scenes, with all of its sound tracks. Clips are returned in order, and appear together, when
    all are complete.

    Copied clips begin with the key frame at or before the scene's first frame: nothing of a scene is missing, and a
    part of the previous scene may be included. They have the video's subtitles too. Exact clips have only the frames
    of the scene. ``progress`` is called with the seconds of the video that are read. Raises BasslError if the video
    does not match ``scenes`` or cannot be cut, or a file already exists.
    """
    settings = with_options(settings, **options)
    from pipelines.video import cutting, decoding  # start-up time: PyAV

    video, name = Path(video), listed_id(scenes.video, Path(video))
    report = progress or (lambda stage, done, total: None)
    rows = [
        {
            "VIDEO_NAME": name,
            "SCENE_NUMBER": padded_number(scene.index, len(scenes.scenes)),
            "SCENE_NAME": segment.name,
            "START_TIME": scene.start_timecode.replace(":", "-"),
            "END_TIME": scene.end_timecode.replace(":", "-"),
        }
        for scene, segment in zip(scenes.scenes, segments_of(scenes), strict=True)
    ]
    suffix = cutting.suffix_for(video, "encoding" if settings.exact else "copies")
    names = file_names(settings.filename, rows, suffix, "$SCENE_NUMBER")
    end = scenes.video.duration
    if scenes.settings.get("end") is not None:  # the video may go on after the part that was read
        length = decoding.declared_length(video)
        end = math.inf if length is None else max(end, length)
    extended = [
        replace(scene, start=max(0.0, scene.start - settings.expand), end=min(end, scene.end + settings.expand))
        for scene in scenes.scenes
    ]
    scenes = replace(scenes, scenes=tuple(extended))
    with new_files(_folder(name, settings), names, (video,), settings.run.overwrite) as (targets, partials):
        if settings.exact:
            own = {"crf": settings.crf, "preset": settings.preset}
            encoding = {**cutting.H264, **{key: str(value) for key, value in own.items() if value is not None}}
            cutting.encode_scenes(video, scenes, partials, report, encoding)
            differences = [(0.0, 0.0)] * len(partials)
        else:
            differences = cutting.copy_scenes(video, scenes, partials, report)
    return tuple(
        Clip(scene.index, path, scene.start, scene.end, early, late)
        for scene, path, (early, late) in zip(extended, targets, differences, strict=True)
    )


def write_chapters(
    video: Path | str,
    scenes: SceneList,
    settings: SplitSettings = SplitSettings(),
    progress: ReportProgress | None = None,
    **options: Any,
) -> Path:
    """Copy the streams of a video unchanged, with its scenes as chapters, which replace existing ones; returns the
    copy. MP4, QuickTime, Matroska and WebM keep their format; other formats become Matroska. Raises BasslError as
    :func:`split`."""
    settings = with_options(settings, **options)
    from pipelines.video import cutting  # start-up time: PyAV

    video, name = Path(video), listed_id(scenes.video, Path(video))
    names = [f"{name}-chapters{cutting.suffix_for(video, 'chapters')}"]
    with new_files(_folder(name, settings), names, (video,), settings.run.overwrite) as (targets, partials):
        titles = [segment.name for segment in segments_of(scenes)]
        report = progress or (lambda stage, done, total: None)
        cutting.copy_with_chapters(video, scenes, titles, partials[0], report)
    return targets[0]


def _folder(name: str, settings: SplitSettings) -> Path:
    return Path(f"{name}-scenes") if settings.run.output is None else settings.run.output
