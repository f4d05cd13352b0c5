"""Single frames of a video, by seeking."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Self

import av
from av.video.frame import VideoFrame

from pipelines.errors import VideoError
from pipelines.files import is_file
from pipelines.video.containers import INDEXED, open_container, orientation, video_stream
from pipelines.video.decoding import VideoDecoder, first_frame_pts
from pipelines.video.frames import FrameReader, RGBImage, upright
from pipelines.video.runs import Damage, decode

# Seconds ahead up to which a frame is reached by decoding; seeking would go back to a keyframe.
_NEAR = 2.0
_SAME_TIME = 0.001

_Frames = Iterator[tuple[float, VideoFrame]]  # with their times, in seconds from the video's first frame


class StillReader:
    """Reader of single frames of a video. Raise VideoError if it cannot be opened."""

    def __init__(self, path: Path) -> None:
        self._path, self._video = path, VideoDecoder(path)
        self.warnings = self._video.warnings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._video.__exit__(*error)

    def images(
        self,
        times: Sequence[float],
        size: Callable[[int, int], tuple[int, int]] = lambda width, height: (width, height),
    ) -> Iterator[tuple[float, RGBImage]]:
        """Yield the frames shown at increasing times, in seconds from the first frame, each with its time, as an
        upright image (height, width, 3) uint8 RGB. ``size`` maps (width, height) of the first frame as shown, with
        square pixels, to the size of the images. Raise VideoError if a frame cannot be decoded, or the video ends
        before."""
        video, reader = self._video, None
        for time, frame in self._frames_at(times):
            if reader is None:
                sides = (round(frame.width * video.pixel_aspect), frame.height)
                image_size = size(*(sides[::-1] if video.orientation.turns % 2 else sides))
                reader = FrameReader(min(image_size))
            image = reader.read(frame)
            yield time, upright(image, image_size, video.orientation)

    def _frames_at(self, times: Sequence[float]) -> _Frames:
        first = self._first_time()
        frames: _Frames = iter(())
        if first is None:
            frames = ((time, frame) for _, time, frame in self._video.frames(queue_limit=8))
        current, following = None, next(frames, None)
        for time in times:
            target = time + _SAME_TIME
            if first is not None and (following is None or target > following[0] + _NEAR):
                frames = self._frames_from(target, first)
                current, following = next(frames, None), next(frames, None)
            while following is not None and following[0] <= target:
                current, following = following, next(frames, None)
            if current is None or (following is None and current[0] < target - _NEAR):
                raise VideoError(
                    f"{self._path}: no frame can be decoded at {time:.3f} s; it ends before, or is damaged"
                )
            yield current

    def _first_time(self) -> float | None:
        """Return the time of the first frame on the file's clock; None for a video that has to be read from there."""
        if self._video.kind not in INDEXED or not is_file(self._path):
            return None
        try:
            return float(first_frame_pts(self._path, ""))
        except VideoError:  # its first frames have no times, as those before zero in Matroska
            return None

    def _frames_from(self, time: float, first: float) -> _Frames:
        """Yield the frames from a key frame on that is not after a time, if there is one."""
        for attempt in count():
            back = 5.0 * (2**attempt - 1)  # if seeking led to a later key frame
            frames = self._decoded(first + time - back)
            start = next(frames, None)
            if back > time or (start is not None and start[0] <= first + time):
                break
        if start is not None:
            self._video.orientation = orientation(start[1])
            yield start[0] - first, start[1]
        yield from ((stamp - first, frame) for stamp, frame in frames)

    def _decoded(self, time: float) -> _Frames:
        """Yield the frames from the key frame before a time on, with times on the file's clock."""
        video = self._video
        tick = video.stream.time_base
        assert tick is not None
        try:
            video.container.seek(math.floor(time / tick), stream=video.stream)
        except av.FFmpegError:  # the index has nothing so early
            video.container.close()
            video.container = open_container(self._path)
            video.stream = video_stream(self._path, video.container)
        packets = (packet for packet in video.container.demux(video.stream) if packet.size)
        for frame in decode(packets, video.stream.codec_context, Damage()):
            if frame.pts is not None:
                yield float(frame.pts * tick), frame
