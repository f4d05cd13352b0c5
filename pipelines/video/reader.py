"""Reads a video in one pass: shots with their keyframes, in bounded memory; every frame is decoded once."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from av.video.frame import VideoFrame

from pipelines.processes import Send
from pipelines.scenes import Transition, VideoFacts
from pipelines.video.decoding import VideoDecoder
from pipelines.video.detectors import ShotDetector, make_detector
from pipelines.video.frames import FrameReader, RGBImage, YUVImage, held_size, shown_size, small_rgb, upright
from pipelines.video.shot_lists import KnownCuts, read_cuts
from pipelines.video.shots import Boundary, KeyframedShot, ReaderSettings

# Memory for the frames kept of one shot; of a longer shot every second frame is kept, then every fourth, and so on,
# which moves a keyframe by less than a hundredth of the shot.
_HELD_BYTES = 48 * 2**20

# Memory for the frames that each thread decodes ahead.
_AHEAD_BYTES = 16 * 2**20


class VideoReader:
    """Iterate once for the shots; then :attr:`facts` and :attr:`warnings` are available.

    Example::

        reader = VideoReader(Path("movie.mp4"), ReaderSettings())
        for shot in reader:
            print(shot.start, shot.end)
        print(reader.facts.duration)

    Attributes:
        frames_read: number of frames decoded so far.
        shots: number of shots found so far.
    """

    def __init__(
        self, path: Path, settings: ReaderSettings, progress: Callable[[float, float | None], None] | None = None
    ) -> None:
        """Args:
            path: the video.
            settings: see :class:`ReaderSettings`.
            progress: called regularly with (seconds read, seconds in total or None).

        Raises:
            BasslError: the video, the detector or the shot list cannot be used. Raised before any frame is read.
        """
        self.settings = settings
        self._video = VideoDecoder(path, settings.threads, settings.start, settings.end)
        self._times = array("d")
        self._first = 0  # frame number in the video of the first frame that is read; all indices count from it
        try:
            self._detector = self._make_detector()
        except BaseException:
            self._video.__exit__()
            raise
        self._progress = progress or (lambda done, total: None)
        self._start = self._clean = 0  # first frame of the current shot, and its first outside a transition
        self.shots = 0
        self.frames_read = 0

    def _make_detector(self) -> ShotDetector:
        settings, frame_rate = self.settings, self._video.frame_rate
        if settings.shots is not None:
            cuts = read_cuts(settings.shots, frame_rate)
            return KnownCuts(cuts, settings.shots, self._times, whole=settings.end is None)
        return make_detector(settings.detector, frame_rate, settings.min_shot, settings.detector_threshold)

    @property
    def facts(self) -> VideoFacts:
        return self._video.facts

    @property
    def warnings(self) -> list[str]:
        return self._video.warnings

    @property
    def exact(self) -> bool:
        """After reading, whether the result is certainly the same as with one thread."""
        return self._video.exact and (self.settings.threads == 1 or not self.warnings)

    def __iter__(self) -> Iterator[KeyframedShot]:
        frame_reader = FrameReader(self.settings.lines)
        buffer = FrameBuffer(recent=self._detector.lag + 1, budget=_HELD_BYTES)

        def transform(frames: Iterator[VideoFrame]) -> list[tuple[YUVImage, Any]]:
            images: list[YUVImage] = []

            def read() -> Iterator[YUVImage]:
                for frame in frames:
                    images.append(frame_reader.read(frame))
                    yield images[-1]

            prepared = self._detector.prepare(small_rgb(read(), self._detector.side, self._video.batch_size))
            return list(zip(images, prepared, strict=True))

        with self._video as video:
            ahead = _AHEAD_BYTES // held_size(video.width, video.height, self.settings.lines)
            for number, time, (image, prepared) in video.frames(transform, ahead):
                if not self._times:
                    self._first = number
                    if isinstance(self._detector, KnownCuts):
                        self._detector.first = number
                index = number - self._first
                self._times.append(time)
                self.frames_read = index + 1
                buffer.add(index, image)
                if boundaries := self._detector.push(index, prepared):
                    yield from self._shots_before(boundaries, index, buffer)
                if index % 256 == 0:
                    self._report(time)
            frames = len(self._times)
            self._times.append(video.facts.duration)
            yield from self._shots_before(self._detector.finish(frames), frames - 1, buffer)
            yield self._shot(frames, frames, None, buffer)
            self._progress(video.facts.duration - self._times[0], video.facts.duration - self._times[0])

    def _report(self, time: float) -> None:
        declared, end = self._video.declared_duration, self.settings.end
        ends = [seconds for seconds in (declared, end) if seconds is not None]
        self._progress(time - self._times[0], min(ends) - self._times[0] if ends else None)

    def _shots_before(
        self, boundaries: Sequence[int | Boundary], last: int, buffer: FrameBuffer
    ) -> Iterator[KeyframedShot]:
        """The shots that end at some boundaries; boundaries after frame ``last`` or out of order are ignored."""
        for boundary in boundaries:
            if isinstance(boundary, int):
                boundary = Boundary("", boundary, boundary)
            kind, (first, end), cut = boundary.kind, boundary[1:], boundary.frame
            if self._start < cut <= last:
                seconds = self._times[first], self._times[end]
                transition = Transition(kind, first + self._first, end + self._first, *seconds) if kind else None
                yield self._shot(cut, first, transition, buffer)
                buffer.drop_before(cut)
                self._start, self._clean = cut, end

    def _shot(self, end: int, clean_end: int, transition: Transition | None, buffer: FrameBuffer) -> KeyframedShot:
        """The shot up to frame ``end``, whose frames from ``clean_end`` on belong to a transition."""
        start, count = self._start, self.settings.keyframes
        clean = (self._clean, clean_end) if self._clean < clean_end else (start, end)
        frames = [buffer.nearest(index, start, end) for index in keyframe_indices(*clean, count)]
        images = {index: self._keyframe(image) for index, image in dict(frames).items()}
        self.shots += 1
        return KeyframedShot(
            index=self.shots - 1,
            start_frame=start + self._first,
            end_frame=end + self._first,
            start=self._times[start],
            end=self._times[end],
            keyframes=tuple(images[index] for index, _ in frames),
            keyframe_indices=tuple(index + self._first for index, _ in frames),
            transition=transition,
        )

    def _keyframe(self, image: YUVImage) -> RGBImage:
        height, width = image.y.shape
        aspect = self._video.pixel_aspect
        if self._video.rotation % 2:
            width, height, aspect = height, width, 1.0 / aspect
        return upright(image, shown_size(width, height, aspect, self.settings.lines), self._video.rotation)


def send_video(task: tuple[Path, ReaderSettings], send: Send) -> None:
    """Read a video in the child process of a :class:`pipelines.video.video_process.VideoProcess`: send each shot as it
    is found, the progress, and the video's facts and warnings at the end."""
    reader = VideoReader(*task, lambda done, total: send("progress", (done, total)))
    for shot in reader:
        # Images as raw bytes: the parent receives them before it has imported NumPy.
        shape = (len(shot.keyframes), *shot.keyframes[0].shape)
        images = [np.ascontiguousarray(image).data for image in shot.keyframes]
        send("shot", (replace(shot, keyframes=()), shape), images)
    send("end", (reader.facts, reader.warnings))


