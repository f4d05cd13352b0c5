"""The images of a storyboard and a page, read from the video."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipelines.errors import VideoError
from pipelines.scenes import SceneData
from pipelines.video.inputs import unchanged
from pipelines.video.shots import ReaderSettings
from pipelines.video.video_process import VideoProcess


def images_from_video(
    scenes: SceneData, file: Path, video: Path, progress: Callable[[float, float | None], None]
) -> tuple[list[bytes], tuple[str, ...]]:
    """A small image of each shot of a ``scenes.json``, the middle frame, read from the video, and the warnings of its
    reader; ``progress`` is called with the seconds read and in all. ``file`` has the same shots. Raises VideoError for
    another video."""
    from pipelines.outputs.page.thumbnails import encode_thumbnail  # start-up time: Pillow

    images, ranges = [], []
    end = None if scenes.settings.get("end") is None else scenes.shots[-1].end
    reader = ReaderSettings(shots=file, keyframes=1, start=scenes.shots[0].start or None, end=end)
    with unchanged(video), VideoProcess(video, reader, progress) as reading:
        for shot in reading:
            images.append(encode_thumbnail(shot.keyframes[0]))
            ranges.append((shot.start_frame, shot.end_frame))
    if ranges != [(shot.start_frame, shot.end_frame) for shot in scenes.shots]:
        raise VideoError(
            f"{video}: has {reading.facts.frames} frames and is not the video of these scenes, which has "
            f"{scenes.video.frames}; name that with `video`"
        )
    return images, tuple(reading.warnings)
