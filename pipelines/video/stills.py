"""Single frames of a video, by seeking."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipelines.errors import VideoError
from pipelines.files import is_file
from pipelines.video.decoding import VideoDecoder
from pipelines.video.frames import FrameReader, RGBImage, upright
from pipelines.video.runs import Damage, decode

# Demuxers that find a time by an index, and whose clock never restarts. In other formats a video is read from its
# beginning: its times depend on all timestamps before.
_INDEXED = ("mov", "matroska")

# Seconds ahead up to which a frame is reached by decoding; seeking would go back to a keyframe.
_NEAR = 2.0
_SAME_TIME = 0.001


class StillReader(VideoDecoder):
    """Reads single frames of a video; a context manager."""

    def images(
        self,
        times: Sequence[float],
        size: Callable[[int, int], tuple[int, int]] = lambda width, height: (width, height),
    ) -> Iterator[tuple[float, RGBImage]]:
        """The frames shown at some times.

        Args:
            times: increasing, in seconds from the first frame.
            size: maps (width, height) of the first frame as shown, with square pixels, to the size of the images.

        Yields:
            the time of the frame, and the upright image (height, width, 3) uint8 RGB.

        Raises:
            VideoError: a frame cannot be decoded, or the video ends before.
        """
        reader: FrameReader | None = None
        for time, frame in self._shown(times):
            turns = self.rotation
            if reader is None:
                sides = (round(frame.width * self.pixel_aspect), frame.height)
                image_size = size(*(sides[::-1] if turns % 2 else sides))
                reader = FrameReader(min(image_size))
            yield time, upright(reader.read(frame), image_size, turns)

    def _shown(self, times: Sequence[float]) -> Iterator[tuple[float, VideoFrame]]:
        indexed = self.kind in _INDEXED and is_file(self.path)
        frames: Iterator[tuple[float, VideoFrame]] = iter(())
        shown = following = None  # a frame, and the next one
        first = 0.0
        if indexed:
            opening = next(self._decoded(), None)
            if opening is None:
                raise VideoError(f"{self.path}: no frame of it can be decoded; it may be damaged")
            first, frame = opening
            self.rotation = (-round(frame.rotation / 90)) % 4
        else:
            frames = ((time, frame) for _, time, frame in self.frames(queue_limit=8))
            following = next(frames)
        for time in times:
            at, back = first + time + _SAME_TIME, 0.0
            if indexed and (following is None or at > following[0] + _NEAR):
                shown = None
                while shown is None or (shown[0] > at and at - back > first):  # seeking led to a later key frame
                    frames = self._decoded(at - back)
                    shown, following = next(frames, None), next(frames, None)
                    if at - back < first:
                        break
                    back = 2 * back + 5.0
            while following is not None and following[0] <= at:
                shown, following = following, next(frames, None)
            if shown is None or (following is None and shown[0] < at - _NEAR):
                raise VideoError(f"{self.path}: no frame can be decoded at {time:.3f} s; it ends before, or is damaged")
            yield shown[0] - first, shown[1]

    def _decoded(self, time: float | None = None) -> Iterator[tuple[float, VideoFrame]]:
        """The frames from the beginning, or from the key frame before a time, with their times on the file's clock."""
        tick = self.stream.time_base
        assert tick is not None
        if time is not None:
            self.container.seek(math.floor(time / tick), stream=self.stream)
        packets: Iterator[Packet[VideoStream]] = (packet for packet in self.container.demux(self.stream) if packet.size)
        for frame in chain.from_iterable(decode(packets, self.stream.codec_context, tuple, Damage(), 1)):
            if frame.pts is not None:
                yield float(frame.pts * tick), frame
