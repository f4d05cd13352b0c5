"""One pass over a film: its shots, each with its key-frames, in flat memory and with every frame decoded once."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from av.video.frame import VideoFrame

from pipelines.scenes import VideoFacts
from pipelines.video.decoding import Film
from pipelines.video.detectors import KnownCuts, ShotDetector, make_detector, read_cuts
from pipelines.video.frames import (
    FrameReader,
    Picture,
    YUVPicture,
    held_size,
    rgb,
    shown_size,
    small_rgb,
    upright,
)
from pipelines.video.shots import FilmedShot, ReaderSettings

# The pictures that are held for one shot may take this much memory; a longer shot is held at every second frame, every
# fourth, and so on, which moves a key-frame by less than one part in a hundred of the shot.
_HELD_BYTES = 48 * 2**20

# The pictures that were decoded ahead of one stretch of the film may take this much memory.
_AHEAD_BYTES = 32 * 2**20

# Detectors look at a picture whose longer side has between this and twice as many pixels.
_DETECTOR_SIDE = 96


class FilmReader:
    """Iterate once to get the shots; then :attr:`facts` and :attr:`warnings` are known.

    Example::

        reader = FilmReader(Path("movie.mp4"), ReaderSettings())
        for shot in reader:
            print(shot.start, shot.end)
        print(reader.facts.duration)

    Attributes:
        frames_read: frames decoded so far.
        shots: shots found so far.
    """

    def __init__(
        self,
        path: Path,
        settings: ReaderSettings,
        progress: Callable[[float, float | None], None] | None = None,
    ) -> None:
        """Args:
            path: the video.
            settings: detector and key-frames.
            progress: called now and then with (seconds read, seconds in all or None).

        Raises:
            VideoError, BasslError: when the film, the detector or the shot list cannot be used; here already, before
                any frame is read.
        """
        self.settings = settings
        known = None if settings.shots is None else KnownCuts(read_cuts(settings.shots), settings.shots)
        self._film = Film(path, settings.threads)
        try:
            self._detector: ShotDetector = known or make_detector(settings.detector, self._film.frame_rate)
        except BaseException:
            self._film.__exit__(None, None, None)
            raise
        self._progress = progress or (lambda done, total: None)
        self._times = array("d")
        self.shots = 0
        self.frames_read = 0

    @property
    def facts(self) -> VideoFacts:
        return self._film.facts

    @property
    def warnings(self) -> list[str]:
        return self._film.warnings

    @property
    def exact(self) -> bool:
        """Whether it is certain, when all is read, that one thread gives the same."""
        return self._film.exact and (self.settings.threads == 1 or not self.warnings)

    def __iter__(self) -> Iterator[FilmedShot]:
        frame_reader = FrameReader(self.settings.lines)
        held = HeldPictures(recent=self._detector.lag + 1, budget=_HELD_BYTES)
        start = 0

        def look(frames: Sequence[VideoFrame]) -> list[tuple[YUVPicture, Any]]:
            pictures = [frame_reader.read(frame) for frame in frames]
            prepared = self._detector.prepare(small_rgb(pictures, _DETECTOR_SIDE))
            return list(zip(pictures, prepared, strict=True))

        with self._film as film:
            ahead = _AHEAD_BYTES // held_size(film.width, film.height, self.settings.lines)
            for index, time, (picture, prepared) in film.frames(look, ahead):
                self._times.append(time)
                self.frames_read = index + 1
                held.add(index, picture)
                for cut in self._detector.push(index, prepared):
                    if start < cut <= index:
                        yield self._shot(start, cut, held)
                        held.drop_before(cut)
                        start = cut
                if index % 256 == 0:
                    self._progress(time, film.declared_duration)
            frames = len(self._times)
            self._times.append(film.facts.duration)
            for cut in self._detector.finish(frames):
                if start < cut < frames:
                    yield self._shot(start, cut, held)
                    held.drop_before(cut)
                    start = cut
            yield self._shot(start, frames, held)
            self._progress(film.facts.duration, film.facts.duration)

    def _shot(self, start: int, end: int, held: HeldPictures) -> FilmedShot:
        count = self.settings.keyframes
        found = [held.nearest(index, start, end) for index in keyframe_indices(start, end, count)]
        film = self._film
        pictures: dict[int, Picture] = {}
        for index, picture in found:
            if index not in pictures:
                colours = rgb(picture)
                height, width = colours.shape[:2]
                aspect = film.pixel_aspect
                if film.rotation % 2:
                    width, height, aspect = height, width, 1.0 / aspect
                size = shown_size(width, height, aspect, self.settings.lines)
                pictures[index] = upright(colours, size, film.rotation)
        self.shots += 1
        return FilmedShot(
            index=self.shots - 1,
            start_frame=start,
            end_frame=end,
            start=self._times[start],
            end=self._times[end],
            keyframes=tuple(pictures[index] for index, _ in found),
            keyframe_indices=tuple(index for index, _ in found),
        )


def keyframe_indices(start: int, end: int, count: int) -> list[int]:
    """The frames at 1/(count+1), 2/(count+1), ... of the half-open range: for 3, at 1/4, 1/2 and 3/4."""
    return [start + (end - start) * k // (count + 1) for k in range(1, count + 1)]


class HeldPictures:
    """The pictures of the current shot of which any may become a key-frame.

    The newest ``recent`` frames are all held, because a detector reports a cut some frames late. Older ones are held
    within ``budget`` bytes, at a stride that doubles when they outgrow it, so that a shot of an hour takes no more
    memory than one of a minute.
    """

    def __init__(self, recent: int, budget: int) -> None:
        self._recent: deque[tuple[int, YUVPicture]] = deque()
        self._older: list[tuple[int, YUVPicture]] = []
        self._most_recent = recent
        self._budget = budget
        self._stride = 1

    def add(self, index: int, picture: YUVPicture) -> None:
        self._recent.append((index, picture))
        if len(self._recent) <= self._most_recent:
            return
        leaving = self._recent.popleft()
        if not self._older or leaving[0] - self._older[-1][0] >= self._stride:
            self._older.append(leaving)
            if len(self._older) > 8 and len(self._older) * picture.nbytes > self._budget:
                self._older = self._older[::2]
                self._stride *= 2

    def drop_before(self, index: int) -> None:
        """Forget all before ``index``, where the next shot begins."""
        held = [entry for entry in (*self._older, *self._recent) if entry[0] >= index]
        self._older = held[: -self._most_recent]
        self._recent = deque(held[-self._most_recent :])
        self._stride = 1

    def nearest(self, index: int, start: int, end: int) -> tuple[int, YUVPicture]:
        """The held (frame, picture) nearest to ``index`` within ``[start, end)``; the earlier of two."""
        held = [*self._older, *self._recent]
        after = bisect_left(held, index, key=itemgetter(0))
        around = [entry for entry in held[max(0, after - 1) : after + 1] if start <= entry[0] < end]
        return min(around, key=lambda entry: abs(entry[0] - index))
