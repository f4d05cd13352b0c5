"""Read a video: shots with keyframes in one pass and in bounded memory, or single frames by seeking."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipelines.errors import DatasetError, VideoError
from pipelines.files import is_file
from pipelines.processes import Send
from pipelines.scenes import MOST_SHOTS, Line, Segment, Transition
from pipelines.video.containers import open_container, quarter_turns, video_stream
from pipelines.video.decoding import VideoDecoder, first_frame_pts
from pipelines.video.detectors import KnownCuts, ShotDetector, ShotList, make_detector, read_shot_list
from pipelines.video.frames import FrameReader, RGBImage, YUVImage, held_size, small_rgb, upright
from pipelines.video.inputs import subtitles_beside
from pipelines.video.runs import Damage, decode
from pipelines.video.segments import LOOKS_PER_SECOND, TextSearch, credit_segments, plain_kinds, plain_segments
from pipelines.video.shots import Boundary, KeyframedShot, ReaderSettings
from pipelines.video.sound import has_sound, silences
from pipelines.video.subtitles import lines_within, read_subtitles, track_lines

# Memory for the frames kept of one shot; of a longer shot every second frame is kept, then every fourth, and so on,
# which moves a keyframe by less than a hundredth of the shot.
_HELD_BYTES = 48 * 2**20

# Memory for the frames that each thread decodes ahead.
_AHEAD_BYTES = 16 * 2**20

# Demuxers that find a time by an index, and whose clock never restarts. Videos in other formats are read from the
# beginning, because a time depends on all earlier timestamps.
_INDEXED = ("mov", "matroska")

# Seconds ahead up to which a frame is reached by decoding; seeking would go back to a keyframe.
_NEAR = 2.0
_SAME_TIME = 0.001


class VideoReader(VideoDecoder):
    """Iterate once for the shots; then :attr:`facts` and :attr:`warnings` are available.

    Attributes:
        shots: number of shots found so far.
        lines: after the last shot, the subtitles of the part that was read, if the settings ask for them.
        segments: after the last shot, black, color bars and credits, and silence if the settings ask for it.
    """

    def __init__(
        self, path: Path, settings: ReaderSettings, progress: Callable[[float, float | None], None] | None = None
    ) -> None:
        """Open a video. ``progress`` is called regularly with (seconds read, seconds in total or None).

        Raises:
            BasslError: the video, the detector or the shot list cannot be used.
        """
        super().__init__(path, settings.threads, settings.start, settings.end)
        self.settings = settings
        self._times = array("d")
        self._first = 0  # frame number in the video of the first frame that is read; all indices count from it
        try:
            self._detector = self._make_detector()
            self._file_lines = self._read_file_lines()
        except BaseException:
            self.__exit__()
            raise
        self._progress = progress or (lambda done, total: None)
        self._shot_start = self._clean = 0  # first frame of the current shot, and its first outside a transition
        self._starts = [0]  # first frames of the shots
        self._kinds = bytearray()  # of the frames, see `plain_kinds`
        self._text = TextSearch()
        self.shots = 0
        self.lines: tuple[Line, ...] = ()
        self.segments: tuple[Segment, ...] = ()

    def _read_file_lines(self) -> list[Line]:
        """Read the lines of the subtitle file that the settings name, or that is beside the video, if any."""
        source = self.settings.subtitles
        file = source if isinstance(source, Path) else subtitles_beside(self.path) if source else None
        if file is None:
            return []
        try:
            lines, warnings = read_subtitles(file, self.settings.subtitle_encoding)
        except DatasetError as error:
            if file == source:
                raise
            self.warnings.append(f"{error}; these subtitles are left out")
            return []
        self.warnings += warnings
        return lines

    def _subtitles(self) -> tuple[Line, ...]:
        """Return the lines in the part that was read, in seconds from the first frame: from the file, or else from the
        video's track. Times in a file count from the start of all streams, as in players."""
        lines, offset, track = self._file_lines, -(self.first or 0.0), self.text_track
        if lines:
            offset += (self.container.start_time or 0) / av.time_base
        elif self.settings.subtitles and track is not None:
            lines, warnings = track_lines(self.path, track, self.text_packets)
            self.warnings += warnings
        lines_shown, warnings = lines_within(lines, offset, self._times[0], self.facts.duration)
        self.warnings += (f"{self.path}: {warning}" for warning in warnings)
        return lines_shown

    def _make_detector(self) -> ShotDetector:
        settings, rate, times = self.settings, self.frame_rate, self._times
        if isinstance(settings.shots, tuple):
            return KnownCuts(ShotList(self.path, settings.shots), times, self.warnings, whole=False)
        if settings.shots is not None:
            return KnownCuts(read_shot_list(settings.shots, rate), times, self.warnings, whole=settings.end is None)
        threshold = settings.detector_threshold
        return make_detector(settings.detector, rate, min_shot=settings.min_shot, threshold=threshold, times=times)

    def __iter__(self) -> Iterator[KeyframedShot]:
        frame_reader = FrameReader(self.settings.lines)
        buffer = FrameBuffer(recent=self._detector.lag + 1, budget=_HELD_BYTES)

        def transform(frames: Iterator[VideoFrame]) -> list[tuple[YUVImage, int, Any]]:
            images: list[YUVImage] = []

            def read() -> Iterator[YUVImage]:
                for frame in frames:
                    images.append(frame_reader.read(frame))
                    yield images[-1]

            small = small_rgb(read(), self._detector.side, self.batch_size)
            return list(zip(images, plain_kinds(small).tolist(), self._detector.prepare(small), strict=True))

        with self:
            ahead = _AHEAD_BYTES // held_size(self.width, self.height, self.settings.lines)
            step = max(1, round(self.frame_rate / LOOKS_PER_SECOND))
            for number, time, (image, kind, prepared) in self.frames(transform, ahead):
                if not self._times:
                    self._first = number
                    if isinstance(self._detector, KnownCuts):
                        self._detector.first = number
                index = number - self._first
                self._times.append(time)
                buffer.add(index, image)
                self._kinds.append(kind)
                if index % step == 0:
                    self._text.look_at(index, image.y)
                if boundaries := self._detector.push(index, prepared):
                    yield from self._shots_before(boundaries, index, buffer)
                if index % 256 == 0:
                    ends = [seconds for seconds in (self.declared_duration, self.settings.end) if seconds is not None]
                    self._progress(time - self._times[0], min(ends) - self._times[0] if ends else None)
            frames = len(self._times)
            self._times.append(self.facts.duration)
            yield from self._shots_before(self._detector.finish(frames), frames - 1, buffer)
            self.note_matrix(frame_reader.approximated)
            self.lines = self._subtitles()
            self.segments = self._segments()
            yield self._shot(frames, frames, None, buffer)
            self._progress(self.facts.duration - self._times[0], self.facts.duration - self._times[0])

    def _shots_before(
        self, boundaries: Sequence[int | Boundary], last: int, buffer: FrameBuffer
    ) -> Iterator[KeyframedShot]:
        """Yield the shots that end at some boundaries; boundaries after frame ``last`` or out of order are ignored."""
        for boundary in boundaries:
            if isinstance(boundary, int):
                boundary = Boundary("", boundary, boundary)
            kind, (first, end), cut = boundary.kind, boundary[1:], boundary.frame
            if self._shot_start < cut <= last:
                seconds = self._times[first], self._times[end]
                transition = Transition(kind, first + self._first, end + self._first, *seconds) if kind else None
                yield self._shot(cut, first, transition, buffer)
                buffer.drop_before(cut)
                self._shot_start, self._clean = cut, end
                self._starts.append(cut)

    def _segments(self) -> tuple[Segment, ...]:
        """Return the segments of the video, by their start."""
        segments = plain_segments(self._kinds, self._times)
        cuts = {*self._starts, len(self._kinds), *(frame for s in segments for frame in (s.start_frame, s.end_frame))}
        duration = max(self.declared_duration or 0.0, self._times[-1])
        segments += credit_segments(self._text.looks, sorted(cuts), self._times, duration)
        if self.settings.silence:
            segments += self._silence()
        return tuple(
            replace(s, start_frame=s.start_frame + self._first, end_frame=s.end_frame + self._first)
            for s in sorted(segments, key=lambda segment: segment.start)
        )

    def _silence(self) -> Iterator[Segment]:
        """Yield the silent parts of the video, in whole frames."""
        if not is_file(self.path):
            self.warnings.append(f"{self.path}: is a pipe, which is read once, without its sound; no silence was found")
        elif has_sound(self.path):
            for start, end in silences(self.path, self._times[0], self._times[-1]):
                first, last = bisect_left(self._times, start), bisect_right(self._times, end) - 1
                if first < last:
                    yield Segment("silence", first, last, self._times[first], self._times[last])

    def _shot(self, end: int, clean_end: int, transition: Transition | None, buffer: FrameBuffer) -> KeyframedShot:
        """Return the shot up to frame ``end``, whose frames from ``clean_end`` on belong to a transition."""
        start, count = self._shot_start, self.settings.keyframes
        clean = (self._clean, clean_end) if self._clean < clean_end else (start, end)
        frames = [buffer.nearest(index, start, end) for index in keyframe_indices(*clean, count)]
        images = {index: self._keyframe(image) for index, image in dict(frames).items()}
        self.shots += 1
        if self.shots > MOST_SHOTS:
            remedy = "read a part of it with `start` and `end`, or use a longer `min_shot`"
            raise VideoError(f"{self.path}: has more than {MOST_SHOTS:,} shots; {remedy}")
        span = (start + self._first, end + self._first, self._times[start], self._times[end])
        keyframes = tuple(images[index] for index, _ in frames)
        numbers = tuple(index + self._first for index, _ in frames)
        return KeyframedShot(self.shots - 1, *span, keyframes, numbers, transition)

    def _keyframe(self, image: YUVImage) -> RGBImage:
        """Convert the image to RGB, upright, with square pixels, and with at most as many lines as the settings say."""
        (height, width), aspect = image.y.shape, self.pixel_aspect
        if self.rotation % 2:
            width, height, aspect = height, width, 1.0 / aspect
        lines = min(height, self.settings.lines)
        return upright(image, (max(1, round(width * aspect * lines / height)), lines), self.rotation)