def keyframe_indices(start: int, end: int, count: int) -> list[int]:
    """The frames at 1/(count+1), 2/(count+1), ... of the half-open range: for 3, at 1/4, 1/2 and 3/4."""
    return [start + (end - start) * k // (count + 1) for k in range(1, count + 1)]


class FrameBuffer:
    """The frames of the current shot that may become keyframes.

    The newest ``recent`` frames are all kept, because detectors report a cut some frames late. Older frames are kept
    within ``budget`` bytes, at a stride that doubles when they exceed it, so that memory does not grow with the length
    of a shot.
    """

    def __init__(self, recent: int, budget: int) -> None:
        self._recent: deque[tuple[int, YUVImage]] = deque()
        self._older: list[tuple[int, YUVImage]] = []
        self._most_recent = recent
        self._budget = budget
        self._stride = 1

    def add(self, index: int, image: YUVImage) -> None:
        self._recent.append((index, image))
        if len(self._recent) <= self._most_recent:
            return
        leaving = self._recent.popleft()
        if not self._older or leaving[0] - self._older[-1][0] >= self._stride:
            self._older.append(leaving)
            if len(self._older) > 8 and len(self._older) * image.nbytes > self._budget:
                self._older = self._older[::2]
                self._stride *= 2

    def drop_before(self, index: int) -> None:
        """Drop all frames before ``index``, where the next shot begins."""
        kept = [entry for entry in (*self._older, *self._recent) if entry[0] >= index]
        self._older = kept[: -self._most_recent]
        self._recent = deque(kept[-self._most_recent :])
        self._stride = 1

    def nearest(self, index: int, start: int, end: int) -> tuple[int, YUVImage]:
        """The kept (frame number, image) nearest to ``index`` within ``[start, end)``; the earlier of two."""
        kept = [*self._older, *self._recent]
        after = bisect_left(kept, index, key=itemgetter(0))
        around = [entry for entry in kept[max(0, after - 1) : after + 1] if start <= entry[0] < end]
        return min(around, key=lambda entry: abs(entry[0] - index))
