"""Single frames of a video, by seeking."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count

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


def still_images(
    video: VideoDecoder,
    times: Sequence[float],
    size: Callable[[int, int], tuple[int, int]] = lambda width, height: (width, height),
) -> Iterator[tuple[float, RGBImage]]:
    """Yield the frames shown at increasing times, in seconds from the first frame, each with its time, as an upright
    image (height, width, 3) uint8 RGB. ``size`` maps (width, height) of the first frame as shown, with square pixels,
    to the size of the images. Raise VideoError if a frame cannot be decoded, or the video ends before."""
    reader = None
    for time, frame in _frames_at(video, times):
        if reader is None:
            sides = (round(frame.width * video.pixel_aspect), frame.height)
            image_size = size(*(sides[::-1] if video.orientation.turns % 2 else sides))
            reader = FrameReader(min(image_size))
        yield time, upright(reader.read(frame), image_size, video.orientation)


def _frames_at(video: VideoDecoder, times: Sequence[float]) -> _Frames:
    first: float | None = None  # when the first frame is shown, on the file's clock; None: all has to be decoded
    if video.kind in INDEXED and is_file(video.path):
        with suppress(VideoError):  # the first frames have no times, as those before zero in Matroska
            first = float(first_frame_pts(video.path, ""))
    frames: _Frames = iter(())
    if first is None:
        frames = ((time, frame) for _, time, frame in video.frames(queue_limit=8))
    current, following = None, next(frames, None)
    for time in times:
        target = time + _SAME_TIME
        if first is not None and (following is None or target > following[0] + _NEAR):
            frames = _frames_from(video, target, first)
            current, following = next(frames, None), next(frames, None)
        while following is not None and following[0] <= target:
            current, following = following, next(frames, None)
        if current is None or (following is None and current[0] < target - _NEAR):
            raise VideoError(f"{video.path}: no frame can be decoded at {time:.3f} s; it ends before, or is damaged")
        yield current


def _frames_from(video: VideoDecoder, time: float, first: float) -> _Frames:
    """Yield the frames from a key frame on that is not after a time, if there is one."""
    for attempt in count():
        back = 5.0 * (2**attempt - 1)  # if seeking led to a later key frame
        frames = _seek(video, first + time - back)
        start = next(frames, None)
        if back > time or (start is not None and start[0] <= first + time):
            break
    if start is not None:
        video.orientation = orientation(start[1])
        yield start[0] - first, start[1]
    yield from ((stamp - first, frame) for stamp, frame in frames)


def _seek(video: VideoDecoder, time: float) -> _Frames:
    """Yield the frames from the key frame before a time on, with times on the file's clock."""
    tick = video.stream.time_base
    assert tick is not None
    try:
        video.container.seek(math.floor(time / tick), stream=video.stream)
    except av.FFmpegError:  # the index has nothing so early
        video.container.close()
        video.container = open_container(video.path)
        video.stream = video_stream(video.path, video.container)
    packets = (packet for packet in video.container.demux(video.stream) if packet.size)
    for frame in decode(packets, video.stream.codec_context, Damage()):
        if frame.pts is not None:
            yield float(frame.pts * tick), frame