def send_video(task: tuple[Path, ReaderSettings], send: Send) -> None:
    """Read a video in the child process of a :class:`pipelines.video.shots.VideoProcess`: send each shot when it is
    complete, the progress, and facts, warnings, subtitles and segments at the end."""
    path, settings = task
    reader = VideoReader(path, settings, lambda done, total: send("progress", (done, total)))
    for shot in reader:
        # Images as raw bytes: the parent receives them before it has imported NumPy.
        shape = (len(shot.keyframes), *shot.keyframes[0].shape)
        images = [np.ascontiguousarray(image).data for image in shot.keyframes]
        send("shot", (replace(shot, keyframes=()), shape), images)
    send("end", (reader.facts, reader.warnings, reader.lines, reader.segments))


def lines_from(
    file: Path, encoding: str | None, video: Path, start: float, end: float
) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """Read the lines of a subtitle file between two times of its video, in seconds from the first frame; also return
    warnings. Raise BasslError, one line, for a file that cannot be used."""
    cues, warnings = read_subtitles(file, encoding)
    with open_container(video) as container:
        offset = (container.start_time or 0) / av.time_base - float(first_frame_pts(video, "which subtitles need"))
    lines, limits = lines_within(cues, offset, start, end)
    return lines, (*warnings, *(f"{video}: {limit}" for limit in limits))


