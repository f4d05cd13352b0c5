"""Read a video: shots with keyframes, segments and subtitles in one pass and in bounded memory; or single images."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.frame import VideoFrame

from pipelines.errors import DatasetError, VideoError
from pipelines.processes import Send
from pipelines.scenes import MOST_SHOTS, Line, Segment, Transition, VideoFacts
from pipelines.video.containers import INDEXED, open_container, orientation, video_stream
from pipelines.video.decoding import VideoDecoder, first_frame_time
from pipelines.video.detectors import KnownCuts, ShotDetector, ShotList, make_detector, read_shot_list
from pipelines.video.images import FrameReader, RGBImage, YUVImage, held_size, small_rgb, upright
from pipelines.video.inputs import subtitles_beside
from pipelines.video.runs import Damage, decode
from pipelines.video.segments import SegmentSearch, plain_kinds
from pipelines.video.series import Episode, PictureHashes
from pipelines.video.shots import Boundary, KeyframedShot, ReaderSettings
from pipelines.video.sound import has_sound, silences
from pipelines.video.subtitles import lines_within, read_subtitles, track_lines

# Memory for the frames kept of one shot, so that thinning moves a keyframe by less than a hundredth of the shot.
_HELD_BYTES = 48 * 2**20

# Memory for the frames that each thread decodes ahead.
_AHEAD_BYTES = 16 * 2**20

# For single images: seconds ahead up to which a frame is reached by decoding; seeking would go back to a key frame.
_NEAR = 2.0
_SAME_TIME = 0.001


class VideoReader:
    """Iterate once for the shots; their number so far is in ``shots``. Then ``facts``, ``warnings``, ``lines``
    (subtitles) and ``segments`` are of the part that was read."""

    facts: VideoFacts

    def __init__(
        self, path: Path, settings: ReaderSettings, progress: Callable[[float, float | None], None] | None = None
    ) -> None:
        """Open a video. ``progress`` is called with (seconds read, seconds in all or None). Raise BasslError if the
        video, the detector, or the list of shots or subtitles cannot be used."""
        self._path, self._settings = path, settings
        self._video = VideoDecoder(path, settings.threads, settings.start, settings.end)
        self.warnings = self._video.warnings
        self._times = array("d")  # of the frames, and at the end the end of the last one
        self._first = 0  # frame number in the video of the first frame that is read; all indices count from it
        self._detector = self._make_detector()
        self._file_lines = self._read_file_lines()
        self._progress = progress or (lambda done, total: None)
        self._pictures = FrameReader(settings.lines)
        self._buffer = FrameBuffer(recent=self._detector.lag + 1, budget=_HELD_BYTES)
        self._segments = SegmentSearch(self._video.frame_rate)
        self._hashes, self._codes = PictureHashes(), array("Q")  # of the frames
        self._starts = [0]  # first frames of the shots
        self._clean = 0  # first frame of the current shot that is not in a transition
        self.shots = 0
        self.lines: tuple[Line, ...] = ()
        self.segments: tuple[Segment, ...] = ()

    def _make_detector(self) -> ShotDetector:
        settings, rate, times = self._settings, self._video.frame_rate, self._times
        if isinstance(settings.shots, tuple):
            return KnownCuts(ShotList(self._path, settings.shots), times, self.warnings, whole=False)
        if settings.shots is not None:
            return KnownCuts(read_shot_list(settings.shots, rate), times, self.warnings, whole=settings.end is None)
        threshold = settings.detector_threshold
        return make_detector(settings.detector, rate, min_shot=settings.min_shot, threshold=threshold, times=times)

    def _read_file_lines(self) -> list[Line]:
        """Read the lines of the subtitle file that the settings name, or that is beside the video, if any."""
        source = self._settings.subtitles
        file = source if isinstance(source, Path) else subtitles_beside(self._path) if source else None
        if file is None:
            return []
        try:
            lines, warnings = read_subtitles(file, self._settings.subtitle_encoding)
        except DatasetError as error:
            if file == source:
                raise
            self.warnings.append(f"{error}; these subtitles are left out")
            return []
        self.warnings += warnings
        return lines

    def __iter__(self) -> Iterator[KeyframedShot]:
        video, detector, times = self._video, self._detector, self._times
        ahead = _AHEAD_BYTES // held_size(video.width, video.height, self._settings.lines)
        ends = [seconds for seconds in (video.declared_duration, self._settings.end) if seconds is not None]
        with video:
            for number, time, (image, kind, code, prepared) in video.frames(self._pictures.read, self._prepare, ahead):
                if not times:
                    self._first = number
                    if isinstance(detector, KnownCuts):
                        detector.first = number
                index = number - self._first
                times.append(time)
                self._buffer.add(index, image)
                self._segments.add(kind, image.y)
                self._codes.append(code)
                if boundaries := detector.push(index, prepared):
                    yield from self._shots_before(boundaries, index)
                if index % 256 == 0:
                    self._progress(time - times[0], min(ends) - times[0] if ends else None)
            self.facts, frames = video.facts, len(times)
            times.append(self.facts.duration)
            yield from self._shots_before(detector.finish(frames), frames - 1)
            self.lines = self._subtitles()
            self.segments = self._all_segments()
            yield self._shot(frames, frames, None)
            self._progress(self.facts.duration - times[0], self.facts.duration - times[0])

    def _prepare(self, images: list[YUVImage]) -> list[tuple[YUVImage, int, int, Any]]:
        """Return of each frame its picture, its kind (see `plain_kinds`), its hash, and what the detector takes."""
        small = small_rgb(images, self._detector.side)
        codes = self._hashes.of(small).tolist() if self._settings.hashes else [0] * len(images)
        return list(zip(images, plain_kinds(small).tolist(), codes, self._detector.prepare(small), strict=True))

    def _shots_before(self, boundaries: Sequence[Boundary], last: int) -> Iterator[KeyframedShot]:
        """Yield the shots that end at some boundaries; boundaries after frame ``last`` or out of order are ignored."""
        for boundary in boundaries:
            kind, first, end = boundary
            if self._starts[-1] < boundary.frame <= last:
                seconds = self._times[first], self._times[end]
                transition = Transition(kind, first + self._first, end + self._first, *seconds) if kind else None
                yield self._shot(boundary.frame, first, transition)
                self._buffer.drop_before(boundary.frame)
                self._starts.append(boundary.frame)
                self._clean = end

    def _shot(self, end: int, clean_end: int, transition: Transition | None) -> KeyframedShot:
        """Return the shot up to frame ``end``, whose frames from ``clean_end`` on belong to a transition."""
        start, count = self._starts[-1], self._settings.keyframes
        clean = (self._clean, clean_end) if self._clean < clean_end else (start, end)
        frames = [self._buffer.nearest(index, start, end) for index in keyframe_indices(*clean, count)]
        images = {index: self._keyframe(image) for index, image in dict(frames).items()}
        self.shots += 1
        if self.shots > MOST_SHOTS:
            remedy = "read a part of it with `start` and `end`, or use a longer `min_shot`"
            raise VideoError(f"{self._path}: has more than {MOST_SHOTS:,} shots; {remedy}")
        span = (start + self._first, end + self._first, self._times[start], self._times[end])
        keyframes = tuple(images[index] for index, _ in frames)
        numbers = tuple(index + self._first for index, _ in frames)
        return KeyframedShot(self.shots - 1, *span, keyframes, numbers, transition)

    def _keyframe(self, image: YUVImage) -> RGBImage:
        """Convert the image to RGB, upright, with square pixels, and with at most as many lines as the settings say."""
        (height, width), aspect, orientation = image.y.shape, self._video.pixel_aspect, self._video.orientation
        if orientation.turns % 2:
            width, height, aspect = height, width, 1.0 / aspect
        lines = min(height, self._settings.lines)
        return upright(image, (max(1, round(width * aspect * lines / height)), lines), orientation)

    def episode(self) -> Episode | None:
        """Return the hashes of the frames that were read, and their times, if the settings ask for them."""
        return Episode(np.array(self._codes, np.uint64), np.array(self._times[:-1])) if self._settings.hashes else None

    def _subtitles(self) -> tuple[Line, ...]:
        """Return the lines in the part that was read, in seconds from the first frame: from the file, or else from the
        video's track. Times in a file count from the start of all streams, as in players."""
        video, lines = self._video, self._file_lines
        offset = -(video.first or 0.0)
        if lines:
            offset += (video.container.start_time or 0) / av.time_base
        elif self._settings.subtitles and video.text_track is not None:
            lines, warnings = track_lines(self._path, video.text_track, video.text_packets)
            self.warnings += warnings
        lines_shown, warnings = lines_within(lines, offset, self._times[0], self.facts.duration)
        self.warnings += (f"{self._path}: {warning}" for warning in warnings)
        return lines_shown

    def _all_segments(self) -> tuple[Segment, ...]:
        """Return the segments of the part that was read, by their start."""
        duration = max(self._video.declared_duration or 0.0, self._times[-1])
        segments = self._segments.segments(self._starts, self._times, duration)
        if self._settings.silence:
            segments += self._silence()
        return tuple(
            replace(s, start_frame=s.start_frame + self._first, end_frame=s.end_frame + self._first)
            for s in sorted(segments, key=lambda segment: segment.start)
        )

    def _silence(self) -> Iterator[Segment]:
        """Yield the silent parts of the video, in whole frames."""
        path, times = self._path, self._times
        if has_sound(path):
            for start, end in silences(path, times[0], times[-1]):
                first, last = bisect_left(times, start), bisect_right(times, end) - 1
                if first < last:
                    yield Segment("silence", first, last, times[first], times[last])


