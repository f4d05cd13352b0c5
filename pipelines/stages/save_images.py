"""Images of the scenes of a video, or of its shots, as files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Unpack

from PIL import Image

from pipelines.errors import BasslWarning
from pipelines.files import new_files
from pipelines.options import resolve_settings
from pipelines.progress import ReportProgress, no_progress
from pipelines.results.finding import file_names, image_folder, name_of, padded_number
from pipelines.results.opening import open_scenes
from pipelines.scenes import Scene, SceneData, Shot, timecode, without_credits
from pipelines.stages.settings import ImageSettings
from pipelines.video.decoding import VideoDecoder
from pipelines.video.inputs import fingerprint, unchanged
from pipelines.video.reader import still_images

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import ImageOptions

_MARGIN = 0.2  # seconds from a cut, within which frames have its compression artifacts


@dataclass(frozen=True)
class SavedImage:
    """Saved image of the scene and shot numbered from 0 in ``scenes.json``."""

    path: Path
    scene: int
    shot: int
    time: float  # in seconds


class _Still(NamedTuple):
    scene: Scene
    shot: Shot
    image: int  # its number in the scene or shot
    time: float


def save_images(
    source: SceneData | Path | str,
    settings: ImageSettings | None = None,
    progress: ReportProgress | None = None,
    **options: Unpack[ImageOptions],
) -> tuple[SavedImage, ...]:
    """Save images of scenes, evenly spread over each and outside transitions. They are returned in order, and appear
    together, when all are complete; those that are there, made from the same, stay. ``source``: scenes, a
    ``scenes.json``, or a video with a result; ``progress`` is called with the number of images. Raises BasslError, one
    line, for an unusable ``source``, or another file of that name."""
    settings = resolve_settings(ImageSettings, settings, options)
    opened = open_scenes(source, settings.selection.video)
    video, name = opened.existing_video(), opened.name
    scenes = without_credits(opened.scenes) if settings.selection.skip_credits else opened.scenes
    report = progress or no_progress
    stills = list(_stills(scenes, settings))
    rows = [
        {
            "VIDEO_NAME": name,
            "SCENE_NUMBER": padded_number(still.scene.index, scenes.scenes[-1].index + 1),
            "SCENE_NAME": name_of(still.scene),
            "SHOT_NUMBER": padded_number(still.shot.index, len(scenes.shots)),
            "IMAGE_NUMBER": padded_number(still.image, settings.images),
            "TIMECODE": timecode(still.time).replace(":", "-"),
        }
        for still in stills
    ]
    needed = f"${'SHOT' if settings.selection.shots else 'SCENE'}_NUMBER and $IMAGE_NUMBER"
    names = file_names(settings.template, rows, f".{settings.format}", needed)
    identity = fingerprint(video), settings.quality, settings.width, settings.height
    made_from = {file: repr((*identity, still.time)) for file, still in zip(names, stills, strict=True)}
    read, times = (video, opened.file), [still.time for still in stills]  # of images that are kept: within a frame
    files = new_files(settings.run.output, image_folder(name), made_from, read, settings.run.overwrite)
    with files as (targets, partials, numbers), unchanged(video), VideoDecoder(video) as reader:
        # Only the times of shots are exact: the middle of a frame is safe from rounding.
        half = 0.5 / scenes.video.frame_rate
        images = still_images(reader, [times[number] + half for number in numbers], settings.size)
        for done, (number, partial, (time, image)) in enumerate(zip(numbers, partials, images, strict=True), 1):
            Image.fromarray(image).save(partial, quality=settings.quality)
            times[number] = time
            report("saving", done, len(numbers))
    for warning in reader.warnings:
        warnings.warn(BasslWarning(warning), stacklevel=2)
    return tuple(
        SavedImage(path, still.scene.index, still.shot.index, time)
        for path, still, time in zip(targets, stills, times, strict=True)
    )


def _stills(scenes: SceneData, settings: ImageSettings) -> Iterator[_Still]:
    """Yield the images to save, in order of time."""
    for scene in scenes.scenes:
        shots = scenes.shots[scene.start_shot : scene.end_shot]
        for group in [(shot,) for shot in shots] if settings.selection.shots else [shots]:
            frames = [(shot, frame) for shot in group for frame in _clear_frames(scenes, shot)]
            for image in range(settings.images):
                shot, frame = frames[(2 * image + 1) * len(frames) // (2 * settings.images)]
                share = (frame - shot.start_frame) / (shot.end_frame - shot.start_frame)
                yield _Still(scene, shot, image, shot.start + share * (shot.end - shot.start))


def _clear_frames(scenes: SceneData, shot: Shot) -> range:
    """Return the frames of a shot that are not in a transition nor next to a cut."""
    before = scenes.shots[shot.index - 1].transition if shot.index else None
    start = shot.start_frame if before is None else max(before.end_frame, shot.start_frame)
    end = shot.end_frame if shot.transition is None else min(shot.transition.start_frame, shot.end_frame)
    if start >= end:
        start, end = shot.start_frame, shot.end_frame
    margin = min(round(_MARGIN * scenes.video.frame_rate), (end - start) // 4)
    return range(start + margin, end - margin)