def keyframe_indices(start: int, end: int, count: int) -> list[int]:
    """Return the frames at 1/(count+1), 2/(count+1), ... of the half-open range: for 3, at 1/4, 1/2 and 3/4."""
    return [start + (end - start) * k // (count + 1) for k in range(1, count + 1)]


class FrameBuffer:
    """Frames of the current shot that may become keyframes.

    The newest ``recent`` frames are all kept, because detectors report a cut some frames late. Older frames are kept
    within ``budget`` bytes, at a stride that doubles when they exceed it, so that memory does not grow with the length
    of a shot.
    """

    def __init__(self, recent: int, budget: int) -> None:
        self._images: list[tuple[int, YUVImage]] = []
        self._recent, self._budget, self._stride = recent, budget, 1

    def add(self, index: int, image: YUVImage) -> None:
        images = self._images
        images.append((index, image))
        older = len(images) - self._recent
        if older > 1 and images[older - 1][0] - images[older - 2][0] < self._stride:
            del images[older - 1]
        elif older > 8 and older * image.nbytes > self._budget:
            images[:older] = images[:older:2]
            self._stride *= 2

    def drop_before(self, index: int) -> None:
        """Drop all frames before ``index``, where the next shot begins."""
        self._images = [entry for entry in self._images if entry[0] >= index]
        self._stride = 1

    def nearest(self, index: int, start: int, end: int) -> tuple[int, YUVImage]:
        """Return the kept (frame number, image) nearest to ``index`` within ``[start, end)``; the earlier of two."""
        after = bisect_left(self._images, index, key=itemgetter(0))
        neighbors = [entry for entry in self._images[max(0, after - 1) : after + 1] if start <= entry[0] < end]
        return min(neighbors, key=lambda entry: abs(entry[0] - index))


class StillReader(VideoDecoder):
    """Reader of single frames of a video."""

    def images(
        self,
        times: Sequence[float],
        size: Callable[[int, int], tuple[int, int]] = lambda width, height: (width, height),
    ) -> Iterator[tuple[float, RGBImage]]:
        """Yield the frames shown at increasing times, in seconds from the first frame.

        ``size`` maps (width, height) of the first frame as shown, with square pixels, to the size of the images.
        Each comes with its time, as an upright image (height, width, 3) uint8 RGB.

        Raises:
            VideoError: a frame cannot be decoded, or the video ends before.
        """
        reader: FrameReader | None = None
        for time, frame in self._frames_at(times):
            turns = self.rotation
            if reader is None:
                sides = (round(frame.width * self.pixel_aspect), frame.height)
                image_size = size(*(sides[::-1] if turns % 2 else sides))
                reader = FrameReader(min(image_size))
                image = reader.read(frame)
                self.note_matrix(reader.approximated)
            else:
                image = reader.read(frame)
            yield time, upright(image, image_size, turns)

    def _frames_at(self, times: Sequence[float]) -> Iterator[tuple[float, VideoFrame]]:
        indexed = self.kind in _INDEXED and is_file(self.path)
        frames: Iterator[tuple[float, VideoFrame]] = iter(())
        current = following = None  # a frame, and the next one
        first = 0.0
        try:
            first = float(first_frame_pts(self.path, "")) if indexed else 0.0
        except VideoError:  # a video whose first frames have no times, as those before zero in Matroska
            indexed = False
        if not indexed:
            frames = ((time, frame) for _, time, frame in self.frames(queue_limit=8))
            following = next(frames)
        for time in times:
            target, back = first + time + _SAME_TIME, 0.0
            if indexed and (following is None or target > following[0] + _NEAR):
                current = None
                while current is None or (
                    current[0] > target and target - back > first
                ):  # seeking led to a later key frame
                    frames = self._decoded(target - back)
                    current, following = next(frames, None), next(frames, None)
                    if target - back < first:
                        break
                    back = 2 * back + 5.0
            while following is not None and following[0] <= target:
                current, following = following, next(frames, None)
            if current is None or (following is None and current[0] < target - _NEAR):
                raise VideoError(f"{self.path}: no frame can be decoded at {time:.3f} s; it ends before, or is damaged")
            if indexed:
                self.rotation = quarter_turns(current[1])
            yield current[0] - first, current[1]

    def _decoded(self, time: float) -> Iterator[tuple[float, VideoFrame]]:
        """Yield the frames from the key frame before a time, with their times on the file's clock."""
        tick = self.stream.time_base
        assert tick is not None
        try:
            self.container.seek(math.floor(time / tick), stream=self.stream)
        except av.FFmpegError:  # the index has nothing so early
            self.container.close()
            self.container = open_container(self.path)
            self.stream = video_stream(self.path, self.container)
        packets: Iterator[Packet[VideoStream]] = (packet for packet in self.container.demux(self.stream) if packet.size)
        for frame in chain.from_iterable(decode(packets, self.stream.codec_context, tuple, Damage(), 1)):
            if frame.pts is not None:
                yield float(frame.pts * tick), frame
