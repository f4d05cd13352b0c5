"""The images of a storyboard and a page, collected while a video is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipelines.errors import VideoError
from pipelines.outputs.results import beside
from pipelines.scenes import SceneData
from pipelines.video.shots import KeyframedShot, ReaderSettings
from pipelines.video.video_process import VideoProcess


class ShotImages:
    """Keeps a small image of each shot until the scenes are known, then writes the storyboard (PNG) and page (HTML)."""

    def __init__(self, board: Path | None, page: Path | None) -> None:
        self._board = board
        self._page = page
        self._thumbnails: list[bytes] = []

    def add(self, shot: KeyframedShot) -> None:
        """Add the middle keyframe of the next shot."""
        if self._board is not None or self._page is not None:
            from pipelines.outputs.page.thumbnails import encode_thumbnail  # start-up time: Pillow

            self._thumbnails.append(encode_thumbnail(shot.keyframes[len(shot.keyframes) // 2]))

    def read(self, scenes: SceneData, file: Path, video: Path, progress: Callable[[float, float | None], None]) -> None:
        """Take the image of each shot from the video instead, see `images_from_video`."""
        self._thumbnails, _ = images_from_video(scenes, file, video, progress)

    def save(self, result: SceneData, video: Path, output: Path) -> None:
        """Write the storyboard and the page, if they have a path. The page plays ``video``, and saves corrected scenes
        under the name of ``output``, the ``scenes.json``. Raises BasslError if one cannot be written."""
        if self._board is not None:
            from pipelines.outputs.storyboard import save_storyboard  # start-up time: Pillow

            save_storyboard(self._board, result, self._thumbnails)
        if self._page is not None:
            from pipelines.outputs.page import save_page  # start-up time: Jinja

            save_page(self._page, result, self._thumbnails, video, save_as=beside(output, ".json").name)


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
    with VideoProcess(video, reader, progress) as reading:
        for shot in reading:
            images.append(encode_thumbnail(shot.keyframes[0]))
            ranges.append((shot.start_frame, shot.end_frame))
    if ranges != [(shot.start_frame, shot.end_frame) for shot in scenes.shots]:
        raise VideoError(
            f"{video}: has {reading.facts.frames} frames and is not the video of these scenes, which has "
            f"{scenes.video.frames}; name that with `video`"
        )
    return images, tuple(reading.warnings)
