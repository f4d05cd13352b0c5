"""Cutting a video into one file per scene, or copying it with its scenes as chapters, by PyAV, without a program."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from pipelines.files import new_files
from pipelines.options import resolve_settings
from pipelines.progress import ReportProgress, no_progress
from pipelines.results.finding import file_names, name_of, padded_number
from pipelines.results.opening import open_scenes
from pipelines.scenes import SceneData, without_credits
from pipelines.stages.settings import SplitSettings
from pipelines.video.clips import suffix_for
from pipelines.video.containers import declared_length
from pipelines.video.copying import copy_scenes, copy_with_chapters
from pipelines.video.encoding import encode_scenes
from pipelines.video.inputs import fingerprint, unchanged

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import SplitOptions


@dataclass(frozen=True)
class Clip:
    """Scene as a separate video. Times are in seconds of the whole video: ``start`` and ``end`` with handles; the clip
    begins ``early`` before and ends ``late`` after them, 0 in an exact cut, None for a copy that was there before."""

    scene: int
    path: Path
    start: float
    end: float
    early: float | None
    late: float | None


def split(
    source: SceneData | Path | str,
    settings: SplitSettings | None = None,
    progress: ReportProgress | None = None,
    **options: Unpack[SplitOptions],
) -> tuple[Clip, ...]:
    """Cut a video into its scenes, with its sound tracks, subtitles, tags and attachments. Clips are returned in order,
    and appear together, when all are complete; those that are there, made from the same, stay. A BasslWarning names the
    streams that are left out. Copied clips begin with the last key frame from which the scene's first frame can be
    decoded. ``source``: scenes, a ``scenes.json``, or a video with a result; ``progress`` is called with the seconds of
    the video that are read. Raises BasslError for an unusable source, or another file of that name."""
    settings = resolve_settings(SplitSettings, settings, options)
    opened = open_scenes(source, settings.selection.video)
    video, name = opened.existing_video(), opened.name
    scenes = without_credits(opened.scenes) if settings.selection.skip_credits else opened.scenes
    report = progress or no_progress
    rows = [
        {
            "VIDEO_NAME": name,
            "SCENE_NUMBER": padded_number(scene.index, len(opened.scenes.scenes)),
            "SCENE_NAME": name_of(scene),
            "START_TIME": scene.start_timecode.replace(":", "-"),
            "END_TIME": scene.end_timecode.replace(":", "-"),
        }
        for scene in scenes.scenes
    ]
    suffix = suffix_for(video, "encoding" if settings.exact else "copies")
    names = file_names(settings.filename, rows, suffix, "$SCENE_NUMBER")
    end = scenes.video.duration
    if scenes.settings.get("end") is not None:  # the video may continue after the part that was read
        end = max(end, declared_length(video) or math.inf)
    extended = [
        replace(scene, start=max(0.0, scene.start - settings.expand), end=min(end, scene.end + settings.expand))
        for scene in scenes.scenes
    ]
    identity = fingerprint(video), settings.exact, settings.crf, settings.preset
    made_from = {file: repr((*identity, s.start, s.end)) for file, s in zip(names, extended, strict=True)}
    read, usual = (video, opened.file), Path(f"{name}-scenes")
    files = new_files(settings.run.output, usual, made_from, read, settings.run.overwrite)
    differences: dict[int, Any] = dict.fromkeys(range(len(names)), (0.0, 0.0) if settings.exact else (None, None))
    with files as (targets, partials, numbers), unchanged(video):
        scenes = replace(scenes, scenes=tuple(extended[number] for number in numbers))
        if numbers and settings.exact:
            crf = 18 if settings.crf is None else settings.crf
            encode_scenes(video, scenes, partials, report, {"crf": str(crf), "preset": settings.preset or "fast"})
        elif numbers:
            differences |= zip(numbers, copy_scenes(video, scenes, partials, report), strict=True)
    return tuple(
        Clip(scene.index, path, scene.start, scene.end, *differences[number])
        for number, (scene, path) in enumerate(zip(extended, targets, strict=True))
    )


def write_chapters(
    source: SceneData | Path | str,
    settings: SplitSettings | None = None,
    progress: ReportProgress | None = None,
    **options: Unpack[SplitOptions],
) -> Path:
    """Copy the streams of a video unchanged, with its scenes as chapters, which replace existing ones; returns the
    copy: MP4, QuickTime, Matroska or WebM as they are, else Matroska. Raises BasslError as :func:`split`."""
    settings = resolve_settings(SplitSettings, settings, options)
    opened = open_scenes(source, settings.selection.video)
    scenes, video, name = opened.scenes, opened.existing_video(), opened.name
    file, usual = f"{name}-chapters{suffix_for(video, 'chapters')}", Path(f"{name}-scenes")
    titles = list(map(name_of, scenes.scenes))
    made_from = {file: repr((fingerprint(video), [scene.start for scene in scenes.scenes], titles))}
    files = new_files(settings.run.output, usual, made_from, (video, opened.file), settings.run.overwrite)
    with files as (targets, partials, _), unchanged(video):
        for partial in partials:
            copy_with_chapters(video, scenes, titles, partial, progress or no_progress)
    return targets[0]