def send_video(task: tuple[Path, ReaderSettings], send: Send) -> None:
    """Read a video in the child process of a :class:`pipelines.video.shots.VideoProcess`."""
    path, settings = task
    reader = VideoReader(path, settings, lambda done, total: send("progress", (done, total)))
    for shot in reader:
        # Images as raw bytes: the parent receives them before it has imported NumPy.
        shape = (len(shot.keyframes), *shot.keyframes[0].shape)
        images = [np.ascontiguousarray(image).data for image in shot.keyframes]
        send("shot", (replace(shot, keyframes=()), shape), images)
    send("end", (reader.facts, reader.warnings, reader.lines, reader.segments, reader.episode()))


def lines_from(
    file: Path, encoding: str | None, video: Path, start: float, end: float
) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """Read the lines of a subtitle file between two times of its video, in seconds from the first frame, and warnings.
    Raise BasslError for a file that cannot be used."""
    cues, warnings = read_subtitles(file, encoding)
    with open_container(video) as container:
        offset = (container.start_time or 0) / av.time_base - first_frame_time(video)
    lines, limits = lines_within(cues, offset, start, end)
    return lines, (*warnings, *(f"{video}: {limit}" for limit in limits))


def keyframe_indices(start: int, end: int, count: int) -> list[int]:
    """Return the frames at 1/(count+1), 2/(count+1), ... of the half-open range: for 3, at 1/4, 1/2 and 3/4."""
    return [start + (end - start) * k // (count + 1) for k in range(1, count + 1)]


class FrameBuffer:
    """Frames of the current shot that may become keyframes: the newest ``recent`` ones, because detectors report a cut
    some frames late, and older ones within ``budget`` bytes, at a stride that doubles when they exceed it."""

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
        of_shot = (entry for entry in self._images if start <= entry[0] < end)
        return min(of_shot, key=lambda entry: abs(entry[0] - index))


# --- single images ----------------------------------------------------------------------------------------------------

_Frames = Iterator[tuple[float, VideoFrame]]  # with their times, in seconds from the video's first frame


def still_images(
    video: VideoDecoder,
    times: Sequence[float],
    size: Callable[[int, int], tuple[int, int]] = lambda width, height: (width, height),
) -> Iterator[tuple[float, RGBImage]]:
    """Yield the frames shown at increasing times, in seconds from the first frame, each with its time, as an upright
    image (height, width, 3) uint8 RGB. ``size`` maps (width, height) of a frame as shown to the size of the images.
    Raise VideoError if a frame cannot be decoded, or the video ends before."""
    reader = None
    for time, frame in _frames_at(video, times):
        if reader is None:
            sides = (round(frame.width * video.pixel_aspect), frame.height)
            image_size = size(*(sides[::-1] if video.orientation.turns % 2 else sides))
            reader = FrameReader(min(image_size))
        yield time, upright(reader.read(frame), image_size, video.orientation)


def _frames_at(video: VideoDecoder, times: Sequence[float]) -> _Frames:
    first: float | None = None  # when the first frame is shown, on the file's clock; None: all has to be decoded
    if video.kind in INDEXED:
        with suppress(VideoError):  # the first frames have no times, as those before zero in Matroska
            first = first_frame_time(video.path)
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
